"""Questions that teach: which of two items is more like a third one, where the answer says most."""

import numpy as np

from mahala.support.arrays import FloatArray, IndexArray

# In proportion to a typical raw margin: smaller learned margins are equal.
_SMALL = 0.05


def candidates(n_items: int, n: int, rng: np.random.Generator) -> IndexArray:
    """Return n questions as rows (query, one item, another item) of numbers below `n_items`, all three different.

    >>> candidates(3, 2, np.random.default_rng(0)).shape
    (2, 3)
    """
    if n_items < 3:
        raise ValueError(f"a question needs three items, but there are {n_items}")
    query, first, second = (rng.integers(n_items - taken, size=n) for taken in range(3))
    first += first >= query
    low, high = np.minimum(query, first), np.maximum(query, first)
    second += second >= low
    second += second >= high
    return np.column_stack([query, first, second])


def usefulness(raw: FloatArray, learned: FloatArray, typical: float) -> FloatArray:
    """Return how much the answer to each question teaches: the change of its margin over the size of the learned one.

    The raw and the learned metric then disagree, and the learned one has no clear answer.

    Parameters
    ----------
    raw, learned : the margin of each question before and after learning
    typical : the size of a typical raw margin

    >>> usefulness(np.array([1.0, 1.0]), np.array([0.5, -0.1]), 1.0).round(2).tolist()
    [0.91, 7.33]
    """
    smallest = _SMALL * typical or np.finfo(float).tiny
    return np.asarray(np.abs(raw - learned) / (np.abs(learned) + smallest))

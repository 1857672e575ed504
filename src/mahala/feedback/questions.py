"""Questions that teach: which of two items is more like a third one, where the answer says most."""

from __future__ import annotations

import numpy as np

from mahala.support.arrays import FloatArray, IndexArray

# In proportion to the lengths of the vectors: smaller differences of scores are equal.
_TINY = 1e-6


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


def best_question(
    queries: FloatArray, left: FloatArray, right: FloatArray, matrix: FloatArray | None, trust: float
) -> int:
    """Return the number of the question whose answer teaches most.

    Its margin is small: what is served has no clear answer. And the raw ranking and the learned map disagree about it:
    the answer says which of them is to be trusted. The largest ratio of their difference to the margin is chosen;
    before anything is learned, the smallest margin.

    Parameters
    ----------
    queries, left, right : rows, one for each question
    matrix : M in the score xᵀ M z that is served to new queries, None for the identity
    trust : the share of the learned map in it

    >>> queries, left, right = np.ones((2, 2)), np.eye(2), np.array([[0.0, 1.0], [0.0, 5.0]])
    >>> best_question(queries, left, right, None, 0.0)
    0
    """
    apart = left - right
    raw = np.einsum("ij,ij->i", queries, apart)
    served = raw if matrix is None else np.einsum("ij,ij->i", queries @ matrix, apart)
    spread = np.abs(served - raw) / max(trust, _TINY)
    size = _TINY * np.sqrt(np.einsum("ij,ij->i", queries, queries) * np.einsum("ij,ij->i", apart, apart))
    return int(np.argmax((spread + size) / (np.abs(served) + size + np.finfo(float).tiny)))

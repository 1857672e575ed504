"""What is added to the scores of items that are remembered for queries, and how far that moves them; NumPy only."""

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala_search.adapter.memory.remembered import digest_of
from mahala_search.arrays import BoolArray, FloatArray, IndexArray

Keys = NDArray[np.uint64]

# Places that an item gains at most from clicks of fewer users than `click_memory.AGREED`.
PLACES = 5


class Bonus(NamedTuple):
    """Items in ascending order of their keys, what is added to their scores, and whether enough users agree."""

    items: Keys
    values: FloatArray
    is_sure: BoolArray

    def order(self, scores: FloatArray, keys: Keys, k: int) -> IndexArray:
        """Return the places of the k best of `scores` with the bonus, best first; `keys` are those of the items.

        >>> bonus = Bonus(np.array([7], dtype=np.uint64), np.array([9.0]), np.array([False]))
        >>> bonus.order(-np.arange(9.0), np.arange(9, dtype=np.uint64), 4)
        array([0, 1, 7, 2])
        """
        added, is_held = self.of_items(keys)
        return limited_order(scores, scores + added, is_held, k)

    @property
    def is_held(self) -> BoolArray:
        """Which items are to gain a few places only."""
        return np.asarray((self.values > 0.0) & ~self.is_sure)

    def of_items(self, keys: Keys) -> tuple[FloatArray, BoolArray]:
        """Return what is added to the scores of items, and which of them are to gain a few places only."""
        return place_values(self.items, self.values, keys), place_values(self.items, self.is_held, keys) > 0.0


class Bonuses(NamedTuple):
    """The bonuses of items: those of the query with the digest `queries[i]` end at `stops[i]`."""

    queries: Keys
    stops: NDArray[np.int64]
    items: Keys
    values: NDArray[np.float32]
    is_sure: NDArray[np.uint8]

    def of(self, key: Hashable) -> Bonus:
        """Return the bonus of the items of a query."""
        digest = np.uint64(digest_of(key))
        at = int(np.searchsorted(self.queries, digest))
        if at == len(self.queries) or self.queries[at] != digest:
            return NO_BONUS
        part = slice(int(self.stops[at - 1]) if at else 0, int(self.stops[at]))
        return Bonus(self.items[part], self.values[part].astype(np.float64), self.is_sure[part] > 0)


_EMPTY = np.zeros(0, dtype=np.uint64)
NOTHING = Bonuses(_EMPTY, _EMPTY.astype(np.int64), _EMPTY, _EMPTY.astype(np.float32), _EMPTY.astype(np.uint8))
NO_BONUS = Bonus(_EMPTY, np.zeros(0), np.zeros(0, dtype=bool))


def place_values(remembered: Keys, values: NDArray[Any], items: Keys) -> FloatArray:
    """Return the values of items; 0 for those that are not `remembered`, which are in ascending order."""
    result = np.zeros(len(items))
    if len(remembered):
        at = np.minimum(np.searchsorted(remembered, items), len(remembered) - 1)
        same = remembered[at] == items
        result[same] = values[at[same]]
    return result


def limited_order(plain: FloatArray, scores: FloatArray, is_held: BoolArray, k: int | None = None) -> IndexArray:
    """Return the places of the k best of `scores`, best first; a held item gains at most five on the order by `plain`.

    >>> limited_order(-np.arange(9.0), np.array([0.0] * 8 + [1.0]), np.arange(9) == 8)
    array([0, 1, 2, 8, 3, 4, 5, 6, 7])
    """
    least = np.empty(len(scores), dtype=np.intp)  # the best place that each may have
    least[np.argsort(-plain, kind="stable")] = np.arange(len(scores)) - PLACES
    least[~is_held] = 0
    result, waiting = list[int](), list[int]()
    for at in np.argsort(-scores, kind="stable").tolist():
        waiting.append(at)
        while (next_ := next((item for item in waiting if least[item] <= len(result)), None)) is not None:
            waiting.remove(next_)
            result.append(next_)
        if k is not None and len(result) >= k:
            break
    return np.array(result[:k], dtype=np.intp)

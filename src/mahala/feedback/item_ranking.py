"""Rank items by what an adapter serves: mapped queries, and bonuses of the items that are remembered for them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mahala.feedback.maps import judged
from mahala.feedback.memory.click_memory import Keys, item_keys
from mahala.metric.matrices import leading
from mahala.support.arrays import FloatArray, IndexArray

# The keys of items in ascending order, and the bonus of each.
Remembered = tuple[Keys, FloatArray]


def rank_items(
    mapped: FloatArray, bonuses: Mapping[int, Remembered], items: Any, k: int, item_ids: Any = None
) -> IndexArray:
    """Return the row numbers of the k best items for each query, best first.

    Parameters
    ----------
    mapped : mapped queries, dense rows
    bonuses : by the number of a query, the items that are remembered for it
    items, item_ids : as for `QueryAdapter.rank`
    """
    best = np.empty((len(mapped), min(k, items.shape[0])), dtype=np.intp)
    keys = item_keys(item_ids, items) if bonuses else np.empty(0, dtype=np.uint64)
    near, exponents = judged.rough(mapped, items), judged.exponents(mapped)
    for block, scores in judged.score_blocks(near, items):
        for at in bonuses.keys() & range(block.start, min(block.stop, len(mapped))):
            remembered, values = bonuses[at]
            place = np.minimum(np.searchsorted(remembered, keys), len(remembered) - 1)
            rows = np.flatnonzero(remembered[place] == keys)
            scores[at - block.start, rows] += np.ldexp(values[place[rows]], -exponents[at])
        best[block] = leading(scores, best.shape[1])
    return best

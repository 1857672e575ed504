"""Rankings of items by scores: how well the order agrees with classes."""

from collections.abc import Iterable

import numpy as np

from mahala.compiled.jit import kernel
from mahala.support.arrays import FloatArray, IndexArray


def retrieval(
    blocks: Iterable[tuple[slice, FloatArray]],
    query_codes: IndexArray,
    item_codes: IndexArray,
    n_top: int = 0,
    *,
    exclude_self: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Evaluate how well scores of queries × items, given in blocks of queries, rank the items of a query's class first.

    Return the average precision of each query, NaN if no item is relevant; and for k = 1, 2, … n_top the number of
    relevant items among the first k, summed over the queries. Items with equal scores form one group: each has the
    precision at the end of the group, and a part of a group counts with its share of the relevant items. With
    `exclude_self` the queries are the items, and none is among its own results.

    >>> codes = np.array([0, 1, 0])
    >>> scores = np.array([[0.9, 0.5, 0.2], [0.5, 0.9, 0.5]])
    >>> retrieval([(slice(0, 2), scores)], np.array([0, 1]), codes, n_top=2)
    (array([0.83333333, 1.        ]), array([2., 2.]))
    """
    average = np.empty(len(query_codes))
    hits = np.zeros(n_top)
    for block, scores in blocks:
        first = block.start if exclude_self else len(item_codes)
        _walk(scores, np.argsort(scores, axis=1), query_codes[block], item_codes, first, average[block], hits)
    return average, hits


@kernel
def _walk(
    scores: FloatArray,
    order: IndexArray,
    query_codes: IndexArray,
    item_codes: IndexArray,
    first: int,
    average: FloatArray,
    hits_at: FloatArray,
) -> None:
    """Go from the largest score down. Query i is item first + i and is skipped, unless `first` is past the items."""
    n_items = len(item_codes)
    for i in range(len(scores)):
        seen = hits = 0
        size = relevant = 0  # of the group of equal scores
        total = 0.0
        for j in range(n_items - 1, -1, -1):
            item = order[i, j]
            if item != first + i:
                size += 1
                relevant += item_codes[item] == query_codes[i]
            if j == 0 or scores[i, order[i, j - 1]] != scores[i, item]:
                for rank in range(seen + 1, min(seen + size, len(hits_at)) + 1):
                    hits_at[rank - 1] += hits + relevant * (rank - seen) / size
                seen += size
                hits += relevant
                if relevant:
                    total += relevant * hits / seen
                size = relevant = 0
        average[i] = total / hits if hits else np.nan

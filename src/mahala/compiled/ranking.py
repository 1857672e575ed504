"""Items ranked by scores, of which a larger one is more similar: who comes first, and how many of them are relevant."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


def leading(scores: Floats, k: int) -> Rows:
    """The numbers of the k largest scores of each row, from the largest down; equal ones in their order.

    >>> leading(np.array([[1.0, 3.0, 2.0, 3.0, 2.0]]), k=3)
    array([[1, 3, 2]])
    """
    costs = -scores
    n = costs.shape[1]
    if k == n:
        return np.argsort(costs, axis=1, kind="stable")
    result = np.empty((len(costs), k), dtype=np.intp)
    border = np.partition(costs, k - 1, axis=1)[:, k - 1]
    for i, row in enumerate(costs):
        candidates = np.flatnonzero(
            row <= border[i]
        )  # all that tie at the border: which of them go in is up to the sort
        result[i] = candidates[np.argsort(row[candidates], kind="stable")[:k]]
    return result


def retrieval(
    blocks: Iterable[tuple[slice, Floats]],
    query_codes: Rows,
    item_codes: Rows,
    n_top: int = 0,
    *,
    exclude_self: bool = False,
) -> tuple[Floats, Floats]:
    """How well scores of queries × items, given for some queries at a time, put the items of a query's class first.

    Returns the average precision of each query, NaN where no item is relevant; and for 1, 2, … n_top the number of
    relevant items among so many first ones, summed over the queries. Items with equal scores are one group: each has
    the precision at the end of it, and a part of it holds its share of the relevant ones. With `exclude_self` the
    queries are the items, and none is among its own results.

    >>> codes = np.array([0, 1, 0])
    >>> scores = np.array([[0.9, 0.5, 0.2], [0.5, 0.9, 0.5]])
    >>> retrieval([(slice(0, 2), scores)], np.array([0, 1]), codes, n_top=2)
    (array([0.83333333, 1.        ]), array([2., 2.]))
    """
    average = np.empty(len(query_codes))
    found = np.zeros(n_top)
    for block, scores in blocks:
        first = block.start if exclude_self else len(item_codes)
        _walk(scores, np.argsort(scores, axis=1), query_codes[block], item_codes, first, average[block], found)
    return average, found


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def _walk(
    scores: Floats, order: Rows, query_codes: Rows, item_codes: Rows, first: int, average: Floats, found: Floats
) -> None:
    """From the largest score down. Query i is item first + i, left out; a first past the items leaves out none."""
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
                for rank in range(seen + 1, min(seen + size, len(found)) + 1):
                    found[rank - 1] += hits + relevant * (rank - seen) / size
                seen += size
                hits += relevant
                if relevant:
                    total += relevant * hits / seen
                size = relevant = 0
        average[i] = total / hits if hits else np.nan

"""Rankings of items by scores: how well the order agrees with grades."""

import numpy as np

from mahala.extend import kernel
from mahala_search.arrays import FloatArray, IndexArray, IntArray


def judged(
    scores: FloatArray, indptr: IntArray, item: IndexArray, grade: FloatArray, cutoffs: IndexArray
) -> FloatArray:
    """Judge how scores of queries × items rank the items with grades above 0, which are the relevant ones.

    The items item[indptr[i]:indptr[i + 1]] have grades for query i, others count as 0. Return a row for each query,
    NaN if no item is relevant: the reciprocal rank of the first relevant item, the average precision, and then, for
    each cut-off k, the nDCG (a gain of grade / log2(1 + rank), over that of the best order), the precision, the recall,
    and whether a relevant item is among the first k. All are means over the orders of items with equal scores.

    >>> scores = np.array([[0.9, 0.5, 0.2], [0.5, 0.5, 0.5]])
    >>> judged(scores, np.array([0, 2, 3]), np.array([0, 2, 1]), np.ones(3), np.array([1])).round(4)
    array([[1.    , 0.8333, 1.    , 1.    , 0.5   , 1.    ],
           [0.6111, 0.6111, 0.3333, 0.3333, 0.3333, 0.3333]])
    """
    query = np.repeat(np.arange(len(scores)), np.diff(indptr))[grade > 0.0]
    item, grade = item[grade > 0.0], grade[grade > 0.0]
    relevant = scores[query, item]
    order = np.lexsort((relevant, query))
    best = grade[np.lexsort((-grade, query))]
    discounts = np.append(0.0, (1.0 / np.log2(np.arange(2.0, cutoffs.max() + 2.0))).cumsum())
    result = np.zeros((len(scores), 2 + 4 * len(cutoffs)))
    start = np.searchsorted(query, np.arange(len(scores) + 1))
    _judge(np.ascontiguousarray(scores), start, relevant[order], grade[order], best, cutoffs, discounts, result)
    return result


def ndcg(scores: FloatArray, indptr: IntArray, item: IndexArray, grade: FloatArray, k: int) -> FloatArray:
    """Return the nDCG at k of each query, NaN if no item is relevant to it; the arguments are those of `judged`."""
    result: FloatArray = judged(scores, indptr, item, grade, np.array([k]))[:, 2]
    return result


@kernel
def _judge(
    scores: FloatArray,
    start: IndexArray,
    relevant: FloatArray,
    grade: FloatArray,
    best: FloatArray,
    cutoffs: IndexArray,
    discounts: FloatArray,
    result: FloatArray,
) -> None:
    """Count the items above each relevant one, without sorting them all.

    The relevant items of query i have the scores relevant[start[i]:start[i + 1]], ascending, and these grades; `best`
    holds the grades of a query in descending order, `discounts` the sums over the first k ranks. In a group of `size`
    equal scores, r of them of relevant items, each place is that of a relevant item with probability r / size (McSherry
    and Najork, 2008).
    """
    for i in range(len(scores)):
        first, n_relevant = start[i], start[i + 1] - start[i]
        if n_relevant == 0:
            result[i] = np.nan
            continue
        sizes, above = np.zeros(n_relevant, dtype=np.int64), np.zeros(n_relevant, dtype=np.int64)
        for score in scores[i]:
            if score >= relevant[first]:
                low, high = first, first + n_relevant  # the last of the relevant scores up to this one
                while high - low > 1:
                    middle = (low + high) // 2
                    if relevant[middle] <= score:
                        low = middle
                    else:
                        high = middle
                if relevant[low] == score:
                    sizes[low - first] += 1
                else:
                    above[low - first] += 1

        seen = hits = 0
        last = n_relevant - 1
        while last >= 0:
            r, gain = 0, 0.0
            while r <= last and relevant[first + last - r] == relevant[first + last]:
                gain += grade[first + last - r]
                r += 1
            seen += above[last]
            size = sizes[last]
            if hits == 0:
                result[i, 0] = _reciprocal(seen, size, r)
            others = (r - 1) / max(size - 1, 1)  # the share of relevant items among the others of the group
            for place in range(size):
                result[i, 1] += r / size * (hits + 1 + place * others) / (seen + place + 1)
            for c in range(len(cutoffs)):
                k, column = cutoffs[c], 2 + 4 * c
                taken = min(max(k - seen, 0), size)
                result[i, column] += gain / size * (discounts[min(seen + size, k)] - discounts[min(seen, k)])
                result[i, column + 1] += r * taken / size
                if hits == 0:
                    missed = 1.0
                    for place in range(taken):
                        missed *= max(size - r - place, 0) / (size - place)
                    result[i, column + 3] = 1.0 - missed
            seen += size
            hits += r
            last -= r

        result[i, 1] /= hits
        for c in range(len(cutoffs)):
            k, column = cutoffs[c], 2 + 4 * c
            ideal = 0.0
            for place in range(min(k, hits)):
                ideal += best[first + place] * (discounts[place + 1] - discounts[place])
            result[i, column] /= ideal
            result[i, column + 2] = result[i, column + 1] / hits
            result[i, column + 1] /= k


@kernel
def _reciprocal(seen: int, size: int, relevant: int) -> float:
    """The mean reciprocal rank of the first relevant item of a group that begins after `seen` items."""
    mean, chance = 0.0, relevant / size
    for place in range(size - relevant + 1):
        mean += chance / (seen + place + 1)
        chance *= (size - relevant - place) / max(size - place - 1, 1)
    return mean

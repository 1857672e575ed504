"""Rankings of items by scores: how well the order agrees with grades."""

import numpy as np

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
    discounts = np.append(0.0, (1.0 / np.log2(np.arange(2.0, scores.shape[1] + 2.0))).cumsum())
    harmonic = np.append(0.0, (1.0 / np.arange(1.0, scores.shape[1] + 1.0)).cumsum())
    result = np.full((len(scores), 2 + 4 * len(cutoffs)), np.nan)
    for i, row in enumerate(scores):
        part = slice(indptr[i], indptr[i + 1])
        is_relevant = grade[part] > 0.0
        if is_relevant.any():
            relevant, grades = row[item[part][is_relevant]], grade[part][is_relevant]
            result[i] = _judge(row, relevant, grades, cutoffs, discounts, harmonic)
    return result


def _judge(
    scores: FloatArray,
    relevant: FloatArray,
    grades: FloatArray,
    cutoffs: IndexArray,
    discounts: FloatArray,
    harmonic: FloatArray,
) -> FloatArray:
    """Judge one ranking by the scores and grades of its relevant items.

    `discounts` and `harmonic` hold sums over the first ranks. In a group of `size` equal scores, r of them of relevant
    items, each place is that of a relevant item with probability r / size (McSherry and Najork, 2008).
    """
    values, group = np.unique(-relevant, return_inverse=True)  # of the groups, the best first
    r, gains = np.bincount(group).astype(np.float64), np.bincount(group, grades)
    n = len(values)
    seen = np.bincount(np.searchsorted(values, -scores, "right"), minlength=n).cumsum()[:n]  # items before each group
    ends = np.bincount(np.searchsorted(values, -scores, "left"), minlength=n).cumsum()[:n]
    size, hits = (ends - seen).astype(np.float64), r.cumsum() - r
    others = (r - 1.0) / np.maximum(size - 1.0, 1.0)  # the share of relevant items among the others of the group
    first, n_first, r_first = int(seen[0]), int(size[0]), int(r[0])
    places = np.arange(n_first - r_first + 1)
    missed = np.maximum(n_first - r_first - places, 0) / np.maximum(n_first - places, 1)
    chances = np.append(1.0, missed[:-1].cumprod()) * (1.0 - missed)  # that the first relevant item is at a place
    ranks = np.where(size > 1.0, harmonic[ends] - harmonic[seen], 1.0 / (seen + 1.0))  # exact without ties
    precision = others * size + (hits + 1.0 - others * (seen + 1.0)) * ranks
    n_relevant, best = len(relevant), np.sort(grades)[::-1]
    result = [chances @ (1.0 / (first + places + 1.0)), (r / size * precision).sum() / n_relevant]
    for k in cutoffs.tolist():
        taken = np.clip(k - seen, 0, size)
        dcg = (gains / size * (discounts[np.minimum(ends, k)] - discounts[np.minimum(seen, k)])).sum()
        found = float((r * taken / size).sum())
        ideal = best[:k] @ np.diff(discounts[: min(k, n_relevant) + 1])
        result += [dcg / ideal, found / k, found / n_relevant, 1.0 - missed[: int(taken[0])].prod()]
    return np.array(result)

"""The order of rows and their folds, neither of which depends on the order in which rows are given."""

import numpy as np

from mahala.support.arrays import FloatArray, IndexArray, RealArray

N_FOLDS = 4


def row_order(encoded: RealArray, y: FloatArray | IndexArray) -> IndexArray:
    """Return an order of the rows by y and, where y is equal, by a digest of their features.

    Equal rows are next to each other, and a permutation of the rows changes nothing else.
    """
    digests = np.zeros(len(encoded), dtype=np.uint64)
    bits = np.ascontiguousarray(encoded + np.float32(0.0)).view(np.uint32)  # so that -0 and 0 are equal
    factor = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        for j in range(bits.shape[1]):
            digests = (digests ^ bits[:, j]) * factor
            digests ^= digests >> np.uint64(29)
    return np.lexsort((digests, y))


def deal(n: int, groups: IndexArray | None, rng: np.random.Generator) -> IndexArray:
    """Return the fold of each of n rows in the order of `row_order`.

    Each four consecutive rows are in four folds, so that the folds have like shares of each class and range of numbers.
    The rows of a group are in one fold; the largest groups are dealt first, to the fold with the fewest rows.
    """
    if groups is None:
        n_folds = min(N_FOLDS, n)
        fours = [rng.permutation(n_folds) for _ in range(-(-n // n_folds))]
        return np.concatenate(fours)[:n]
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        raise ValueError("groups must hold at least two groups: the rows of one group are never in both parts")
    counts, fold_of = np.zeros(min(N_FOLDS, len(sizes))), np.empty(len(sizes), dtype=np.intp)
    for group in sorted(rng.permutation(len(sizes)).tolist(), key=lambda group: -sizes[group]):
        fold_of[group] = counts.argmin()
        counts[fold_of[group]] += sizes[group]
    return fold_of[codes]

"""Find rows that are copies of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from mahala.support.arrays import row_blocks
from mahala.support.validation import is_sparse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mahala.support.arrays import Array, IndexArray

# Copies are at least so many rows, and this share of them.
_FEWEST, _SHARE = 3, 0.01
# Pairs of equal rows for each pair that differs in one block of columns, from which on they are copies.
_RATIO = 2.0
_BLOCKS = 32


class Copies(NamedTuple):
    """Rows that equal others.

    Attributes
    ----------
    sets : the number of the set of equal rows of each row
    n_different, n_labelled : numbers of different rows, without and with the label
    """

    sets: IndexArray
    n_different: int
    n_labelled: int

    @classmethod
    def of(cls, X: Any, labels: Array, columns: Sequence[Sequence[int]] | None = None) -> Self | None:
        """Return the copies among rows, or None if there are none, or if rows are equal by chance.

        Where a table has few values, rows are equal by chance, and more rows differ in one column only. Copies of rows
        are equal in all.

        Parameters
        ----------
        X, labels : dense or CSR rows, and their classes or numbers
        columns : the features of each column of a table; None if each feature is one

        >>> X = np.random.default_rng(0).normal(size=(20, 3))
        >>> copies = Copies.of(np.vstack([X, X[:5]]), np.arange(25) % 20)
        >>> copies.sets.shape, copies.n_different, copies.n_labelled
        ((25,), 20, 20)
        """
        digests = _digests(X, [[j] for j in range(X.shape[1])] if columns is None else columns)
        whole = digests.sum(axis=1)
        sets = np.unique(whole, return_inverse=True)[1]
        n, n_different = len(sets), int(sets.max(initial=-1)) + 1
        if n - n_different < max(_FEWEST, _SHARE * n):
            return None
        equal = _n_pairs(whole)
        differ_in_one = sum(_n_pairs(whole - block) - equal for block in digests.T)
        if equal < _RATIO * differ_in_one:
            return None
        n_labelled = len(np.unique(np.stack([sets, np.unique(labels, return_inverse=True)[1]]), axis=1).T)
        return cls(sets, n_different, n_labelled)


def _digests(X: Any, columns: Sequence[Sequence[int]]) -> Array:
    """Return a number for each row and block of columns, which is equal for equal cells, and else hardly ever."""
    n, d = X.shape
    n_blocks = min(len(columns), _BLOCKS)
    factors = np.random.default_rng(0).integers(2**63, size=d, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    blocks = np.repeat(np.arange(len(columns)) * n_blocks // len(columns), [len(features) for features in columns])
    if is_sparse(X):
        values = _mixed(X.data) * factors[X.indices]
        return np.asarray(sp.csr_matrix((values, blocks[X.indices], X.indptr), shape=(n, n_blocks)).toarray())
    sums = np.empty((n, n_blocks), dtype=np.uint64)
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    for rows in row_blocks(n, d):
        sums[rows] = np.add.reduceat(_mixed(X[rows]) * factors, starts, axis=1)
    return sums


def _mixed(values: Any) -> Array:
    """Return the bits of numbers, mixed so that sums of them hardly ever agree; 0 stays 0."""
    bits = (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)  # -0.0 is 0.0
    for shift, factor in ((32, 0xD6E8FEB86659FD93), (29, 0xA0761D6478BD642F), (32, 1)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits


def _n_pairs(digests: Array) -> int:
    counts = np.unique(digests, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())

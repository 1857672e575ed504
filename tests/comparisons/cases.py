"""Rows, keys and helpers that the tests of comparisons share."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from mahala.comparisons import Pairs
from strategies import examples

X = np.arange(12, dtype=np.float64).reshape(4, 3)


moderate = examples(60)


def untidy_csr(dense: NDArray[Any]) -> sp.csr_matrix:
    """The same matrix, with its entries in reverse order, every one in two parts and int64 indices."""
    rows, columns = (part[::-1] for part in np.nonzero(dense))
    values = dense[rows, columns]
    half = (values / 2).astype(dense.dtype)
    order = np.argsort(np.r_[rows, rows], kind="stable")
    data = np.r_[values - half, half][order]
    indptr = np.r_[0, np.cumsum(2 * np.bincount(rows, minlength=len(dense)))]
    matrix = sp.csr_matrix(dense.shape, dtype=dense.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, np.r_[columns, columns][order], indptr.astype(np.int64)
    assert matrix.indices.dtype == np.int64
    assert matrix.nnz == 0 or not matrix.has_canonical_format
    return matrix


def similarity_of(pairs: Pairs) -> set[tuple[int, int, bool]]:
    return {(int(i), int(j), bool(s)) for i, j, s in zip(pairs.left, pairs.right, pairs.similar, strict=True)}


def every_pair(y: Any) -> set[tuple[int, int, bool]]:
    return {(i, j, bool(y[i] == y[j])) for i, j in itertools.combinations(range(len(y)), 2)}


def keys(n: int) -> st.SearchStrategy[Any]:
    numbers = st.integers(-n, n - 1)
    return st.one_of(
        st.slices(n),
        st.lists(numbers, max_size=2 * n),
        st.lists(numbers, max_size=2 * n).map(lambda key: np.array(key, dtype=np.int32)),
        st.lists(numbers.map(abs).filter(lambda k: k < n)).map(lambda key: np.array(key, dtype=np.uint64)),
        hnp.arrays(bool, n),
        hnp.arrays(bool, n).map(np.ndarray.tolist),
    )

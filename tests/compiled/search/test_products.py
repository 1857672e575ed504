"""The compiled product against NumPy's, for every type of numbers and indices."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from compiled.kernel_inputs import read_only
from mahala.compiled.search.products import multiply


def frozen(matrix):
    """The matrix as a metric holds it."""
    for array in (matrix.data, matrix.indices, matrix.indptr):
        read_only(array)
    return matrix


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(0, 5), st.integers(1, 6), st.integers(1, 7)),
    density=st.sampled_from([0.0, 0.3, 1.0]),
    number=st.sampled_from([np.float32, np.float64]),
    index=st.sampled_from([np.int32, np.int64]),
)
def test_products_of_whole_numbers_are_exact(seed, shape, density, number, index):
    rng = np.random.default_rng(seed)
    n, d, e = shape
    rows = rng.integers(-3, 4, size=(n, d)).astype(float)
    matrix = sp.csr_array(rng.integers(-3, 4, size=(d, e)) * (rng.random((d, e)) < density), dtype=number)
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    expected = rows @ matrix.toarray()
    for layout in (np.ascontiguousarray, np.asfortranarray):
        result = multiply(layout(rows), frozen(matrix))
        assert result.dtype == np.float64
        np.testing.assert_array_equal(result, expected)


def test_float32_matrices_are_summed_in_float64():
    rows = np.array([[1e9, 1.0]])
    matrix = sp.csr_array(np.array([[1.0], [1.0]], dtype=np.float32))
    assert multiply(rows, frozen(matrix))[0, 0] == 1e9 + 1


@pytest.mark.parametrize("n_items", [1, 37, 1001])
def test_equal_columns_give_equal_sums(n_items):
    rng = np.random.default_rng(0)
    column = sp.csr_array(rng.normal(size=(300, 1)))
    products = multiply(rng.normal(size=(3, 300)), frozen(sp.csr_array(sp.hstack([column] * n_items))))
    np.testing.assert_array_equal(products, products[:, :1].repeat(n_items, axis=1))


def test_the_matrix_is_not_copied():
    rng = np.random.default_rng(0)
    matrix = frozen(sp.random_array((2000, 1000), density=0.5, format="csr", dtype=np.float32, random_state=rng))
    multiply(np.ones((1, 2000)), matrix)  # compiles
    tracemalloc.start()
    multiply(np.ones((1, 2000)), matrix)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000

"""Products of matrices are those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from mahala.compiled.blas import gemm
from mahala.compiled.jit import kernel


@kernel
def multiply(A, a_row, a_transposed, B, b_row, b_transposed, C, m, n, k, subtract):
    gemm(A, a_row, a_transposed, B, b_row, b_transposed, C, m, n, k, subtract)


@pytest.mark.parametrize("size", [(3, 4, 5), (1, 1, 1), (2, 3, 0), (0, 3, 2), (2, 0, 2)])
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("subtract", [False, True])
def test_it_is_the_product(size, a_transposed, b_transposed, subtract):
    m, n, k = size
    rng = np.random.default_rng(0)
    left, right, before = rng.normal(size=(m, k)), rng.normal(size=(k, n)), rng.normal(size=(m, n))
    # One more row above each matrix, which is skipped.
    A, B = (
        np.ascontiguousarray(np.vstack([np.full((1, matrix.shape[1]), np.nan), matrix]))
        for matrix in (left.T if a_transposed else left, right.T if b_transposed else right)
    )
    C = before.copy() if subtract else np.full((m, n), np.nan)
    multiply(A, 1, a_transposed, B, 1, b_transposed, C, m, n, k, subtract)
    np.testing.assert_allclose(C, before - left @ right if subtract else left @ right, rtol=1e-12, atol=1e-12)

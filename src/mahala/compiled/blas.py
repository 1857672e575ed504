"""Matrix products in compiled code, by the routine behind `np.dot`, with which Numba takes several times as long.

All matrices are C-contiguous and in float64.
"""

from __future__ import annotations

import numba
import numpy as np
from numba import types
from numba.np.linalg import ensure_blas

from mahala.compiled.jit import helper
from mahala.support.arrays import FloatArray

ensure_blas()
# Sizes, leading dimensions, and addresses of the numbers and matrices.
_gemm = types.ExternalFunction(
    "numba_xxgemm", types.intc(*[types.int8] * 3, *[types.intp] * 5, types.uintp, *[types.intp] * 5)
)
_NUMBERS = np.array([0.0, 1.0, -1.0])
_KIND, _PLAIN, _TRANSPOSED = (ord(letter) for letter in "dnt")


def _multiply_plainly(
    A: FloatArray,
    row: int,
    left: bool,
    B: FloatArray,
    other: int,
    right: bool,
    C: FloatArray,
    m: int,
    n: int,
    k: int,
    subtract: bool,
) -> None:
    """`C = op(A) op(B)`, or `C -= op(A) op(B)`: m × n numbers, each the sum of k products.

    op(A) is A from the given row on, or its transpose; so is op(B).
    """
    first = A[row : row + k, :m].T if left else A[row : row + m, :k]
    second = B[other : other + n, :k].T if right else B[other : other + k, :n]
    C[:m, :n] = C[:m, :n] - first @ second if subtract else first @ second


def _multiply(
    A: FloatArray,
    row: int,
    left: bool,
    B: FloatArray,
    other: int,
    right: bool,
    C: FloatArray,
    m: int,
    n: int,
    k: int,
    subtract: bool,
) -> None:
    """As above. BLAS takes the columns of a matrix one after the other, so it multiplies the transposes."""
    if m == 0 or n == 0 or k == 0:
        return
    a, b, c = A.shape[1], B.shape[1], C.shape[1]
    factor = _NUMBERS.ctypes.data + 8 * subtract  # of C, and next to it that of the product
    _gemm(
        _KIND,
        _TRANSPOSED if right else _PLAIN,
        _TRANSPOSED if left else _PLAIN,
        n,
        m,
        k,
        factor + 8,
        B.ctypes.data + 8 * other * b,
        b,
        A.ctypes.data + 8 * row * a,
        a,
        factor,
        C.ctypes.data,
        c,
    )


gemm = _multiply_plainly if numba.config.DISABLE_JIT else helper(_multiply)

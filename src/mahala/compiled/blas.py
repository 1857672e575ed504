"""Matrix products in compiled code, by the routine behind `np.dot`, with which Numba takes several times as long.

All matrices are C-contiguous and in float64.
"""

from typing import Any

import numpy as np

from mahala.compiled.jit import IS_INTERPRETED, External, helper
from mahala.support.arrays import FloatArray

# The kind of number and whether the matrices are transposed; sizes; addresses, with the lengths of the matrices' rows.
_GEMM = External("numba_xxgemm", "int32", ["int8"] * 3 + ["intp"] * 5 + ["uintp"] + ["intp"] * 5)
_FACTORS = np.array([0.0, 1.0, -1.0])
_KIND, _PLAIN, _TRANSPOSED = (ord(letter) for letter in "dnt")


@helper
def gemm(
    A: FloatArray,
    a_row: int,
    a_transposed: bool,
    B: FloatArray,
    b_row: int,
    b_transposed: bool,
    C: FloatArray,
    m: int,
    n: int,
    k: int,
    subtract: bool,
) -> None:
    """`C = op(A) op(B)`, or `C -= op(A) op(B)`: m × n numbers, each the sum of k products.

    op(A) is A from row a_row on, or its transpose; op(B) likewise. BLAS reads matrices by columns, so it multiplies the
    transposes.
    """
    if m == 0 or n == 0:
        return
    if k == 0:  # BLAS refuses rows without numbers
        if not subtract:
            for i in range(m):
                for j in range(n):
                    C[i, j] = 0.0
        return
    a, b, c = A.shape[1], B.shape[1], C.shape[1]
    left, right = A.ctypes.data + 8 * a_row * a, B.ctypes.data + 8 * b_row * b
    a_form, b_form = _TRANSPOSED if a_transposed else _PLAIN, _TRANSPOSED if b_transposed else _PLAIN
    factor = _FACTORS.ctypes.data + 8 * subtract  # of C; that of the product is next to it
    _GEMM(_KIND, b_form, a_form, n, m, k, factor + 8, right, b, left, a, factor, C.ctypes.data, c)


def _by_numpy(*arguments: Any) -> None:
    A, a_row, a_transposed, B, b_row, b_transposed, C, m, n, k, subtract = arguments
    left = A[a_row : a_row + k, :m].T if a_transposed else A[a_row : a_row + m, :k]
    right = B[b_row : b_row + n, :k].T if b_transposed else B[b_row : b_row + k, :n]
    C[:m, :n] = C[:m, :n] - left @ right if subtract else left @ right


if IS_INTERPRETED:
    gemm = _by_numpy  # type: ignore[assignment]

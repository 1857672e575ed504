"""Symmetric matrices: products and updates of the lower triangle, or of the whole matrix."""

import math

from mahala.compiled.blas import gemm
from mahala.compiled.jit import helper, kernel
from mahala.support.arrays import FloatArray

# Rows and columns of a tile that is written while its mirror image is near.
TILE = 32


@helper
def multiply(A: FloatArray, x: FloatArray, out: FloatArray) -> None:
    """`out = A x`, from the lower triangle, four rows at a time."""
    d = len(x)
    for j in range(d):
        out[j] = 0.0
    for i in range(0, d, 4):
        stop = min(i + 4, d)
        left = 0
        if stop == i + 4:
            left = i
            x0, x1 = x[i], x[i + 1]
            x2, x3 = x[i + 2], x[i + 3]
            s0 = s1 = s2 = s3 = 0.0
            for j in range(i):
                a0, a1, xj = A[i, j], A[i + 1, j], x[j]
                a2, a3 = A[i + 2, j], A[i + 3, j]
                s0 += a0 * xj
                s1 += a1 * xj
                s2 += a2 * xj
                s3 += a3 * xj
                out[j] += a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
            out[i], out[i + 1] = s0, s1
            out[i + 2], out[i + 3] = s2, s3
        for k in range(i, stop):
            for j in range(left, k):
                a0 = A[k, j]
                out[k] += a0 * x[j]
                out[j] += a0 * x[k]
            out[k] += A[k, k] * x[k]


@helper
def subtract_below(A: FloatArray, left: FloatArray, right: FloatArray, n: int) -> None:
    """`A -= Σ_{l<n} left_l right_lᵀ` on the lower triangle."""
    for k in range(len(A)):
        for l in range(n):
            factor = left[l, k]
            for j in range(k + 1):
                A[k, j] -= factor * right[l, j]


@helper
def subtract_terms(A: FloatArray, space: FloatArray, terms: FloatArray, weights: FloatArray, n: int) -> None:
    """`A -= Σ_{l<n} weights_l terms_l terms_lᵀ`.

    One term leaves A exactly symmetric. The terms are scaled in place.
    """
    for l in range(n):
        root, sign = math.sqrt(abs(weights[l])), math.copysign(1.0, weights[l])
        for j in range(len(A)):
            terms[l, j] *= root
            space[l, j] = sign * terms[l, j]
    gemm(space, 0, True, terms, 0, False, A, len(A), len(A), n, True)


@kernel
def symmetrise(A: FloatArray) -> None:
    """Replace A by its symmetric part: steps do not reduce the antisymmetric part, while A itself may shrink."""
    d = len(A)
    for top in range(0, d, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, d)):
                for j in range(left, min(left + TILE, i)):
                    A[i, j] = A[j, i] = 0.5 * (A[i, j] + A[j, i])

"""Symmetric matrices of which a single step reads and writes the lower triangle, once.

The step subtracts what the step before it left `pending`, multiplies by its own vector in the same sweep, and leaves
its own terms to the next one: with f, g = pending, the matrix A is to become A - f₀g₀ᵀ - f₁g₁ᵀ.
"""

from __future__ import annotations

import math

import numpy as np

from mahala.compiled.jit import kernel
from mahala.support.arrays import FloatArray

# Rows and columns of a tile that is written while its mirror image is near.
TILE = 32


@kernel
def multiply(A: FloatArray, pending: FloatArray, x: FloatArray, out: FloatArray) -> None:
    """Subtract what is pending from A, then `out = A x`, on the lower triangle in one sweep, four rows at a time.

    The two are loops of their own: so the product is rounded alike, whether something was pending or not.
    """
    d = len(x)
    f, g = pending[0], pending[1]
    late = False
    for j in range(d):
        late = late or f[0, j] != 0.0 or f[1, j] != 0.0
    out[:] = 0.0
    whole = d - d % 4
    for i in range(0, d, 4):
        stop = min(i + 4, d)
        if late:
            for k in range(i, stop):
                row, a, b = A[k], f[0, k], f[1, k]
                for j in range(k + 1):
                    row[j] -= a * g[0, j] + b * g[1, j]
        if i < whole:
            r0, r1, r2, r3 = A[i], A[i + 1], A[i + 2], A[i + 3]
            x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
            s0 = s1 = s2 = s3 = 0.0
            for j in range(i):
                xj = x[j]
                s0 += r0[j] * xj
                s1 += r1[j] * xj
                s2 += r2[j] * xj
                s3 += r3[j] * xj
                out[j] += r0[j] * x0 + r1[j] * x1 + r2[j] * x2 + r3[j] * x3
            out[i] += s0
            out[i + 1] += s1
            out[i + 2] += s2
            out[i + 3] += s3
        left = i if i < whole else 0
        for k in range(i, stop):
            for j in range(left, k):
                out[k] += A[k, j] * x[j]
                out[j] += A[k, j] * x[k]
            out[k] += A[k, k] * x[k]
    f[:] = 0.0


@kernel
def times_one(row: FloatArray, A: FloatArray, pending: FloatArray) -> FloatArray:
    """Return `row @ A` for a matrix of one row, after what is pending."""
    out = np.empty(row.shape)
    multiply(A, pending, row[0], out[0])
    return out


@kernel
def postpone(pending: FloatArray, terms: FloatArray, weights: FloatArray, n: int) -> None:
    """Leave `A += Σ_{l<n} weights_l terms_l terms_lᵀ` pending, n ≤ 2, where nothing is."""
    for l in range(n):
        root, sign = math.sqrt(abs(weights[l])), math.copysign(1.0, weights[l])
        for j in range(terms.shape[1]):
            pending[1, l, j] = root * terms[l, j]
            pending[0, l, j] = -sign * pending[1, l, j]


@kernel
def settle(A: FloatArray, pending: FloatArray) -> None:
    """Subtract what is pending, and copy the lower triangle to the upper one."""
    d = len(A)
    multiply(A, pending, np.zeros(d), np.empty(d))
    for top in range(0, d, TILE):
        for left in range(0, top + 1, TILE):
            for j in range(left, min(left + TILE, d)):
                for i in range(max(top, j + 1), min(top + TILE, d)):
                    A[j, i] = A[i, j]


@kernel
def symmetrise(A: FloatArray) -> None:
    """Replace A by its symmetric part: steps do not reduce the antisymmetric part, while A itself may shrink."""
    d = len(A)
    for top in range(0, d, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, d)):
                for j in range(left, min(left + TILE, i)):
                    A[i, j] = A[j, i] = 0.5 * (A[i, j] + A[j, i])


@kernel
def largest_diagonal(A: FloatArray) -> float:
    """Return the largest absolute value of a diagonal entry."""
    largest = 0.0
    for i in range(len(A)):
        largest = max(largest, abs(A[i, i]))
    return largest

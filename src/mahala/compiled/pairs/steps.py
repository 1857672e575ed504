"""Passive-aggressive streams over pairs in which M may become indefinite (version "-").

Every step rule of the family is three numbers: τ = clip(p / (‖v‖⁴ + 1 + slack), lower, upper), with
p = 1 - y (b - vᵀMv); the update is M ← M - τ y v vᵀ, b ← b + τ y.

Each kernel takes differences V (n, d) and labels y (±1), writes p, τ and the prediction made *before* each update,
changes the model in place and returns the threshold.
"""

from __future__ import annotations

import numpy as np

from mahala.compiled.jit import kernel, kernel_with
from mahala.compiled.pairs.symmetric import postpone, times_one
from mahala.support.arrays import FloatArray, IndexArray, IntArray, SignArray

# Steps whose quadratic forms and updates are computed by one matrix product.
BLOCK = 64
# Rows of M that are updated by one matrix product, to avoid a temporary array as large as M.
STRIPE = 64
# Up to this number of rank-one terms, a loop is faster than a matrix product.
FEW_TERMS = 2
# Below this squared length v vᵀ underflows, and the two points count as coinciding.
COINCIDING = 1e-304


@kernel
def dot(a: FloatArray, b: FloatArray) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@kernel_with({"contract"})  # the terms are added in order, as BLAS adds them
def times(rows: FloatArray, A: FloatArray) -> FloatArray:
    """Return `rows @ A`. For a single row a loop is faster than BLAS, which copies A or starts threads."""
    d, e = A.shape
    out = np.zeros((len(rows), e))
    if len(rows) > 1:
        np.dot(rows, A, out)
        return out
    x, whole = rows[0], d - d % 4
    for i in range(0, whole, 4):
        a0, a1, a2, a3 = A[i], A[i + 1], A[i + 2], A[i + 3]
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(e):
            out[0, j] = (((out[0, j] + x0 * a0[j]) + x1 * a1[j]) + x2 * a2[j]) + x3 * a3[j]
    for i in range(whole, d):
        for j in range(e):
            out[0, j] += x[i] * A[i, j]
    return out


@kernel
def step(
    t: int,
    label: int,
    margin: float,
    norm4: float,
    rule: tuple[float, float, float],
    tolerance: float,
    p: FloatArray,
    tau: FloatArray,
    predicted: SignArray,
) -> float:
    """Predict pair t from its margin b - vᵀMv, then choose τ; record all three. Return s = τy."""
    slack, lower, upper = rule
    predicted[t] = 1 if margin >= 0.0 else -1
    p[t] = 1.0 - label * margin
    length = min(max(p[t] / (norm4 + 1.0 + slack), lower), upper)
    tau[t] = 0.0 if abs(length) < tolerance else length + 0.0  # never SKIPPED
    return float(tau[t] * label)


@kernel
def add_outer(M: FloatArray, left: FloatArray, right: FloatArray, weights: FloatArray, n: int) -> None:
    """`M += Σ_{l<n} weights_l left_l right_lᵀ`, without a temporary array as large as M."""
    if n == 0:
        return
    n_rows, n_columns = M.shape
    height = 1 if n <= FEW_TERMS else STRIPE
    factor, product = np.empty((height, n)), np.empty((height, n_columns))
    for first in range(0, n_rows, height):
        height = min(height, n_rows - first)
        for i in range(height):
            for l in range(n):
                factor[i, l] = weights[l] * left[l, first + i]
        if n > FEW_TERMS:
            np.dot(factor[:height], right[:n], product[:height])
        else:
            # Rounded like the matrix product: the sum of the terms comes first, then M is added.
            for j in range(n_columns):
                product[0, j] = factor[0, 0] * right[0, j]
            for l in range(1, n):
                for j in range(n_columns):
                    product[0, j] += factor[0, l] * right[l, j]
        # Written out, because a slice with += takes six seconds to compile.
        for i in range(height):
            for j in range(n_columns):
                M[first + i, j] += product[i, j]


@kernel
def add_terms(M: FloatArray, terms: FloatArray, weights: FloatArray, n: int) -> None:
    """`M += Σ_{l<n} weights_l terms_l terms_lᵀ`, without a temporary array as large as M."""
    add_outer(M, terms, terms, weights, n)


@kernel
def stream_indefinite(
    V: FloatArray,
    y: SignArray,
    M: FloatArray,
    pending: FloatArray,
    b: float,
    rule: tuple[float, float, float],
    tolerance: float,
    p: FloatArray,
    tau: FloatArray,
    predicted: SignArray,
) -> float:
    """Take one step per row of V, in blocks; M is read and written once per block, and of a single row its lower half.

    The distances inside a block are exact: `dist_t = v_tᵀM₀v_t + Σ_{l<t} c_l (v_lᵀv_t)²`.
    """
    n, d = V.shape
    size = min(BLOCK, n)
    c, weights = np.empty(size), np.empty(size)
    terms = np.empty((size, d))
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        block = V[start:stop]
        product = times(block, M) if n > 1 else times_one(block, M, pending)
        gram = np.dot(block, block.T)
        n_moved = 0
        for i in range(stop - start):
            t = start + i
            norm2 = gram[i, i]
            dist = dot(product[i], block[i])
            for l in range(i):
                dist += c[l] * gram[i, l] * gram[i, l]
            s = step(t, y[t], b - dist, norm2 * norm2, rule, tolerance, p, tau, predicted)
            b += s
            c[i] = 0.0 if norm2 < COINCIDING else -s
            if c[i] != 0.0:
                weights[n_moved] = c[i]
                for j in range(d):
                    terms[n_moved, j] = block[i, j]
                n_moved += 1
        if n > 1:
            add_terms(M, terms, weights, n_moved)
        else:
            postpone(pending, terms, weights, n_moved)
    return b


@kernel
def stream_sparse(
    data: FloatArray,
    indices: IntArray,
    indptr: IntArray,
    y: SignArray,
    M: FloatArray,
    b: float,
    rule: tuple[float, float, float],
    tolerance: float,
    p: FloatArray,
    tau: FloatArray,
    predicted: SignArray,
) -> float:
    """Take the same steps over the rows of a CSR matrix of differences; a step touches nnz(v)² entries of M."""
    for t in range(len(y)):
        own = slice(indptr[t], indptr[t + 1])
        columns, values = indices[own], data[own]
        norm2 = dist = 0.0
        for i in range(len(values)):
            row = M[columns[i]]
            inner = 0.0
            for j in range(len(values)):
                inner += values[j] * row[columns[j]]
            dist += values[i] * inner
            norm2 += values[i] * values[i]
        s = step(t, y[t], b - dist, norm2 * norm2, rule, tolerance, p, tau, predicted)
        b += s
        if s != 0.0 and norm2 >= COINCIDING:
            for i in range(len(values)):
                row = M[columns[i]]
                weight = s * values[i]
                for j in range(len(values)):
                    row[columns[j]] -= weight * values[j]
    return b


@kernel
def stream_dual(
    gram2: FloatArray,
    distances: FloatArray,
    weights: FloatArray,
    order: IndexArray,
    y: SignArray,
    b: float,
    rule: tuple[float, float, float],
    tolerance: float,
    p: FloatArray,
    tau: FloatArray,
    predicted: SignArray,
) -> float:
    """Take the same steps over a fixed set of r pairs, in the given `order`, by updating all r distances.

    `gram2` holds (v_kᵀv_l)². A passive step costs O(1), an update O(r); M changes by Σ weights_k v_k v_kᵀ.
    """
    for t in range(len(order)):
        k = order[t]
        s = step(t, y[k], b - distances[k], gram2[k, k], rule, tolerance, p, tau, predicted)
        if s != 0.0:
            b += s
            weights[k] -= s
            row = gram2[k]
            for l in range(len(distances)):
                distances[l] -= s * row[l]
    return b

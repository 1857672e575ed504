"""Passive-aggressive streams over pairs in which M may become indefinite (version "-").

Every step rule of the family is three numbers: τ = clip(p / (‖v‖⁴ + 1 + slack), lower, upper), with
p = 1 - y (b - vᵀMv); the update is M ← M - τ y v vᵀ, b ← b + τ y.

Each kernel takes differences V (n, d) and labels y (±1), writes p, τ and the prediction made *before* each update,
changes the model in place and returns the threshold.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dgemm

from mahala.compiled.jit import helper, kernel
from mahala.compiled.pairs.symmetric import postpone, times
from mahala.support.arrays import FloatArray, IndexArray, IntArray, SignArray

# Steps whose quadratic forms and updates are computed by one matrix product.
BLOCK = 64
# Below this squared length v vᵀ underflows, and the two points count as coinciding.
COINCIDING = 1e-304


@helper
def dot(a: FloatArray, b: FloatArray) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@helper
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


def add_outer(M: FloatArray, left: FloatArray, right: FloatArray, weights: FloatArray, n: int) -> None:
    """`M += Σ_{l<n} weights_l left_l right_lᵀ` in place, for a C-contiguous M."""
    if n and M.size:
        scaled = weights[:n, np.newaxis] * left[:n]
        dgemm(1.0, right[:n].T, scaled.T, 1.0, M.T, trans_b=True, overwrite_c=True)


def add_terms(M: FloatArray, terms: FloatArray, weights: FloatArray, n: int) -> None:
    """`M += Σ_{l<n} weights_l terms_l terms_lᵀ` in place, for a C-contiguous M."""
    add_outer(M, terms, terms, weights, n)


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
    n = len(V)
    for start in range(0, n, BLOCK):
        block = V[start : start + BLOCK]
        product, gram, c = times(block, M, pending), block @ block.T, np.empty(len(block))
        b = _indefinite_steps(block, product, gram, c, start, y, b, rule, tolerance, p, tau, predicted)
        if n > 1:
            moved = c != 0.0
            add_terms(M, block[moved], c[moved], int(np.count_nonzero(moved)))
        else:
            postpone(pending, block, c, 1)
    return b


@kernel
def _indefinite_steps(
    block: FloatArray,
    product: FloatArray,
    gram: FloatArray,
    c: FloatArray,
    start: int,
    y: SignArray,
    b: float,
    rule: tuple[float, float, float],
    tolerance: float,
    p: FloatArray,
    tau: FloatArray,
    predicted: SignArray,
) -> float:
    """Take the steps of a block, which change M by Σ c_i v_i v_iᵀ; write c and return b."""
    for i in range(len(block)):
        t, norm2, dist = start + i, gram[i, i], dot(product[i], block[i])
        for l in range(i):
            dist += c[l] * gram[i, l] * gram[i, l]
        s = step(t, y[t], b - dist, norm2 * norm2, rule, tolerance, p, tau, predicted)
        b += s
        c[i] = 0.0 if norm2 < COINCIDING else -s
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

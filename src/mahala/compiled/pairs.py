"""Passive-aggressive streams over pairs where M may become indefinite (version "-").

Every step rule of the family is three numbers: τ = clip(p / (‖v‖⁴ + 1 + slack), lower, upper), with
p = 1 - y (b - vᵀMv); the update is M ← M - τ y v vᵀ, b ← b + τ y.

Each kernel takes differences V (n, d) and labels y (±1), writes p, τ and the prediction made *before* each
update, changes the model in place and returns the threshold.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Signs = NDArray[np.int8]

# Steps whose quadratic forms and updates go through one matrix product.
BLOCK = 64
# Rows of M that receive a block's updates at a time, so that no d × d temporary is made.
STRIPE = 64
# Below this squared length v vᵀ underflows: the two points count as coinciding.
COINCIDING = 1e-304


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def dot(a: Floats, b: Floats) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def step(
    t: int,
    label: int,
    margin: float,
    norm4: float,
    rule: tuple[float, float, float],
    tolerance: float,
    p: Floats,
    tau: Floats,
    predicted: Signs,
) -> float:
    """Predict pair t by its margin b - vᵀMv, then choose τ; all three are recorded. Returns s = τy."""
    slack, lower, upper = rule
    predicted[t] = 1 if margin >= 0.0 else -1
    p[t] = 1.0 - label * margin
    length = min(max(p[t] / (norm4 + 1.0 + slack), lower), upper)
    tau[t] = 0.0 if abs(length) < tolerance else length
    return float(tau[t] * label)


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def add_terms(M: Floats, terms: Floats, weights: Floats, n: int) -> None:
    """`M += Σ_{l<n} weights_l terms_l terms_lᵀ`, in stripes so that no d × d temporary is made."""
    d = len(M)
    left = np.empty((STRIPE, n))
    for row in range(0, d, STRIPE):
        height = min(STRIPE, d - row)
        for i in range(height):
            for l in range(n):
                left[i, l] = weights[l] * terms[l, row + i]
        product = np.dot(left[:height], terms[:n])
        # Written out: a slice with += takes six seconds to compile.
        for i in range(height):
            for j in range(d):
                M[row + i, j] += product[i, j]


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def stream_indefinite(
    V: Floats,
    y: Signs,
    M: Floats,
    b: float,
    rule: tuple[float, float, float],
    tolerance: float,
    p: Floats,
    tau: Floats,
    predicted: Signs,
) -> float:
    """One pass in blocks: `dist_t = v_tᵀM₀v_t + Σ_{l<t} c_l (v_lᵀv_t)²` is exact, and M is touched once a block."""
    n, d = V.shape
    c = np.empty(BLOCK)
    terms = np.empty((BLOCK, d))
    weights = np.empty(BLOCK)
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        block = V[start:stop]
        product = np.dot(block, M)
        gram = np.dot(block, block.T)
        n_moved = 0
        for i in range(stop - start):
            t = start + i
            norm2 = gram[i, i]
            dist = 0.0
            for j in range(d):
                dist += product[i, j] * block[i, j]
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
        if n_moved:
            add_terms(M, terms, weights, n_moved)
    return b


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def stream_sparse(
    data: Floats,
    indices: NDArray[np.int64],
    indptr: NDArray[np.int64],
    y: Signs,
    M: Floats,
    b: float,
    rule: tuple[float, float, float],
    tolerance: float,
    p: Floats,
    tau: Floats,
    predicted: Signs,
) -> float:
    """The same steps where the differences are the rows of a CSR matrix: a step reads and writes nnz(v)² entries."""
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


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def stream_dual(
    gram2: Floats,
    distances: Floats,
    weights: Floats,
    order: NDArray[np.intp],
    y: Signs,
    b: float,
    rule: tuple[float, float, float],
    tolerance: float,
    p: Floats,
    tau: Floats,
    predicted: Signs,
) -> float:
    """The same steps over a fixed set of r pairs, fed in `order`, in terms of all r distances.

    `gram2` holds (v_kᵀv_l)². A passive step costs O(1), an update O(r); M changes by Σ weights_k v_k v_kᵀ.
    """
    r = len(distances)
    for t in range(len(order)):
        k = order[t]
        s = step(t, y[k], b - distances[k], gram2[k, k], rule, tolerance, p, tau, predicted)
        if s != 0.0:
            b += s
            weights[k] -= s
            row = gram2[k]
            for l in range(r):
                distances[l] -= s * row[l]
    return b

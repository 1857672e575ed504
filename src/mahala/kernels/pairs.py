"""Passive-aggressive streams over pairs where M may become indefinite (version "-").

Every step rule of the family is three numbers: τ = clip(p / (‖v‖⁴ + 1 + slack), lower, upper), with
p = 1 - y (b - vᵀMv); the update is M ← M - τ y v vᵀ, b ← b + τ y.

Both kernels take differences V (n, d) and labels y (±1), write p, τ and the prediction made *before* each
update, change the model in place and return the threshold.
"""

from __future__ import annotations

from typing import Any

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
    slack, lower, upper = rule
    n, d = V.shape
    c = np.empty(BLOCK)
    moved = np.empty((BLOCK, d))
    scaled = np.empty((BLOCK, d))
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
            margin = b - dist
            predicted[t] = 1 if margin >= 0.0 else -1
            p[t] = 1.0 - y[t] * margin
            step = min(max(p[t] / (norm2 * norm2 + 1.0 + slack), lower), upper)
            if abs(step) < tolerance:
                step = 0.0
            tau[t] = step
            b += step * y[t]
            c[i] = -step * y[t]
            if norm2 < COINCIDING:
                c[i] = 0.0
            if c[i] != 0.0:
                for j in range(d):
                    moved[n_moved, j] = block[i, j]
                    scaled[n_moved, j] = c[i] * block[i, j]
                n_moved += 1
        if n_moved:
            terms = moved[:n_moved]
            for row in range(0, d, STRIPE):
                end = min(row + STRIPE, d)
                M[row:end] += np.dot(np.ascontiguousarray(scaled[:n_moved, row:end]).T, terms)
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
    slack, lower, upper = rule
    r = len(distances)
    for t in range(len(order)):
        k = order[t]
        margin = b - distances[k]
        predicted[t] = 1 if margin >= 0.0 else -1
        p[t] = 1.0 - y[k] * margin
        step = min(max(p[t] / (gram2[k, k] + 1.0 + slack), lower), upper)
        if abs(step) < tolerance:
            step = 0.0
        tau[t] = step
        if step != 0.0:
            s = step * y[k]
            b += s
            weights[k] -= s
            row = gram2[k]
            for l in range(r):
                distances[l] -= s * row[l]
    return b


def rank_one_terms(M: Floats, V: Floats, weights: Floats) -> None:
    """`M += Vᵀ diag(weights) V`, in stripes so that no d × d temporary is made."""
    used = np.flatnonzero(weights)
    terms: Any = V[used]
    scaled = terms * weights[used, None]
    for row in range(0, len(M), STRIPE):
        M[row : row + STRIPE] += scaled[:, row : row + STRIPE].T @ terms

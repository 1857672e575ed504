"""AROMA with full covariance factors: exact steps, computed in blocks by matrix products.

Within a block every update is kept as a low-rank term: Λ = Λ₀ - Σ a_l u_l u_lᵀ, Γ = Γ₀ - Σ b_l v_l v_lᵀ and
M = M₀ + Σ α_l u_l v_lᵀ, with u_l = Λx and v_l = Γq at the time of step l. So the matrices are read and written once per
block.
"""

from __future__ import annotations

import numpy as np

from mahala.compiled.jit import SKIPPED, kernel
from mahala.compiled.pairs.steps import add_outer, add_terms, dot, times
from mahala.compiled.pairs.symmetric import postpone, times_one
from mahala.compiled.triplets.rows import LARGEST_CHANGE
from mahala.support.arrays import FloatArray, SignArray

BLOCK = 64
# When no more than this share of a variance is left, it is rounding error, of either sign.
NOISE = 1e-14


@kernel
def without(
    product: FloatArray, terms: FloatArray, weights: FloatArray, n: int, x: FloatArray, out: FloatArray
) -> None:
    """`out = product - Σ_{l<n} weights_l terms_l (terms_lᵀ x)`."""
    for i in range(len(out)):
        out[i] = product[i]
    for l in range(n):
        factor = weights[l] * dot(terms[l], x)
        for i in range(len(out)):
            out[i] -= factor * terms[l, i]


@kernel
def stream_full(
    X: FloatArray,
    Q: FloatArray,
    M: FloatArray,
    late: FloatArray,
    Lambda: FloatArray,
    left_pending: FloatArray,
    Gamma: FloatArray,
    right_pending: FloatArray,
    r: float,
    margin: float,
    clock: int,
    p: FloatArray,
    tau: FloatArray,
    predicted: SignArray,
) -> None:
    """Take one step for each row x of X and q of Q.

    `late` is empty, or it sums each update times the number of earlier models, which did not have it; the mean of all
    models follows from it.
    """
    (n, d), e = X.shape, Q.shape[1]
    size = min(BLOCK, n)
    u, v = np.empty((size, d)), np.empty((size, e))
    alpha, lates, a, b = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    for start in range(0, n, BLOCK):
        x, q = X[start : start + BLOCK], Q[start : start + BLOCK]
        scores = left = right = times(x, M)
        if n > 1:
            left, right = times(x, Lambda), times(q, Gamma)
        k = 0
        for i in range(len(x)):
            t = start + i
            score = dot(scores[i], q[i])
            for l in range(k):
                score += alpha[l] * dot(u[l], x[i]) * dot(v[l], q[i])
            predicted[t] = 1 if score > 0.0 else -1
            p[t] = margin - score
            tau[t] = 0.0
            if not p[t] > 0.0:
                continue
            if n == 1:
                left, right = times_one(x, Lambda, left_pending), times_one(q, Gamma, right_pending)
            without(left[i], u, a, k, x[i], u[k])
            without(right[i], v, b, k, q[i], v[k])
            x_norm, q_norm = dot(u[k], x[i]), dot(v[k], q[i])
            if not (x_norm > NOISE * dot(x[i], x[i]) and q_norm > NOISE * dot(q[i], q[i]) and x_norm * q_norm > 0.0):
                continue
            step = p[t] / (x_norm * q_norm + r)
            if not step * np.sqrt(x_norm * q_norm) <= LARGEST_CHANGE:
                tau[t] = SKIPPED
                continue
            tau[t] = alpha[k] = step
            lates[k] = alpha[k] * (clock + t + 1)
            # Sherman-Morrison, for Λ⁻¹ + (qᵀΓq) / (r e) x xᵀ and Γ⁻¹ + (xᵀΛx) / (r d) q qᵀ.
            a[k] = 1.0 / (r * e / q_norm + x_norm)
            b[k] = 1.0 / (r * d / x_norm + q_norm)
            k += 1
        if k:
            add_outer(M, u, v, alpha, k)
            if len(late):
                add_outer(late, u, v, lates, k)
            if n > 1:
                add_terms(Lambda, u, -a, k)
                add_terms(Gamma, v, -b, k)
            else:
                postpone(left_pending, u, -a, k)
                postpone(right_pending, v, -b, k)

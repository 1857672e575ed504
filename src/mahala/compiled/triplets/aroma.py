"""AROMA with full covariance factors: exact steps, computed in blocks by matrix products.

Within a block every update is kept as a low-rank term: Λ = Λ₀ - Σ a_l u_l u_lᵀ, Γ = Γ₀ - Σ b_l v_l v_lᵀ and
M = M₀ + Σ α_l u_l v_lᵀ, with u_l = Λx and v_l = Γq at the time of step l. So the matrices are read and written once per
block.
"""

import math

import numpy as np

from mahala.compiled.blas import gemm
from mahala.compiled.jit import SKIPPED, Steps, helper, kernel
from mahala.compiled.pairs.steps import dot
from mahala.compiled.pairs.symmetric import subtract_terms
from mahala.compiled.triplets.rows import LARGEST_CHANGE
from mahala.support.arrays import FloatArray

BLOCK = 64
# When no more than this share of a variance is left, it is rounding error, of either sign.
NOISE = 1e-14


@helper
def without(
    product: FloatArray, terms: FloatArray, weights: FloatArray, n: int, x: FloatArray, out: FloatArray
) -> None:
    """`out = product - Σ_{l<n} weights_l terms_l (terms_lᵀ x)`."""
    for i in range(len(out)):
        out[i] = product[i]
    for l in range(n):
        term = terms[l]
        factor = weights[l] * dot(term, x)
        for i in range(len(out)):
            out[i] -= factor * term[i]


@helper
def _subtract_outer(
    M: FloatArray, u: FloatArray, v: FloatArray, weights: FloatArray, n: int, factors: FloatArray
) -> None:
    """`M -= Σ_{l<n} weights_l u_l v_lᵀ`."""
    d, e = M.shape
    for l in range(n):
        for j in range(d):
            factors[l, j] = weights[l] * u[l, j]
    gemm(factors, 0, True, v, 0, False, M, d, e, n, True)


@kernel
def stream_full(
    X: FloatArray,
    Q: FloatArray,
    matrices: tuple[FloatArray, FloatArray],
    covariances: tuple[FloatArray, FloatArray],
    rule: tuple[float, float],
    clock: int,
    steps: Steps,
) -> None:
    """Take one step for each row x of X and q of Q, the first with the number `clock`; `rule` is r and the margin.

    The matrices are M, and an empty one or the sum of each update times the number of earlier models, which did not
    have it; the mean of all models follows from it. The covariances are Λ and Γ.
    """
    (n, d), e, (r, margin) = X.shape, Q.shape[1], rule
    (M, late), (Lambda, Gamma) = matrices, covariances
    p, tau, predicted = steps
    size = min(BLOCK, n)
    scores, left, right = np.empty((size, e)), np.empty((size, d)), np.empty((size, e))
    u, a = np.empty((size, d)), np.empty(size)
    v, b = np.empty((size, e)), np.empty(size)
    lengths, lates = np.empty(size), np.empty(size)
    for start in range(0, n, BLOCK):
        n_rows = min(BLOCK, n - start)
        gemm(X, start, False, M, 0, False, scores, n_rows, e, d, False)
        gemm(X, start, False, Lambda, 0, False, left, n_rows, d, d, False)
        gemm(Q, start, False, Gamma, 0, False, right, n_rows, e, e, False)
        k = 0
        for i in range(n_rows):
            t = start + i
            x, q = X[t], Q[t]
            score = dot(scores[i], q)
            for l in range(k):
                score -= lengths[l] * dot(u[l], x) * dot(v[l], q)
            predicted[t] = 1 if score > 0.0 else -1
            p[t] = margin - score
            tau[t] = 0.0
            if not p[t] > 0.0:
                continue
            without(left[i], u, a, k, x, u[k])
            without(right[i], v, b, k, q, v[k])
            x_norm, q_norm = dot(u[k], x), dot(v[k], q)
            if not (x_norm > NOISE * dot(x, x) and q_norm > NOISE * dot(q, q) and x_norm * q_norm > 0.0):
                continue
            step = p[t] / (x_norm * q_norm + r)
            if not step * math.sqrt(x_norm * q_norm) <= LARGEST_CHANGE:
                tau[t] = SKIPPED
                continue
            tau[t] = step
            lengths[k] = -step
            lates[k] = -step * (clock + t + 1)
            # Sherman-Morrison, for Λ⁻¹ + (qᵀΓq) / (r e) x xᵀ and Γ⁻¹ + (xᵀΛx) / (r d) q qᵀ.
            a[k] = 1.0 / (r * e / q_norm + x_norm)
            b[k] = 1.0 / (r * d / x_norm + q_norm)
            k += 1
        _subtract_outer(M, u, v, lengths, k, left)
        if len(late):
            _subtract_outer(late, u, v, lates, k, left)
        subtract_terms(Lambda, left, u, a, k)
        subtract_terms(Gamma, right, v, b, k)

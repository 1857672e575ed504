"""AROMA with full covariance factors: exact steps, computed in blocks by matrix products.

Within a block every update is kept as a low-rank term: Λ = Λ₀ - Σ a_l u_l u_lᵀ, Γ = Γ₀ - Σ b_l v_l v_lᵀ and
M = M₀ + Σ α_l u_l v_lᵀ, with u_l = Λx and v_l = Γq at the time of step l. So the matrices are read and written once per
block.
"""

import math

import numpy as np
from scipy.linalg import blas

from mahala.compiled.jit import SKIPPED, Steps, helper, kernel
from mahala.compiled.pairs.steps import dot
from mahala.compiled.triplets.rows import LARGEST_CHANGE
from mahala.support.arrays import FloatArray, SignArray

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
    (M, late), (Lambda, Gamma), (p, tau, predicted) = matrices, covariances, steps
    size, (d, e) = min(BLOCK, len(X)), M.shape
    # Memory that is used again: new memory of this size comes from the system, page by page.
    (left, u), (scores, right, v), weights = np.empty((2, size, d)), np.empty((3, size, e)), np.empty((4, size))
    for start in range(0, len(X), BLOCK):
        block = slice(start, start + BLOCK)
        x, q = X[block], Q[block]
        for rows, matrix, out in ((x, M, scores), (x, Lambda, left), (q, Gamma, right)):
            np.dot(rows, matrix, out=out[: len(x)])
        arrays = scores, left, right, u, v, weights
        k = _take_block(x, q, *arrays, *rule, p[block], tau[block], predicted[block])
        if k:
            u[:k] *= weights[0, :k, np.newaxis]
            _add_outer(M, 1.0, u[:k], v[:k])
            if len(late):
                u[:k] *= clock + start + 1.0 + weights[3, :k, np.newaxis]
                _add_outer(late, 1.0, u[:k], v[:k])
            _add_outer(Lambda, -1.0, left[:k], left[:k])
            _add_outer(Gamma, -1.0, right[:k], right[:k])


def _add_outer(A: FloatArray, factor: float, left: FloatArray, right: FloatArray) -> None:
    """`A += factor Σ_l left_l right_lᵀ`."""
    blas.dgemm(factor, right.T, left.T, 1.0, A.T, trans_b=True, overwrite_c=True)


@kernel
def _take_block(
    X: FloatArray,
    Q: FloatArray,
    scores: FloatArray,
    left: FloatArray,
    right: FloatArray,
    u: FloatArray,
    v: FloatArray,
    weights: FloatArray,
    r: float,
    margin: float,
    p: FloatArray,
    tau: FloatArray,
    predicted: SignArray,
) -> int:
    """Take the steps of a block, of which XM, XΛ and QΓ are given; return how many updates there are.

    Of each update, `u`, `v` and `weights` are to hold u, v, α, a, b and its number, `left` and `right` √a u and √b v.
    """
    d, e, k = X.shape[1], Q.shape[1], 0
    for t in range(len(X)):
        x, q = X[t], Q[t]
        score = dot(scores[t], q)
        for l in range(k):
            score += weights[0, l] * dot(u[l], x) * dot(v[l], q)
        predicted[t] = 1 if score > 0.0 else -1
        p[t] = margin - score
        tau[t] = 0.0
        if not p[t] > 0.0:
            continue
        without(left[t], u, weights[1], k, x, u[k])
        without(right[t], v, weights[2], k, q, v[k])
        x_norm, q_norm = dot(u[k], x), dot(v[k], q)
        if not (x_norm > NOISE * dot(x, x) and q_norm > NOISE * dot(q, q) and x_norm * q_norm > 0.0):
            continue
        step = p[t] / (x_norm * q_norm + r)
        if not step * math.sqrt(x_norm * q_norm) <= LARGEST_CHANGE:
            tau[t] = SKIPPED
            continue
        tau[t] = weights[0, k] = step
        weights[3, k] = t
        # Sherman-Morrison, for Λ⁻¹ + (qᵀΓq) / (r e) x xᵀ and Γ⁻¹ + (xᵀΛx) / (r d) q qᵀ.
        weights[1, k] = 1.0 / (r * e / q_norm + x_norm)
        weights[2, k] = 1.0 / (r * d / x_norm + q_norm)
        # One such term leaves a covariance exactly symmetric.
        for i in range(d):
            left[k, i] = math.sqrt(weights[1, k]) * u[k, i]
        for i in range(e):
            right[k, i] = math.sqrt(weights[2, k]) * v[k, i]
        k += 1
    return k

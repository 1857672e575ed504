"""AROMA with full covariance factors: exact steps, computed in blocks by matrix products.

Within a block every update is kept as a low-rank term: Λ = Λ₀ - Σ a_l u_l u_lᵀ, Γ = Γ₀ - Σ b_l v_l v_lᵀ and
M = M₀ + Σ α_l u_l v_lᵀ, with u_l = Λx and v_l = Γq at the time of step l. So the matrices are read and written once per
block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mahala.compiled.jit import SKIPPED, helper, kernel
from mahala.compiled.pairs.steps import add_outer, add_terms, dot
from mahala.compiled.pairs.symmetric import postpone, times
from mahala.compiled.triplets.rows import LARGEST_CHANGE
from mahala.support.arrays import FloatArray, IndexArray, SignArray

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
    u, v, a, b = np.empty((size, d)), np.empty((size, e)), np.empty(size), np.empty(size)
    places = np.empty(size, dtype=np.intp)
    for start in range(0, n, BLOCK):
        part = slice(start, start + BLOCK)
        x, q = X[part], Q[part]
        given = x, q, x @ M
        rest: Any = r, margin, p[part], tau[part], predicted[part], u, v, a, b, places
        if n == 1:
            # With products of zero no step is taken: so a step without a loss does not read the covariances.
            _full_steps(*given, np.zeros((1, d)), np.zeros((1, e)), *rest)
            if not p[0] > 0.0:
                return
        k = _full_steps(*given, times(x, Lambda, left_pending), times(q, Gamma, right_pending), *rest)
        if k == 0:
            continue
        taken = start + places[:k]
        add_outer(M, u, v, tau[taken], k)
        if len(late):
            add_outer(late, u, v, tau[taken] * (clock + taken + 1), k)
        for A, pending, terms, weights in ((Lambda, left_pending, u, -a), (Gamma, right_pending, v, -b)):
            if n > 1:
                add_terms(A, terms, weights, k)
            else:
                postpone(pending, terms, weights, k)


@kernel
def _full_steps(
    X: FloatArray,
    Q: FloatArray,
    scores: FloatArray,
    left: FloatArray,
    right: FloatArray,
    r: float,
    margin: float,
    p: FloatArray,
    tau: FloatArray,
    predicted: SignArray,
    u: FloatArray,
    v: FloatArray,
    a: FloatArray,
    b: FloatArray,
    places: IndexArray,
) -> int:
    """Take the steps of a block, from the products xᵀM, Λx and Γq before it; return the number k of its updates.

    Write each update's u, v, a and b, and its place in the block.
    """
    k = 0
    for t in range(len(X)):
        x, q = X[t], Q[t]
        score = dot(scores[t], q)
        for l in range(k):
            score += tau[places[l]] * dot(u[l], x) * dot(v[l], q)
        predicted[t] = 1 if score > 0.0 else -1
        p[t] = margin - score
        tau[t] = 0.0
        if not p[t] > 0.0:
            continue
        without(left[t], u, a, k, x, u[k])
        without(right[t], v, b, k, q, v[k])
        x_norm, q_norm = dot(u[k], x), dot(v[k], q)
        if not (x_norm > NOISE * dot(x, x) and q_norm > NOISE * dot(q, q) and x_norm * q_norm > 0.0):
            continue
        step = p[t] / (x_norm * q_norm + r)
        if not step * np.sqrt(x_norm * q_norm) <= LARGEST_CHANGE:
            tau[t] = SKIPPED
            continue
        tau[t] = step
        places[k] = t
        # Sherman-Morrison, for Λ⁻¹ + (qᵀΓq) / (r e) x xᵀ and Γ⁻¹ + (xᵀΛx) / (r d) q qᵀ.
        a[k] = 1.0 / (r * len(q) / q_norm + x_norm)
        b[k] = 1.0 / (r * len(x) / x_norm + q_norm)
        k += 1
    return k

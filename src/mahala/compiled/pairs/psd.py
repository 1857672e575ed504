"""Passive-aggressive streams over pairs in which M stays positive semi-definite after every step (version "+").

No eigendecomposition is needed: with s = τy, a step with s < 0 keeps M positive semi-definite, and `M - s v vᵀ` with
s > 0 has at most one negative eigenpair (-μ, u). It solves `s φ(μ) = 1`, `φ(μ) = vᵀ(M + μI)⁻¹v`, `u ∝ (M + μI)⁻¹v`, and
the projection is `M - s v vᵀ + μ u uᵀ`.

The lower triangle of `R = (M + σI)⁻¹` is kept beside M. `(M + μI)⁻¹ = R (I + δR)⁻¹` with δ = μ - σ, so one Lanczos run
on R from v serves every μ that Newton's method tries. R follows M by low-rank corrections. When these are not enough,
the kernel stops and returns the reason; the caller refactors with LAPACK and calls it again for the remaining steps.
"""

import numpy as np

from mahala.compiled.blas import gemm
from mahala.compiled.jit import Steps, helper, kernel
from mahala.compiled.pairs.steps import Rule, dot, step
from mahala.compiled.pairs.symmetric import multiply, subtract_below, subtract_terms
from mahala.support.arrays import FloatArray, SignArray

DONE, REFACTOR, PROJECT = 0, 1, 2

# Shorter differences (squared) count as none. R is as large as 1/σ, and σ about ‖v‖² for short v, ‖v‖⁻² for long ones.
# A correction of R needs (vᵀRv) / μ, μ being about σ: up to 1e90 · 1e90 · 1e90 for values up to 1e45, and sums of them.
COINCIDING = 1e-90

# Steps whose products with M are computed at once: more for a large M, where correcting them for the steps in between
# costs little beside the faster product.
LEAST_BLOCK, MOST_BLOCK = 64, 128
MAX_LANCZOS = 128
# Residual of the eigenpair relative to ‖M‖. The projection is non-expansive, so these errors add up over a stream but
# do not grow: after 25,000 steps M is about 20 times this far from the exact one.
RTOL = 1e-11
# R drifts from (M + σI)⁻¹ by rounding; this many corrections are safe.
REFRESH = 2000
# Products of a Lanczos run with a well-chosen σ. Further ones count as waste, and σ is retuned when the waste has cost
# as much as the Cholesky inverse that retuning takes (about d/4 products).
GOOD_RUN = 8
# σ follows the mean of log μ, each μ weighted by the waste it caused: long runs from above and below balance.
MEMORY = 300.0

# Entries of the state that the caller keeps between calls: σ; running mean of log μ and its weight; corrections of R
# since it was factored; wasted products since then; ‖M‖. They depend on the steps alone, not on how these are split
# into calls.
SIGMA, LOG_MU, WEIGHT, CORRECTIONS, WASTE, NORM = 0, 1, 2, 3, 4, 5
STATE_SIZE = 6


@helper
def _shifted(small: FloatArray, k: int, delta: float) -> bool:
    """`c = (I + δT)⁻¹e₁` and `x = Tc` for the k × k tridiagonal T; False if I + δT is not positive definite.

    The rows of `small` are T's diagonal and its off-diagonal, c, x, and the pivots.
    """
    small[2, 0] = 1.0
    for i in range(k):
        pivot = 1.0 + delta * small[0, i]
        if i > 0:
            off = delta * small[1, i - 1]
            pivot -= off * off / small[4, i - 1]
            small[2, i] = -off * small[2, i - 1] / small[4, i - 1]
        if pivot <= 0.0:
            return False
        small[4, i] = pivot
    after = 0.0  # β_i c_{i+1}
    for i in range(k - 1, -1, -1):
        c = (small[2, i] - delta * after) / small[4, i]
        small[2, i] = c
        small[3, i] = small[0, i] * c + after
        if i + 1 < k:
            small[3, i + 1] += small[1, i] * c
        after = small[1, i - 1] * c
    return True


@helper
def _negative_pair(
    R: FloatArray, sigma: float, change: float, scale: float, Q: FloatArray, small: FloatArray
) -> tuple[float, int]:
    """Run Lanczos on σR from Q[0] = v/‖v‖ (with Q[1] = σR Q[0] given) and Newton on 1/φ; return (μ, steps).

    `change` is s ‖v‖². μ = 0: M - s v vᵀ is PSD already. steps = 0: no convergence, μ is the best guess. On return
    small[0..1] hold T, small[3] holds x with u = Σ x_i Q[i] / ‖x‖, and Q[steps] the next Lanczos vector.
    """
    d = Q.shape[1]
    # In units of σ every quantity is of moderate size, whatever the scale of the data.
    accuracy = RTOL * scale / sigma
    floor = 1e-3 * accuracy
    mu = 1.0
    beta = 0.0
    for k in range(MAX_LANCZOS):
        q, r, before = Q[k], Q[k + 1], Q[k - 1 if k > 0 else 0]
        if k > 0:
            multiply(R, q, r)
            for j in range(d):
                r[j] *= sigma
        a = dot(q, r)
        # The three-term recurrence, then one full pass: either alone loses digits.
        for j in range(d):
            r[j] -= a * q[j] + beta * before[j]
        for i in range(k + 1):
            qi = Q[i]
            h = dot(qi, r)
            for j in range(d):
                r[j] -= h * qi[j]
        beta = np.sqrt(dot(r, r))
        exhausted = beta <= 1e-15 * abs(a) or k + 1 == d
        inverse = 0.0 if exhausted else 1.0 / beta
        if exhausted:
            beta = 0.0
        for j in range(d):
            r[j] *= inverse
        small[0, k] = a
        small[1, k] = beta
        if k < 2 and not exhausted:
            continue

        # One Newton step per Lanczos step until the residual is small; then Newton to convergence.
        for _ in range(60):
            accurate = exhausted
            if _shifted(small, k + 1, mu - 1.0):
                length2 = 0.0
                for i in range(k + 1):
                    length2 += small[3, i] * small[3, i]
                first = small[3, 0]
                move = (change / sigma * first - 1.0) * first / length2
                accurate = max(abs(mu - 1.0), mu) * beta * abs(small[2, k]) <= accuracy * np.sqrt(length2)
                if accurate and (abs(move) <= floor or (mu == floor and move < 0.0)):
                    return (0.0 if mu == floor else mu * sigma), k + 1
                mu = max(mu + move, floor)
            else:
                # M is singular and v is not in its range: φ is infinite for so small a μ.
                mu = 2.0 * mu + floor
            if not accurate:
                break
        if exhausted:
            break
    return mu * sigma, 0


@helper
def _pair_correction(
    sizes: tuple[float, float, float],
    k: int,
    v: FloatArray,
    w: FloatArray,
    Q: FloatArray,
    small: FloatArray,
    u: FloatArray,
    correction: FloatArray,
) -> None:
    """Compute u and the correction `R -= f₀g₀ᵀ + f₁g₁ᵀ` for M - s v vᵀ + μ u uᵀ from a Lanczos run of k steps.

    `sizes` are s, μ and σ; w = R v.
    """
    (s, mu, sigma), d, h = sizes, len(v), correction[0, 1]
    length2 = 0.0
    for i in range(k):
        length2 += small[3, i] * small[3, i]
    length = 1.0 / np.sqrt(length2)
    # u = Q x / ‖x‖ and h = R u = (Q T x + β x_k q_{k+1}) / (σ ‖x‖); x is zero beyond k.
    small[3, k] = before = 0.0
    for j in range(d):
        u[j] = h[j] = 0.0
    for i in range(k + 1):
        x = small[3, i]
        Tx = before
        if i < k:
            Tx += small[0, i] * x + small[1, i] * small[3, i + 1]
            before = small[1, i] * x
        x *= length
        Tx *= length / sigma
        q = Q[i]
        for j in range(d):
            u[j] += x * q[j]
            h[j] += Tx * q[j]
    # One joint 2 × 2 Woodbury correction: two successive rank-one corrections blow up near σ = μ.
    a00, a01, a11 = dot(v, w) - 1.0 / s, dot(v, h), 1.0 / mu + dot(u, h)
    determinant = a00 * a11 - a01 * a01
    a00, a01, a11 = a00 / determinant, a01 / determinant, a11 / determinant
    for j in range(d):
        correction[0, 0, j] = w[j]
        correction[1, 0, j] = a11 * w[j] - a01 * h[j]
        correction[1, 1, j] = a00 * h[j] - a01 * w[j]


@kernel
def stream_psd(
    V: FloatArray,
    y: SignArray,
    matrices: tuple[FloatArray, FloatArray],
    single: bool | None,
    state: FloatArray,
    b: float,
    rule: Rule,
    steps: Steps,
) -> tuple[float, int, int]:
    """Take steps until the end of V, or until LAPACK is needed; return (b, steps done, reason to stop).

    `matrices` are M and R, of which only the lower triangle counts. A `single` step (else None) reads and writes that
    of M only: half of the memory, and BLAS is not as fast for one vector. REFACTOR: R is outdated or σ has changed;
    recompute R from M and σ. PROJECT: the last update has been applied to M but not projected; project M, then
    recompute R.
    """
    (n, d), (M, R) = V.shape, matrices
    size = min(max(LEAST_BLOCK, min(MOST_BLOCK, d // 4)), n)
    most = min(MAX_LANCZOS, d) + 1
    Q, small, correction = np.empty((most + 1, d)), np.empty((5, most)), np.empty((2, 2, d))
    w = Q[most]  # R v
    product, weights = np.empty((2 * size, d)), np.empty(2 * size)
    terms = np.empty((2 * size, d))
    t, why = 0, DONE
    while t < n and why == DONE:
        start = t
        if single is None:
            gemm(V, t, False, M, 0, False, product, min(size, n - t), d, d, False)
        else:
            multiply(M, V[0], product[0])
        n_terms = 0
        while t < min(start + size, n) and why == DONE:
            v = V[t]
            norm2, dist = dot(v, v), dot(product[t - start], v)
            for l in range(n_terms):
                inner = dot(terms[l], v)
                dist -= weights[l] * inner * inner
            s = step(t, y[t], b - dist, norm2 * norm2, rule, steps)
            t += 1
            if s == 0.0:
                continue
            b_before = b
            b = max(b + s, 1.0)
            if norm2 < COINCIDING:
                continue

            # ‖M - s v vᵀ‖² = ‖M‖² - 2s vᵀMv + s²‖v‖⁴, and the projection subtracts μ²; the unit keeps the squares from
            # underflowing.
            sigma = state[SIGMA]
            unit = max(state[NORM], abs(s) * norm2)
            norm, change = state[NORM] / unit, s * norm2 / unit
            squared = norm * norm - 2.0 * (s / unit) * (dist / unit) + change * change
            scale = unit * np.sqrt(max(squared, 1e-6))
            multiply(R, v, w)
            length = 1.0 / np.sqrt(norm2)
            for j in range(d):
                terms[n_terms, j] = v[j]
                Q[0, j] = v[j] * length
                Q[1, j] = w[j] * (length * sigma)
            weights[n_terms] = s
            n_terms += 1
            mu = 0.0
            if s > 0.0:
                mu, k = _negative_pair(R, sigma, s * norm2, scale, Q, small)
                if k == 0 and state[CORRECTIONS] > 0.0:
                    # Undo the step and try it again with a new R, whose σ lies halfway to this μ, if μ is a number:
                    # where M is more than 1e16 times σ, rounding may have left R of either sign.
                    halfway = np.sqrt(mu * sigma)
                    state[SIGMA] = halfway if 1e-6 * scale < halfway < np.inf else 1e-6 * scale
                    b, why = b_before, REFACTOR
                    t -= 1
                    n_terms -= 1
                    break
                if k == 0:
                    why = PROJECT
                    break
                state[WASTE] += k - GOOD_RUN
            if mu == 0.0:
                weight = s / (1.0 - s * dot(v, w))
                for j in range(d):
                    correction[0, 0, j] = -weight * w[j]
                    correction[1, 0, j] = w[j]
                subtract_below(R, correction[0], correction[1], 1)
            else:
                weights[n_terms] = -mu
                _pair_correction((s, mu, sigma), k, v, w, Q, small, terms[n_terms], correction)
                subtract_below(R, correction[0], correction[1], 2)
                n_terms += 1
                weight = min(max(float(k - GOOD_RUN), 1.0), 8.0)
                state[WEIGHT] = min(state[WEIGHT] + weight, MEMORY)
                state[LOG_MU] += (np.log(mu) - state[LOG_MU]) * weight / state[WEIGHT]
            state[CORRECTIONS] += 1.0
            state[NORM] = unit * np.sqrt(max(squared - (mu / unit) * (mu / unit), 0.0))
            best = np.exp(state[LOG_MU])
            tuned = 0.5 * sigma < best < 2.0 * sigma
            # A correction with μ far above σ cancels most of R and leaves its rounding errors.
            spoilt = mu > 100.0 * sigma
            if spoilt or state[CORRECTIONS] >= REFRESH or (state[WASTE] >= d // 4 and not tuned):
                state[SIGMA] = max(best, 1e-6 * scale)
                why = REFACTOR
        if single is None:
            subtract_terms(M, product, terms, weights, n_terms)
        else:
            for l in range(n_terms):
                for j in range(d):
                    product[l, j] = weights[l] * terms[l, j]
            subtract_below(M, product, terms, n_terms)
    return b, t, why

"""Passive-aggressive streams over pairs in which M stays positive semi-definite after every step (version "+").

No eigendecomposition is needed: with s = τy, a step with s < 0 keeps M positive semi-definite, and `M - s v vᵀ` with
s > 0 has at most one negative eigenpair (-μ, u). It solves `s φ(μ) = 1`, `φ(μ) = vᵀ(M + μI)⁻¹v`, `u ∝ (M + μI)⁻¹v`, and
the projection is `M - s v vᵀ + μ u uᵀ`.

The lower triangle of `R = (M + σI)⁻¹` is kept beside M. `(M + μI)⁻¹ = R (I + δR)⁻¹` with δ = μ - σ, so one Lanczos run
on R from v serves every μ that Newton's method tries. R follows M by low-rank corrections. When these are not enough,
the kernel stops and returns the reason; the caller refactors with LAPACK and calls it again for the remaining steps.
"""

from __future__ import annotations

import numpy as np

from mahala.compiled.jit import kernel
from mahala.compiled.pairs.steps import add_terms, dot, step, times
from mahala.compiled.pairs.symmetric import multiply, postpone, times_one
from mahala.support.arrays import FloatArray, SignArray

DONE, REFACTOR, PROJECT = 0, 1, 2

# Shorter differences (squared) count as none. R is as large as 1/σ, and σ about ‖v‖² for short v, ‖v‖⁻² for long ones.
# A correction of R needs (vᵀRv) / μ, μ being about σ: up to 1e90 · 1e90 · 1e90 for values up to 1e45, and sums of them.
COINCIDING = 1e-90

# Steps whose products with M are computed at once: more for a large M, where correcting them for the steps in between
# costs little beside the faster product.
LEAST_BLOCK, MOST_BLOCK = 32, 128
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


@kernel
def _shifted(
    alpha: FloatArray, beta: FloatArray, k: int, delta: float, c: FloatArray, x: FloatArray, pivots: FloatArray
) -> bool:
    """`c = (I + δT)⁻¹e₁` and `x = Tc` for the k × k tridiagonal T; False if I + δT is not positive definite."""
    pivots[0] = 1.0 + delta * alpha[0]
    if pivots[0] <= 0.0:
        return False
    c[0] = 1.0
    for i in range(1, k):
        off = delta * beta[i - 1] / pivots[i - 1]
        pivots[i] = 1.0 + delta * alpha[i] - off * delta * beta[i - 1]
        if pivots[i] <= 0.0:
            return False
        c[i] = -off * c[i - 1]
    c[k - 1] /= pivots[k - 1]
    for i in range(k - 2, -1, -1):
        c[i] = (c[i] - delta * beta[i] * c[i + 1]) / pivots[i]
    for i in range(k):
        x[i] = alpha[i] * c[i]
        if i > 0:
            x[i] += beta[i - 1] * c[i - 1]
        if i + 1 < k:
            x[i] += beta[i] * c[i + 1]
    return True


@kernel
def _negative_pair(
    R: FloatArray,
    nothing: FloatArray,
    sigma: float,
    s: float,
    norm2: float,
    scale: float,
    Q: FloatArray,
    small: FloatArray,
) -> tuple[float, int]:
    """Run Lanczos on σR from Q[0] = v/‖v‖ (with Q[1] = σR Q[0] given) and Newton on 1/φ; return (μ, steps).

    μ = 0: M - s v vᵀ is PSD already. steps = 0: no convergence, μ is the best guess. On return small[0..1] hold T,
    small[3] holds x with u = Σ x_i Q[i] / ‖x‖, and Q[steps] the next Lanczos vector.
    """
    alpha, beta, c, x, pivots = small[0], small[1], small[2], small[3], small[4]
    d = Q.shape[1]
    # In units of σ every quantity is of moderate size, whatever the scale of the data.
    accuracy = RTOL * scale / sigma
    floor = 1e-3 * accuracy
    mu = 1.0
    for k in range(MAX_LANCZOS):
        q, r = Q[k], Q[k + 1]
        if k > 0:
            multiply(R, nothing, q, r)
            for j in range(d):
                r[j] *= sigma
        a = dot(q, r)
        alpha[k] = a
        # The three-term recurrence, then one full pass: either alone loses digits.
        if k > 0:
            before, bk = Q[k - 1], beta[k - 1]
            for j in range(d):
                r[j] -= a * q[j] + bk * before[j]
        else:
            for j in range(d):
                r[j] -= a * q[j]
        for i in range(k + 1):
            qi = Q[i]
            h = dot(qi, r)
            for j in range(d):
                r[j] -= h * qi[j]
        norm = np.sqrt(dot(r, r))
        beta[k] = norm
        exhausted = norm <= 1e-15 * abs(a) or k + 1 == d
        if exhausted:
            beta[k] = 0.0
            r[:] = 0.0
        else:
            for j in range(d):
                r[j] /= norm
        if k < 2 and not exhausted:
            continue

        # One Newton step per Lanczos step until the residual is small; then Newton to convergence.
        for _ in range(60):
            accurate = exhausted
            if _shifted(alpha, beta, k + 1, mu - 1.0, c, x, pivots):
                length2 = 0.0
                for i in range(k + 1):
                    length2 += x[i] * x[i]
                move = (s * norm2 / sigma * x[0] - 1.0) * x[0] / length2
                accurate = max(abs(mu - 1.0), mu) * beta[k] * abs(c[k]) <= accuracy * np.sqrt(length2)
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


@kernel
def _pair_correction(
    s: float,
    mu: float,
    sigma: float,
    k: int,
    v: FloatArray,
    w: FloatArray,
    Q: FloatArray,
    small: FloatArray,
    u: FloatArray,
    f: FloatArray,
    g: FloatArray,
) -> None:
    """Compute u and the correction `R -= f₀g₀ᵀ + f₁g₁ᵀ` for M - s v vᵀ + μ u uᵀ from a Lanczos run of k steps."""
    alpha, beta, x, Tx = small[0], small[1], small[3], small[2]
    d = len(v)
    # u = Q x and h = R u = (Q T x + β x_k q_{k+1}) / σ.
    length = 0.0
    for i in range(k):
        length += x[i] * x[i]
    length = np.sqrt(length)
    for i in range(k):
        x[i] /= length
    for i in range(k + 1):
        Tx[i] = 0.0
        if i < k:
            Tx[i] += alpha[i] * x[i]
        if i > 0:
            Tx[i] += beta[i - 1] * x[i - 1]
        if i + 1 < k:
            Tx[i] += beta[i] * x[i + 1]
        Tx[i] /= sigma
    h = f[1]
    u[:] = 0.0
    h[:] = 0.0
    for i in range(k + 1):
        qi, ti = Q[i], Tx[i]
        xi = x[i] if i < k else 0.0
        for j in range(d):
            u[j] += xi * qi[j]
            h[j] += ti * qi[j]
    vh, uh = dot(v, h), dot(u, h)
    # One joint 2 × 2 Woodbury correction: two successive rank-one corrections blow up near σ = μ.
    a00, a01, a11 = dot(v, w) - 1.0 / s, vh, 1.0 / mu + uh
    determinant = a00 * a11 - a01 * a01
    a00, a01, a11 = a00 / determinant, a01 / determinant, a11 / determinant
    for j in range(d):
        f[0, j] = w[j]
        g[0, j] = a11 * w[j] - a01 * h[j]
        g[1, j] = a00 * h[j] - a01 * w[j]


@kernel
def stream_psd(
    V: FloatArray,
    y: SignArray,
    M: FloatArray,
    pending: FloatArray,
    R: FloatArray,
    correction: FloatArray,
    state: FloatArray,
    b: float,
    rule: tuple[float, float, float],
    tolerance: float,
    p: FloatArray,
    tau: FloatArray,
    predicted: SignArray,
) -> tuple[float, int, int]:
    """Take steps until the end of V, or until LAPACK is needed; return (b, steps done, reason to stop).

    REFACTOR: R is outdated or σ has changed; recompute R from M and σ. PROJECT: the last update has been applied to M
    but not projected; project M, then recompute R.
    """
    n, d = V.shape
    most = min(MAX_LANCZOS, d) + 1
    Q, small = np.empty((most, d)), np.empty((5, most))
    w = np.empty(d)
    f, g = correction  # that R lacks after the last update
    n_block = min(max(LEAST_BLOCK, min(MOST_BLOCK, d // 4)), n)
    terms = np.empty((2 * n_block, d))
    weights = np.empty(len(terms))
    why = DONE
    t = 0
    while t < n and why == DONE:
        start, stop = t, min(t + n_block, n)
        block = V[start:stop]
        product = times(block, M) if n > 1 else times_one(block, M, pending)
        n_terms = 0
        while t < stop and why == DONE:
            v = block[t - start]
            norm2, dist = dot(v, v), dot(product[t - start], v)
            for l in range(n_terms):
                dist += weights[l] * dot(terms[l], v) ** 2
            s = step(t, y[t], b - dist, norm2 * norm2, rule, tolerance, p, tau, predicted)
            t += 1
            if s == 0.0:
                continue
            b_before = b
            b = max(b + s, 1.0)
            if norm2 < COINCIDING:
                continue

            for j in range(d):
                terms[n_terms, j] = v[j]
            weights[n_terms] = -s
            n_terms += 1
            # ‖M - s v vᵀ‖² = ‖M‖² - 2s vᵀMv + s²‖v‖⁴, and the projection subtracts μ²; the unit keeps the squares from
            # underflowing.
            unit = max(state[NORM], abs(s) * norm2)
            squared = (state[NORM] / unit) ** 2 - 2.0 * (s / unit) * (dist / unit) + (s * norm2 / unit) ** 2
            scale = unit * np.sqrt(max(squared, 1e-6))
            # w = R v also brings R up to date with the step before.
            multiply(R, correction, v, w)
            mu = 0.0
            if s > 0.0:
                length = np.sqrt(norm2)
                for j in range(d):
                    Q[0, j] = v[j] / length
                    Q[1, j] = w[j] / length * state[SIGMA]
                mu, k = _negative_pair(R, correction, state[SIGMA], s, norm2, scale, Q, small)
                if k == 0:
                    why = PROJECT
                    if state[CORRECTIONS] > 0.0:
                        # Undo the step and try it again with a new R, whose σ lies halfway to this μ, if μ is a number:
                        # where M is more than 1e16 times σ, rounding may have left R of either sign.
                        why = REFACTOR
                        halfway = np.sqrt(mu * state[SIGMA])
                        state[SIGMA] = halfway if 1e-6 * scale < halfway < np.inf else 1e-6 * scale
                        b = b_before
                        n_terms -= 1
                        t -= 1
                    break
                state[WASTE] += k - GOOD_RUN
            if mu == 0.0:
                weight = s / (1.0 - s * dot(v, w))
                for j in range(d):
                    f[0, j] = -weight * w[j]
                    g[0, j] = w[j]
                state[CORRECTIONS] += 1.0
            else:
                weights[n_terms] = mu
                _pair_correction(s, mu, state[SIGMA], k, v, w, Q, small, terms[n_terms], f, g)
                n_terms += 1
                state[CORRECTIONS] += 1.0
                weight = min(max(float(k - GOOD_RUN), 1.0), 8.0)
                state[WEIGHT] = min(state[WEIGHT] + weight, MEMORY)
                state[LOG_MU] += (np.log(mu) - state[LOG_MU]) * weight / state[WEIGHT]
            state[NORM] = unit * np.sqrt(max(squared - (mu / unit) ** 2, 0.0))
            best = np.exp(state[LOG_MU])
            tuned = 0.5 * state[SIGMA] < best < 2.0 * state[SIGMA]
            # A correction with μ far above σ cancels most of R and leaves its rounding errors.
            spoilt = mu > 100.0 * state[SIGMA]
            if spoilt or state[CORRECTIONS] >= REFRESH or (state[WASTE] >= d // 4 and not tuned):
                why = REFACTOR
                state[SIGMA] = max(best, 1e-6 * scale)
        if n > 1:
            add_terms(M, terms, weights, n_terms)
        else:
            postpone(pending, terms, weights, n_terms)
    return b, t, why

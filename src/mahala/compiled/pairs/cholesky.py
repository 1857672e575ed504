"""The streams of `psd` for few features: a Cholesky factorisation for each μ that Newton's method tries.

M ⪰ 0 and a step `M - s v vᵀ`, s > 0, have at most one negative eigenpair (-μ, u): with q = v / ‖v‖ it solves
`s ‖v‖² φ(μ) = 1`, `φ(μ) = qᵀ(M + μI)⁻¹q`, and u is along `(M + μI)⁻¹q`. For few features that takes less time than to
keep an inverse beside M, and a quarter of the time to compile.
"""

import math

import numpy as np

from mahala.compiled.jit import Steps, helper, kernel
from mahala.compiled.pairs.psd import COINCIDING, DONE, PROJECT, RTOL, SIGMA
from mahala.compiled.pairs.steps import Rule, step
from mahala.support.arrays import FloatArray, SignArray

# Up to so many features it takes less time: a fifth for 4 features, a half for 13, as much for 24.
MOST_FEATURES = 24
# Newton's method takes 3 to 5 steps where it starts from the last μ.
MOST_NEWTON = 60


@helper
def solve(A: FloatArray, mu: float, L: FloatArray) -> float:
    """Solve (M + μI) y = q for the rows of M and, after them, q in A; return qᵀy, or 0 if M + μI is not positive.

    L takes the Cholesky factor, then y, then the inverses of its diagonal.
    """
    d = A.shape[1]
    squared = 0.0
    for i in range(d + 1):
        squared = 0.0
        for j in range(i):
            value = A[i, j]
            for k in range(j):
                value -= L[i, k] * L[j, k]
            value *= L[d + 1, j]
            L[i, j] = value
            squared += value * value
        if i < d:
            pivot = A[i, i] + mu - squared
            if not pivot > 0.0:
                return 0.0
            L[d + 1, i] = 1.0 / math.sqrt(pivot)
    for i in range(d - 1, -1, -1):
        y = L[d, i] * L[d + 1, i]
        L[d, i] = y
        for k in range(i):
            L[d, k] -= L[i, k] * y
    return squared


@helper
def add_square(A: FloatArray, weight: float, v: FloatArray) -> None:
    """Add weight v vᵀ to the lower triangle."""
    for i in range(A.shape[1]):
        factor = weight * v[i]
        for j in range(i + 1):
            A[i, j] += factor * v[j]


@kernel
def stream_few(
    V: FloatArray, y: SignArray, M: FloatArray, state: FloatArray, b: float, rule: Rule, steps: Steps
) -> tuple[float, int, int]:
    """Take steps until the end of V, or until M must be projected (PROJECT); return (b, steps done, reason to stop).

    `state[SIGMA]` holds the last μ as a share of s ‖v‖².
    """
    n, d = V.shape
    A, L = np.empty((d + 1, d)), np.empty((d + 2, d))
    for i in range(d):
        for j in range(i + 1):
            A[i, j] = M[i, j]
    t, why = 0, DONE
    while t < n and why == DONE:
        norm2 = dist = trace = 0.0
        for i in range(d):
            inner = 0.0
            for j in range(i):
                inner += A[i, j] * V[t, j]
            dist += V[t, i] * (2.0 * inner + A[i, i] * V[t, i])
            norm2 += V[t, i] * V[t, i]
            trace += A[i, i]
        s = step(t, y[t], b - dist, norm2 * norm2, rule, steps)
        t += 1
        if s == 0.0:
            continue
        after = b + s
        b = after if after > 1.0 else 1.0
        if norm2 < COINCIDING:
            continue
        mu, share = 0.0, 0.0
        if s > 0.0:
            change, length = s * norm2, 1.0 / math.sqrt(norm2)
            for j in range(d):
                A[d, j] = V[t - 1, j] * length
            accuracy = RTOL * (trace + change)
            floor = 1e-3 * accuracy
            mu, why = state[SIGMA] * change, PROJECT
            for _ in range(MOST_NEWTON):
                if mu < floor:
                    mu = floor
                phi, length2 = solve(A, mu, L), 0.0
                if phi == 0.0:  # M is singular and q is not in its range: φ is infinite for so small a μ
                    mu += mu
                    continue
                for j in range(d):
                    length2 += L[d, j] * L[d, j]
                excess = change * phi - 1.0
                if mu == floor and excess < 0.0:
                    mu, why = 0.0, DONE  # M - s v vᵀ has no negative eigenvalue
                    break
                if abs(excess) <= accuracy * math.sqrt(length2):
                    state[SIGMA], share, why = mu / change, mu / length2, DONE
                    break
                mu += excess * phi / length2
        add_square(A, -s, V[t - 1])
        if share > 0.0:
            add_square(A, share, L[d])
    for i in range(d):
        for j in range(i + 1):
            M[i, j] = M[j, i] = A[i, j]
    return b, t, why

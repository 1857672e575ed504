"""Streams over pairs whose rank-one updates keep M positive definite without a projection: LEGO and RDML.

With A the matrix that a step multiplies by v (LEGO: M, RDML: M⁻¹), every update is A ← A + c a aᵀ, a = A v. For a block
of steps, matrix products give A₀V and the Gram matrix V A₀ Vᵀ; within the block the Gram matrix follows every step
exactly, each a is computed from the previous ones, and A is updated once at the end.

Each kernel takes differences V (n, d) and labels y (±1), writes the steps and changes the model in place. `outside` is
the number of directions that V omits because no pair differs in them; there M is I.
"""

import math

import numpy as np

from mahala.compiled.blas import gemm
from mahala.compiled.jit import SKIPPED, Steps, helper, kernel
from mahala.compiled.pairs.steps import COINCIDING, dot
from mahala.compiled.pairs.symmetric import subtract_terms, symmetrise
from mahala.support.arrays import FloatArray, IndexArray, SignArray

DONE, REFRESH = 0, 1

# tr M · tr M⁻¹ bounds the condition number of M and follows from the steps alone. No step takes it above this many
# times the dimension: beyond it, rounding errors would decide whether M is still positive definite.
LARGEST_CONDITION = 1e8
# A block ends when M has shrunk to this share of its former size, to which its rounding errors are relative.
SHRUNK = 0.1
# A step of LEGO leaves at least this share of a distance, so that the rest keeps twelve digits.
LEAST_SHARE = 1e-4
# Larger terms are skipped, so that distances under M cannot overflow.
LARGEST_TERM = 1e150

# RDML also uses M⁻¹, and so keeps the eigenvalues of M above this share of their mean.
FLOOR = 1e-3
# The largest share of M above that floor that one step of RDML may remove along v. The paper's 1 makes M singular, and
# then 1 / vᵀM⁻¹v is zero for nearly every v, so that no similar pair would move M again. Close to 1 the steps magnify
# rounding errors: with 0.9 and a floor of 1e-4, streams of 1,500 steps ended up to 3e-6 (relative) away from the same
# streams in extended precision; with these values 3e-11, and the nearest neighbours are no worse.
SHARE = 0.5
# Distances this close to RDML's border count as on it, where both kinds of pairs move M: in data of few distinct values
# distances return to exactly 1, and rounding must not decide what happens then.
BORDER = 1e-10
# R = M⁻¹ is recomputed after this many corrections. It is recomputed earlier if a correction has left no more than the
# share SPOILT of R along v, with the rounding errors of the rest, and the steps so far have cost about as much.
MOST_CORRECTIONS = 2000
SPOILT = 0.01


@helper
def block_size(n: int, d: int) -> int:
    """Return the steps per block; few if d is small, because the work inside a block grows with its square."""
    return min(n, 16 if d < 32 else 32 if d < 512 else 64)


@helper
def trace_of(M: FloatArray, outside: int) -> float:
    """Return the trace of M in all directions, including those outside."""
    total = float(outside)
    for j in range(len(M)):
        total += M[j, j]
    return total


@helper
def current(
    i: int, product: FloatArray, gram: FloatArray, terms: FloatArray, weights: FloatArray, places: IndexArray, n: int
) -> float:
    """Write a = A v_i to terms[n], from A₀v_i and the n terms since; return ‖a‖²."""
    a = terms[n]
    for j in range(len(a)):
        a[j] = product[i, j]
    for l in range(n):
        weight, term = weights[l] * gram[i, places[l]], terms[l]
        for j in range(len(a)):
            a[j] -= weight * term[j]
    return float(dot(a, a))


@helper
def follow(gram: FloatArray, i: int, n: int, weight: float, column: FloatArray) -> None:
    """Update the lower triangle of V A Vᵀ after row i for A ← A - weight · a aᵀ, a = A v_i, with n rows in V.

    Column i is kept: it holds aᵀv_j for all later j. `column` is work space for a contiguous copy of it.
    """
    for j in range(i + 1, n):
        column[j] = gram[j, i]
        scaled = weight * column[j]
        for k in range(i + 1, j + 1):
            gram[j, k] -= scaled * column[k]


@kernel
def lego_step(dist: float, target: float, eta: float) -> float:
    """Return c = η(ȳ - y) / (1 + η(ȳ - y)ŷ) of M ← M - c M v vᵀM, where ȳ = ŷ / (1 + η(ȳ - y)ŷ), ŷ = dist.

    This is a quadratic equation in cŷ, solved in forms in which only ŷ - y can cancel: with b = 1 - ηyŷ and
    r² = b² + 4ηŷ² its root is cŷ = 2ηŷ(ŷ - y) / (2ηŷ² + b + r).
    """
    b = 1.0 - eta * target * dist
    root = math.hypot(b, 2.0 * math.sqrt(eta) * dist)
    if b < 0.0:
        return (dist - target) / dist / dist / (1.0 + 2.0 / (root - b))
    return 2.0 * eta * (dist - target) / (2.0 * eta * dist * dist + b + root)


@helper
def conditioned(
    step: float, ratio: float, dist: float, length2: float, trace: float, inverse_trace: float, dimension: float
) -> float:
    """Return the step, shortened so that M stays well conditioned; `ratio` is vᵀMv / ‖v‖²."""
    if step > 0.0:
        room = max(LARGEST_CONDITION * dimension / trace - inverse_trace, 0.0)
        share = max(LEAST_SHARE, 1.0 / (1.0 + room * ratio))
        return min(step, (1.0 - share) / dist)
    room = max(LARGEST_CONDITION * dimension / inverse_trace - trace, 0.0)
    return max(step, -room / length2)


@kernel
def stream_lego(
    V: FloatArray,
    y: SignArray,
    M: FloatArray,
    outside: int,
    inverse_trace: float,
    rule: tuple[float, float, float],
    steps: Steps,
) -> float:
    """LEGO: each pair moves M so that its distance gets closer to the target of its kind.

    `rule` is η, the target of similar pairs and that of dissimilar ones. Takes and returns tr M⁻¹, to which a step adds
    c ‖v‖² / (1 - c ŷ).
    """
    (n, d), (eta, near, far) = V.shape, rule
    p, tau, predicted = steps
    dimension, size = float(d + outside), block_size(n, d)
    product, gram, column = np.empty((size, d)), np.empty((size, size)), np.empty(size)
    terms, weights, places = np.empty((size, d)), np.empty(size), np.empty(size, dtype=np.intp)
    most = 0.0
    t = 0
    while t < n:
        n_rows = min(size, n - t)
        gemm(V, t, False, M, 0, False, product, n_rows, d, d, False)
        gemm(product, 0, False, V, t, True, gram, n_rows, n_rows, d, False)
        trace = trace_of(M, outside)
        most = max(most, trace)
        n_terms = 0
        for i in range(n_rows):
            dist, target = gram[i, i], near if y[t] > 0 else far
            predicted[t] = 1 if dist <= 0.5 * (near + far) else -1
            p[t] = abs(dist - target)
            tau[t] = 0.0
            norm2 = dot(V[t], V[t])
            if norm2 >= COINCIDING and dist > 0.0:
                length2 = current(i, product, gram, terms, weights, places, n_terms)
                step = lego_step(dist, target, eta)
                step = conditioned(step, dist / norm2, dist, length2, trace, inverse_trace, dimension)
                if not abs(step) * length2 <= LARGEST_TERM:
                    tau[t] = SKIPPED
                elif step != 0.0:
                    tau[t] = weights[n_terms] = step
                    places[n_terms] = i
                    n_terms += 1
                    trace -= step * length2
                    inverse_trace += step * norm2 / (1.0 - step * dist)
                    # Rounding may leave too little; no M of this trace has less than a multiple of I.
                    inverse_trace = max(inverse_trace, dimension * (dimension / trace))
                    follow(gram, i, n_rows, step, column)
            t += 1
            most = max(most, trace)
            if trace < SHRUNK * most:
                break
        subtract_terms(M, product, terms, weights, n_terms)
        if t == n or trace < SHRUNK * most:
            symmetrise(M)
            most = 0.0
    return inverse_trace


@kernel
def stream_rdml(
    V: FloatArray,
    y: SignArray,
    matrices: tuple[FloatArray, FloatArray],
    outside: int,
    lam: float,
    n_corrections: int,
    steps: Steps,
) -> tuple[int, int, int]:
    """RDML until the end of V, or until R = M⁻¹ must be recomputed (REFRESH); `matrices` are M and R.

    `n_corrections` counts the corrections since R was computed. Return steps done, corrections, reason to stop.
    """
    (n, d), (M, R) = V.shape, matrices
    p, tau, predicted = steps
    dimension, size = float(d + outside), block_size(n, d)
    product, solved = np.empty((size, d)), np.empty((size, d))
    gram, inner = np.empty((size, size)), np.empty((size, size))
    dist, column = np.empty(size), np.empty(size)
    moved, moves = np.empty((size, d)), np.empty(size)
    terms, weights, places = np.empty((size, d)), np.empty(size), np.empty(size, dtype=np.intp)
    most = 0.0
    t = 0
    while t < n:
        n_rows = min(size, n - t)
        gemm(V, t, False, M, 0, False, product, n_rows, d, d, False)
        any_moves = False
        for i in range(n_rows):
            dist[i] = dot(product[i], V[t + i])
            any_moves = any_moves or y[t + i] * (dist[i] - 1.0) >= -BORDER
        if any_moves:
            if n_corrections >= MOST_CORRECTIONS:
                return t, n_corrections, REFRESH
            gemm(V, t, False, R, 0, False, solved, n_rows, d, d, False)
            gemm(solved, 0, False, V, t, True, gram, n_rows, n_rows, d, False)
            gemm(V, t, False, V, t, True, inner, n_rows, n_rows, d, False)
        trace, inverse_trace = trace_of(M, outside), trace_of(R, outside)
        most = max(most, trace)
        spoilt = False
        n_terms = 0
        for i in range(n_rows):
            predicted[t] = 1 if dist[i] <= 1.0 else -1
            p[t] = y[t] * (dist[i] - 1.0)
            tau[t] = 0.0
            if p[t] >= -BORDER and inner[i, i] >= COINCIDING and gram[i, i] > 0.0:
                q, norm2 = gram[i, i], inner[i, i]
                length2 = current(i, solved, gram, terms, weights, places, n_terms)
                if y[t] > 0:
                    floor = FLOOR * trace / dimension
                    step = min(lam, SHARE * max(1.0 - floor * length2 / q, 0.0) / q)
                else:
                    step = min(lam, max(LARGEST_CONDITION * dimension / inverse_trace - trace, 0.0) / norm2)
                if not step * norm2 <= LARGEST_TERM:
                    tau[t] = SKIPPED
                elif step > 0.0:
                    tau[t] = step
                    step *= y[t]
                    pivot = 1.0 - step * q
                    moves[n_terms], weights[n_terms], places[n_terms] = step, -step / pivot, i
                    for j in range(d):
                        moved[n_terms, j] = V[t, j]
                    trace -= step * norm2
                    inverse_trace -= weights[n_terms] * length2
                    follow(gram, i, n_rows, weights[n_terms], column)
                    for k in range(i + 1, n_rows):
                        dist[k] -= step * inner[k, i] * inner[k, i]
                    n_terms += 1
                    spoilt = SPOILT * pivot > 1.0 and n_corrections + n_terms > d // 16
            t += 1
            most = max(most, trace)
            if spoilt or trace < SHRUNK * most:
                break
        n_corrections = MOST_CORRECTIONS if spoilt else n_corrections + n_terms
        subtract_terms(M, product, moved, moves, n_terms)
        subtract_terms(R, product, terms, weights, n_terms)
        if t == n or trace < SHRUNK * most:
            symmetrise(M)
            symmetrise(R)
            most = 0.0
    return t, n_corrections, DONE

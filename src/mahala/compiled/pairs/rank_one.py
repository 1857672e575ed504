"""Streams over pairs whose rank-one updates keep M positive definite without a projection: LEGO and RDML.

With A the matrix that a step multiplies by v (LEGO: M, RDML: M⁻¹), every update is A ← A + c a aᵀ, a = A v. For a block
of steps, matrix products give A₀V and the Gram matrix V A₀ Vᵀ; within the block the Gram matrix follows every step
exactly, each a is computed from the previous ones, and A is updated once at the end.

Each kernel takes differences V (n, d) and labels y (±1), writes p, τ and the prediction made *before* each update, and
changes the model in place. `outside` is the number of directions that V omits because no pair differs in them; there M
is I.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm

from mahala.compiled.jit import SKIPPED, helper, kernel
from mahala.compiled.pairs.steps import COINCIDING, dot
from mahala.compiled.pairs.symmetric import postpone, symmetrise, times
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


# Steps per block: the work inside a block grows with its square, while each block costs some calls from Python.
# LEGO, most of whose steps move M, takes fewer where M is small.
BLOCK, SMALL_BLOCK, SMALL_DIMENSION = 64, 32, 512


def trace_of(M: FloatArray, outside: int) -> float:
    """Return the trace of M in all directions, including those outside."""
    return outside + float(M.trace())


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
            a[j] += weight * term[j]
    return float(dot(a, a))


@helper
def follow(gram: FloatArray, i: int, weight: float, column: FloatArray) -> None:
    """Update the lower triangle of V A Vᵀ after row i for A ← A + weight · a aᵀ, a = A v_i.

    Column i is kept: it holds aᵀv_j for all later j. `column` is work space for a contiguous copy of it.
    """
    for j in range(i + 1, len(gram)):
        column[j] = gram[j, i]
        scaled = weight * column[j]
        for k in range(i + 1, j + 1):
            gram[j, k] += scaled * column[k]


def add(A: FloatArray, terms: FloatArray, weights: FloatArray, n: int) -> None:
    """`A += Σ_{l<n} weights_l terms_l terms_lᵀ`; a single term leaves A exactly symmetric."""
    if n and A.size:
        scaled = np.sqrt(np.abs(weights[:n, np.newaxis])) * terms[:n]
        signed = np.copysign(1.0, weights[:n, np.newaxis]) * scaled
        dgemm(1.0, scaled.T, signed.T, 1.0, A.T, trans_b=True, overwrite_c=True)


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


def stream_lego(
    V: FloatArray,
    y: SignArray,
    M: FloatArray,
    pending: FloatArray,
    outside: int,
    inverse_trace: float,
    eta: float,
    targets: tuple[float, float],
    p: FloatArray,
    tau: FloatArray,
    predicted: SignArray,
) -> float:
    """LEGO: each pair moves M so that its distance gets closer to the target of its kind (similar, dissimilar).

    Takes and returns tr M⁻¹, to which a step adds c ‖v‖² / (1 - c ŷ).
    """
    n, d = V.shape
    size = min(SMALL_BLOCK if d < SMALL_DIMENSION else BLOCK, n)
    work: Any = _work(size, d)
    terms, weights = work[:2]
    traces = np.array([0.0, inverse_trace, 0.0])  # tr M, tr M⁻¹, and the largest tr M since M was symmetrised
    t = 0
    while t < n:
        block = V[t : t + size]
        product = times(block, M, pending)
        traces[0] = trace_of(M, outside)
        steps: Any = y[t:], p[t:], tau[t:], predicted[t:]
        done, n_terms = _lego_steps(
            block, product, product @ block.T, d + outside, traces, eta, *targets, *steps, *work
        )
        t += done
        if n == 1:
            postpone(pending, terms, weights, n_terms)
            break
        add(M, terms, weights, n_terms)
        if t == n or traces[0] < SHRUNK * traces[2]:
            symmetrise(M)
            traces[2] = 0.0
    return float(traces[1])


def _work(size: int, d: int) -> tuple[FloatArray, FloatArray, FloatArray, IndexArray]:
    """Return space for the terms of a block, their weights, a column of its Gram matrix, and the terms' places."""
    return np.empty((size, d)), np.empty(size), np.empty(size), np.empty(size, dtype=np.intp)


@kernel
def _lego_steps(
    block: FloatArray,
    product: FloatArray,
    gram: FloatArray,
    dimension: int,
    traces: FloatArray,
    eta: float,
    near: float,
    far: float,
    y: SignArray,
    p: FloatArray,
    tau: FloatArray,
    predicted: SignArray,
    terms: FloatArray,
    weights: FloatArray,
    column: FloatArray,
    places: IndexArray,
) -> tuple[int, int]:
    """Take the steps of a block, until M has shrunk; return the number of steps and of terms."""
    limit = LARGEST_CONDITION * dimension
    trace, inverse_trace = traces[0], traces[1]
    most = max(traces[2], trace)
    n_terms = 0
    t = 0
    while t < len(block) and trace >= SHRUNK * most:
        dist, target = gram[t, t], near if y[t] > 0 else far
        predicted[t] = 1 if dist <= 0.5 * (near + far) else -1
        p[t] = abs(dist - target)
        tau[t] = 0.0
        norm2 = dot(block[t], block[t])
        if norm2 >= COINCIDING and dist > 0.0:
            length2 = current(t, product, gram, terms, weights, places, n_terms)
            step = lego_step(dist, target, eta)
            if step > 0.0:
                room = max(limit / trace - inverse_trace, 0.0)
                share = max(LEAST_SHARE, 1.0 / (1.0 + room * (dist / norm2)))
                step = min(step, (1.0 - share) / dist)
            else:
                step = max(step, -max(limit / inverse_trace - trace, 0.0) / length2)
            if not abs(step) * length2 <= LARGEST_TERM:
                tau[t] = SKIPPED
            elif step != 0.0:
                tau[t] = step
                weights[n_terms] = -step
                places[n_terms] = t
                n_terms += 1
                trace -= step * length2
                inverse_trace += step * norm2 / (1.0 - step * dist)
                # Rounding may leave too little; no M of this trace has less than a multiple of I.
                inverse_trace = max(inverse_trace, dimension * (dimension / trace))
                follow(gram, t, -step, column)
        most = max(most, trace)
        t += 1
    traces[0] = trace
    traces[1] = inverse_trace
    traces[2] = most
    return t, n_terms


def stream_rdml(
    V: FloatArray,
    y: SignArray,
    M: FloatArray,
    pending: FloatArray,
    R: FloatArray,
    correction: FloatArray,
    outside: int,
    lam: float,
    n_corrections: int,
    p: FloatArray,
    tau: FloatArray,
    predicted: SignArray,
) -> tuple[int, int, int]:
    """RDML until the end of V, or until R = M⁻¹ must be recomputed (REFRESH).

    `n_corrections` counts the corrections since R was computed. Return steps done, corrections, reason to stop.
    """
    n, d = V.shape
    size = min(BLOCK, n)
    work: Any = _work(size, d)
    terms, weights, _, places = work
    traces = np.zeros(3)  # tr M, tr M⁻¹, and the largest tr M since M was symmetrised
    t = 0
    while t < n:
        block = V[t : t + size]
        dist = np.einsum("ij,ij->i", times(block, M, pending), block)
        solved, gram, inner = block, block, block  # not read if no pair moves M
        if (y[t : t + size] * (dist - 1.0) >= -BORDER).any():
            if n_corrections >= MOST_CORRECTIONS:
                return t, n_corrections, REFRESH
            solved = times(block, R, correction)
            gram, inner = solved @ block.T, block @ block.T
        traces[:2] = trace_of(M, outside), trace_of(R, outside)
        steps: Any = y[t:], p[t:], tau[t:], predicted[t:]
        done, n_terms, spoilt = _rdml_steps(
            dist, solved, gram, inner, d + outside, traces, lam, n_corrections, *steps, *work
        )
        moved = t + places[:n_terms]
        moves = -tau[moved] * y[moved]
        t += done
        n_corrections = MOST_CORRECTIONS if spoilt else n_corrections + n_terms
        if n == 1:
            postpone(pending, V[moved], moves, n_terms)
            postpone(correction, terms, weights, n_terms)
            break
        add(M, V[moved], moves, n_terms)
        add(R, terms, weights, n_terms)
        if t == n or traces[0] < SHRUNK * traces[2]:
            symmetrise(M)
            symmetrise(R)
            traces[2] = 0.0
    return t, n_corrections, DONE


@kernel
def _rdml_steps(
    dist: FloatArray,
    solved: FloatArray,
    gram: FloatArray,
    inner: FloatArray,
    dimension: int,
    traces: FloatArray,
    lam: float,
    n_corrections: int,
    y: SignArray,
    p: FloatArray,
    tau: FloatArray,
    predicted: SignArray,
    terms: FloatArray,
    weights: FloatArray,
    column: FloatArray,
    places: IndexArray,
) -> tuple[int, int, bool]:
    """Take the steps of a block, until M has shrunk or R is spoilt; return the number of steps and terms, and which."""
    trace, inverse_trace = traces[0], traces[1]
    most = max(traces[2], trace)
    spoilt = False
    n_terms = 0
    t = 0
    while t < len(dist) and not spoilt and trace >= SHRUNK * most:
        predicted[t] = 1 if dist[t] <= 1.0 else -1
        p[t] = y[t] * (dist[t] - 1.0)
        tau[t] = 0.0
        if p[t] >= -BORDER and inner[t, t] >= COINCIDING and gram[t, t] > 0.0:
            q, norm2 = gram[t, t], inner[t, t]
            length2 = current(t, solved, gram, terms, weights, places, n_terms)
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
                weight = step / pivot
                weights[n_terms] = weight
                places[n_terms] = t
                n_terms += 1
                trace -= step * norm2
                inverse_trace += weight * length2
                follow(gram, t, weight, column)
                for k in range(t + 1, len(dist)):
                    dist[k] -= step * inner[k, t] * inner[k, t]
                spoilt = SPOILT * pivot > 1.0 and n_corrections + n_terms > solved.shape[1] // 16
        most = max(most, trace)
        t += 1
    traces[0] = trace
    traces[2] = most
    return t, n_terms, spoilt

"""Sweeps of ITML: cyclic Bregman projections of M onto the constraints, in blocks through matrix products.

Each projection is a rank-one update M ← M + β M v vᵀM, like a step of LEGO; blocks work as described in `rank_one`.
"""

from __future__ import annotations

import numpy as np

from mahala.compiled import rank_one
from mahala.compiled.jit import kernel
from mahala.compiled.pairs import dot
from mahala.compiled.symmetric import symmetrise
from mahala.support.arrays import FloatArray, IndexArray, RealArray

# Rows whose squared distance is below this count as equal; the largest squared distance is about 1.
COINCIDING = 1e-100


@kernel
def _gather(X: RealArray, left: IndexArray, right: IndexArray, scale: float, block: FloatArray) -> None:
    """Fill `block` with the scaled differences of the first pairs."""
    for i in range(len(block)):
        a, b = X[left[i]], X[right[i]]
        for j in range(block.shape[1]):
            block[i, j] = (np.float64(a[j]) - np.float64(b[j])) * scale


@kernel
def sweep(
    X: RealArray,
    left: IndexArray,
    right: IndexArray,
    scale: float,
    signs: FloatArray,
    precisions: tuple[float, float],
    gamma: float,
    M: FloatArray,
    inverse_trace: float,
    duals: FloatArray,
    slack: FloatArray,
) -> bool:
    """Project M onto each constraint once; return whether a projection was shortened to keep M well conditioned.

    `signs` are δ = ±1, `precisions` 1/ξ₀ of similar and of dissimilar pairs, `duals` λ, `slack` 1/ξ. With p = vᵀMv a
    projection moves M⁻¹ by -s v vᵀ and γ/ξ by s, where s = γ/(1+γ) (1/p - 1/ξ) makes p = ξ; λ stays at least 0.
    """
    n, d = len(left), len(M)
    limit = rank_one.LARGEST_CONDITION * d
    share = gamma / (1.0 + gamma)
    size = rank_one.block_size(n, d)
    room, terms = np.empty((size, d)), np.empty((size, d))
    weights, column = np.empty(size), np.empty(size)
    places = np.empty(size, dtype=np.intp)
    held_back = False
    most = 0.0
    t = 0
    while t < n:
        block = room[: min(size, n - t)]
        _gather(X, left[t:], right[t:], scale, block)
        product = np.dot(block, M)
        gram = np.dot(product, block.T)
        trace = rank_one.trace_of(M, 0)
        most = max(most, trace)
        n_terms = 0
        for i in range(len(block)):
            p, norm2 = gram[i, i], dot(block[i], block[i])
            if norm2 >= COINCIDING and p > 0.0:
                step = share * (1.0 / p - slack[t])
                new_dual, new_slack = duals[t] - signs[t] * step, share * slack[t] + 1.0 / p / (1.0 + gamma)
                if new_dual <= 0.0:
                    step, new_dual = signs[t] * duals[t], 0.0
                    new_slack = precisions[0] if signs[t] > 0.0 else precisions[1]
                if step != 0.0:
                    length2 = rank_one.current(i, product, gram, terms, weights, places, n_terms)
                    # Limit the change of p, so that it keeps its digits; the next sweep continues.
                    short = min(max(step * p, 1.0 - 1.0 / rank_one.LEAST_SHARE), 1.0 - rank_one.LEAST_SHARE)
                    least = -max(limit / trace - inverse_trace, 0.0) / norm2 * p
                    growth = max(limit / inverse_trace - trace, 0.0) / length2 * p
                    held = min(max(short, least), growth / (1.0 + growth))
                    held_back = held_back or held != short
                    if held != step * p:
                        step = held / p
                        new_dual, new_slack = duals[t] - signs[t] * step, slack[t] + step / gamma
                    duals[t], slack[t] = new_dual, new_slack
                    weights[n_terms] = step / (1.0 - step * p)
                    places[n_terms] = i
                    trace += weights[n_terms] * length2
                    # The sum may cancel; by the Cauchy-Schwarz inequality it is at least d² / tr M.
                    inverse_trace = max(inverse_trace - step * norm2, d * (d / trace))
                    rank_one.follow(gram, i, weights[n_terms], column)
                    n_terms += 1
            t += 1
            most = max(most, trace)
            if trace < rank_one.SHRUNK * most:
                break
        if n_terms:
            rank_one.add(M, terms, weights, n_terms)
        if t == n or trace < rank_one.SHRUNK * most:
            symmetrise(M)
            most = 0.0
    return held_back

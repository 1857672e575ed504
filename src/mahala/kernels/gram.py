"""Streams over triplets of a fixed set of n rows, in terms of the rows' inner products.

Where M only ever grows by τ x qᵀ, it is M₀ + XᵀΘX with Θ of shape n × n. Then x_aᵀ(M - M₀)x_b = (KΘK)_ab, K = XXᵀ,
and with P = KΘ kept a step costs O(n), whatever the dimension.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mahala.kernels.triplets import StepRule, step_length

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def stream(
    K: Floats,
    P: Floats,
    start: float,
    anchors: Rows,
    positives: Rows,
    negatives: Rows,
    q_norms: Floats,
    rule: StepRule,
    p: Floats,
    tau: Floats,
    predicted: NDArray[np.int8],
) -> None:
    """One step for each triplet of rows, M₀ = start · I; P = KΘ changes in place, and Θ is what τ says."""
    n = len(K)
    for t in range(len(anchors)):
        a, b, c = anchors[t], positives[t], negatives[t]
        score = start * (K[a, b] - K[a, c])
        for j in range(n):
            score += P[a, j] * (K[b, j] - K[c, j])
        if q_norms[t] == 0.0:
            score = 0.0  # inner products with equal rows may differ by rounding
        predicted[t] = 1 if score > 0.0 else -1
        p[t] = 1.0 - score
        tau[t] = step_length(p[t], K[a, a] * q_norms[t], rule)
        if tau[t] != 0.0:
            for j in range(n):
                change = tau[t] * K[a, j]
                P[j, b] += change
                P[j, c] -= change

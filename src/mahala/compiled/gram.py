"""Streams over triplets of a fixed set of n rows, in terms of the rows' inner products.

Where M only ever grows by τ x qᵀ, it is M₀ + XᵀΘX with Θ of shape n × n. Then x_aᵀ(M - M₀)x_b = (KΘK)_ab, K = XXᵀ,
and with P = KΘ kept a step costs O(n), whatever the dimension.

Items count by their differences only, so on their side inner products L may be taken from any origin instead: from one
amidst the rows they keep their digits.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mahala.compiled.triplets import StepRule, step_length

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def stream(
    K: Floats,
    L: Floats,
    P: Floats,
    anchors: Rows,
    positives: Rows,
    negatives: Rows,
    firsts: Floats,
    q_norms: Floats,
    rule: StepRule,
    p: Floats,
    tau: Floats,
    predicted: NDArray[np.int8],
) -> None:
    """One step for each triplet of rows, of which `firsts` has the score under M₀; P = KΘ changes in place."""
    n = len(K)
    for t in range(len(anchors)):
        a, b, c = anchors[t], positives[t], negatives[t]
        score = firsts[t]
        for j in range(n):
            score += P[a, j] * (L[b, j] - L[c, j])
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

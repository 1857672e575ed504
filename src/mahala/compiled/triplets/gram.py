"""Streams over triplets of a fixed set of n rows, in terms of the rows' inner products.

If M changes by terms τ x qᵀ only, it is M₀ + XᵀΘX with Θ of shape n × n. Then x_aᵀ(M - M₀)x_b = (KΘK)_ab, K = XXᵀ, and
by keeping P = KΘ a step costs O(n), whatever the dimension.

Only differences of items matter, so their inner products L may be taken from any origin; one in the middle of the rows
avoids cancellation.
"""

from mahala.compiled.jit import Steps, kernel
from mahala.compiled.triplets.rows import Numbers, StepRule, step_length
from mahala.support.arrays import FloatArray


@kernel
def stream(
    K: FloatArray,
    L: FloatArray,
    P: FloatArray,
    triplets: Numbers,
    firsts: FloatArray,
    q_norms: FloatArray,
    rule: StepRule,
    steps: Steps,
) -> None:
    """Take one step for each triplet of rows; `firsts` are their scores under M₀, and P = KΘ changes in place."""
    n = len(K)
    (anchors, positives, negatives), (p, tau, predicted) = triplets, steps
    for t in range(len(anchors)):
        a, b, c = anchors[t], positives[t], negatives[t]
        score = firsts[t]
        for j in range(n):
            score += P[a, j] * (L[b, j] - L[c, j])
        if q_norms[t] == 0.0:
            score = 0.0  # inner products with two equal rows may differ by rounding
        predicted[t] = 1 if score > 0.0 else -1
        p[t] = rule[4] - score
        tau[t] = step_length(p[t], K[a, a] * q_norms[t], rule)
        if tau[t] != 0.0:
            for j in range(n):
                change = tau[t] * K[a, j]
                P[j, b] += change
                P[j, c] -= change

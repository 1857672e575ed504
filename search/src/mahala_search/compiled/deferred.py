"""Steps for the items of one query, where changes of M wait as factors; and the product that adds them to M."""

from __future__ import annotations

import numpy as np

from mahala.extend import kernel, kernel_with, step_length
from mahala_search.arrays import FloatArray, IndexArray

StepRule = tuple[float, float, float, float, float]  # of `SimilarityLearner.step_rule`
Factors = tuple[FloatArray, FloatArray, int]  # left, right of the two matrices, and how many wait
Pairs = tuple[IndexArray, IndexArray, FloatArray]  # the numbers of the better and the worse items, and weights

# Rows of a result that are computed together: they stay near the processor.
TILE = 32


@kernel_with({"contract"})
def add_product(A: FloatArray, B: FloatArray, C: FloatArray) -> None:
    """Add A B to C.

    Each number is summed in the order of the rows of B, so that a row of C does not depend on how many others there
    are. BLAS does not promise that.
    """
    n, inner = A.shape
    whole, spare = inner - inner % 4, np.zeros(C.shape[1])
    for start in range(0, n, TILE):
        stop = min(start + TILE, n)
        for k in range(0, whole, 4):
            b0, b1, b2, b3 = B[k], B[k + 1], B[k + 2], B[k + 3]
            for i in range(start, stop, 2):  # two rows for each reading of B
                below = i + 1 if i + 1 < stop else i
                a0, a1, a2, a3 = A[i, k], A[i, k + 1], A[i, k + 2], A[i, k + 3]
                e0, e1, e2, e3 = A[below, k], A[below, k + 1], A[below, k + 2], A[below, k + 3]
                if a0 != 0.0 or a1 != 0.0 or a2 != 0.0 or a3 != 0.0 or e0 != 0.0 or e1 != 0.0 or e2 != 0.0 or e3 != 0.0:
                    c, f = C[i], C[below] if below > i else spare
                    for j in range(len(c)):
                        c[j] = c[j] + a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j]
                        f[j] = f[j] + e0 * b0[j] + e1 * b1[j] + e2 * b2[j] + e3 * b3[j]
        for k in range(whole, inner):
            for i in range(start, stop):
                a, b, c = A[i, k], B[k], C[i]
                for j in range(len(c)):
                    c[j] += a * b[j]


@kernel
def add_factors(x: FloatArray, factors: Factors, last: FloatArray, late: FloatArray) -> None:
    """Add what the factors that wait change of xᵀM to `last`, and of the second matrix to `late`."""
    left, right, n = factors
    for k in range(n):
        inner = 0.0
        for j in range(len(x)):
            inner += left[k, j] * x[j]
        if inner != 0.0:
            for j in range(len(last)):
                last[j] += inner * right[0, k, j]
                late[j] += inner * right[1, k, j]


@kernel
def score_page(
    x: FloatArray, items: FloatArray, factors: Factors, n_steps: int, last: FloatArray, late: FloatArray
) -> tuple[FloatArray, float]:
    """Add factors as `add_factors` does; return the scores of items by x, by the mean of all models and by the last.

    The second result is the squared length of x times the mean of those of the items.
    """
    add_factors(x, factors, last, late)
    scores = np.empty((len(items), 3))
    x_norm = squares = 0.0
    for j in range(len(x)):
        x_norm += x[j] * x[j]
    for i in range(len(items)):
        raw = newest = behind = 0.0
        for j in range(len(x)):
            squares += items[i, j] * items[i, j]
            raw += items[i, j] * x[j]
            newest += items[i, j] * last[j]
            behind += items[i, j] * late[j]
        scores[i, 0], scores[i, 1], scores[i, 2] = raw, newest - behind / max(n_steps, 1), newest
    return scores, x_norm * squares / len(items)


@kernel
def take_steps(
    x: FloatArray, items: FloatArray, pairs: Pairs, rule: StepRule, n_steps: int, w: FloatArray, factors: Factors
) -> bool:
    """Take one step for each two items of one query x, each weight times as long as the rule says.

    M changes by terms x qᵀ only, so the steps need w = Mᵀx alone, which changes with them. The next right factors
    become the sum of τ q and that of t τ q, where t is the number of the step, `n_steps` having been taken before.
    Return whether there was a change.
    """
    (positives, negatives, weights), (_, right, n) = pairs, factors
    change, late = right[0, n], right[1, n]
    x_norm, changed = 0.0, False
    change[:], late[:] = 0.0, 0.0
    for j in range(len(x)):
        x_norm += x[j] * x[j]
    for t in range(len(positives)):
        better, worse = items[positives[t]], items[negatives[t]]
        score = q_norm = 0.0
        for j in range(len(w)):
            q = better[j] - worse[j]
            score += w[j] * q
            q_norm += q * q
        tau = weights[t] * step_length(rule[4] - score, x_norm * q_norm, rule)
        if tau != 0.0:
            changed = True
            number = n_steps + t + 1.0
            for j in range(len(w)):
                step = tau * (better[j] - worse[j])
                change[j] += step
                late[j] += number * step
                w[j] += x_norm * step
    return changed

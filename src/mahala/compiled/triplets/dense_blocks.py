"""Blocks of steps over triplets in which M is a full matrix: M is read and written a few times per block of steps.

What a step does to M depends on all of M through its length τ alone. With the lengths of a block given, each row of M
goes through all of its steps while it is near the processor (`sweep`), which gives the score of each triplet under
these lengths; `decide` finds the lengths that follow from the scores. Without thresholds M is linear in the lengths,
and those found from lengths of zero are right. With them a step is taken or not: `decide` foresees what a step that was
taken or left out by mistake does to later ones, and a block is read again until all lengths are those that its scores
ask for. The first wrong one is later each time. Then a last sweep changes M.

A row is brought to the present as a whole, when one of its entries changes: thresholds between two changes add up.
`stamps[row]` is the step at which that was done last; it is -1 where the entries of the row have stamps of their own,
as in `lazy_dense`.
"""

import numpy as np

from mahala.compiled.jit import Steps, kernel
from mahala.compiled.pairs.steps import dot
from mahala.compiled.triplets.rows import ByRow, Layout, Penalty, StepRule, late, step_length
from mahala.support.arrays import FloatArray, IntArray, RealArray

# Rows of M whose part in a score is summed up at a time: the sum does not depend on the number of threads.
STRIP = 32
# Columns at a time: those of each q of a block stay in the second cache, those of a row of M in the first.
TILE = 1280


@kernel
def shrink_read_add(m: RealArray, q: RealArray, threshold: float, weight: float, inner: float) -> float:
    """Apply a threshold to a row, add its product with q to `inner`, and add weight · q to it."""
    for j in range(len(m)):
        value = late(m[j], threshold)
        inner += q[j] * value
        m[j] = value + weight * q[j]
    return inner


@kernel
def read(m: RealArray, q: RealArray, threshold: float, inner: float) -> float:
    """Add the product of q with a row, as it is after a threshold, to `inner`."""
    for j in range(len(m)):
        inner += q[j] * late(m[j], threshold)
    return inner


@kernel
def read_in_proportion(m: RealArray, q: RealArray, R: RealArray, threshold: float, inner: float) -> float:
    """Do the same with thresholds in proportion to R."""
    for j in range(len(m)):
        inner += q[j] * late(m[j], threshold * R[j])
    return inner


@kernel
def shrink_read_step(m: RealArray, q: RealArray, R: RealArray, V: RealArray, numbers: RealArray, inner: float) -> float:
    """Do the same with thresholds in proportion to R, and take AdaGrad's step for the gradient x q.

    V = H² and R = 1 / (δ + H).
    """
    one, eta, delta, threshold, x = numbers[1], numbers[2], numbers[3], numbers[4], numbers[6]
    for j in range(len(m)):
        value = late(m[j], threshold * R[j])
        inner += q[j] * value
        gradient = x * q[j]
        V[j] += gradient * gradient
        R[j] = one / (delta + np.sqrt(V[j]))
        m[j] = value + eta * gradient * R[j]
    return inner


@kernel
def to_present(m: RealArray, last: RealArray, H: RealArray, adaptive: bool, penalty: Penalty, now: int) -> None:
    """Bring a row whose entries have stamps of their own to the present."""
    theta, _, delta = penalty
    for j in range(len(m)):
        m[j] = late(m[j], (now - last[j]) * theta / (delta + H[j] if adaptive else 1.0))


@kernel
def sweep(
    planes: RealArray,
    layout: Layout,
    penalty: Penalty,
    eta: float,
    clock: int,
    stamps: IntArray,
    by_row: ByRow,
    weights: RealArray,
    Q: RealArray,
    first: int,
    stop: int,
    writes: bool,
    scores: FloatArray,
) -> None:
    """Take the steps of a block in rows first to stop of M, or in a copy of each, if it does not write.

    `weights` are those of the terms of each row; a step of weight 0 only reads. `scores` are those of the triplets, by
    strips of rows.
    """
    width, adaptive, _ = layout
    theta, exempt, delta = penalty
    starts, steps, x = by_row
    space = np.empty((3, TILE), dtype=planes.dtype)
    # 0, 1, η, δ, and of a step its threshold, weight and x: in the precision of M, so that the loops compute in it.
    numbers = np.empty(7, dtype=planes.dtype)
    numbers[0], numbers[1], numbers[2], numbers[3] = 0.0, 1.0, eta, delta
    scores[first // STRIP : -(-stop // STRIP)] = 0.0
    for low in range(0, planes.shape[2], TILE):
        high = min(low + TILE, planes.shape[2])
        copied, R, V = space[0, : high - low], space[1, : high - low], space[2, : high - low]
        for row in range(first, stop):
            if starts[row] == starts[row + 1]:
                continue
            m, H, stamp = planes[row, 0, low:high], planes[row, width - 1, low:high], stamps[row]
            if not writes:
                copied[:] = m
                m = copied
            if adaptive:  # V = H² and R = 1 / (δ + H)
                for j in range(len(H)):
                    V[j] = H[j] * H[j]
                    R[j] = numbers[1] / (numbers[3] + H[j])
            # The diagonal is large, and float32 would round each of its thresholds: it is kept beside the loops, which
            # see 0.
            diagonal = row - low if low <= row < high else -1
            large = np.float64(m[diagonal]) if diagonal >= 0 else 0.0
            begun = False
            for k in range(starts[row], starts[row + 1]):
                if writes and weights[k] == 0.0:
                    continue
                now, q = clock + steps[k], Q[steps[k], low:high]
                if width > 1 and stamp < 0:
                    to_present(m, planes[row, 1, low:high], H, adaptive, penalty, now)
                    stamp = now
                    if diagonal >= 0 and not exempt:
                        large = np.float64(m[diagonal])
                threshold = (now - stamp) * theta
                present = large
                if diagonal >= 0:
                    m[diagonal] = 0.0
                    begun = True
                    if not exempt:
                        present = late(large, threshold * (np.float64(R[diagonal]) if adaptive else 1.0))
                numbers[4], numbers[5], numbers[6] = threshold, weights[k], x[k]
                if weights[k] == 0.0:
                    if adaptive:
                        inner = read_in_proportion(m, q, R, numbers[4], numbers[0])
                    else:
                        inner = read(m, q, numbers[4], numbers[0])
                else:
                    if adaptive:
                        inner = shrink_read_step(m, q, R, V, numbers, numbers[0])
                    else:
                        inner = shrink_read_add(m, q, numbers[4], numbers[5], numbers[0])
                    stamp = now
                    large = present + np.float64(m[diagonal]) if diagonal >= 0 else 0.0
                part = np.float64(inner) + (q[diagonal] * present if diagonal >= 0 else 0.0)
                scores[row // STRIP, steps[k]] += x[k] * part
            if begun:
                m[diagonal] = large
            if writes and adaptive:
                for j in range(len(H)):
                    H[j] = np.sqrt(V[j])
            if writes and high == planes.shape[2]:
                stamps[row] = stamp


@kernel
def decide(
    x: FloatArray,
    q: FloatArray,
    X: RealArray,
    W: RealArray,
    products: FloatArray,
    unit: float,
    rule: StepRule,
    left: FloatArray,
    right: FloatArray,
    shrinkage: tuple[float, float],
    steps: Steps,
    scores: FloatArray,
) -> int:
    """Find the lengths of the steps of a block from scores under the lengths in `steps`; return how many were others.

    A term of length 1 has about `unit` as the factor of x qᵀ. `products` are (xᵀx')(qᵀq') of every two triplets, or
    empty with Λ and Γ, which change from step to step; then X = xΛ and W = qΓ are written. The other arguments are
    those of `lazy_sparse.stream`.
    """
    p, tau, predicted = steps
    changed, changes = np.empty(len(tau), dtype=np.int64), np.empty(len(tau))
    n_changed = 0
    for t in range(len(tau)):
        score = scores[t]
        for k in range(n_changed):
            s = changed[k]
            product = products[t, s] if len(products) else dot(x[t], X[s]) * dot(q[t], W[s])
            score += unit * changes[k] * product
        x_norm = q_norm = 0.0
        if len(left):
            for i in range(len(left)):
                X[t, i] = x[t, i] * left[i]
                x_norm += x[t, i] * x[t, i] * left[i]
            for j in range(len(right)):
                W[t, j] = q[t, j] * right[j]
                q_norm += q[t, j] * q[t, j] * right[j]
        predicted[t] = 1 if score > 0.0 else -1
        p[t] = rule[4] - score
        before = tau[t]
        tau[t] = step_length(p[t], products[t, t] if len(products) else x_norm * q_norm, rule)
        if tau[t] != before:
            changed[n_changed], changes[n_changed] = t, tau[t] - before
            n_changed += 1
        if len(left) and tau[t] != 0.0:
            for i in range(len(left)):
                left[i] /= 1.0 + shrinkage[0] * q_norm * x[t, i] * x[t, i] * left[i]
            for j in range(len(right)):
                right[j] /= 1.0 + shrinkage[1] * x_norm * q[t, j] * q[t, j] * right[j]
    return n_changed

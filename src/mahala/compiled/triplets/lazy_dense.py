"""Streams over triplets in which M is a full matrix.

`planes[i, k]` is row i of the k-th number of each entry, in the order of `lazy_sparse`: the value m and, if the layout
has them, the step `last` at which it was written, the AdaGrad sum H, in float32 the rest of S, and the sum S over all
models. As in `lazy_sparse`, soft thresholding is deferred until an entry is read, and is exact.

Where steps write whole rows, the entries of a row share one step `stamp` once it was written: `last` is read as long
as `stamp` is -1, and written when the stream ends. That takes half of the time of reading and writing it in each step.
"""

import numpy as np

from mahala.compiled.jit import EXACT, Steps, helper, helper_with, kernel
from mahala.compiled.triplets.rows import (
    CSR,
    Numbers,
    Penalty,
    StepRule,
    add_to_sum,
    difference,
    full_difference,
    late,
    late_sum,
    put,
    rounding,
    shrink,
    step_length,
)
from mahala.support.arrays import FloatArray, IntArray, RealArray

# The compiler makes a loop for rows with a stamp and one for those without. Without fast math both round alike.
exact_helper = helper_with(EXACT)


@exact_helper
def threshold(planes: RealArray, row: int, column: int, penalty: Penalty, adaptive: bool | None) -> float:
    """Return the soft threshold of an entry in each step; `adaptive` is None without AdaGrad."""
    theta, exempt_diagonal, delta = penalty
    if adaptive is not None:
        theta /= delta + planes[row, 2, column]
    return 0.0 if exempt_diagonal and column == row else theta


@helper
def read(
    planes: RealArray,
    row: int,
    penalty: Penalty | None,
    adaptive: bool | None,
    now: int,
    stamp: int,
    n: int,
    columns: IntArray | None,
    q: RealArray,
) -> float:
    """Return Σ_j M_row,j q_j over n columns; over the first n, in a loop that can be vectorised, if none are given.

    Without soft thresholds, the step at which an entry was written does not matter. The sum then has one loop, and one
    order, whether the rows have stamps or not.
    """
    inner = 0.0
    is_late = penalty is not None and penalty[0] > 0.0
    for j in range(n):
        column = j if columns is None else columns[j]
        value: float = np.float64(planes[row, 0, column])
        if penalty is not None and is_late:
            steps = now - (planes[row, 1, column] if stamp < 0 else stamp)
            value = late(value, steps * threshold(planes, row, column, penalty, adaptive))
        inner += q[j] * value
    return inner


@exact_helper
def write(
    planes: RealArray,
    row: int,
    penalty: Penalty | None,
    adaptive: bool | None,
    average: bool | None,
    now: int,
    stamp: int,
    n: int,
    columns: IntArray | None,
    q: RealArray,
    weight: float,
    x: float,
    eta: float,
    left: RealArray | None,
) -> None:
    """Add weight q_j, or AdaGrad's step for the gradient x q_j, to M_row,j for n columns j."""
    for j in range(n):
        column = j if columns is None else columns[j]
        value: float = np.float64(planes[row, 0, column])
        change = weight * q[j]
        if penalty is not None:
            theta = threshold(planes, row, column, penalty, adaptive)
            steps = now - (planes[row, 1, column] if stamp < 0 else stamp)
            if columns is not None:
                planes[row, 1, column] = now
            if average is not None:
                add_to_sum(planes[row, -1], column, planes[row, -2], column, late_sum(value, steps, theta))
            value = late(value, steps * theta)
            if adaptive is not None:
                gradient, H = x * q[j], np.float64(planes[row, 2, column])
                H = np.sqrt(H * H + gradient * gradient)
                put(planes[row, 2], column, H, rounding(now))
                change = eta * gradient / (penalty[2] + planes[row, 2, column])
        if left is None:
            planes[row, 0, column] = value + change
        else:
            put(planes[row, 0], column, value + change, rounding(now))


@helper
def give_stamps(planes: RealArray, stamps: IntArray) -> None:
    """Write the stamps of rows into their entries."""
    for row in range(len(planes)):
        if stamps[row] >= 0:
            for column in range(planes.shape[2]):
                planes[row, 1, column] = stamps[row]
            stamps[row] = -1


@kernel
def stream(
    rows: CSR,
    items: CSR,
    triplets: Numbers,
    planes: RealArray,
    stamps: IntArray,
    penalty: Penalty | None,
    adaptive: bool | None,
    average: bool | None,
    clock: int,
    rule: StepRule,
    eta: float,
    left: RealArray | None,
    right: RealArray | None,
    shrinkage: tuple[float, float],
    steps: Steps,
    columns: IntArray | None,
    q: FloatArray,
    scaled: FloatArray,
) -> None:
    """Take one step for each triplet; the arguments are those of `lazy_sparse.stream`, and work space.

    The stamps are -1 before and after. With None for what a layout lacks, the kernel is compiled without the branches
    that need it. Without `columns` each q is written in full.
    """
    (indptr, features, values), (anchors, positives, negatives), (p, tau, predicted) = rows, triplets, steps
    n = len(q)
    for t in range(len(anchors)):
        now = clock + t
        first, stop = indptr[anchors[t]], indptr[anchors[t] + 1]
        if columns is None:
            full_difference(items, positives[t], negatives[t], q)
        else:
            n = difference(items, positives[t], negatives[t], columns, q)
        score = x_norm = q_norm = 0.0
        for i in range(first, stop):
            row = features[i]
            x_norm += values[i] * values[i] * (1.0 if left is None else left[row])
            score += values[i] * read(planes, row, penalty, adaptive, now, stamps[row], n, columns, q)
        for j in range(n):
            if right is None:
                q_norm += q[j] * q[j]
            else:
                scaled[j] = q[j] * right[j if columns is None else columns[j]]
                q_norm += q[j] * scaled[j]
        predicted[t] = 1 if score > 0.0 else -1
        p[t] = rule[4] - score
        tau[t] = step_length(p[t], x_norm * q_norm, rule)
        if tau[t] == 0.0:
            continue
        for i in range(first, stop):
            row, weight = features[i], tau[t] * values[i] * (1.0 if left is None else left[features[i]])
            terms = q if right is None else scaled
            before, x = stamps[row], values[i]
            write(planes, row, penalty, adaptive, average, now, before, n, columns, terms, weight, x, eta, left)
            if columns is None and penalty is not None:
                stamps[row] = now
        if left is not None and right is not None:
            # The inverses of diagonal covariances grow by x∘x and q∘q.
            shrink(features, values, first, stop, left, shrinkage[0] * q_norm)
            for j in range(n):
                column = j if columns is None else columns[j]
                right[column] /= 1.0 + shrinkage[1] * x_norm * q[j] * q[j] * right[column]
    if columns is None and penalty is not None:
        give_stamps(planes, stamps)

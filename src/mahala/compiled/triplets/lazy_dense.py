"""Streams over triplets in which M is a full matrix.

`planes[i, k]` is row i of the k-th number of each entry, in the order of `lazy_sparse`: the value m and, if the layout
has them, the step `last` at which it was written, the AdaGrad sum H, in float32 the rest of S, and the sum S over all
models. As in `lazy_sparse`, soft thresholding is deferred until an entry is read, and is exact.
"""

from __future__ import annotations

import numpy as np

from mahala.compiled.jit import kernel
from mahala.compiled.triplets.rows import (
    CSR,
    Layout,
    Penalty,
    StepRule,
    add_to_sum,
    difference,
    late,
    late_sum,
    shrink,
    step_length,
    sum_of,
)
from mahala.support.arrays import FloatArray, IntArray, RealArray, SignArray


@kernel
def read_whole(planes: RealArray, row: int, layout: Layout, penalty: Penalty, now: int, q: RealArray) -> float:
    """Return Σ_j M_row,j q_j over all columns, in loops that the compiler can vectorise."""
    width, adaptive, _ = layout
    theta, exempt_diagonal, delta = penalty
    m, last, H = planes[row, 0], planes[row, min(1, width - 1)], planes[row, min(2, width - 1)]
    inner = 0.0
    if width == 1:
        for j in range(len(m)):
            inner += q[j] * m[j]
        return inner
    if adaptive:
        for j in range(len(m)):
            inner += q[j] * late(m[j], (now - last[j]) * theta / (delta + H[j]))
    else:
        for j in range(len(m)):
            inner += q[j] * late(m[j], (now - last[j]) * theta)
    if exempt_diagonal:
        own = theta / (delta + H[row]) if adaptive else theta
        inner += q[row] * (m[row] - late(m[row], (now - last[row]) * own))
    return inner


@kernel
def read_some(
    planes: RealArray, row: int, layout: Layout, penalty: Penalty, now: int, n: int, columns: IntArray, q: RealArray
) -> float:
    """Return Σ_j M_row,j q_j over n columns."""
    width, adaptive, _ = layout
    theta, exempt_diagonal, delta = penalty
    exempt = row if exempt_diagonal else -1
    m, last, H = planes[row, 0], planes[row, min(1, width - 1)], planes[row, min(2, width - 1)]
    inner = 0.0
    for j in range(n):
        column = columns[j]
        value: float = np.float64(m[column])
        if width > 1:
            own = 0.0 if column == exempt else theta
            if adaptive:
                own /= delta + H[column]
            value = late(value, (now - last[column]) * own)
        inner += q[j] * value
    return inner


@kernel
def write_whole(
    planes: RealArray,
    row: int,
    layout: Layout,
    penalty: Penalty,
    now: int,
    q: RealArray,
    weight: float,
    x: float,
    eta: float,
) -> None:
    """Add weight q_j, or AdaGrad's step for the gradient x q_j, to M_row,j for all columns j."""
    width, adaptive, _ = layout
    theta, exempt_diagonal, delta = penalty
    m, last, H = planes[row, 0], planes[row, min(1, width - 1)], planes[row, min(2, width - 1)]
    if width == 1:
        for j in range(len(m)):
            m[j] += weight * q[j]
        return
    # An exempt diagonal is restored after the loops below.
    diagonal = np.float64(m[row]) if exempt_diagonal else 0.0
    if adaptive:
        for j in range(len(m)):
            gradient = x * q[j]
            value = late(m[j], (now - last[j]) * theta / (delta + H[j]))
            H[j] = np.sqrt(np.float64(H[j]) * H[j] + gradient * gradient)
            m[j] = value + eta * gradient / (delta + H[j])
            last[j] = now
        change = eta * x * q[row] / (delta + H[row]) if exempt_diagonal else 0.0
    else:
        for j in range(len(m)):
            m[j] = late(m[j], (now - last[j]) * theta) + weight * q[j]
            last[j] = now
        change = weight * q[row] if exempt_diagonal else 0.0
    if exempt_diagonal:
        m[row] = diagonal + change


@kernel
def write(
    planes: RealArray,
    row: int,
    layout: Layout,
    penalty: Penalty,
    now: int,
    n: int,
    columns: IntArray,
    q: RealArray,
    weight: float,
    x: float,
    eta: float,
) -> None:
    """Add weight q_j, or AdaGrad's step for the gradient x q_j, to M_row,j for n columns j."""
    width, adaptive, average = layout
    theta, exempt_diagonal, delta = penalty
    exempt = row if exempt_diagonal else -1
    m, last, H = planes[row, 0], planes[row, min(1, width - 1)], planes[row, min(2, width - 1)]
    S, rest = planes[row, width - 1], planes[row, max(width - 2, 0)]
    for j in range(n):
        column = columns[j]
        value: float = np.float64(m[column])
        change = weight * q[j]
        if width > 1:
            own = 0.0 if column == exempt else theta
            if adaptive:
                own /= delta + H[column]
            steps = now - last[column]
            last[column] = now
            if average:
                add_to_sum(S, column, rest, column, late_sum(value, steps, own))
            value = late(value, steps * own)
            if adaptive:
                gradient = x * q[j]
                H[column] = np.sqrt(np.float64(H[column]) * H[column] + gradient * gradient)
                change = eta * gradient / (delta + H[column])
        m[column] = value + change


@kernel
def stream(
    rows: CSR,
    items: CSR,
    anchors: IntArray,
    positives: IntArray,
    negatives: IntArray,
    planes: RealArray,
    layout: Layout,
    clock: int,
    rule: StepRule,
    penalty: Penalty,
    eta: float,
    left: RealArray,
    right: RealArray,
    shrinkage: tuple[float, float],
    p: RealArray,
    tau: RealArray,
    predicted: SignArray,
) -> None:
    """Take one step for each triplet; the arguments are those of `lazy_sparse.stream`."""
    n_items = planes.shape[2]
    indptr, columns, values = rows
    q_columns, q_values = np.empty(2 * n_items, dtype=np.int64), np.empty(2 * n_items)
    scaled, full = np.empty(2 * n_items), np.empty(n_items)
    for t in range(len(anchors)):
        now = clock + t
        first, stop = indptr[anchors[t]], indptr[anchors[t] + 1]
        n_q = difference(items, positives[t], negatives[t], q_columns, q_values)
        x_norm = q_norm = 0.0
        for i in range(first, stop):
            x_norm += values[i] * values[i] * (left[columns[i]] if len(left) else 1.0)
        for j in range(n_q):
            scaled[j] = q_values[j] * (right[q_columns[j]] if len(right) else 1.0)
            q_norm += q_values[j] * scaled[j]
        score = 0.0
        # Reading a whole row in order is faster than reading a third of it at scattered places.
        whole = 3 * n_q > n_items
        if whole:
            full[:] = 0.0
            for j in range(n_q):
                full[q_columns[j]] = q_values[j]
            for i in range(first, stop):
                score += values[i] * read_whole(planes, columns[i], layout, penalty, now, full)
        else:
            for i in range(first, stop):
                score += values[i] * read_some(planes, columns[i], layout, penalty, now, n_q, q_columns, q_values)
        predicted[t] = 1 if score > 0.0 else -1
        p[t] = rule[4] - score
        tau[t] = step_length(p[t], x_norm * q_norm, rule)
        if tau[t] == 0.0:
            continue
        for j in range(n_q if whole else 0):
            full[q_columns[j]] = scaled[j]
        for i in range(first, stop):
            weight = tau[t] * values[i] * (left[columns[i]] if len(left) else 1.0)
            if whole and not layout[2]:
                write_whole(planes, columns[i], layout, penalty, now, full, weight, values[i], eta)
            else:
                write(planes, columns[i], layout, penalty, now, n_q, q_columns, scaled, weight, values[i], eta)
        if len(left):
            shrink(columns, values, first, stop, left, shrinkage[0] * q_norm)
            shrink(q_columns, q_values, 0, n_q, right, shrinkage[1] * x_norm)


@kernel
def settle(planes: RealArray, layout: Layout, penalty: Penalty, clock: int) -> None:
    """Apply all deferred thresholds up to step `clock`, which becomes step 0."""
    width, adaptive, average = layout
    theta, exempt_diagonal, delta = penalty
    for row in range(len(planes)):
        m, last, S, rest = planes[row, 0], planes[row, 1], planes[row, width - 1], planes[row, max(width - 2, 0)]
        for column in range(len(m)):
            own = 0.0 if exempt_diagonal and column == row else theta
            if adaptive:
                own /= delta + planes[row, 2, column]
            steps = clock - last[column]
            if average:
                add_to_sum(S, column, rest, column, late_sum(m[column], steps, own))
            m[column] = late(m[column], steps * own)
            last[column] = 0.0


@kernel
def export(planes: RealArray, layout: Layout, penalty: Penalty, clock: int, n_averaged: int, M: FloatArray) -> None:
    """Write M as it is before step `clock`, or, with n_averaged > 0, the mean of the n_averaged models so far."""
    width, adaptive, _ = layout
    theta, exempt_diagonal, delta = penalty
    for row in range(len(planes)):
        S, rest = planes[row, width - 1], planes[row, max(width - 2, 0)]
        for column in range(planes.shape[2]):
            m: float = np.float64(planes[row, 0, column])
            if width > 1:
                own = 0.0 if exempt_diagonal and column == row else theta
                if adaptive:
                    own /= delta + planes[row, 2, column]
                steps = clock - planes[row, 1, column]
                if n_averaged:
                    m = (sum_of(S, column, rest, column) + late_sum(m, steps - 1.0, own)) / n_averaged
                else:
                    m = late(m, steps * own)
            M[row, column] = m


@kernel
def products(
    planes: RealArray,
    layout: Layout,
    penalty: Penalty,
    clock: int,
    n_averaged: int,
    x: FloatArray,
    last: FloatArray,
    mean: FloatArray,
) -> None:
    """Write xᵀM before step `clock` to `last`, and that of the mean of the n_averaged models so far to `mean`."""
    width, adaptive, _ = layout
    theta, exempt_diagonal, delta = penalty
    last[:] = 0.0
    mean[:] = 0.0
    for row in range(len(x)):
        own_x = x[row]
        if own_x == 0.0:
            continue
        m, written, H = planes[row, 0], planes[row, 1], planes[row, min(2, width - 1)]
        S, rest = planes[row, width - 1], planes[row, max(width - 2, 0)]
        if theta == 0.0:
            for column in range(len(m)):
                last[column] += own_x * m[column]
                total = sum_of(S, column, rest, column)
                mean[column] += own_x * (total + (clock - written[column] - 1.0) * np.float64(m[column]))
            continue
        for column in range(len(m)):
            own = 0.0 if exempt_diagonal and column == row else theta
            if adaptive:
                own /= delta + H[column]
            steps = clock - written[column]
            value: float = np.float64(m[column])
            last[column] += own_x * late(value, steps * own)
            mean[column] += own_x * (sum_of(S, column, rest, column) + late_sum(value, steps - 1.0, own))
    for column in range(len(mean)):
        mean[column] /= n_averaged


@kernel
def stream_query(
    planes: RealArray,
    clock: int,
    x: FloatArray,
    items: FloatArray,
    positives: IntArray,
    negatives: IntArray,
    weights: FloatArray,
    rule: StepRule,
    p: FloatArray,
    tau: FloatArray,
    predicted: SignArray,
) -> None:
    """Take one step for each two items of one query x, each weight times as long as the rule says; S is kept.

    M changes by terms x qᵀ only, so the steps need w = Mᵀx alone: M is read once and written once.
    """
    n, e = len(positives), items.shape[1]
    w, q = np.zeros(e), np.empty(e)
    change, changes = np.zeros(e), np.zeros(e)  # Σ τ q, and its sum over the models between the steps
    x_norm = 0.0
    for row in range(len(x)):
        if x[row] != 0.0:
            x_norm += x[row] * x[row]
            m = planes[row, 0]
            for column in range(e):
                w[column] += x[row] * m[column]
    for t in range(n):
        score = q_norm = 0.0
        for column in range(e):
            q[column] = items[positives[t], column] - items[negatives[t], column]
            score += w[column] * q[column]
            q_norm += q[column] * q[column]
            changes[column] += change[column]
        predicted[t] = 1 if score > 0.0 else -1
        p[t] = rule[4] - score
        tau[t] = weights[t] * step_length(p[t], x_norm * q_norm, rule)
        if tau[t] != 0.0:
            for column in range(e):
                change[column] += tau[t] * q[column]
                w[column] += tau[t] * x_norm * q[column]
    if not tau.any():
        return  # the sum of an entry is brought up to date when it is next written
    for row in range(len(x)):
        if x[row] != 0.0:
            m, written, rest, S = planes[row, 0], planes[row, 1], planes[row, -2], planes[row, -1]
            for column in range(e):
                # The models before the steps up to the last one; the first of them has no change yet.
                steps = clock + n - 1 - np.float64(written[column])
                add_to_sum(S, column, rest, column, steps * np.float64(m[column]) + x[row] * changes[column])
                m[column] += x[row] * change[column]
                written[column] = clock + n - 1

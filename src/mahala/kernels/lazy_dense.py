"""Streams over triplets where M is a full matrix.

`planes[i, k]` is row i of the k-th number of each entry, in the order of `lazy_sparse`: the value m and, where the
layout has them, the step `last` at which it was written, the AdaGrad sum H, the sum S over all models. As there, soft
thresholding is applied late and is exact.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mahala.kernels.lazy_sparse import Layout
from mahala.kernels.triplets import Floats, Ints, Penalty, Rows, difference, late, late_sum, step_length


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def read_row(
    planes: Floats, row: int, layout: Layout, penalty: Penalty, now: int, n_q: int, q_columns: Ints, q: Floats
) -> float:
    """Σ_j M_row,j q_j over the columns given; over all of them, where q holds a value for each, if n_q is negative."""
    width, adaptive, _ = layout
    theta, exempt_diagonal, delta = penalty
    exempt = row if exempt_diagonal else -1
    m = planes[row, 0]
    inner = 0.0
    if width == 1:
        if n_q < 0:
            for j in range(len(m)):
                inner += q[j] * m[j]
        else:
            for j in range(n_q):
                inner += q[j] * m[q_columns[j]]
        return inner
    last = planes[row, 1]
    H = planes[row, 2] if adaptive else last
    for j in range(len(m) if n_q < 0 else n_q):
        column = j if n_q < 0 else q_columns[j]
        own = 0.0 if column == exempt else theta
        if adaptive:
            own /= delta + H[column]
        inner += q[j] * late(m[column], (now - last[column]) * own)
    return inner


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def write_row(
    planes: Floats,
    row: int,
    layout: Layout,
    penalty: Penalty,
    now: int,
    n_q: int,
    q_columns: Ints,
    q: Floats,
    weight: float,
    x: float,
    eta: float,
) -> None:
    """M_row,j += weight q_j, or by AdaGrad's step for the gradient x q_j, for the columns of `read_row`."""
    width, adaptive, average = layout
    theta, exempt_diagonal, delta = penalty
    exempt = row if exempt_diagonal else -1
    m = planes[row, 0]
    if width == 1:
        if n_q < 0:
            for j in range(len(m)):
                m[j] += weight * q[j]
        else:
            for j in range(n_q):
                m[q_columns[j]] += weight * q[j]
        return
    last = planes[row, 1]
    H = planes[row, 2] if adaptive else last
    S = planes[row, width - 1]
    for j in range(len(m) if n_q < 0 else n_q):
        column = j if n_q < 0 else q_columns[j]
        own = 0.0 if column == exempt else theta
        change = weight * q[j]
        if adaptive:
            own /= delta + H[column]
        steps = now - last[column]
        if average:
            S[column] += late_sum(m[column], steps, own)
        if adaptive:
            gradient = x * q[j]
            H[column] = np.sqrt(H[column] * H[column] + gradient * gradient)
            change = eta * gradient / (delta + H[column])
        m[column] = late(m[column], steps * own) + change
        last[column] = now


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def stream(
    rows: Rows,
    items: Rows,
    anchors: Ints,
    positives: Ints,
    negatives: Ints,
    planes: Floats,
    layout: Layout,
    clock: int,
    rule: tuple[float, float, float],
    penalty: Penalty,
    eta: float,
    left: Floats,
    right: Floats,
    shrinkage: tuple[float, float],
    p: Floats,
    tau: Floats,
    predicted: NDArray[np.int8],
) -> None:
    """One step for each triplet; everything as in `lazy_sparse.stream`."""
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
        # A whole row in order is faster than the half of it that q is about.
        whole = 2 * n_q > n_items
        n, q, change = n_q, q_values, scaled
        if whole:
            n, q, change = -1, spread(n_q, q_columns, q_values, full), np.empty(0)
        score = 0.0
        for i in range(first, stop):
            score += values[i] * read_row(planes, columns[i], layout, penalty, now, n, q_columns, q)
        predicted[t] = 1 if score > 0.0 else -1
        p[t] = 1.0 - score
        tau[t] = step_length(p[t], x_norm * q_norm, rule)
        if tau[t] == 0.0:
            continue
        if whole:
            change = spread(n_q, q_columns, scaled, full)
        for i in range(first, stop):
            weight = tau[t] * values[i] * (left[columns[i]] if len(left) else 1.0)
            write_row(planes, columns[i], layout, penalty, now, n, q_columns, change, weight, values[i], eta)
        if len(left):
            for i in range(first, stop):
                row = columns[i]
                left[row] /= 1.0 + shrinkage[0] * q_norm * values[i] * values[i] * left[row]
            for j in range(n_q):
                column = q_columns[j]
                right[column] /= 1.0 + shrinkage[1] * x_norm * q_values[j] * q_values[j] * right[column]


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def spread(n: int, columns: Ints, values: Floats, full: Floats) -> Floats:
    """A sparse vector written out."""
    full[:] = 0.0
    for j in range(n):
        full[columns[j]] = values[j]
    return full


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def settle(planes: Floats, layout: Layout, penalty: Penalty, clock: int) -> None:
    """Bring every entry to where it is before step `clock`, which becomes step 0."""
    width, adaptive, average = layout
    theta, exempt_diagonal, delta = penalty
    for row in range(len(planes)):
        m, last, S = planes[row, 0], planes[row, 1], planes[row, width - 1]
        for column in range(len(m)):
            own = 0.0 if exempt_diagonal and column == row else theta
            if adaptive:
                own /= delta + planes[row, 2, column]
            steps = clock - last[column]
            if average:
                S[column] += late_sum(m[column], steps, own)
            m[column] = late(m[column], steps * own)
            last[column] = 0.0


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def export(
    planes: Floats, layout: Layout, penalty: Penalty, clock: int, n_averaged: int, M: NDArray[np.float64]
) -> None:
    """M before step `clock`; with n_averaged > 0 the mean of the models so far, so many."""
    width, adaptive, _ = layout
    theta, exempt_diagonal, delta = penalty
    for row in range(len(planes)):
        for column in range(planes.shape[2]):
            m = np.float64(planes[row, 0, column])
            if width > 1:
                own = 0.0 if exempt_diagonal and column == row else theta
                if adaptive:
                    own /= delta + planes[row, 2, column]
                steps = clock - planes[row, 1, column]
                if n_averaged:
                    m = (planes[row, width - 1, column] + late_sum(m, steps - 1.0, own)) / n_averaged
                else:
                    m = late(m, steps * own)
            M[row, column] = m

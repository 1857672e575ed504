"""Streams of documents to be filtered: perceptrons, and the nearest document in a growing memory.

Documents are rows of CSR arrays. A memory is CSR arrays with spare room: row t is the current document, and the rows
before it are the memory. The search for the nearest row takes lower bounds of squared distances from inner products,
accounting for rounding. Distances are computed only for rows whose bound is small enough, and from differences, so that
duplicates are at distance exactly 0 and ties are exact.

The sums that decide are EXACT, so that predictions for queries and in a stream are bit-identical.
"""

from __future__ import annotations

import numpy as np

from mahala.compiled.jit import EXACT, kernel, kernel_with
from mahala.compiled.triplets.rows import CSR, difference
from mahala.support.arrays import BoolArray, FloatArray, IntArray

EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)

# Indices of the perceptron's state beside w: the intercept, and the largest squared norm seen.
INTERCEPT, RADIUS2 = 0, 1


@kernel_with(EXACT)
def _score(rows: CSR, t: int, w: FloatArray, b: float) -> float:
    indptr, columns, values = rows
    total = b
    for i in range(indptr[t], indptr[t + 1]):
        total += w[columns[i]] * values[i]
    return total


@kernel
def stream_perceptron(
    rows: CSR,
    relevant: BoolArray,
    w: FloatArray,
    state: FloatArray,
    margins: tuple[float, float],
    eta: float,
    intercept: float,
    by_radius: bool,
    predicted: BoolArray,
) -> None:
    """Set w += ηyx and b += ηy · intercept (by_radius: times R²) whenever y f(x) is at most the margin of y's kind."""
    indptr, columns, values = rows
    for t in range(len(relevant)):
        score = _score(rows, t, w, state[INTERCEPT])
        norm2 = 0.0
        for i in range(indptr[t], indptr[t + 1]):
            norm2 += values[i] * values[i]
        state[RADIUS2] = max(state[RADIUS2], norm2)
        predicted[t] = score > 0.0
        y = 1.0 if relevant[t] else -1.0
        if y * score <= (margins[1] if relevant[t] else margins[0]):
            for i in range(indptr[t], indptr[t + 1]):
                w[columns[i]] += eta * y * values[i]
            state[INTERCEPT] += eta * y * intercept * (state[RADIUS2] if by_radius else 1.0)


@kernel
def scores(rows: CSR, w: FloatArray, b: float, out: FloatArray) -> None:
    """Write f(x) = wᵀx + b of each row."""
    for t in range(len(out)):
        out[t] = _score(rows, t, w, b)


@kernel
def squared_norms(rows: CSR, start: int, stop: int, norms2: FloatArray) -> None:
    """Write the squared norms of the rows from start to stop - 1."""
    indptr, _, values = rows
    for t in range(start, stop):
        norm2 = 0.0
        for i in range(indptr[t], indptr[t + 1]):
            norm2 += values[i] * values[i]
        norms2[t] = norm2


@kernel_with(EXACT)
def _squared_norm(values: FloatArray, n: int) -> float:
    total = 0.0
    for i in range(n):
        total += values[i] * values[i]
    return total


@kernel
def _closest(
    rows: CSR, norms2: FloatArray, t: int, n: int, among: BoolArray, x: FloatArray, q: tuple[IntArray, FloatArray]
) -> tuple[int, float]:
    """Return the first of the rows before n that `among` allows nearest to row t, and their squared distance.

    (-1, ∞) if there is none. x is zero before and after, with one entry per feature.
    """
    indptr, columns, values = rows
    for i in range(indptr[t], indptr[t + 1]):
        x[columns[i]] = values[i]
    best, least = -1, np.inf
    for row in range(n):
        if not among[row]:
            continue
        product = 0.0
        for i in range(indptr[row], indptr[row + 1]):
            product += values[i] * x[columns[i]]
        both = norms2[t] + norms2[row]
        length = indptr[t + 1] - indptr[t] + indptr[row + 1] - indptr[row]
        if both - 2.0 * product - (4.0 * (length + 4.0) * EPS * both + TINY) > least:
            continue
        n_different = difference(rows, t, row, q[0], q[1])
        distance = _squared_norm(q[1], n_different)
        if distance < least or best < 0:
            best, least = row, distance
    for i in range(indptr[t], indptr[t + 1]):
        x[columns[i]] = 0.0
    return best, least


@kernel
def stream_nearest(
    rows: CSR, norms2: FloatArray, relevant: BoolArray, start: int, d: int, predicted: BoolArray
) -> None:
    """Predict for each row from `start` the kind of the nearest row before it; irrelevant if there is none."""
    x, q = np.zeros(d), (np.empty(2 * d, dtype=np.int64), np.empty(2 * d))
    anything = np.ones(start + len(predicted), dtype=np.bool_)
    for k in range(len(predicted)):
        t = start + k
        best, _ = _closest(rows, norms2, t, t, anything, x, q)
        predicted[k] = best >= 0 and relevant[best]


@kernel
def nearest_margins(rows: CSR, norms2: FloatArray, relevant: BoolArray, n: int, d: int, margins: FloatArray) -> None:
    """Write, for each row from n, the squared distance to the nearest irrelevant row minus that to the relevant one."""
    x, q = np.zeros(d), (np.empty(2 * d, dtype=np.int64), np.empty(2 * d))
    irrelevant = ~relevant
    for k in range(len(margins)):
        bad, to_bad = _closest(rows, norms2, n + k, n, irrelevant, x, q)
        good, to_good = _closest(rows, norms2, n + k, n, relevant, x, q)
        if bad >= 0 and good >= 0:
            # The earlier one wins a tie: if it is the relevant one, the margin is the least positive number.
            margins[k] = 5e-324 if to_bad == to_good and good < bad else to_bad - to_good
        else:
            margins[k] = np.inf if good >= 0 else -np.inf


@kernel
def quadratic_forms(rows: CSR, start: int, stop: int, M: FloatArray, forms: FloatArray) -> None:
    """Write rᵀMr of the rows from start to stop - 1, for a symmetric M."""
    indptr, columns, values = rows
    for row in range(start, stop):
        form = 0.0
        for i in range(indptr[row], indptr[row + 1]):
            line = M[columns[i]]
            inner = 0.0
            for j in range(indptr[row], i):
                inner += line[columns[j]] * values[j]
            form += values[i] * (2.0 * inner + line[columns[i]] * values[i])
        forms[row] = form


@kernel
def largest_entry(M: FloatArray) -> float:
    """Return a bound on the entries of M, of which the asymmetry of M is at most a rounding error."""
    largest, skew = 0.0, 0.0
    for i in range(len(M)):
        for j in range(len(M)):
            largest = max(largest, abs(M[i, j]))
            skew = max(skew, abs(M[i, j] - M[j, i]))
    return largest + skew / EPS


@kernel_with(EXACT)
def _quadratic_form(M: FloatArray, columns: IntArray, values: FloatArray, n: int) -> float:
    total = 0.0
    for i in range(n):
        line = M[columns[i]]
        inner = 0.0
        for j in range(n):
            inner += line[columns[j]] * values[j]
        total += values[i] * inner
    return total


@kernel
def closest_under(
    rows: CSR, norms2: FloatArray, forms: FloatArray, t: int, n: int, M: FloatArray, largest: float
) -> tuple[int, float]:
    """Return the first of the rows before n at the least distance vᵀMv from row t, and that distance; (-1, ∞) if n = 0.

    `forms` are rᵀMr of the rows, and no entry of M is above `largest`.
    """
    indptr, columns, values = rows
    d = len(M)
    z = np.zeros(d)
    for i in range(indptr[t], indptr[t + 1]):
        line, value = M[columns[i]], values[i]
        for j in range(d):
            z[j] += value * line[j]
    form = 0.0
    for i in range(indptr[t], indptr[t + 1]):
        form += values[i] * z[columns[i]]
    lower, upper = np.empty(n), np.inf
    for row in range(n):
        product = 0.0
        for i in range(indptr[row], indptr[row + 1]):
            product += values[i] * z[columns[i]]
        # |x|ᵀ|M||r| ≤ largest · d · ‖x‖ ‖r‖
        length = indptr[t + 1] - indptr[t] + indptr[row + 1] - indptr[row]
        slack = 8.0 * (length + 4.0) * EPS * d * largest * (norms2[t] + norms2[row])
        distance = form + forms[row] - 2.0 * product
        lower[row] = distance - slack
        upper = min(upper, distance + slack)
    q_columns, q_values = np.empty(2 * d, dtype=np.int64), np.empty(2 * d)
    best, least = -1, np.inf
    for row in range(n):
        if lower[row] > upper:
            continue
        n_different = difference(rows, t, row, q_columns, q_values)
        distance = _quadratic_form(M, q_columns, q_values, n_different)
        if distance < least or best < 0:
            best, least = row, distance
    return best, least


@kernel
def distances_under(
    rows: CSR, norms2: FloatArray, forms: FloatArray, n: int, M: FloatArray, largest: float, distances: FloatArray
) -> None:
    """Write, for each row from n, its least distance vᵀMv from the rows before n."""
    for k in range(len(distances)):
        distances[k] = closest_under(rows, norms2, forms, n + k, n, M, largest)[1]

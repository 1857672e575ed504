"""Streams of documents that are to be filtered: perceptrons, and the nearest document in a growing memory.

Rows are CSR (`triplets.Rows`), each with its columns in order. A memory is CSR arrays with room to spare: row t is the
document at hand, and the rows before it are the memory. The nearest one is found by inner products, whose bound on the
squared distance counts in their rounding; only rows whose bound can still win have their distance computed, from
differences, which makes duplicates exactly 0 and ties exact.

What decides is summed without fastmath: a query is then decided as the stream decides it, to the last bit.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mahala.compiled.triplets import Rows, difference

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)

# Where the perceptron's state lies beside w: the intercept, and the largest squared norm seen.
INTERCEPT, RADIUS2 = 0, 1

ANY, IRRELEVANT, RELEVANT = -1, 0, 1


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _score(rows: Rows, t: int, w: Floats, b: float) -> float:
    indptr, columns, values = rows
    total = b
    for i in range(indptr[t], indptr[t + 1]):
        total += w[columns[i]] * values[i]
    return total


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def stream_perceptron(
    rows: Rows,
    relevant: Bools,
    w: Floats,
    state: Floats,
    margins: tuple[float, float],
    eta: float,
    intercept: float,
    by_radius: bool,
    predicted: Bools,
) -> None:
    """w += ηyx and b += ηy · intercept (by_radius: times R²) wherever y f(x) is at most the margin of y's kind."""
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


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def scores(rows: Rows, w: Floats, b: float, out: Floats) -> None:
    """f(x) = wᵀx + b of each row."""
    for t in range(len(out)):
        out[t] = _score(rows, t, w, b)


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def squared_norms(rows: Rows, start: int, stop: int, norms2: Floats) -> None:
    indptr, _, values = rows
    for t in range(start, stop):
        norm2 = 0.0
        for i in range(indptr[t], indptr[t + 1]):
            norm2 += values[i] * values[i]
        norms2[t] = norm2


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _squared_norm(values: Floats, n: int) -> float:
    total = 0.0
    for i in range(n):
        total += values[i] * values[i]
    return total


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def _closest(
    rows: Rows,
    norms2: Floats,
    t: int,
    n: int,
    relevant: Bools,
    kind: int,
    x: Floats,
    q: tuple[NDArray[np.int64], Floats],
) -> tuple[int, float]:
    """The first of the rows before n, of one kind or any, at the least distance from row t, and that distance squared.

    (-1, ∞) where there is none. x is zero before and after, one entry a feature.
    """
    indptr, columns, values = rows
    for i in range(indptr[t], indptr[t + 1]):
        x[columns[i]] = values[i]
    best, least = -1, np.inf
    for row in range(n):
        if kind != ANY and relevant[row] != (kind == RELEVANT):
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


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def stream_nearest(rows: Rows, norms2: Floats, relevant: Bools, start: int, d: int, predicted: Bools) -> None:
    """For each row from `start` on, the kind of the nearest row before it; irrelevant where there is none."""
    x, q = np.zeros(d), (np.empty(2 * d, dtype=np.int64), np.empty(2 * d))
    for k in range(len(predicted)):
        t = start + k
        best, _ = _closest(rows, norms2, t, t, relevant, ANY, x, q)
        predicted[k] = best >= 0 and relevant[best]


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def nearest_margins(rows: Rows, norms2: Floats, relevant: Bools, n: int, d: int, margins: Floats) -> None:
    """For each row from n on, how much farther (squared) the nearest irrelevant row before n is than the relevant."""
    x, q = np.zeros(d), (np.empty(2 * d, dtype=np.int64), np.empty(2 * d))
    for k in range(len(margins)):
        bad, to_bad = _closest(rows, norms2, n + k, n, relevant, IRRELEVANT, x, q)
        good, to_good = _closest(rows, norms2, n + k, n, relevant, RELEVANT, x, q)
        if bad >= 0 and good >= 0:
            # The earlier one wins a tie: the least positive number says that it is the relevant one.
            margins[k] = 5e-324 if to_bad == to_good and good < bad else to_bad - to_good
        else:
            margins[k] = np.inf if good >= 0 else -np.inf


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def quadratic_forms(rows: Rows, start: int, stop: int, M: Floats, forms: Floats) -> None:
    """rᵀMr of each of these rows, for a symmetric M."""
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


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def largest_entry(M: Floats) -> float:
    """No entry of M is above this, and it differs from its mirror image by no more than rounding of this."""
    largest, skew = 0.0, 0.0
    for i in range(len(M)):
        for j in range(len(M)):
            largest = max(largest, abs(M[i, j]))
            skew = max(skew, abs(M[i, j] - M[j, i]))
    return largest + skew / EPS


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _quadratic_form(M: Floats, columns: NDArray[np.int64], values: Floats, n: int) -> float:
    total = 0.0
    for i in range(n):
        line = M[columns[i]]
        inner = 0.0
        for j in range(n):
            inner += line[columns[j]] * values[j]
        total += values[i] * inner
    return total


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def closest_under(
    rows: Rows, norms2: Floats, forms: Floats, t: int, n: int, M: Floats, largest: float
) -> tuple[int, float]:
    """The first of the rows before n at the least distance vᵀMv from row t, and that distance; (-1, ∞) where n = 0.

    `forms` are the rows' rᵀMr, and no entry of M is above `largest`.
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


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def distances_under(
    rows: Rows, norms2: Floats, forms: Floats, n: int, M: Floats, largest: float, distances: Floats
) -> None:
    """For each row from n on, its least distance vᵀMv from the rows before n."""
    for k in range(len(distances)):
        distances[k] = closest_under(rows, norms2, forms, n + k, n, M, largest)[1]

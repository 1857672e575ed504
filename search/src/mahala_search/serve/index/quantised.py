"""Rows of small integers, and bounds on inner products with them."""

import numpy as np
from numpy.typing import NDArray

from mahala.extend import kernel
from mahala_search.arrays import BoolArray, FloatArray

Codes = NDArray[np.int8]
Singles = NDArray[np.float32]

# Slack for the rounding of bounds in single precision and of scores in double precision, relative and absolute.
_ROUNDING, _LEAST = 1e-6, 1e-38


def quantised(X: Singles) -> tuple[Codes, Singles]:
    """Return rows as whole numbers from -127 to 127, and what is needed to bound inner products."""
    codes, sizes = np.empty(X.shape, dtype=np.int8), np.empty((len(X), 3), dtype=np.float32)
    _quantise(X, codes, sizes)
    return codes, sizes


def score_bounds(codes: Codes, sizes: Singles, live: BoolArray, query: FloatArray) -> tuple[Singles, Singles]:
    """Return lower and upper bounds of the inner product of each row with a query that is scaled to 1 at most.

    They hold for the products of the rows in double precision, rounded. Rows that are not live have minus infinity.
    """
    query = query / (np.abs(query).max() or 1.0)
    most = min(2**15 - 1, (2**31 - 1) // (127 * len(query)))  # with which the sum of products fits into 32 bits
    whole = np.rint(most * query)
    query_sizes = np.array([1.0 / most, np.linalg.norm(query), np.linalg.norm(query - whole / most)])
    bounds = np.empty((2, len(codes)), dtype=np.float32)
    _score_bounds(codes, sizes, live, whole.astype(np.int16), query_sizes, bounds)
    return bounds[0], bounds[1]


def compile_search() -> None:
    """Compile what a search calls, or read it from the cache, so that the first search does not wait for it."""
    lower, _ = score_bounds(*quantised(np.zeros((1, 1), dtype=np.float32)), np.ones(1, dtype=bool), np.zeros(1))
    kth_largest(lower, 1)


@kernel
def kth_largest(values: Singles, k: int) -> float:
    """Return the k-th largest of some values, or minus infinity if there are fewer; for a k of up to a hundred or so.

    It reads them once, in a seventh of the time of `numpy.partition`.
    """
    best = np.full(k, -np.inf, dtype=np.float32)  # the smallest first
    for value in values:
        if value > best[0]:
            at = 1
            while at < k and best[at] < value:
                best[at - 1] = best[at]
                at += 1
            best[at - 1] = value
    return float(best[0])


@kernel
def _quantise(X: Singles, codes: Codes, sizes: Singles) -> None:
    """Write the whole numbers of rows, and their sizes.

    A row is x = s c + e with the numbers c. Its sizes are s, and the lengths of s c and of e, rounded up.
    """
    for row in range(len(X)):
        x, c = X[row], codes[row]
        largest = 0.0
        for column in range(len(x)):
            largest = max(largest, abs(np.float64(x[column])))
        step = np.float64(np.float32(largest / 127.0))
        length = error = 0.0
        for column in range(len(x)):
            code = np.rint(x[column] / step) if step > 0.0 else 0.0
            code = min(max(code, -127.0), 127.0)
            c[column] = np.int8(code)
            length += (step * code) ** 2
            error += (x[column] - step * code) ** 2
        sizes[row, 0] = step
        sizes[row, 1] = np.sqrt(length) * (1.0 + _ROUNDING)
        sizes[row, 2] = np.sqrt(error) * (1.0 + _ROUNDING) + _ROUNDING * sizes[row, 1] + _LEAST


@kernel
def _score_bounds(
    codes: Codes, sizes: Singles, live: BoolArray, query: NDArray[np.int16], query_sizes: FloatArray, bounds: Singles
) -> None:
    """Write bounds on the inner product of each row with a query.

    The query is t d + f with the whole numbers d, and 1 at most; its sizes are t, its own length and that of f.
    """
    (step, length, error), lower, upper = query_sizes, bounds[0], bounds[1]
    for row in range(len(codes)):
        if not live[row]:
            lower[row] = upper[row] = -np.inf
            continue
        c, total = codes[row], np.int32(0)
        for column in range(len(query)):
            total = np.int32(total + np.int32(c[column]) * np.int32(query[column]))
        score = np.float64(sizes[row, 0]) * step * total
        doubt = np.float64(sizes[row, 2]) * length + np.float64(sizes[row, 1]) * error
        lower[row], upper[row] = score - doubt, score + doubt

"""Sums over triplets for boosting: weights that decrease exponentially with margins, without overflow."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from mahala.compiled.jit import kernel
from mahala.compiled.threads import in_rows, n_threads
from mahala.support.arrays import FloatArray, IndexArray, RealArray

Side = tuple[float, float, float]

# Multiplications that take as long as an exponential function.
EXP_COST = 64


def weights(margins: FloatArray) -> FloatArray:
    """Weights ∝ exp(-margins) that sum to one.

    >>> weights(np.array([0.0, np.log(3.0)]))
    array([0.75, 0.25])
    """
    result: FloatArray = np.exp(margins.min() - margins)
    result /= result.sum()
    return result


def log_loss(margins: FloatArray) -> float:
    """log Σ exp(-margins).

    >>> log_loss(np.array([-1000.0, 1000.0]))
    1000.0
    """
    lowest = margins.min()
    return float(np.log(np.exp(lowest - margins).sum()) - lowest)


def _balance(margins: FloatArray, gains: FloatArray, v: float, w: float, threads: int) -> tuple[float, float]:
    """Return log P - log N and its derivative in w, where P - N = Σ (gains - v) exp(-margins - w·gains), P, N ≥ 0."""
    parts = in_rows(lambda part: _sides(margins[part], gains[part], v, w), len(margins), threads)
    (lowest_p, p, slope_p), (lowest_n, n, slope_n) = (_added(side) for side in zip(*parts, strict=True))
    if n == 0.0:
        return np.inf, np.nan
    return math.log(p / n) - lowest_p + lowest_n, slope_n / n - slope_p / p


def _added(parts: Iterable[Side]) -> Side:
    """Add up what `_sides` returned of one side."""
    lowest, sums, slopes = (np.array(column) for column in zip(*parts, strict=True))
    least = float(lowest.min())
    factors = np.exp(least - lowest) if np.isfinite(least) else np.zeros(len(lowest))
    return least, float(factors @ sums), float(factors @ slopes)


@kernel
def _sides(margins: FloatArray, gains: FloatArray, v: float, w: float) -> tuple[Side, Side]:
    """Return P and N, each as its lowest exponent z, the sum times exp(z), and the same of its slope in w."""
    lowest_p = lowest_n = np.inf
    for r in range(len(margins)):
        z = margins[r] + w * gains[r]
        if gains[r] > v:
            lowest_p = min(lowest_p, z)
        elif gains[r] < v:
            lowest_n = min(lowest_n, z)
    p = n = slope_p = slope_n = 0.0
    for r in range(len(margins)):
        z = margins[r] + w * gains[r]
        if gains[r] > v:
            term = (gains[r] - v) * math.exp(lowest_p - z)
            p += term
            slope_p += term * gains[r]
        elif gains[r] < v:
            term = (v - gains[r]) * math.exp(lowest_n - z)
            n += term
            slope_n += term * gains[r]
    return (lowest_p, p, slope_p), (lowest_n, n, slope_n)


def best_step(margins: FloatArray, gains: FloatArray, v: float, longest: float) -> float:
    """Return the w from 0 to `longest` that minimises log Σ exp(-margins - w·gains) + v·w; its slope at 0 is negative.

    It is the root of P - N (see `_balance`), found by Newton's method on log P - log N, which falls almost linearly. A
    step that leaves the interval known to contain the root is replaced by the midpoint, or by a longer step as long as
    the interval has no upper end.

    >>> w = best_step(np.zeros(4), np.array([1.0, 1.0, 1.0, -1.0]), 0.0, 100.0)
    >>> round(float(np.exp(2.0 * w)), 9)
    3.0
    """
    low, high, w = 0.0, np.inf, 0.0
    threads = n_threads(EXP_COST * len(margins))
    for _ in range(200):
        value, slope = _balance(margins, gains, v, w, threads)
        if value > 0.0:
            low = w
        else:
            high = w
        if low >= longest:
            return longest
        new = w - float(value / slope)
        if not low < new < high:
            new = (low + high) / 2.0 if high < np.inf else max(2.0 * w, 1e-3 * longest)
        new = min(new, longest)
        if abs(new - w) <= 1e-12 * new:
            return new
        w = new
    return w


def laplacian_product(
    indptr: IndexArray, indices: IndexArray, data: RealArray, degrees: RealArray, values: RealArray
) -> RealArray:
    """Return (diag(degrees) - A) @ values, where A is the CSR matrix of the arrays; values is a matrix or a vector."""
    columns = values.reshape(len(values), -1)
    result = np.empty_like(columns)
    threads = n_threads(len(data) * columns.shape[1] * 4)
    in_rows(
        lambda rows: _laplacian_rows(indptr, indices, data, degrees, columns, rows.start, rows.stop, result),
        len(values),
        threads,
    )
    return result.reshape(values.shape)


@kernel
def _laplacian_rows(
    indptr: IndexArray,
    indices: IndexArray,
    data: RealArray,
    degrees: RealArray,
    values: RealArray,
    first: int,
    stop: int,
    out: RealArray,
) -> None:
    for i in range(first, stop):
        for c in range(values.shape[1]):
            out[i, c] = degrees[i] * values[i, c]
        for e in range(indptr[i], indptr[i + 1]):
            j, weight = indices[e], data[e]
            for c in range(values.shape[1]):
                out[i, c] -= weight * values[j, c]

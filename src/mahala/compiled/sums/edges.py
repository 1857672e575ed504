"""Sums over the edges of a graph whose vertices are rows, and over triplets for boosting."""

import math
from copy import copy
from typing import Any

import numpy as np

from mahala.compiled.threads import PER_NUMBER, in_threads, n_threads
from mahala.support.arrays import FloatArray, IndexArray, RealArray, slices
from mahala.support.lazily import sp

# Multiplications that take as long as an exponential function.
EXP_COST = 64
# Triplets whose numbers stay near the processor.
CHUNK = 2**15


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


def _sum_of_side(
    margins: FloatArray, gains: FloatArray, factors: FloatArray, w: float, threads: int
) -> tuple[float, float, float]:
    """Return the lowest exponent z of a side, its sum times exp(z), and the same of its slope in w."""

    def of_part(part: slice) -> tuple[float, float, float]:
        z = w * gains[part]
        z += margins[part]
        lowest = float(z.min())
        terms = np.exp(np.subtract(lowest, z, out=z), out=z)
        terms *= factors[part]
        return lowest, float(terms.sum()), float(terms @ gains[part])

    if len(margins) == 0:
        return np.inf, 0.0, 0.0
    if len(margins) <= CHUNK:
        return of_part(slice(None))
    lowest, sums, slopes = np.transpose(in_threads(of_part, slices(len(margins), CHUNK), threads=threads))
    parts = np.exp(lowest.min() - lowest)
    return float(lowest.min()), float(parts @ sums), float(parts @ slopes)


def best_step(margins: FloatArray, gains: FloatArray, v: float, longest: float) -> float:
    """Return the w from 0 to `longest` that minimises log Σ exp(-margins - w·gains) + v·w; its slope at 0 is negative.

    It is the root of P - N = Σ (gains - v) exp(-margins - w·gains), P, N ≥ 0, by Newton's method on log P - log N,
    which falls almost linearly. A step that leaves the interval known to contain the root is replaced by the midpoint,
    or by a longer step as long as the interval has no upper end.

    >>> w = best_step(np.zeros(4), np.array([1.0, 1.0, 1.0, -1.0]), 0.0, 100.0)
    >>> round(float(np.exp(2.0 * w)), 9)
    3.0
    """
    low, high, w = 0.0, np.inf, 0.0
    threads = n_threads(EXP_COST * len(margins))
    sides = [(margins[side], gains[side], np.abs(gains[side] - v)) for side in (gains > v, gains < v)]
    for _ in range(200):
        (lowest_p, p, slope_p), (lowest_n, n, slope_n) = (_sum_of_side(*side, w, threads) for side in sides)
        value, slope = np.inf, np.nan
        if n > 0.0:
            value, slope = math.log(p / n) - lowest_p + lowest_n, slope_n / n - slope_p / p
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


class Laplacian:
    """Products with the Laplacian of a graph whose edges stay the same while their weights change.

    SciPy takes longer to make a small matrix than to multiply it: each thread keeps that of its rows, and where each
    entry is among the negative weights, which are in it twice, and the degrees.
    """

    def __init__(self, n_rows: int, left: IndexArray, right: IndexArray) -> None:
        self._n, self._left, self._right = n_rows, left, right
        numbers, edges = np.arange(n_rows), np.arange(len(left))
        from_, to = np.concatenate([left, right, numbers]), np.concatenate([right, left, numbers])
        sources = np.concatenate([edges, edges, len(left) + numbers])
        order = np.argsort(from_, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(from_))])
        self._parts = []
        for rows in slices(n_rows, -(-n_rows // n_threads())):
            entries = order[starts[rows.start] : starts[rows.stop]]
            place = to[entries], starts[rows.start : rows.stop + 1] - starts[rows.start]
            A = sp.csr_array((np.empty(len(entries)), *place), shape=(rows.stop - rows.start, n_rows))
            self._parts.append((A, sources[entries]))

    def __call__(self, weights: FloatArray, values: RealArray) -> RealArray:
        """Return the product with a matrix or a vector of a row or a number for each vertex, in its dtype."""
        degrees = np.bincount(self._left, weights, self._n) + np.bincount(self._right, weights, self._n)
        entries = np.concatenate([-weights, degrees]).astype(values.dtype)

        def product(A: Any, sources: IndexArray) -> RealArray:
            A = copy(A)
            A.data = entries[sources]
            return np.asarray(A @ values)

        threads = n_threads(PER_NUMBER * len(weights) * values.size // self._n)
        parts = in_threads(product, *zip(*self._parts, strict=True), threads=threads)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

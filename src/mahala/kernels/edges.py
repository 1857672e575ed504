"""The sums over triplets of boosting: weights that fall exponentially with margins, without overflow."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def tilt(margins: Floats, gains: Floats, w: float) -> tuple[float, float, float]:
    """log Σ exp(-z) of z = margins + w·gains, and mean and variance of the gains under weights ∝ exp(-z)."""
    n = len(margins)
    lowest = np.inf
    for r in range(n):
        lowest = min(lowest, margins[r] + w * gains[r])
    total = first = second = 0.0
    for r in range(n):
        weight = math.exp(lowest - margins[r] - w * gains[r])
        total += weight
        first += weight * gains[r]
        second += weight * gains[r] * gains[r]
    mean = first / total
    return math.log(total) - lowest, mean, second / total - mean * mean


def weights(margins: Floats) -> Floats:
    """Weights ∝ exp(-margins) that sum to one.

    >>> weights(np.array([0.0, np.log(3.0)]))
    array([0.75, 0.25])
    """
    result: Floats = np.exp(margins.min() - margins)
    result /= result.sum()
    return result


def best_step(margins: Floats, gains: Floats, v: float, longest: float) -> float:
    """The w from 0 to `longest` that minimises log Σ exp(-margins - w·gains) + v·w.

    Newton's method on the derivative, which increases with w; a step out of the interval known to hold the root is
    replaced by its middle, or by twice the w so far as long as the interval has no end.

    >>> w = best_step(np.zeros(4), np.array([1.0, 1.0, 1.0, -1.0]), 0.0, 100.0)
    >>> round(float(np.exp(2.0 * w)), 9)
    3.0
    """
    low, high, w = 0.0, np.inf, 0.0
    for _ in range(200):
        _, mean, variance = tilt(margins, gains, w)
        if mean > v:
            low = w
        else:
            high = w
        if low >= longest:
            return longest
        new = w + (mean - v) / variance if variance > 0.0 else np.nan
        if not low < new < high:
            new = (low + high) / 2.0 if high < np.inf else max(2.0 * w, 1e-3 * longest)
        new = min(new, longest)
        if abs(new - w) <= 1e-14 * new:
            return new
        w = new
    return w

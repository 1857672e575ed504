"""Tests of the difference of two methods over the same queries."""

from dataclasses import dataclass

import numpy as np

from mahala_search.arrays import FloatArray, slices

# Numbers of a block of resamples.
_BLOCK = 2**22


@dataclass(frozen=True)
class PairedGain:
    """Mean difference of two methods over the same queries; result of :func:`paired_gains`.

    Attributes
    ----------
    mean : the mean difference; positive if the first method is better
    low, high : ends of the bootstrap percentile interval of the mean
    p_value : two-sided p-value of the randomization test of no difference
    """

    mean: float
    low: float
    high: float
    p_value: float


def paired_gains(
    differences: FloatArray, n_resamples: int, confidence: float, rng: np.random.Generator
) -> list[PairedGain]:
    """Estimate the mean of each column of paired differences, of shape (n_queries, n_measures).

    The interval has the percentiles of means over queries that are drawn with replacement. The p-value is the share of
    means at least as far from 0 among `n_resamples` in which the two methods change places in every query with chance
    1/2 (the sign of its difference flips), counting the observed one too (Smucker, Allan and Carterette, 2007).

    >>> gains = np.array([[0.1], [0.3], [0.2], [0.0], [0.2], [0.1]])
    >>> [gain] = paired_gains(gains, 9999, 0.95, np.random.default_rng(0))
    >>> round(gain.mean, 3), round(gain.low, 2), round(gain.high, 2), round(gain.p_value, 2)
    (0.15, 0.07, 0.22, 0.06)
    """
    n, n_measures = differences.shape
    means = differences.mean(axis=0)
    resampled, flipped = np.empty((n_resamples, n_measures)), np.empty((n_resamples, n_measures))
    for block in slices(n_resamples, max(1, _BLOCK // n)):
        size = block.stop - block.start
        drawn = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, np.newaxis]
        counts = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        resampled[block] = counts @ differences / n
        flipped[block] = (1.0 - 2.0 * rng.integers(2, size=(size, n))) @ differences / n
    low, high = np.quantile(resampled, [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0], axis=0)
    # A mean of the same numbers in another order may differ by rounding.
    extreme = np.abs(flipped) >= np.abs(means) - 1e-12 * np.abs(differences).max(axis=0)
    p_values = (1 + extreme.sum(axis=0)) / (1 + n_resamples)
    return [PairedGain(*map(float, row)) for row in zip(means, low, high, p_values, strict=True)]

"""Means of outcomes between 0 and 1, and their differences, with intervals that hold for one look or for every look.

Searches of one user are not independent: users are the units, and a search without a user is a unit of its own.
"""

import math
from dataclasses import dataclass

import numpy as np

from mahala_search.arrays import FloatArray

# The level of all intervals, and its quantile of the normal distribution.
LEVEL, Z = 0.95, 1.959963984540054
# Units in each arm below which an interval for every look is as wide as possible: it holds for large samples only.
FEWEST_UNITS = 30
# Units in all at which the interval for every look is narrowest, compared with that for one look.
_TUNED_FOR = 1000


@dataclass(frozen=True)
class Interval:
    """An estimate with an interval for one look (low, high), and one that holds at every look at growing data."""

    mean: float
    low: float
    high: float
    always_low: float
    always_high: float


@dataclass(frozen=True)
class Sample:
    """The outcomes of one arm: for each unit, their number, their sum and the sum of their squares."""

    n: FloatArray
    sums: FloatArray
    squares: FloatArray

    @property
    def size(self) -> float:
        """The number of outcomes."""
        return float(self.n.sum())

    @property
    def mean(self) -> float:
        """The mean of all outcomes; 0.5 without any."""
        return float(self.sums.sum()) / self.size if self.size else 0.5

    @property
    def effective_size(self) -> float:
        """The number of independent yes-or-no outcomes whose mean would vary as much.

        It is the number of outcomes if they are 0 or 1 and each unit has one. Outcomes of one unit that are alike make
        it smaller (the design effect); outcomes that vary less than 0 and 1 make it larger. One outcome 0 and one
        outcome 1 are added to the variance, which would else be 0 as long as all outcomes are equal.
        """
        size, mean, square = self.size, self.mean, float(self.squares.sum())
        if size < 2.0:
            return size
        independent = (square / size - mean**2) / (size - 1.0)
        units = len(self.n)
        design = 1.0
        if units > 1 and independent > 0.0:
            of_units = units / (units - 1.0) * float(np.sum((self.sums - mean * self.n) ** 2)) / size**2
            design = max(1.0, of_units / independent)
        padded = (mean * size + 1.0) / (size + 2.0)
        return size / design * padded * (1.0 - padded) / ((square + 1.0) / (size + 2.0) - padded**2)

    @property
    def variance(self) -> float:
        """The variance of the mean, which is never 0."""
        n = self.effective_size
        padded = (self.mean * n + 1.0) / (n + 2.0)
        return padded * (1.0 - padded) / (n + 2.0)


def mean_interval(sample: Sample) -> Interval:
    """Return the mean of a sample; the interval for one look is Wilson's, with the effective size."""
    low, high = _wilson(sample)
    reach = _reach(sample.variance, len(sample.n)) if len(sample.n) >= FEWEST_UNITS else 1.0
    return Interval(sample.mean, low, high, max(0.0, sample.mean - reach), min(1.0, sample.mean + reach))


def difference_interval(learned: Sample, plain: Sample) -> Interval:
    """Return the difference of two means; the interval for one look is Newcombe's, of the two of Wilson.

    Without outcomes in both arms, nothing is known: it is 0, and may be anything.
    """
    if not (learned.size and plain.size):
        return Interval(0.0, -1.0, 1.0, -1.0, 1.0)
    difference = learned.mean - plain.mean
    (low, high), (plain_low, plain_high) = _wilson(learned), _wilson(plain)
    below = math.hypot(learned.mean - low, plain_high - plain.mean)
    above = math.hypot(high - learned.mean, plain.mean - plain_low)
    units = min(len(learned.n), len(plain.n))  # of a small arm, most of the variance and the least is known
    reach = _reach(learned.variance + plain.variance, 2 * units) if units >= FEWEST_UNITS else 2.0
    always = max(-1.0, difference - reach), min(1.0, difference + reach)
    return Interval(difference, difference - below, difference + above, *always)


def _wilson(sample: Sample) -> tuple[float, float]:
    n, mean = sample.effective_size, sample.mean
    if n == 0.0:
        return 0.0, 1.0
    middle = (mean + Z**2 / (2.0 * n)) / (1.0 + Z**2 / n)
    reach = Z / (1.0 + Z**2 / n) * math.sqrt(mean * (1.0 - mean) / n + Z**2 / (4.0 * n**2))
    return min(mean, max(0.0, middle - reach)), max(mean, min(1.0, middle + reach))


def _reach(variance: float, units: int) -> float:
    """Return how far an asymptotic confidence sequence reaches from an estimate.

    It is that of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (Time-uniform central limit theory and asymptotic
    confidence sequences, 2024), theorem 2.2, with its rho for `_TUNED_FOR` units.
    """
    alpha = 1.0 - LEVEL
    rho = (-2.0 * math.log(alpha) + math.log(-2.0 * math.log(alpha)) + 1.0) / _TUNED_FOR
    scale = units * rho
    return math.sqrt(variance * (scale + 1.0) / scale * math.log((scale + 1.0) / alpha**2))

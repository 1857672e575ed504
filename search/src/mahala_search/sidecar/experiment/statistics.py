"""Means of what people did, and their differences, with intervals that hold at every look at growing data.

Searches of one user are not independent: users are the units, and a search without a user is a unit of its own.
"""

import math
from dataclasses import dataclass

from mahala_search.arrays import FloatArray

LEVEL = 0.95
# Units in each arm below which nothing is said: the intervals hold for large samples.
FEWEST_UNITS = 30
# Units in all at which an interval is narrowest, compared with one that holds for one look only.
_TUNED_FOR = 1000


@dataclass(frozen=True)
class Interval:
    """An estimate with an interval that holds at every look; infinite if there are too few units."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Sample:
    """The searches of one arm: for each unit, their number and the sum of what is measured."""

    n: FloatArray
    sums: FloatArray

    @property
    def size(self) -> int:
        """The number of searches."""
        return int(self.n.sum())

    @property
    def mean(self) -> float:
        """The mean over searches; 0 without any."""
        return float(self.sums.sum()) / max(self.size, 1)

    @property
    def residuals(self) -> FloatArray:
        """What each unit adds to the error of the mean."""
        return self.sums - self.mean * self.n

    def variance(self, largest: float) -> float:
        """Return the variance of the mean, with one more unit whose residual is `largest`.

        Without it, the variance would be 0 as long as all searches are alike.
        """
        return (float(self.residuals @ self.residuals) + largest**2) / max(self.size, 1) ** 2


def mean_interval(sample: Sample) -> Interval:
    """Return the mean of values from 0 to 1."""
    reach = _reach(sample.variance(0.5), len(sample.n)) if len(sample.n) >= FEWEST_UNITS else math.inf
    return Interval(sample.mean, sample.mean - reach, sample.mean + reach)


def difference_interval(one: Sample, other: Sample) -> Interval:
    """Return by how much the mean of the first sample is larger."""
    difference, reach = one.mean - other.mean, reach_after(one, other, 1.0)
    return Interval(difference, difference - reach, difference + reach)


def reach_after(one: Sample, other: Sample, times: float) -> float:
    """Return how far the interval of a difference reaches after so many times as many searches."""
    units = min(len(one.n), len(other.n))  # of the smaller arm, least is known
    if units < FEWEST_UNITS:
        return math.inf
    # What is rare, as a purchase, may be in one arm only so far.
    largest = max(1.0, *(float(abs(sample.residuals).max()) for sample in (one, other)))
    variance = one.variance(largest) + other.variance(largest)
    return _reach(variance / times, 2.0 * units * times)


def _reach(variance: float, units: float) -> float:
    """Return how far an asymptotic confidence sequence reaches from an estimate.

    It is that of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (Time-uniform central limit theory and asymptotic
    confidence sequences, 2024), theorem 2.2, with its rho for `_TUNED_FOR` units.
    """
    alpha = 1.0 - LEVEL
    rho = (-2.0 * math.log(alpha) + math.log(-2.0 * math.log(alpha)) + 1.0) / _TUNED_FOR
    scale = units * rho
    return math.sqrt(variance * (scale + 1.0) / scale * math.log((scale + 1.0) / alpha**2))

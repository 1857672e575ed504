"""Gains over the plain ranking: by query in a cross-validation, and in a stream."""

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from mahala.evaluation import Verdict
from mahala.extend import Integer, Kind, Number, Stateful
from mahala_search.arrays import FloatArray, IndexArray

# A smaller difference between two values is rounding.
ROUNDING = 1e-12
# Standard errors of a gain from which on what gains is used, and by default used wholly.
SOME, CERTAIN = 0.25, 2.0
# A smaller gain does not matter.
USEFUL = 0.01
# Fewer impressions are too few for a normal distribution.
FEWEST_IMPRESSIONS = 20


class CrossValidation(NamedTuple):
    """The nDCG of each judged query under the plain ranking and under a map that was not learned from it."""

    query: IndexArray
    raw: FloatArray
    learned: FloatArray

    @property
    def gains(self) -> FloatArray:
        """The gain of each query, exactly 0 where the two differ by rounding only."""
        gains = self.learned - self.raw
        return np.where(np.abs(gains) < ROUNDING, 0.0, gains)


class RunningGain(Stateful):
    """The mean of the gains in a stream so far, and their variance."""

    FIELDS = (Integer("n"), Number("mean"), Number("squares", least=0.0))

    def __init__(self, n: int = 0, mean: float = 0.0, squares: float = 0.0) -> None:
        self.n, self.mean, self.squares = int(n), float(mean), float(squares)

    def add(self, value: float) -> None:
        self.n += 1
        before = value - self.mean
        self.mean += before / self.n
        self.squares += before * (value - self.mean)

    @property
    def error(self) -> float:
        """The standard error of the mean; infinite for fewer than 20 gains."""
        return math.sqrt(self.squares / (self.n - 1) / self.n) if self.n >= FEWEST_IMPRESSIONS else math.inf

    def share(self, certain: float = CERTAIN) -> float:
        """How far to use what gains so much: 0 up to a quarter of the standard error, 1 from so many of them on."""
        certainty = self.mean / self.error if self.error > 0.0 else 0.0
        return min(max((certainty - SOME) / (certain - SOME), 0.0), 1.0)

    def verdict(self, share: float = 0.0, measure: str = "pairs in the right order") -> Verdict:
        """Return what the gains mean; `share` is that of the learned map in what is served."""
        units = "impressions"
        if self.n < FEWEST_IMPRESSIONS:
            return Verdict("too early to tell", self.mean, -1.0, 1.0, self.n, 1.0, measure, units, share=share)
        reach = 1.96 * self.error
        p_value = float(2.0 * stats.norm.sf(abs(self.mean) / self.error)) if reach else float(not self.mean)
        kind: Kind = "shown to help" if self.mean > reach else "probably helps"
        if self.mean <= 0.0:
            kind = "too early to tell" if self.mean + reach > USEFUL else "does not help"
        low, high = max(-1.0, self.mean - reach), min(1.0, self.mean + reach)
        return Verdict(kind, self.mean, low, high, self.n, p_value, measure, units, share=share)

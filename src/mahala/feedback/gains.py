"""Gains over the raw ranking: by query in a cross-validation, and in a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from mahala.support.arrays import Arrays, FloatArray, IndexArray
from mahala.support.model_files import count_value, number_value

# A smaller difference between two values of nDCG is rounding.
ROUNDING = 1e-12


class Gain(NamedTuple):
    """A gain over the raw ranking on queries that were not learned from, with its 95 % interval."""

    measure: str
    mean: float
    low: float
    high: float
    n: int

    def verdict(self, trust: float) -> str:
        """Return in words what to make of the gain of a map of which the share `trust` is used."""
        text = f"{self.mean:+.3f} {self.measure}, 95 % {self.low:+.3f}..{self.high:+.3f} ({self.n} queries)"
        if self.low > 0.0:
            return f"{text}: use it"
        share = f"{trust:.2f} of the learned map is used"
        return f"{text}: not certain to help; {share}" if self.high > 0.0 else f"{text}: does not help; {share}"


class CrossValidation(NamedTuple):
    """The nDCG of each judged query under the raw ranking and under a map that was not learned from it."""

    query: IndexArray
    raw: FloatArray
    learned: FloatArray

    @property
    def gains(self) -> FloatArray:
        """The gain of each query, exactly 0 where the two differ by rounding only."""
        gains = self.learned - self.raw
        return np.where(np.abs(gains) < ROUNDING, 0.0, gains)

    def winners(self, n: int) -> IndexArray:
        """Return the places, here, of up to n queries that gain, the largest gain first."""
        gains = self.gains
        order: IndexArray = np.argsort(-gains, kind="stable")[:n]
        return order[gains[order] > 0.0]

    def losers(self, n: int) -> IndexArray:
        """Return the places, here, of up to n queries that lose, the largest loss first."""
        return self._replace(raw=self.learned, learned=self.raw).winners(n)


class RunningGain:
    """The mean of the gains in a stream so far, and their variance."""

    def __init__(self, n: int = 0, mean: float = 0.0, squares: float = 0.0) -> None:
        self.n, self.mean, self.squares = int(n), float(mean), float(squares)

    def __iter__(self) -> Iterator[float]:
        return iter((self.n, self.mean, self.squares))

    def add(self, value: float) -> None:
        self.n += 1
        before = value - self.mean
        self.mean += before / self.n
        self.squares += before * (value - self.mean)

    def gain(self) -> Gain:
        few = self.n < 20  # too few for a normal distribution
        error = 1.0 if few else 1.96 * np.sqrt(self.squares / (self.n - 1) / self.n)
        return Gain("pairs in the right order", self.mean, self.mean - error, self.mean + error, self.n)

    def get_state(self) -> tuple[dict[str, object], Arrays]:
        return {"n": self.n, "mean": self.mean, "squares": self.squares}, {}

    def set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        self.n, self.mean = count_value(header, "n"), number_value(header, "mean")
        self.squares = number_value(header, "squares", least=0.0)

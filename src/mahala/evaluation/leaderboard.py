"""What a comparison of learners by cross-validation found: rows of numbers, and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Differences with an adjusted p-value above this count as chance.
ALPHA = 0.05
EUCLIDEAN = "Euclidean"
EUCLIDEAN_SCALED = "Euclidean, scaled"


@dataclass(frozen=True, eq=False)
class Entry:
    """A way to compare rows: a learner, or a Euclidean distance where `learned` is false.

    Of one that could not be fitted, `failure` says why, and the numbers are NaN.
    """

    name: str
    learned: bool
    errors: NDArray[np.float64]
    """k-NN errors, test parts × numbers of neighbours."""
    error: float
    """The mean error with k neighbours, and its 95 % interval."""
    low: float
    high: float
    difference: float
    """The mean error less that of the best Euclidean distance, and its 95 % interval: below zero is better."""
    difference_low: float
    difference_high: float
    p_value: float
    """Of no difference; adjusted by Holm's method for the number of learners. NaN for Euclidean distances."""
    seconds: float
    """CPU time of a fit, the median over training parts."""
    failure: str | None = None

    @property
    def spoken(self) -> str:
        """Its name within a sentence."""
        return "scaled Euclidean" if self.name == EUCLIDEAN_SCALED else self.name

    @property
    def beats_euclidean(self) -> bool:
        """Whether its error is below that of the best Euclidean distance beyond chance."""
        return self.difference < 0.0 and self.p_value <= ALPHA


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Entries from the lowest error to the highest, those that failed last; see :func:`mahala.compare`."""

    entries: tuple[Entry, ...]
    ks: NDArray[np.intp]
    k: int
    folds: int
    repeats: int
    scaling: str
    random_state: int
    n_rows: int
    n_features: int
    classes: tuple[str, ...]
    rows: NDArray[np.intp]
    """The rows that were compared: all of them, or a sample of a large table."""
    notes: tuple[str, ...]
    """What was done otherwise than asked for, in sentences."""

    @property
    def ranked(self) -> tuple[Entry, ...]:
        """The entries that did not fail."""
        return tuple(entry for entry in self.entries if entry.failure is None)

    @property
    def euclidean(self) -> Entry:
        """The better of the Euclidean distances."""
        return next(entry for entry in self.ranked if not entry.learned)

    @property
    def best_learner(self) -> Entry | None:
        """The learner with the lowest error, or None where all failed."""
        return next((entry for entry in self.ranked if entry.learned), None)

    @property
    def beats_euclidean(self) -> bool:
        """Whether some learner's error is below that of the best Euclidean distance beyond chance."""
        return any(entry.beats_euclidean for entry in self.entries)

    @property
    def winner(self) -> Entry:
        """The learner with the lowest error of those that beat Euclidean; without such, the lowest error of all.

        At equal errors that is Euclidean.
        """
        return next((entry for entry in self.ranked if entry.beats_euclidean), self.ranked[0])

    def verdict(self) -> str:
        """The outcome in one to three plain sentences."""
        base, best = self.euclidean, self.best_learner
        what = f"{self.k}-NN error"
        if self.beats_euclidean:
            winner = self.winner
            first = (
                f"{winner.name} cuts the {what} from {percent(base.error)} ({base.spoken}) to {percent(winner.error)} "
                f"({self._test(winner)})."
            )
        elif best is None:
            first = f"No learner could be fitted here; {base.spoken} has a {what} of {percent(base.error)}."
        else:
            first = (
                f"No learner beats Euclidean here: the best, {best.name}, has a {what} of {percent(best.error)} "
                f"against {percent(base.error)} for {base.spoken} ({self._test(best)})."
            )
            if best.difference < 0.0:
                first += " That may be chance: only more rows could tell."
        return " ".join([first, *self._about_scaling()])

    def _test(self, entry: Entry) -> str:
        # A gain is a positive number of points, a loss too, with its word.
        better = entry.difference <= 0.0
        sign = -100.0 if better else 100.0
        ends = sorted((sign * entry.difference_low, sign * entry.difference_high))
        n = sum(other.learned for other in self.ranked)
        adjusted = f", adjusted for {n} learners" if n > 1 else ""
        return (
            f"{abs(100.0 * entry.difference):.1f} points {'less' if better else 'more'}, 95 % interval "
            f"{_plus_zero(ends[0]):.1f} to {_plus_zero(ends[1]):.1f}, {p_text(entry.p_value)}{adjusted}"
        )

    def _about_scaling(self) -> list[str]:
        """Where scaling the features alone does much of the work, that is worth knowing."""
        plain = [entry for entry in self.ranked if not entry.learned]
        if len(plain) < 2 or plain[1].difference_low <= 0.0:
            return []
        better, worse = (percent(entry.error) for entry in plain)
        verb = "takes" if plain[0].name == EUCLIDEAN_SCALED else "would take"
        way = f"from {worse} to {better}" if plain[0].name == EUCLIDEAN_SCALED else f"from {better} to {worse}"
        return [f"Scaling the features alone {verb} Euclidean {way}."]

    def table(self) -> list[dict[str, Any]]:
        """A dictionary an entry, for files: its numbers by name, errors as shares of rows."""
        names = (
            "name", "learned", "error", "low", "high", "difference", "difference_low", "difference_high", "p_value",
            "seconds", "failure",
        )  # fmt: skip
        return [{name: getattr(entry, name) for name in names} for entry in self.entries]


def percent(share: float) -> str:
    """A share of rows as people read it.

    >>> percent(0.0421)
    '4.2 %'
    """
    return f"{100.0 * share:.1f} %"


def p_text(p: float) -> str:
    """A p-value as people read it.

    >>> p_text(0.0123), p_text(1e-9)
    ('p = 0.012', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _plus_zero(value: float) -> float:
    """Without the sign of what would be shown as -0.0."""
    return round(value, 1) + 0.0

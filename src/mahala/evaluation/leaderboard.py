"""Result of a comparison of learners by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from mahala.support.arrays import FloatArray, IndexArray

# Differences with an adjusted p-value above this count as chance.
ALPHA = 0.05
EUCLIDEAN = "Euclidean"
EUCLIDEAN_SCALED = "Euclidean, scaled"


@dataclass(frozen=True, eq=False)
class Entry:
    """Result of one learner, or of a Euclidean distance (`learned` is False).

    If the learner could not be fitted, `failure` is the error message and the numbers are NaN.

    Attributes
    ----------
    errors : k-NN errors, test parts × numbers of neighbours (`neighbor_counts` of the leaderboard)
    error, low, high : mean error with `n_neighbors` neighbours, and the ends of its 95 % interval
    difference, difference_low, difference_high : mean error minus that of the best Euclidean distance (negative is
        better), and the ends of its 95 % interval
    p_value : p-value of no difference, adjusted for the number of learners (Holm); NaN for Euclidean distances
    seconds : CPU seconds of a fit, the median over training parts
    """

    name: str
    learned: bool
    errors: FloatArray
    error: float
    low: float
    high: float
    difference: float
    difference_low: float
    difference_high: float
    p_value: float
    seconds: float
    failure: str | None = None

    @property
    def spoken(self) -> str:
        """The name as it is used within a sentence."""
        return "scaled Euclidean" if self.name == EUCLIDEAN_SCALED else self.name

    @property
    def beats_euclidean(self) -> bool:
        """Whether the error is significantly below that of the best Euclidean distance."""
        return self.difference < 0.0 and self.p_value <= ALPHA


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Result of :func:`mahala.compare`: entries from the lowest error to the highest, then those that failed.

    Attributes
    ----------
    neighbor_counts : numbers of neighbours for which errors were measured
    n_neighbors : the number of neighbours whose error ranks the entries
    rows : the rows that were compared: all of them, or a sample of a large table
    notes : sentences about what was done differently than requested
    """

    entries: tuple[Entry, ...]
    neighbor_counts: IndexArray
    n_neighbors: int
    folds: int
    repeats: int
    scaling: str
    random_state: int
    n_rows: int
    n_features: int
    classes: tuple[str, ...]
    rows: IndexArray
    notes: tuple[str, ...]

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
        """The learner with the lowest error, or None if all failed."""
        return next((entry for entry in self.ranked if entry.learned), None)

    @property
    def beats_euclidean(self) -> bool:
        """Whether any learner's error is significantly below that of the best Euclidean distance."""
        return any(entry.beats_euclidean for entry in self.entries)

    @property
    def winner(self) -> Entry:
        """The learner with the lowest error among those that beat the Euclidean distance.

        If none does, the entry with the lowest error; ties go to the Euclidean distance.
        """
        return next((entry for entry in self.ranked if entry.beats_euclidean), self.ranked[0])

    @property
    def axis_end(self) -> float:
        """The error at which the axis of a drawing ends: at most twice the median upper end of the intervals.

        Entries far behind would otherwise leave little room for the others.
        """
        highs = sorted(entry.high for entry in self.ranked)
        return max(min(highs[-1], 2.0 * highs[len(highs) // 2]), 1e-9)

    def verdict(self) -> str:
        """Return the outcome in one to three sentences."""
        base, best = self.euclidean, self.best_learner
        what = f"{self.n_neighbors}-NN error"
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
        # Gains and losses are both shown as positive numbers, followed by "less" or "more".
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
        """Return a sentence on the effect of scaling alone, if it is significant."""
        plain = [entry for entry in self.ranked if not entry.learned]
        if len(plain) < 2 or plain[1].difference_low <= 0.0:
            return []
        better, worse = (percent(entry.error) for entry in plain)
        verb = "takes" if plain[0].name == EUCLIDEAN_SCALED else "would take"
        way = f"from {worse} to {better}" if plain[0].name == EUCLIDEAN_SCALED else f"from {better} to {worse}"
        return [f"Scaling the features alone {verb} Euclidean {way}."]

    def table(self) -> list[dict[str, Any]]:
        """Return one dictionary per entry, with errors as shares from 0 to 1."""
        names = [field.name for field in fields(Entry) if field.name != "errors"]
        return [{name: getattr(entry, name) for name in names} for entry in self.entries]


def percent(share: float) -> str:
    """Format a share as a percentage.

    >>> percent(0.0421)
    '4.2 %'
    """
    return f"{100.0 * share:.1f} %"


def p_text(p: float) -> str:
    """Format a p-value.

    >>> p_text(0.0123), p_text(1e-9)
    ('p = 0.012', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _plus_zero(value: float) -> float:
    """Round to one digit, without the sign of -0.0."""
    return round(value, 1) + 0.0

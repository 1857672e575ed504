"""Result of a comparison of learners by cross-validation."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mahala.evaluation.entries import Entry
from mahala.evaluation.leaderboard_lines import Line, line_of, p_text, percent, points
from mahala.evaluation.plan import EUCLIDEAN_SCALED, USUAL_NEIGHBORS
from mahala.support.arrays import IndexArray
from mahala.support.display import as_table, paragraph

# Of entries in the printed form.
_MOST_LINES = 20

# What the loss of nearest neighbours is called, by the measure that ranks.
_CALLED = {
    "error": "{}-NN error",
    "balanced": "balanced {}-NN error",
    "f1": "1 - F1 of {}-NN",
    "roc_auc": "1 - ROC AUC of {}-NN",
}


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Result of :func:`mahala.compare`: entries from the lowest error to the highest, then those that failed.

    Attributes
    ----------
    neighbor_counts : numbers of neighbours for which errors were measured
    n_neighbors : the number of neighbours, or None if it was chosen for each test part
    scaling : the scaling of the features, or "auto" if it was chosen for each training part
    rows : the rows that were compared: all of them, or a sample of a large table
    notes : sentences about what was done differently than requested
    class_counts : how many of these rows are of each class
    columns : pairs of the name of each column of a table, or of its file, and what was done to it; empty for an array
    metric : the measure by which entries are ranked: "error", "balanced", "f1" or "roc_auc"
    baselines : errors of other methods, as context
    left_out : reasons why members of the default panel were left out, by name
    parts : number of test parts that were measured, fewer than folds × repeats if the comparison is partial
    """

    entries: tuple[Entry, ...]
    neighbor_counts: IndexArray
    n_neighbors: int | None
    folds: int
    repeats: int
    scaling: str
    random_state: int
    n_rows: int
    n_features: int
    classes: tuple[str, ...]
    rows: IndexArray
    notes: tuple[str, ...]
    class_counts: tuple[int, ...] = ()
    columns: Sequence[tuple[str, str]] = ()
    metric: str = "error"
    baselines: tuple[Entry, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    parts: int | None = None

    @property
    def measure(self) -> str:
        """What the errors are, such as "3-NN error"."""
        return _CALLED[self.metric].format(self.n_neighbors or "k")

    @property
    def usual_neighbors(self) -> int:
        """The number of neighbours that is given, or 3: with so many, scalings are tried and confusions counted."""
        return self.n_neighbors or USUAL_NEIGHBORS

    @property
    def majority(self) -> str:
        """The most frequent class, or an empty text if `class_counts` is empty."""
        return self.classes[self.class_counts.index(max(self.class_counts))] if self.class_counts else ""

    @property
    def majority_error(self) -> float:
        """The plain error of always answering with the most frequent class."""
        total = sum(self.class_counts)
        return (total - max(self.class_counts)) / total if total else math.nan

    @property
    def partial(self) -> bool:
        """Whether the comparison ended before all test parts were measured."""
        return self.parts is not None and self.parts < self.folds * self.repeats

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

        If none does, the better of the Euclidean distances.
        """
        return next((entry for entry in self.ranked if entry.beats_euclidean), self.euclidean)

    @property
    def axis_end(self) -> float:
        """The error at which the axis of a drawing ends: at most twice the median upper end of the intervals.

        Entries far behind would otherwise leave little room for the others.
        """
        highs = sorted(entry.error if math.isnan(entry.high) else entry.high for entry in self.ranked)
        return max(min(highs[-1], 2.0 * highs[len(highs) // 2]), 1e-9)

    @property
    def headline(self) -> str:
        """The outcome in a few words."""
        who = self.winner.name if self.beats_euclidean else None
        return "No learner is shown to beat Euclidean" if who is None else f"{who} beats Euclidean"

    def verdict(self) -> str:
        """Return the outcome in one to four sentences."""
        base, best = self.euclidean, self.best_learner
        what = self.measure
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
                f"The best learner, {best.name}, is not shown to beat Euclidean on these {len(self.rows):,} rows: its "
                f"{what} is {percent(best.error)} against {percent(base.error)} for {base.spoken} ({self._test(best)})."
            )
            first += f" {self._smallest(best)}"
        return " ".join([first, *self._about_scaling()])

    def _smallest(self, best: Entry) -> str:
        """Return a sentence on the smallest difference that could have been shown."""
        if math.isnan(best.p_value):
            return "One test part is too few for a test."
        least = f"{points(best.detectable)} points"
        if best.detectable > self.euclidean.error:
            return (
                f"This comparison could not have shown any gain, because it would have to be {least}, more than the "
                "whole error: more rows or repeats are needed."
            )
        return f"The smallest difference that this comparison could have shown is {least}."

    def remarks(self) -> list[str]:
        """Return sentences on learners that the time limit stopped or that were left out."""
        remarks = []
        stopped = [f"{entry.name} ({entry.stopped} of {self.parts})" for entry in self.ranked if entry.stopped]
        if stopped:
            remarks.append(
                f"Stopped by their share of the budget, on so many training parts: {', '.join(stopped)}. A larger "
                "budget lets them finish."
            )
        for why in dict.fromkeys(self.left_out.values()):
            names = [name for name, reason in self.left_out.items() if reason == why]
            remarks.append(f"Not compared: {', '.join(names)} ({why}). Name them as learners to include them.")
        return remarks

    def context(self) -> str | None:
        """Return a sentence with what other methods have by the same measure, or None if nothing is known."""
        errors = {entry.name: entry.error for entry in self.baselines if entry.failure is None}
        always = {"error": self.majority_error, "balanced": 1.0 - 1.0 / len(self.classes)}
        if self.metric in always and self.majority:
            errors[f"always {self.majority!r}"] = always[self.metric]
        if not errors:
            return None
        errors = {f"k-NN with {self.winner.spoken}": self.winner.error} | errors
        return f"For context: {', '.join(f'{name} {percent(error)}' for name, error in errors.items())}."

    def _test(self, entry: Entry) -> str:
        # Gains and losses are both shown as positive numbers, followed by "less" or "more".
        better = entry.difference <= 0.0
        if math.isnan(entry.p_value):
            return f"{abs(100.0 * entry.difference):.1f} points {'less' if better else 'more'}"
        sign = -1.0 if better else 1.0
        ends = sorted((sign * entry.difference_low, sign * entry.difference_high))
        n = sum(other.learned for other in self.ranked)
        adjusted = f", adjusted for {n} learners" if n > 1 else ""
        return (
            f"{abs(100.0 * entry.difference):.1f} points {'less' if better else 'more'}, 95 % interval "
            f"{points(ends[0])} to {points(ends[1])}, {p_text(entry.p_value)}{adjusted}"
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
        return [entry.numbers() for entry in self.entries]

    def lines(self) -> list[Line]:
        """Return the entries as every form of the leaderboard shows them: text, terminal and page."""
        return [line_of(entry, self.euclidean, self.winner) for entry in self.entries]

    def __repr__(self) -> str:
        """Return a short table and the verdict, at most 30 lines."""
        lines = self._cells(_MOST_LINES)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [self._heading()]
        for first, *others in lines:
            numbers = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
            text.append(" ".join([first.ljust(widths[0]), *numbers]))
        if len(self.entries) > _MOST_LINES:
            text.append(f"… and {len(self.entries) - _MOST_LINES} more")
        return "\n".join([*text, *textwrap.wrap(self.verdict(), 100, max_lines=6)])

    def _repr_html_(self) -> str:
        lines = self._cells(len(self.entries))
        return paragraph(self.verdict(), bold=True) + as_table(lines[0], lines[1:]) + paragraph(self._heading())

    def _heading(self) -> str:
        return (
            f"{len(self.rows):,} rows, {self.n_features:,} features, {len(self.classes):,} classes, "
            f"{self.folds} folds × {self.repeats}"
        )

    def _cells(self, most: int) -> list[list[str]]:
        """Return the heading and the cells of the first entries."""
        cells = [["metric", self.measure, "95 % interval", "to Euclidean", "p", "fit"]]
        for entry, _, texts, intervals in self.lines()[:most]:
            numbers = [texts[name] for name in ("difference", "p_value", "seconds")]
            name = textwrap.shorten(entry.name, 40, placeholder="…")
            cells.append([name, texts["error"], intervals.get("error", ""), *numbers])
        return cells

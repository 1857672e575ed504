"""Result of a comparison of learners by the answers that they predict."""

import math
import textwrap
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mahala.judge import Verdict
from mahala.support.arrays import FloatArray
from mahala.support.display import as_table, paragraph, text_table

# With fewer questions that were asked more than once, how often answers agree is mostly chance, and is not told.
FEWEST_REPEATED = 20


@dataclass(frozen=True)
class AnswerEntry:
    """Result of one learner, or of a plain distance (`learned` is False).

    Attributes
    ----------
    new_items, new_low, new_high : share of answers predicted about items not learned from, and the ends of its 95 %
        interval
    same_items, same_low, same_high : the same for answers not learned from, about items that other answers compare
    seconds : CPU seconds of a fit, the median
    failure : the error message if it could not be fitted; the numbers are NaN then
    """

    name: str
    learned: bool
    new_items: float = math.nan
    new_low: float = math.nan
    new_high: float = math.nan
    same_items: float = math.nan
    same_low: float = math.nan
    same_high: float = math.nan
    seconds: float = 0.0
    failure: str | None = None


@dataclass(frozen=True, eq=False)
class AnswerBoard:
    """Result of :func:`mahala.compare` for pairs, triplets or quadruplets: entries from the best to the worst.

    Attributes
    ----------
    verdict : Verdict on answers about new items: no answer learned from compares the first item. The others may
        be known.
    same_verdict : Verdict on new answers about the same items
    chosen : name of the learner that the judge chooses for new items, or of the plain distance
    same_chosen : name of the learner that it chooses for the same items, or of the plain distance
    reference : name of the best plain distance
    unit_rows : whether distances learn from rows scaled to length 1, because the cosine predicts more than the
        Euclidean distance
    agreement : how often two answers to one question agree, of different people if they are given; None if no question
        was asked twice
    ceiling : the share of answers that a metric can predict at most, which follows from `agreement`
    n_answers, n_items, n_repeated : number of answers, of items that they compare, and of questions asked twice or more
    kind : "pairs", "triplets" or "quadruplets"
    gains : how many more answers the best learner predicts than the reference, for each new item
    """

    entries: tuple[AnswerEntry, ...]
    verdict: Verdict
    same_verdict: Verdict
    chosen: str
    same_chosen: str
    reference: str
    unit_rows: bool
    kind: str
    n_answers: int
    n_items: int
    n_features: int
    n_repeated: int = 0
    agreement: float | None = None
    folds: int = 5
    random_state: int = 0
    notes: tuple[str, ...] = ()
    gains: FloatArray = field(default_factory=lambda: np.empty(0))

    @property
    def best_learner(self) -> AnswerEntry | None:
        """The learner that predicts the most answers about new items, or None if none could be fitted."""
        return next((entry for entry in self.entries if entry.learned and entry.failure is None), None)

    @property
    def ceiling(self) -> float | None:
        """The largest share of answers that any metric can predict, or None if no question was asked twice.

        If a share p of people give the usual answer, it is predicted with probability p, and two answers agree with
        probability p² + (1 - p)². The root of that is concave, so questions that differ in p can only have less.

        >>> round((1 + math.sqrt(2 * (0.9**2 + 0.1**2) - 1)) / 2, 3)
        0.9
        """
        return None if self.agreement is None else (1.0 + math.sqrt(max(2.0 * self.agreement - 1.0, 0.0))) / 2.0

    def __getitem__(self, name: str) -> AnswerEntry:
        """Return the entry of this name."""
        entries = {entry.name: entry for entry in self.entries}
        if name not in entries:
            raise KeyError(f"there is no entry {name!r}, only {', '.join(entries)}")
        return entries[name]

    @property
    def winner(self) -> AnswerEntry:
        """The learner that is shown to help for new items, or else the best plain distance."""
        return self[self.chosen if self.verdict.kind == "shown to help" else self.reference]

    @property
    def candidate(self) -> AnswerEntry | None:
        """Another learner that helps: probably for new items, or for the same items; None if there is none."""
        name = self.chosen if self.verdict.helps else self.same_chosen if self.same_verdict.helps else self.reference
        return self[name] if self[name].learned and name != self.winner.name else None

    def sentences(self) -> list[str]:
        """Return the verdicts in words, and what limits them."""
        texts = [f"New items: {self.verdict.sentence}", f"The same items: {self.same_verdict.sentence}"]
        if self.agreement is not None and self.n_repeated >= FEWEST_REPEATED:
            agree = f"Two answers to one question agree in {self.agreement:.3f} of the cases"
            repeated = f"{self.n_repeated:,} questions were asked more than once"
            texts.append(f"{agree} ({repeated}): a metric can predict at most about {self.ceiling:.3f}.")
        return [*texts, *self.notes]

    def table(self) -> list[dict[str, Any]]:
        """Return one dictionary per entry."""
        return [vars(entry) for entry in self.entries]

    def cells(self) -> list[list[str]]:
        """Return the heading and the cells of a table."""
        lines = [["metric", "new items", "95 % interval", "same items", "95 % interval", "fit"]]
        for entry in self.entries:
            if entry.failure is not None:
                lines.append([entry.name, "failed", "", "", "", ""])
                continue
            new = _texts(entry.new_items, entry.new_low, entry.new_high)
            same = _texts(entry.same_items, entry.same_low, entry.same_high)
            lines.append([entry.name, *new, *same, f"{entry.seconds:.2f} s" if entry.learned else ""])
        return lines

    def heading(self) -> str:
        """Return what was compared."""
        return f"{self.n_answers:,} {self.kind} over {self.n_items:,} items of {self.n_features:,} features"

    def __repr__(self) -> str:
        sentences = [line for sentence in self.sentences() for line in textwrap.wrap(sentence, 100)]
        return "\n".join([self.heading(), *text_table(self.cells()), *sentences])

    def _repr_html_(self) -> str:
        lines = self.cells()
        return paragraph(self.verdict.sentence, bold=True) + as_table(lines[0], lines[1:]) + paragraph(self.heading())


def _texts(value: float, low: float, high: float) -> tuple[str, str]:
    if math.isnan(value):
        return "", ""
    return f"{value:.3f}", "" if math.isnan(low) else f"{low:.3f} to {high:.3f}"

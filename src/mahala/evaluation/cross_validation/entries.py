"""Entries of a leaderboard, and how they and the verdict follow from the cells of a comparison."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from mahala.data.scaling import Scaling
from mahala.evaluation.cross_validation.answers import AnswerPlan, Split
from mahala.evaluation.cross_validation.measures import row_losses
from mahala.evaluation.cross_validation.measuring import Cell
from mahala.evaluation.cross_validation.panel import COSINE, EUCLIDEAN, EUCLIDEAN_ALL, EUCLIDEAN_SCALED, UNSUPERVISED
from mahala.evaluation.cross_validation.plan import Key, Plan
from mahala.judge import Decision, choose, judge, mean_interval, paired_test
from mahala.support.arrays import FloatArray, IndexArray, IntArray

# A confusion matrix of more classes could not be read.
_MOST_CONFUSED = 300
_SPOKEN = {EUCLIDEAN_SCALED: "scaled Euclidean", EUCLIDEAN_ALL: "Euclidean with all features scaled"}


@dataclass(frozen=True, eq=False)
class Entry:
    """Result of one learner, of a plain distance (`learned` is False), or of a baseline.

    If it could not be fitted, `failure` is the error message and the numbers are NaN. "Error" is the loss by which the
    leaderboard ranks (`metric` of the leaderboard). Entries are a description: their intervals are not adjusted for
    the number of learners. The verdict of the leaderboard is the test. Models and baselines are measured in the first
    repetition.

    Attributes
    ----------
    kind : "metric", whose errors are those of k-NN under it, or "model", which predicts by itself
    errors : k-NN errors, test parts × numbers of neighbours (`neighbor_counts` of the leaderboard)
    n_neighbors, n_neighbors_low, n_neighbors_high : the number of neighbours that was given, or the median and the
        range of those that were chosen in the training parts
    error, low, high : mean error over rows, and the ends of its 95 % interval
    difference, difference_low, difference_high : mean error minus that of the best plain distance (negative is
        better), and the ends of its 95 % interval
    seconds : CPU seconds of a fit, the median over training parts
    plain_error, balanced_error : share of rows misclassified, and mean over classes of that share
    absolute_error : mean absolute error of predicted numbers
    scaling : scaling of the features, the most frequent one if it was chosen for each training part
    stopped : number of training parts on which the time limit stopped the fit; of its metric and the plain one, the
        better one is measured
    unit_rows : whether rows are scaled to length 1 before their distances are compared
    confusion : how many test rows of each class (a row of the matrix) were taken for each class (a column), in all
        test parts; None if there are more than 300 classes, or if the target is a number
    predicted : numbers that were predicted of the rows in the first repetition, NaN of those not tested; None of
        classes
    """

    name: str
    learned: bool
    errors: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    error: float = math.nan
    low: float = math.nan
    high: float = math.nan
    difference: float = math.nan
    difference_low: float = math.nan
    difference_high: float = math.nan
    seconds: float = 0.0
    failure: str | None = None
    plain_error: float = math.nan
    balanced_error: float = math.nan
    absolute_error: float = math.nan
    scaling: Scaling = "standard"
    stopped: int = 0
    n_neighbors: int = 0
    n_neighbors_low: int = 0
    n_neighbors_high: int = 0
    kind: Literal["metric", "model"] = "metric"
    unit_rows: bool = False
    confusion: IntArray | None = None
    predicted: FloatArray | None = None

    @property
    def is_set_apart(self) -> bool:
        """Whether the time limit stopped a fit before it was ahead of the plain distance: its error is no result."""
        return self.stopped > 0 and not self.difference < 0.0

    def numbers(self) -> dict[str, Any]:
        """Return the fields that are no arrays."""
        return {name: value for name, value in vars(self).items() if name not in ("errors", "confusion", "predicted")}

    @property
    def spoken(self) -> str:
        """The name as it is used within a sentence."""
        return _SPOKEN.get(self.name, self.name)


class Units(NamedTuple):
    """Losses of candidates by unit: rows, or whole test parts for measures that are no means over rows.

    Attributes
    ----------
    losses : by name, of shape (n_repeats, n_units)
    folds : the fold in which each unit was held out, of the same shape
    groups : number of the group of each unit, or None
    name : what the units are
    overlap : of `judge`
    rows : numbers of the rows that are the units, or are in the groups; None if the units are test parts
    """

    losses: dict[str, FloatArray]
    folds: IndexArray
    groups: IndexArray | None
    name: str
    overlap: float = 0.0
    rows: IndexArray | None = None


def knn(n_neighbors: int | None) -> str:
    """Return what nearest neighbours are called: "3-NN", or "k-NN" if k is chosen in each training part.

    >>> knn(3), knn(None)
    ('3-NN', 'k-NN')
    """
    return f"{'k' if n_neighbors is None else n_neighbors}-NN"


def units_of(plan: Plan, cells: Mapping[Key, Cell], done: Sequence[int]) -> Units:
    """Return the losses of all distances that did not fail, on the test parts that are done.

    Of rows that were tested in some of the repetitions only, because the comparison is partial, the complete
    repetitions count; without any, the parts of the one with the most, or those of the screening. A distance that was
    not measured in all of these repetitions has in the others the mean loss of each row.
    """
    measured = {name: [part for part in done if Key(name, part) in cells] for name in plan.distances}
    names = [
        name
        for name, parts in measured.items()
        if parts and all(cells[Key(name, part)].failure is None for part in parts)
    ]
    if row_losses(plan.measure, plan.target.values, plan.target.values) is None:
        by_part = {
            name: np.array([[cells[Key(name, part)].loss for part in done]])
            for name in names
            if len(measured[name]) == len(done)
        }
        overlap = 1.0 / max(plan.settings.folds - 1, 1)
        return Units(by_part, np.arange(len(done))[np.newaxis], None, "test parts", overlap)
    whole = [parts for parts in plan.repetitions if set(parts) <= set(done)]
    of_some = ([part for part in parts if part in done] for parts in (*plan.repetitions, range(plan.n_screening)))
    used = whole or [max(of_some, key=len)]
    rows = np.sort(np.concatenate([plan.parts[part][1] for part in used[0]]))
    folds = np.empty((len(used), len(plan.target.codes)), dtype=np.intp)
    for repeat, parts in enumerate(used):
        for part in parts:
            folds[repeat, plan.parts[part][1]] = part
    losses: dict[str, FloatArray] = {}
    for name in names:
        repeats = [parts for parts in used if set(parts) <= set(measured[name])]
        if not repeats:
            continue
        predicted = np.zeros((len(repeats), len(plan.target.codes)), dtype=plan.target.values.dtype)
        for repeat, parts in enumerate(repeats):
            for part in parts:
                predicted[repeat, plan.parts[part][1]] = cells[Key(name, part)].predicted
        measures = cast(FloatArray, row_losses(plan.measure, predicted[:, rows], plan.target.values[rows]))
        means = np.broadcast_to(measures.mean(axis=0), (len(used) - len(repeats), len(rows)))
        losses[name] = np.concatenate([measures, means])
    groups = None if plan.groups is None else np.unique(plan.groups[rows], return_inverse=True)[1]
    return Units(losses, folds[:, rows], groups, plan.unit, rows=rows)


def units_of_answers(split: Split, numbers: Sequence[int], plan: AnswerPlan, cells: Mapping[Key, Cell]) -> Units:
    """Return the losses of all candidates that did not fail on some test parts of a split, by their numbers."""
    tests = [plan.parts[part][1] for part in numbers]
    folds = np.repeat(np.asarray(numbers, dtype=np.intp), [len(test) for test in tests])
    losses = {
        name: np.concatenate([np.empty(0), *(cells[Key(name, part)].predicted for part in numbers)])[np.newaxis]
        for name in plan.candidates
        if all(cells[Key(name, part)].failure is None for part in numbers)
    }
    rows = np.concatenate([np.empty(0, dtype=np.intp), *tests])
    return Units(losses, folds[np.newaxis], np.unique(split.groups[rows], return_inverse=True)[1], split.units)


def unit_gains(units: Units, reference: str, name: str) -> FloatArray:
    """Return by how much the mean loss of each group of units is lower than that of the reference."""
    gains = units.losses[reference].mean(axis=0) - units.losses[name].mean(axis=0)
    if units.groups is None:
        return np.asarray(gains)
    return np.bincount(units.groups, gains) / np.maximum(np.bincount(units.groups), 1)


def reference_of(plan: Plan | AnswerPlan, units: Units) -> str:
    """Return the Euclidean distance with the lowest mean loss.

    The cosine or PCA is returned instead if the lower bound of its gain is the largest one above 0.
    """
    best = min(plan.plain, key=lambda name: round(float(units.losses[name].sum()) / max(units.folds.size, 1), 12))
    names = [best, *(name for name in units.losses if name in UNSUPERVISED and name not in plan.learners)]
    losses = np.stack([units.losses[name].mean(axis=0) for name in names], axis=1)
    return names[choose(losses[:, :1] - losses, units.groups)]


def scaled_of(plan: Plan, units: Units) -> str:
    """Return the scaled distance to use where nothing helps; the raw one if scaling changes nothing.

    With 0/1 features there are two. All features scaled is what users have without any choice, so the other one is
    taken only if the lower bound of its gain is above 0.
    """
    if EUCLIDEAN_ALL not in plan.plain:
        return EUCLIDEAN_SCALED if EUCLIDEAN_SCALED in plan.plain else EUCLIDEAN
    names = (EUCLIDEAN_ALL, EUCLIDEAN_SCALED)
    losses = np.stack([units.losses[name].mean(axis=0) for name in names], axis=1)
    return names[choose(losses[:, :1] - losses, units.groups)]


def decide(plan: Plan | AnswerPlan, units: Units, reference: str, measure: str) -> tuple[str, Decision]:
    """Return the name of the candidate that the judge chooses, and its decision."""
    names = [reference, *(name for name in plan.learners if name in units.losses)]
    values = -np.stack([units.losses[name] for name in names], axis=2)
    decision = judge(values, units.folds, measure=measure, units=units.name, groups=units.groups, overlap=units.overlap)
    return names[decision.chosen], decision


def entries(
    plan: Plan | AnswerPlan, cells: Mapping[Key, Cell], done: Sequence[int], units: Units, reference: str
) -> list[Entry]:
    """Return the entries in their order."""
    base = units.losses[reference].mean(axis=0)
    most = np.inf if isinstance(plan, Plan) and plan.target.is_number else 1.0
    result = []
    for name in dict.fromkeys((*plan.candidates, reference)):
        if isinstance(plan, Plan) and name in screened_out(plan, cells, done):
            continue
        entry = entry_of(plan, name, {part: cells[Key(name, part)] for part in done if Key(name, part) in cells})
        if name in units.losses and len(base):
            values = units.losses[name].mean(axis=0)
            low, high = mean_interval(values, units.groups)
            difference = (0.0, 0.0, 0.0) if name == reference else paired_test(values - base, units.groups)[:3]
            entry = replace(
                entry,
                error=float(values.mean()),
                low=max(low, 0.0),
                high=min(high, most),
                difference=difference[0],
                difference_low=difference[1],
                difference_high=difference[2],
            )
        result.append(entry)
    return in_order(result)


def in_order(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries from the lowest error to the highest, then those that are not finished and not ahead, or failed.

    Rounding must not break a tie with the plain distance, which is simpler.
    """
    return sorted(
        entries, key=lambda e: (e.failure is not None, e.is_set_apart, round(np.nan_to_num(e.error), 12), e.learned)
    )


def screened_out(plan: Plan, cells: Mapping[Key, Cell], done: Sequence[int]) -> list[str]:
    """Return the learners that were measured in the screening only."""
    return [name for name in plan.learners if not any(Key(name, part) in cells for part in done)]


def entry_of(plan: Plan | AnswerPlan, name: str, cells: Mapping[int, Cell]) -> Entry:
    """Return an entry without intervals, from the cells of test parts."""
    if not cells:
        return Entry(name, name in plan.learners)
    stopped = sum(cell.stopped for cell in cells.values())
    seconds = float(np.median([cell.seconds for cell in cells.values()]))
    failure = next((cell.failure for cell in cells.values() if cell.failure is not None), None)
    learned = name in plan.learners
    if failure is not None:
        return Entry(name, learned, seconds=seconds, failure=failure)
    curves = np.array([cell.losses for cell in cells.values()])
    error, scalings = float(np.mean([cell.loss for cell in cells.values()])), Counter(c.scaling for c in cells.values())
    scaling = scalings.most_common(1)[0][0]
    counts = sorted(cell.n_neighbors for cell in cells.values())
    entry = Entry(
        name, learned, curves, error, seconds=seconds, scaling=scaling, stopped=stopped,
        unit_rows=name == COSINE and not learned,
        n_neighbors=counts[len(counts) // 2], n_neighbors_low=counts[0], n_neighbors_high=counts[-1],
    )  # fmt: skip
    if isinstance(plan, AnswerPlan):
        return replace(entry, unit_rows=plan.has_unit_rows(name))
    predicted = np.concatenate([cell.predicted for cell in cells.values()])
    actual = np.concatenate([plan.target.values[plan.parts[part][1]] for part in cells])
    if plan.target.is_number:
        numbers = np.full(len(plan.rows), np.nan)
        for part in set(cells) & set(plan.repetitions[0]):
            numbers[plan.parts[part][1]] = plan.target.numbers(cells[part].predicted)
        error = float(np.abs(predicted - actual).mean()) * plan.target.unit
        return replace(entry, absolute_error=error, predicted=numbers)
    wrong, n = predicted != actual, len(plan.target.classes)
    shares = np.bincount(actual, wrong, n) / np.maximum(np.bincount(actual, minlength=n), 1)
    confusion = np.bincount(actual * n + predicted, minlength=n**2).reshape(n, n) if n <= _MOST_CONFUSED else None
    present = np.unique(actual)
    plain, balanced = float(wrong.mean()), float(shares[present].mean())
    return replace(entry, plain_error=plain, balanced_error=balanced, confusion=confusion)

"""Entries of a leaderboard, and how they follow from the cells of a comparison: neighbours, intervals and tests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from mahala.data.scaling import Scaling
from mahala.evaluation.measuring import Cell
from mahala.evaluation.plan import EUCLIDEAN_SCALED
from mahala.evaluation.statistics import holm
from mahala.support.arrays import FloatArray, IndexArray, IntArray

# Differences with an adjusted p-value above this count as chance.
ALPHA = 0.05


@dataclass(frozen=True, eq=False)
class Entry:
    """Result of one learner, of a Euclidean distance (`learned` is False), or of a baseline.

    If it could not be fitted, `failure` is the error message and the numbers are NaN. "Error" is the loss by which the
    leaderboard ranks (`metric` of the leaderboard). Baselines are measured on three test parts, as context only: they
    have no differences and no p-value.

    Attributes
    ----------
    errors : k-NN errors, test parts × numbers of neighbours (`neighbor_counts` of the leaderboard)
    error, low, high : mean error, and the ends of its 95 % interval
    difference, difference_low, difference_high : mean error minus that of the best Euclidean distance (negative is
        better), and the ends of its 95 % interval
    p_value : p-value of no difference, adjusted for the number of learners (Holm); NaN for Euclidean distances
    seconds : CPU seconds of a fit, the median over training parts
    plain_error, balanced_error : mean share of rows misclassified, and mean over classes of that share
    n_neighbors : number of neighbours: the one given, or the choice of all test parts. The error itself is measured
        with numbers of neighbours that were chosen without the test part.
    scaling : scaling of the features, the most frequent one if it was chosen for each training part
    detectable : the smallest difference that the test of this learner could have shown: its standard error times the
        quantile of Student's t at Holm's threshold for the first of all learners; NaN for Euclidean distances
    stopped : number of training parts on which the time limit stopped the fit
    confusion : how many test rows of each class (a row of the matrix) were taken for each class (a column) with
        `Leaderboard.usual_neighbors` neighbours, in all test parts; None if there are more than 300 classes
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
    p_value: float = math.nan
    seconds: float = 0.0
    failure: str | None = None
    plain_error: float = math.nan
    balanced_error: float = math.nan
    n_neighbors: int = 3
    scaling: Scaling = "standard"
    detectable: float = math.nan
    stopped: int = 0
    confusion: IntArray | None = None

    def numbers(self) -> dict[str, Any]:
        """Return the fields that are no arrays."""
        return {name: value for name, value in vars(self).items() if name not in ("errors", "confusion")}

    @property
    def spoken(self) -> str:
        """The name as it is used within a sentence."""
        return "scaled Euclidean" if self.name == EUCLIDEAN_SCALED else self.name

    @property
    def beats_euclidean(self) -> bool:
        """Whether the error is significantly below that of the best Euclidean distance."""
        return self.difference < 0.0 and self.p_value <= ALPHA


class CorrectedT(NamedTuple):
    """A mean over repeated folds, its standard error, the ends of its 95 % interval, and the p-value of a zero mean."""

    mean: float
    error: float
    low: float
    high: float
    p_value: float


def corrected_t(values: FloatArray, folds: int, step: float) -> CorrectedT:
    """Test whether the values of repeated folds, or of some of them, have a zero mean.

    The variance of the mean is (1/J + n_test/n_train) s² for J folds (Nadeau, Bengio, 2003); the usual s²/J would
    treat training parts as independent although they share most of their rows. Errors are multiples of `step`, one
    row, so s is at least the deviation that rounding to such multiples causes, step/√12. One value alone has no
    interval.
    """
    mean, n = float(values.mean()), len(values)
    mean = 0.0 if abs(mean) < 1e-12 else mean  # a tie, except for rounding
    if n < 2:
        return CorrectedT(mean, math.nan, math.nan, math.nan, math.nan)
    error = max(float(values.std(ddof=1)), step / math.sqrt(12.0)) * math.sqrt(1.0 / n + 1.0 / (folds - 1))
    reach = float(stats.t.ppf(0.975, n - 1)) * error
    return CorrectedT(mean, error, mean - reach, mean + reach, float(2.0 * stats.t.sf(abs(mean) / error, n - 1)))


def detectable(error: float, n_values: int, n_learners: int) -> float:
    """Return the smallest mean difference that a comparison could have shown, given its standard error.

    If no difference has been shown yet, Holm's method compares the smallest p-value with α/m for m learners. So a
    difference is shown if it is at least the standard error times the quantile 1 - α/(2m) of Student's t with J - 1
    degrees of freedom, for J folds.

    >>> round(detectable(0.01, 10, 9), 4)
    0.0362
    """
    return error * float(stats.t.isf(ALPHA / (2.0 * n_learners), n_values - 1)) if n_values > 1 else math.nan


def chosen_neighbors(losses: FloatArray, repetitions: IndexArray, at: int | None) -> IndexArray:
    """Return the column of each test part, of a matrix of losses of test parts × numbers of neighbours 1, 2, …

    It is `at` if that is given. Otherwise the other test parts of the same repetition of the cross-validation choose
    it: the errors of a test part have no say in its number of neighbours, though its rows were training rows of the
    others.

    >>> errors = np.array([[0.1, 0.3, 0.3], [0.2, 0.3, 0.3], [0.1, 0.4, 0.1]])
    >>> chosen_neighbors(errors, np.zeros(3, dtype=int), None)
    array([2, 2, 0])
    """
    if at is not None:
        return np.full(len(losses), at)
    parts = np.arange(len(losses))
    others = [losses[(repetitions == repetitions[part]) & (parts != part)] for part in parts]
    return np.array([best_column(rest) for rest in others])


def best_column(losses: FloatArray) -> int:
    """Return the first column with the lowest mean, if it is clearly lower than that of 3 neighbours, else theirs.

    "Clearly" is by more than one standard error of the difference: without that condition the choice among many
    similar means is a matter of luck, and does harm on small tables.
    """
    usual = min(2, int(losses.shape[1]) - 1)
    if len(losses) < 2:
        return usual
    best = int(np.argmin(losses.mean(axis=0).round(12)))  # means that differ by rounding are equal
    gains = losses[:, usual] - losses[:, best]
    clear = float(gains.mean()) - float(gains.std(ddof=1)) / math.sqrt(len(gains))
    return best if round(clear, 12) > 0.0 else usual


def entries(
    cells: Mapping[str, Sequence[Cell]],
    learned: set[str],
    *,
    repetitions: IndexArray,
    at: int | None,
    folds: int,
    step: float,
) -> tuple[Entry, ...]:
    """Return the entries, from the lowest loss to the highest, then those that failed.

    `cells` has the cells of the same test parts for each name, `repetitions` the repetition of each part; the other
    arguments are those of `chosen_neighbors` and `corrected_t`.
    """
    measured: dict[str, Entry] = {}
    losses: dict[str, FloatArray] = {}
    for name, parts in cells.items():
        measured[name], values = _entry(name, name in learned, parts, repetitions, at)
        if values is not None:
            losses[name] = values
    base = min((name for name in losses if name not in learned), key=lambda name: round(losses[name].mean(), 12))
    tests = {name: corrected_t(values - losses[base], folds, step) for name, values in losses.items()}
    tested = [name for name, test in tests.items() if name in learned and not math.isnan(test.p_value)]
    p_values = dict(zip(tested, holm([tests[name].p_value for name in tested]).tolist(), strict=True))
    for name, test in tests.items():
        mean, _, low, high, _ = corrected_t(losses[name], folds, step)
        difference, lower, upper = (0.0, 0.0, 0.0) if name == base else (test.mean, test.low, test.high)
        measured[name] = replace(
            measured[name],
            error=mean,
            low=max(low, 0.0) if low == low else low,
            high=min(high, 1.0) if high == high else high,
            difference=difference,
            difference_low=lower,
            difference_high=upper,
            p_value=p_values.get(name, math.nan),
            detectable=detectable(test.error, len(losses[name]), len(tested)) if name in p_values else math.nan,
        )
    # Rounding must not break a tie with the Euclidean distance, which is simpler.
    return tuple(sorted(measured.values(), key=lambda e: (e.failure is not None, round(e.error, 12), e.learned)))


def context(cells: Mapping[str, Sequence[Cell]], at: int | None) -> tuple[Entry, ...]:
    """Return what was measured of methods that are not candidates, on test parts of one repetition."""
    return tuple(
        _entry(name, False, parts, np.zeros(len(parts), dtype=np.int64), at)[0] for name, parts in cells.items()
    )


def _entry(
    name: str, learned: bool, cells: Sequence[Cell], repetitions: IndexArray, at: int | None
) -> tuple[Entry, FloatArray | None]:
    """Return an entry without intervals and tests, and its losses on the test parts; None if it failed."""
    stopped, seconds = sum(cell.stopped for cell in cells), float(np.median([cell.seconds for cell in cells]))
    failure = next((cell.failure for cell in cells if cell.failure is not None), None)
    if failure is not None:
        return Entry(name, learned, seconds=seconds, failure=failure), None
    losses, plain, balanced = (
        np.array([getattr(cell, kind) for cell in cells]) for kind in ("losses", "errors", "balanced")
    )
    chosen = np.arange(len(cells)), chosen_neighbors(losses, repetitions, at)
    matrices = [cell.confusion for cell in cells if cell.confusion is not None]
    entry = Entry(
        name,
        learned,
        losses,
        float(losses[chosen].mean()),
        seconds=seconds,
        plain_error=float(plain[chosen].mean()),
        balanced_error=float(balanced[chosen].mean()),
        n_neighbors=1 + (best_column(losses) if at is None else at),
        scaling=Counter(cell.scaling for cell in cells).most_common(1)[0][0],
        stopped=stopped,
        confusion=np.sum(matrices, axis=0) if len(matrices) == len(cells) else None,
    )
    return entry, losses[chosen]

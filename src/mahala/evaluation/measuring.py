"""Measure the cells of a comparison: fit a candidate to a training part, and classify the test part."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from mahala.compiled.search.neighbors import vote
from mahala.compiled.threads import one_thread
from mahala.data.scaling import SCALINGS, Scaling, divided, feature_scales
from mahala.evaluation.fitting import CLASSIFIERS, DISTANCES, class_scores, embedded, fitted
from mahala.evaluation.knn import misclassified, neighbor_codes
from mahala.evaluation.measures import Measure, losses, row_weights
from mahala.evaluation.plan import EUCLIDEAN, EUCLIDEAN_SCALED, Key, Plan
from mahala.learner import Learner
from mahala.online.online_learner import OnlineLearner
from mahala.support.arrays import FloatArray, IndexArray, IntArray
from mahala.support.contexts import time_limit
from mahala.support.parameters import config_context, get_config

# Shares of the budget: of the learners' fits, of the baselines', and of the final fit.
_SHARES = {"learners": 0.8, "baselines": 0.1, "final": 0.1}
# Rows of a training part by which its scaling is chosen.
_MOST_TRIED = 2_000
# A confusion matrix of more classes could not be read.
_MOST_CONFUSED = 300


@dataclass(frozen=True, eq=False)
class Cell:
    """What was measured of a candidate on a test part, for every number of neighbours; or why nothing was.

    Attributes
    ----------
    losses, errors, balanced : losses by the measure that ranks, plain errors and balanced errors
    seconds : CPU seconds of the fit
    scaling : the scaling that was used
    stopped : whether the fit was stopped by its time limit
    confusion : test rows of each class (a row) that were taken for each class (a column); None for many classes
    """

    losses: FloatArray
    errors: FloatArray
    balanced: FloatArray
    seconds: float
    scaling: Scaling
    stopped: bool = False
    failure: str | None = None
    confusion: IntArray | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Cell:
        """Return the cell whose fields are values that were read from a file."""
        fields: dict[str, Any] = {n: np.array(v) if isinstance(v, list) else v for n, v in values.items()}
        return cls(**fields)


class Budget:
    """Shares the time of a comparison among the fits that can be stopped.

    Each fit may take an equal share and, of what quick learners do not need, an equal share among the learners that
    are not known to be quick.

    Parameters
    ----------
    seconds : time for the whole comparison, or None for no limit
    keys : the cells that are to be measured
    learners : learners by name; those in closed form are not stopped
    n_jobs : number of processes
    """

    def __init__(
        self, seconds: float | None, keys: Iterable[Key], learners: Mapping[str, Learner], n_jobs: int
    ) -> None:
        able = {
            name
            for name, learner in learners.items()
            if isinstance(learner, OnlineLearner) or "max_iter" in learner.get_params()
        }
        keys = list(keys)
        self._seconds = seconds
        self._n_jobs = n_jobs
        self._began = time.monotonic()
        self._fits_left = Counter(key.name for key in keys if key.name in able)
        self._share = n_jobs / max(self._fits_left.total(), 1)
        self._baseline_share = n_jobs / max(sum(key.name in CLASSIFIERS for key in keys), 1)
        self._taken: dict[str, float] = {}  # by the longest fit of learners that were not stopped

    def is_spent(self) -> bool:
        """Whether the whole time is over."""
        return self._seconds is not None and time.monotonic() - self._began > self._seconds

    def limit(self, name: str) -> float | None:
        """Return the seconds that a fit which begins now may take."""
        if self._seconds is None:
            return None
        if name in CLASSIFIERS and name not in self._fits_left:
            return _SHARES["baselines"] * self._seconds * self._baseline_share
        if name not in self._fits_left:
            return None
        self._fits_left[name] -= 1
        whole = _SHARES["learners"] * self._seconds
        left = (whole - (time.monotonic() - self._began)) * self._n_jobs
        left -= sum(seconds * self._fits_left[quick] for quick, seconds in self._taken.items())
        others = sum(n for other, n in self._fits_left.items() if other not in self._taken)
        return max(whole * self._share, left / (1 + others))

    def note(self, name: str, seconds: float, stopped: bool) -> None:
        """Note how long a fit took, and whether its limit stopped it."""
        if stopped:
            self._taken.pop(name, None)
        elif name in self._fits_left:
            self._taken[name] = max(seconds, self._taken.get(name, 0.0))


def final_seconds(budget: float | None) -> float | None:
    """Return the time that the final fit of a comparison with this budget may take."""
    return None if budget is None else _SHARES["final"] * budget


class Chosen(NamedTuple):
    """The scalings of a training part: of learners, and of the scaled Euclidean distance."""

    learners: Scaling
    euclidean: Scaling


def measured_cells(plan: Plan, keys: Sequence[Key], budget: Budget, n_jobs: int) -> Iterator[tuple[Key, Cell]]:
    """Yield cells in the order in which they are finished, in any number of processes."""
    settings = get_config()
    parts = sorted({key.part for key in keys})
    chosen = dict(zip(parts, Parallel(n_jobs)(delayed(choose)(plan, part, settings) for part in parts), strict=True))
    calls = (delayed(measure_cell)(plan, key, chosen[key.part], budget.limit(key.name), settings) for key in keys)
    with closing(Parallel(n_jobs, return_as="generator_unordered")(calls)) as results:
        for key, cell in results:
            budget.note(key.name, cell.seconds, cell.stopped)
            yield key, cell


def choose(plan: Plan, part: int, settings: dict[str, Any]) -> Chosen:
    """Choose the scalings of a training part by leave-one-out errors of the Euclidean distance in it."""
    if plan.scaling != "auto":
        return Chosen(plan.scaling, plan.scaling)
    rng = np.random.default_rng(plan.random_state + part)
    rows = plan.parts[part][0]
    if len(rows) > _MOST_TRIED:
        rows = np.sort(rng.choice(rows, _MOST_TRIED, replace=False))
    (X, _), codes = plan.split(rows, rows[:0]), plan.codes[rows]
    k = np.array([min(plan.usual_neighbors, len(rows) - 1)])
    weights = row_weights(plan.measure, codes)
    mistakes: dict[Scaling, FloatArray] = {}
    by_shape: dict[bytes, FloatArray] = {}  # scales that are multiples of each other make the same mistakes
    with config_context(**settings), one_thread():
        for how in SCALINGS:
            scales = feature_scales(X, how)
            shape = (scales / scales.max()).round(12).tobytes()
            if shape not in by_shape:
                by_shape[shape] = misclassified(divided(X, scales), codes, None, codes, k)[:, 0] * weights
            mistakes[how] = by_shape[shape]
    return Chosen(clearly_best(mistakes), clearly_best({how: mistakes[how] for how in mistakes if how != "none"}))


def clearly_best(mistakes: Mapping[Scaling, FloatArray]) -> Scaling:
    """Return the scaling with the fewest mistakes if it is clearly better than the first one, else the first.

    `mistakes` has the weight of each row that is classified wrongly, and 0 for the others. The mean of differences
    must be above two standard errors, as in McNemar's test.

    >>> wrong = np.repeat([1.0, 0.0], [6, 94])
    >>> [clearly_best({"standard": mistakes, "none": 0.0 * mistakes}) for mistakes in (wrong, wrong[4:])]
    ['none', 'standard']
    """
    first = next(iter(mistakes))
    best = min(mistakes, key=lambda how: (float(mistakes[how].sum()), how != first))
    gain = mistakes[first] - mistakes[best]
    return best if gain.sum() > 2.0 * np.sqrt(np.square(gain).sum()) else first


def measure_cell(
    plan: Plan, key: Key, chosen: Chosen, seconds: float | None, settings: dict[str, Any]
) -> tuple[Key, Cell]:
    """Fit a candidate to a training part and measure its losses on the test part."""
    learner = plan.learners.get(key.name)
    how: Scaling = "none" if key.name == EUCLIDEAN else chosen.euclidean if learner is None else chosen.learners
    # One thread: several are slow on small matrices, and would count CPU seconds spent waiting.
    with config_context(**settings), one_thread(), warnings.catch_warnings(), time_limit(seconds) as limit:
        warnings.simplefilter("ignore")  # a fit that stops early shows in its error
        start = time.process_time()
        try:
            if learner is None and key.name in CLASSIFIERS:
                how = "standard"
                predicted, score, spent = _by_classifier(plan, key)
            else:
                predicted, score, spent = _by_neighbors(plan, key, learner, how)
            losses = _losses(plan, predicted, plan.codes[plan.parts[key.part][1]], score)
            return key, Cell(*losses[:3], spent, how, limit.stopped, confusion=losses[3])
        except Exception as error:  # an error of one learner must not lose the results of the others
            if key.name in (EUCLIDEAN, EUCLIDEAN_SCALED):
                raise
            nothing = np.empty(0)
            failure = str(error) or type(error).__name__
            return key, Cell(nothing, nothing, nothing, time.process_time() - start, how, limit.stopped, failure)


class _Predicted(NamedTuple):
    """Classes of test rows, rows × numbers of neighbours; the scores of a class, likewise; CPU seconds of the fit."""

    classes: IndexArray
    score: Callable[[int], FloatArray]
    seconds: float


def _by_classifier(plan: Plan, key: Key) -> _Predicted:
    train, test = plan.parts[key.part]
    X, X_test = plan.split(train, test)
    start, n = time.process_time(), len(plan.counts)
    scales = feature_scales(X, "standard")
    scores = class_scores(key.name, divided(X, scales), plan.codes[train], divided(X_test, scales), plan.random_state)
    seconds = time.process_time() - start
    classes = np.repeat(scores.argmax(axis=1)[:, None], n, axis=1)
    return _Predicted(classes, lambda code: np.repeat(scores[:, [code]], n, axis=1), seconds)


def _by_neighbors(plan: Plan, key: Key, learner: Learner | None, how: Scaling) -> _Predicted:
    train, test = plan.parts[key.part]
    (X, X_test), codes = plan.split(train, test), plan.codes[train]
    start = time.process_time()
    if learner is not None:
        learner = cast(Learner, clone(learner))
        if learner.get_params().get("random_state", 0) is None:
            learner.set_params(random_state=plan.random_state + key.part)
        metric = fitted(X, codes, learner, how)
        if not metric.is_psd:
            raise ValueError(f"{type(learner).__name__} learned a metric that is not positive semi-definite")
        X, X_test = metric.transform(X), metric.transform(X_test)
    elif key.name != EUCLIDEAN:
        scales = feature_scales(X, how)
        X, X_test = divided(X, scales), divided(X_test, scales)
        if key.name in DISTANCES:
            X, X_test = embedded(key.name, X, codes, X_test)
    seconds = time.process_time() - start
    near = neighbor_codes(X, codes, X_test, len(plan.counts))
    classes = vote(near, len(plan.classes))
    return _Predicted(classes, lambda code: np.cumsum(near == code, axis=1) / plan.counts, seconds)


def _losses(
    plan: Plan, predicted: IndexArray, y: IndexArray, score: Callable[[int], FloatArray]
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray | None]:
    """Return losses by the measure that ranks, errors, balanced errors, and the confusion matrix of few classes."""
    counts = np.bincount(plan.codes)
    positive = int(counts.argmin()) if len(counts) == 2 else None
    kinds: tuple[Measure, ...] = (plan.measure, "error", "balanced")
    first, second, third = (losses(kind, predicted, y, score, positive) for kind in kinds)
    n = len(counts)
    column = predicted[:, min(plan.usual_neighbors, predicted.shape[1]) - 1]
    confusion = np.bincount(y * n + column, minlength=n**2).reshape(n, n) if n <= _MOST_CONFUSED else None
    return first, second, third, confusion

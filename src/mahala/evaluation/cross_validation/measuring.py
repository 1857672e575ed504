"""Measure the cells of a comparison: fit a candidate to a training part, and classify the test part."""

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Self, cast

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from mahala.compiled.threads import one_thread
from mahala.data.scaling import Scaling, divided, feature_scales, tried_scalings
from mahala.evaluation.cross_validation.answers import AnswerPlan, losses_of
from mahala.evaluation.cross_validation.fitting import (
    CLASSIFIERS,
    DISTANCES,
    baseline_scores,
    can_be_stopped,
    embedded,
    fitted,
    predictor_scores,
)
from mahala.evaluation.cross_validation.measures import Measure, losses, measure_for, rarer_class, row_losses
from mahala.evaluation.cross_validation.panel import EUCLIDEAN, EUCLIDEAN_ALL, PLAIN
from mahala.evaluation.cross_validation.plan import Key, Plan, Target, target_of
from mahala.evaluation.cross_validation.settings import Settings
from mahala.evaluation.cross_validation.voting import best_count, chosen_neighbors, predictions
from mahala.evaluation.knn import DEFAULT_NEIGHBORS
from mahala.learner import Learner
from mahala.metric import MahalanobisMetric, Metric
from mahala.metric.plots import distance_shares, row_differences
from mahala.support.arrays import FloatArray, IndexArray
from mahala.support.limits import time_limit
from mahala.support.parameters import config_context, get_config

# Shares of the time of a round: of the learners' fits, and of the baselines'.
_SHARES = {"learners": 0.8, "baselines": 0.1}
# The part of the whole time that a final fit may take if nothing is left.
_LATE = 0.02
# Rows of a training part by which its scaling is chosen, at most; of many features fewer, so that all pairs of rows
# have so many numbers, but some.
_MOST_TRIED, _NUMBERS_TRIED, _LEAST_TRIED = 1_000, 1e8, 300


@dataclass(frozen=True, eq=False)
class Cell:
    """What was measured of a candidate on a test part; or why nothing was.

    Attributes
    ----------
    losses : losses by the measure that ranks, for every number of neighbours; a single one of a model
    predicted : predicted classes or numbers of the test rows, with `n_neighbors` neighbours
    seconds : CPU seconds of the fit
    scaling : the scaling that was used
    stopped : whether the fit was stopped by its time limit
    n_neighbors : number of neighbours, given or chosen in the training part; 0 of a model
    record_shares : shares of the columns `records` of the plan in the mean squared distance; empty of a model
    """

    losses: FloatArray
    predicted: Any
    seconds: float
    scaling: Scaling
    stopped: bool = False
    failure: str | None = None
    n_neighbors: int = 0
    record_shares: FloatArray = field(default_factory=lambda: np.empty(0))

    @property
    def loss(self) -> float:
        """The loss of what was predicted."""
        return float(self.losses[max(self.n_neighbors, 1) - 1])

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the cell whose fields are values that were read from a file."""
        fields: dict[str, Any] = {n: np.array(v) if isinstance(v, list) else v for n, v in values.items()}
        return cls(**fields)


class Clock:
    """The time that a comparison and what follows it have, in seconds; None for no limit.

    It began at a time of `time.monotonic`, or begins now.
    """

    def __init__(self, seconds: float | None, began: float | None = None) -> None:
        self._whole = seconds
        self._end = None if seconds is None else (time.monotonic() if began is None else began) + float(seconds)

    def left(self) -> float:
        """Return the seconds that are left."""
        return math.inf if self._end is None else max(self._end - time.monotonic(), 0.0)

    def seconds(self, share: float = 1.0) -> float | None:
        """Return the seconds that a final fit may take, a share of those left; some, even if it is late."""
        return None if self._whole is None else max(share * self.left(), _LATE * self._whole)


class Budget:
    """Shares the time of a round among the fits that can be stopped.

    Each fit may take an equal share and, of what quick learners do not need, an equal share among the learners that
    are not known to be quick. No fit may take more than all rounds have left.

    Parameters
    ----------
    clock : the time of all rounds
    share : the part of what is left that this round may take
    keys : the cells that are to be measured
    learners : learners and predictors by name; those in closed form are not stopped
    n_jobs : number of processes
    """

    def __init__(
        self, clock: Clock, share: float, keys: Iterable[Key], learners: Mapping[str, Any], n_jobs: int
    ) -> None:
        able = {name for name, learner in learners.items() if can_be_stopped(learner)}
        keys = list(keys)
        self._clock = clock
        self._seconds = share * clock.left()
        self._later = clock.left() - self._seconds
        self._n_jobs = n_jobs
        self._fits_left = Counter(key.name for key in keys if key.name in able)
        self._share = n_jobs / max(self._fits_left.total(), 1)
        self._baseline_share = n_jobs / max(sum(key.name in CLASSIFIERS for key in keys), 1)
        self._taken: dict[str, float] = {}  # by the longest fit of learners that were not stopped

    def limit(self, name: str) -> float | None:
        """Return the seconds that a fit which begins now may take."""
        left = self._clock.left()
        if left == math.inf:
            return None
        if name not in self._fits_left:
            return min(
                _SHARES["baselines"] * self._seconds * self._baseline_share if name in CLASSIFIERS else left, left
            )
        self._fits_left[name] -= 1
        whole = _SHARES["learners"] * self._seconds
        own = (left - self._later - (self._seconds - whole)) * self._n_jobs
        own -= sum(seconds * self._fits_left[quick] for quick, seconds in self._taken.items())
        others = sum(n for other, n in self._fits_left.items() if other not in self._taken)
        return min(max(whole * self._share, own / (1 + others)), left)

    def note(self, name: str, seconds: float, stopped: bool) -> None:
        """Note how long a fit took, and whether its limit stopped it."""
        if stopped:
            self._taken.pop(name, None)
        elif name in self._fits_left:
            self._taken[name] = max(seconds, self._taken.get(name, 0.0))


def measured_cells(
    plan: Plan | AnswerPlan, keys: Sequence[Key], budget: Budget, n_jobs: int
) -> Iterator[tuple[Key, Cell]]:
    """Yield cells in the order in which they are finished, in any number of processes."""
    config = get_config()
    parts = sorted({key.part for key in keys})
    scalings: list[tuple[Scaling, Scaling]] = [("none", "none")] * len(parts)
    if isinstance(plan, Plan):
        scalings = Parallel(n_jobs)(delayed(choose)(plan, part, config) for part in parts)
    chosen = dict(zip(parts, scalings, strict=True))
    calls = (delayed(measure_cell)(plan, key, chosen[key.part], budget.limit(key.name), config) for key in keys)
    with closing(Parallel(n_jobs, return_as="generator_unordered")(calls)) as results:
        for key, cell in results:
            budget.note(key.name, cell.seconds, cell.stopped)
            yield key, cell


def choose(plan: Plan, part: int, config: dict[str, Any]) -> tuple[Scaling, Scaling]:
    """Return the scalings of a training part for learners, and for the scaled Euclidean distance.

    They are chosen by leave-one-out losses of the Euclidean distance in this part, each with its best number of
    neighbours.
    """
    settings = plan.settings
    if settings.scaling != "auto":
        return settings.scaling, settings.scaling
    rows = _tried(plan.parts[part][0], plan.X.shape[1], settings.random_state + part)
    (X, _), target = plan.split(rows, rows[:0]), plan.target.select(rows)
    counts = plan.counts if settings.n_neighbors is None else np.array([settings.n_neighbors])
    with config_context(**config):
        by_scaling = _losses_by_scaling(X, target, plan.scalings, counts, plan.measure)
    scaled: dict[Scaling, FloatArray] = {how: losses for how, losses in by_scaling.items() if how != "none"}
    return clearly_best(by_scaling), clearly_best(scaled)


def scaling_for(X: Any, y: Any, *, numbers: bool, seed: int = 0) -> Scaling:
    """Return the scaling that `compare` chooses for learners if all rows are its training part."""
    target = target_of(y, X.shape[0], numbers)
    rows = _tried(np.arange(X.shape[0]), X.shape[1], seed)
    measure: Measure = "r2" if numbers else measure_for(target.codes)
    counts = np.array(DEFAULT_NEIGHBORS)
    return clearly_best(_losses_by_scaling(X[rows], target.select(rows), tried_scalings(X), counts, measure))


def _tried(rows: IndexArray, n_features: int, seed: int) -> IndexArray:
    """Return the rows by which a scaling is chosen."""
    most = int(np.clip(np.sqrt(_NUMBERS_TRIED / n_features), _LEAST_TRIED, _MOST_TRIED))
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


def _losses_by_scaling(
    X: Any, target: Target, scalings: Sequence[Scaling], counts: IndexArray, measure: Measure
) -> dict[Scaling, FloatArray]:
    """Return the leave-one-out losses of rows under each scaling, with its best number of neighbours."""
    counts = np.unique(np.minimum(counts, X.shape[0] - 1))
    measure = "error" if measure == "error" else "r2" if target.is_number else "balanced"
    by_scaling: dict[Scaling, FloatArray] = {}
    by_shape: dict[bytes, FloatArray] = {}  # scales that are multiples of each other make the same mistakes
    with one_thread():
        for how in scalings:
            scales = feature_scales(X, how)
            shape = (scales / scales.max()).round(12).tobytes()
            if shape not in by_shape:
                predicted, _ = predictions(divided(X, scales), target, None, counts)
                tried = cast(FloatArray, row_losses(measure, predicted.T, target.values))
                by_shape[shape] = tried[best_count(tried.mean(axis=1))]
            by_scaling[how] = by_shape[shape]
    return by_scaling


def clearly_best(losses: Mapping[Scaling, FloatArray]) -> Scaling:
    """Return the scaling with the lowest losses of rows if it is clearly better than the first one, else the first.

    The mean of differences must be above two standard errors, as in McNemar's test.

    >>> wrong = np.repeat([1.0, 0.0], [6, 94])
    >>> [clearly_best({"standard": losses, "none": 0.0 * losses}) for losses in (wrong, wrong[4:])]
    ['none', 'standard']
    """
    first = next(iter(losses))
    best = min(losses, key=lambda how: (float(losses[how].sum()), how != first))
    gain = losses[first] - losses[best]
    return best if gain.sum() > 2.0 * np.sqrt(np.square(gain).sum()) else first


def measure_cell(
    plan: Plan | AnswerPlan, key: Key, scalings: tuple[Scaling, Scaling], seconds: float | None, config: dict[str, Any]
) -> tuple[Key, Cell]:
    """Fit a candidate to a training part and measure its losses on the test part."""
    learner = plan.learners.get(key.name)
    how = scalings[learner is None]
    if learner is None and key.name in (EUCLIDEAN, EUCLIDEAN_ALL):
        how = "none" if key.name == EUCLIDEAN else "standard"
    # One thread: several are slow on small matrices, and would count CPU seconds spent waiting.
    with config_context(**config), one_thread(), warnings.catch_warnings(), time_limit(seconds) as limit:
        warnings.simplefilter("ignore")  # a fit that stops early shows in its error
        start = time.process_time()
        try:
            if isinstance(plan, AnswerPlan):
                wrong, spent = _by_answers(plan, key)
                return key, Cell(np.array([wrong.mean()]), wrong, spent, "none", limit.stopped)
            if key.name in plan.models:
                how = "none" if key.name in plan.predictors else "standard"
                predicted, scores, spent, k, shares = *_by_model(plan, key), 0, np.empty(0)
            else:
                predicted, scores, spent, k, shares = _by_neighbors(plan, key, learner, how)
            values = plan.target.values[plan.parts[key.part][1]]
            curve = losses(plan.measure, predicted, values, scores, rarer_class(plan.target.codes))
            answers = predicted[:, max(k, 1) - 1]
            stopped = limit.stopped and (learner is None or can_be_stopped(learner))
            return key, Cell(curve, answers, spent, how, stopped, n_neighbors=k, record_shares=shares)
        except Exception as error:  # an error of one learner must not lose the results of the others
            if key.name in PLAIN:
                raise
            nothing = np.empty(0)
            failure = str(error) or type(error).__name__
            return key, Cell(nothing, nothing, time.process_time() - start, how, limit.stopped, failure)


def _by_answers(plan: AnswerPlan, key: Key) -> tuple[FloatArray, float]:
    """Return the losses of the tested answers, and CPU seconds."""
    train, test = plan.parts[key.part]
    data = plan.unit_data if plan.has_unit_rows(key.name) else plan.data
    learner = plan.learners.get(key.name)
    start = time.process_time()
    metric: Metric = MahalanobisMetric.euclidean(data.n_features)
    if learner is not None:
        metric = _seeded(learner, plan.settings, key).fit(data[train]).metric_
    seconds = time.process_time() - start
    return losses_of(metric, data, train, test), seconds


def _seeded(learner: Learner, settings: Settings, key: Key) -> Learner:
    """Return a copy of a learner; if it has no seed, with one that depends on the test part."""
    learner = cast(Learner, clone(learner))
    if learner.get_params().get("random_state", 0) is None:
        learner.set_params(random_state=settings.random_state + key.part)
    return learner


Scores = Callable[[int], FloatArray]


def _by_model(plan: Plan, key: Key) -> tuple[Any, Scores, float]:
    """Return a column of predictions of the test rows, scores of a class, and CPU seconds."""
    train, test = plan.parts[key.part]
    X, X_test = plan.split(train, test)
    start = time.process_time()
    target = plan.target.select(train)
    by_class = plan.measure == "balanced"
    if key.name in plan.predictors:
        model, groups = plan.predictors[key.name], None if plan.groups is None else plan.groups[train]
        scores = predictor_scores(model, X, target, X_test, groups, by_class)
    else:
        scales = feature_scales(X, "standard")
        rows = divided(X, scales), target, divided(X_test, scales)
        scores = baseline_scores(key.name, *rows, plan.settings.random_state, by_class)
    seconds = time.process_time() - start
    predicted = scores[:, 0] if target.is_number else scores.argmax(axis=1)
    return predicted[:, None], lambda code: scores[:, [code]], seconds


def _by_neighbors(
    plan: Plan, key: Key, learner: Learner | None, how: Scaling
) -> tuple[Any, Scores, float, int, FloatArray]:
    """Return what was measured of a distance.

    These are predictions of the test rows for every number of neighbours, scores of a class, CPU seconds, k, and the
    shares of `plan.records` in the mean squared distance.
    """
    train, test = plan.parts[key.part]
    (X, X_test), target = plan.split(train, test), plan.target.select(train)
    start = time.process_time()
    L, scaled = None, X
    if learner is not None:
        metric = fitted(X, target.of(learner), _seeded(learner, plan.settings, key), how)
        if not metric.is_psd:
            raise ValueError(f"{type(learner).__name__} learned a metric that is not positive semi-definite")
        L, scaled = metric.components, metric._rows(X, "X")
        X, X_test = metric.transform(X), metric.transform(X_test)
    elif key.name != EUCLIDEAN:
        scales = feature_scales(X, how)
        X, X_test = scaled, _ = divided(X, scales), divided(X_test, scales)
        if key.name in DISTANCES:
            X, X_test = embedded(key.name, X, target.codes, X_test)
    seconds = time.process_time() - start
    k = chosen_neighbors(plan, key.part, X, target)
    predicted, means = predictions(X, target, X_test, plan.counts, keep=plan.measure == "roc_auc")
    return predicted, lambda code: means[:, :, code].T, seconds, k, _record_shares(plan, scaled, L)


def _record_shares(plan: Plan, rows: Any, L: FloatArray | None) -> FloatArray:
    """Return the shares of `plan.records` in the mean squared length of differences of scaled rows that L maps."""
    preprocessor = plan.settings.preprocessor
    if preprocessor is None or not plan.records:
        return np.empty(0)
    shares = distance_shares(row_differences(rows), L, preprocessor.feature_groups())
    return np.array([shares[name] for name in plan.records])

"""Measure the cells of a comparison: fit a candidate to a training part, and classify the test part."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from mahala.compiled.search.neighbors import vote
from mahala.compiled.threads import one_thread
from mahala.data.preprocessing import TablePreprocessor
from mahala.data.scaling import SCALINGS, Scaling, divided, feature_scales
from mahala.evaluation.baselines import CLASSIFIERS, DISTANCES, class_scores, embedded
from mahala.evaluation.budget import Budget
from mahala.evaluation.cells import Cell, Key
from mahala.evaluation.entries import EUCLIDEAN, EUCLIDEAN_SCALED
from mahala.evaluation.fitting import fitted
from mahala.evaluation.knn import misclassified, neighbor_codes
from mahala.evaluation.measures import Measure, losses, row_weights
from mahala.learner import Learner
from mahala.support.arrays import FloatArray, IndexArray, IntArray
from mahala.support.contexts import time_limit
from mahala.support.parameters import config_context, get_config

# Rows of a training part by which its scaling is chosen.
_MOST_TRIED = 2_000
# A confusion matrix of more classes could not be read.
_MOST_CONFUSED = 300


@dataclass(frozen=True, eq=False)
class Task:
    """What all cells of a comparison have in common."""

    X: Any
    codes: IndexArray
    parts: list[tuple[IndexArray, IndexArray]]
    counts: IndexArray
    measure: Measure
    scaling: Literal["auto"] | Scaling
    n_tried: int
    """Number of neighbours with which scalings are tried and confusions counted."""
    random_state: int
    preprocessor: TablePreprocessor | None = None
    """What made X of a table."""

    def rows(self, train: IndexArray, test: IndexArray) -> tuple[Any, Any]:
        """Return training and test rows, in which medians and categories are those of the training rows."""
        X, X_test = self.X[train], self.X[test]
        return (X, X_test) if self.preprocessor is None else self.preprocessor.refitted(X, X_test)


class Chosen(NamedTuple):
    """The scalings of a training part: of learners, and of the scaled Euclidean distance."""

    learners: Scaling
    euclidean: Scaling


def measured_cells(
    task: Task, keys: Sequence[Key], learners: Mapping[str, Learner], budget: Budget, n_jobs: int
) -> Iterator[tuple[Key, Cell]]:
    """Yield cells in the order in which they are finished, in any number of processes."""
    settings = get_config()
    parts = sorted({key.part for key in keys})
    chosen = dict(zip(parts, Parallel(n_jobs)(delayed(choose)(task, part, settings) for part in parts), strict=True))
    calls = (
        delayed(measure_cell)(task, key, learners.get(key.name), chosen[key.part], budget.limit(key.name), settings)
        for key in keys
    )
    with closing(Parallel(n_jobs, return_as="generator_unordered")(calls)) as results:
        for key, cell in results:
            budget.note(key.name, cell)
            yield key, cell


def choose(task: Task, part: int, settings: dict[str, Any]) -> Chosen:
    """Choose the scalings of a training part by leave-one-out errors of the Euclidean distance in it."""
    if task.scaling != "auto":
        return Chosen(task.scaling, task.scaling)
    rng = np.random.default_rng(task.random_state + part)
    rows = task.parts[part][0]
    if len(rows) > _MOST_TRIED:
        rows = np.sort(rng.choice(rows, _MOST_TRIED, replace=False))
    (X, _), codes = task.rows(rows, rows[:0]), task.codes[rows]
    k = np.array([min(task.n_tried, len(rows) - 1)])
    weights = row_weights(task.measure, codes)
    wrong: dict[Scaling, FloatArray] = {}
    seen: dict[bytes, FloatArray] = {}  # scales that are multiples of each other make the same mistakes
    with config_context(**settings), one_thread():
        for how in SCALINGS:
            scales = feature_scales(X, how)
            shape = (scales / scales.max()).round(12).tobytes()
            if shape not in seen:
                seen[shape] = misclassified(divided(X, scales), codes, None, codes, k)[:, 0] * weights
            wrong[how] = seen[shape]
    return Chosen(clearly_best(wrong), clearly_best({how: own for how, own in wrong.items() if how != "none"}))


def clearly_best(mistakes: Mapping[Scaling, FloatArray]) -> Scaling:
    """Return the scaling with the fewest mistakes if it is clearly better than the first one, else the first.

    `mistakes` has the weight of each row that is classified wrongly, and 0 for the others. The mean of differences
    must be above two standard errors, as in McNemar's test.

    >>> wrong = np.repeat([1.0, 0.0], [6, 94])
    >>> [clearly_best({"standard": own, "none": 0.0 * own}) for own in (wrong, wrong[4:])]
    ['none', 'standard']
    """
    first = next(iter(mistakes))
    best = min(mistakes, key=lambda how: (float(mistakes[how].sum()), how != first))
    gain = mistakes[first] - mistakes[best]
    return best if gain.sum() > 2.0 * np.sqrt(np.square(gain).sum()) else first


def measure_cell(
    task: Task, key: Key, learner: Learner | None, chosen: Chosen, seconds: float | None, settings: dict[str, Any]
) -> tuple[Key, Cell]:
    """Fit a candidate to a training part and measure its losses on the test part."""
    train, test = task.parts[key.part]
    (X, X_test), codes, y = task.rows(train, test), task.codes[train], task.codes[test]
    how: Scaling = "none" if key.name == EUCLIDEAN else chosen.euclidean if learner is None else chosen.learners
    # One thread: several are slow on small matrices, and would count CPU seconds spent waiting.
    with config_context(**settings), one_thread(), warnings.catch_warnings(), time_limit(seconds) as limit:
        warnings.simplefilter("ignore")  # a fit that stops early shows in its error
        start = time.process_time()
        try:
            if key.name in CLASSIFIERS and learner is None:
                scales = feature_scales(X, "standard")
                scores = class_scores(key.name, divided(X, scales), codes, divided(X_test, scales), task.random_state)
                spent = time.process_time() - start
                predicted = np.repeat(scores.argmax(axis=1)[:, None], len(task.counts), axis=1)
                measured = _losses(task, predicted, y, lambda code: np.repeat(scores[:, [code]], len(task.counts), 1))
                confusion = _confusion(task, predicted, y)
                return key, Cell(*measured, spent, "standard", limit.stopped, confusion=confusion)
            if learner is not None:
                X, X_test = _mapped(task, key, learner, how, X, codes, X_test)
            elif how != "none" or key.name != EUCLIDEAN:
                scales = feature_scales(X, how)
                X, X_test = divided(X, scales), divided(X_test, scales)
                if key.name in DISTANCES:
                    X, X_test = embedded(key.name, X, codes, X_test)
            spent = time.process_time() - start
            near = neighbor_codes(X, codes, X_test, len(task.counts))
            votes = vote(near, 1 + int(task.codes.max()))
            measured = _losses(
                task, votes, y, lambda code: np.cumsum(near == code, axis=1) / np.arange(1, near.shape[1] + 1)
            )
            return key, Cell(*measured, spent, how, limit.stopped, confusion=_confusion(task, votes, y))
        except Exception as error:  # an error of one learner must not lose the results of the others
            if key.name in (EUCLIDEAN, EUCLIDEAN_SCALED):
                raise
            nothing = np.empty(0)
            failure = str(error) or type(error).__name__
            return key, Cell(nothing, nothing, nothing, time.process_time() - start, how, limit.stopped, failure)


def _mapped(
    task: Task, key: Key, learner: Learner, how: Scaling, X: Any, codes: IndexArray, X_test: Any
) -> tuple[Any, Any]:
    """Return training and test rows, mapped by what a learner learns from the training rows."""
    learner = cast(Learner, clone(learner))
    if learner.get_params().get("random_state", 0) is None:
        learner.set_params(random_state=task.random_state + key.part)
    metric = fitted(X, codes, learner, how)
    if not metric.is_psd:
        raise ValueError(f"{type(learner).__name__} learned a metric that is not positive semi-definite")
    return metric.transform(X), metric.transform(X_test)


def _confusion(task: Task, predicted: IndexArray, y: IndexArray) -> IntArray | None:
    """Count the test rows of each class that are taken for each class; None if there are too many classes."""
    n_classes = 1 + int(task.codes.max())
    if n_classes > _MOST_CONFUSED:
        return None
    column = predicted[:, min(task.n_tried, predicted.shape[1]) - 1]
    return np.bincount(y * n_classes + column, minlength=n_classes**2).reshape(n_classes, n_classes)


def _losses(
    task: Task, predicted: IndexArray, y: IndexArray, score: Callable[[int], FloatArray]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the losses by the measure that ranks, the errors and the balanced errors."""
    counts = np.bincount(task.codes)
    positive = int(counts.argmin()) if len(counts) == 2 else None
    kinds: tuple[Measure, ...] = (task.measure, "error", "balanced")
    first, second, third = (losses(kind, predicted, y, score, positive) for kind in kinds)
    return first, second, third

"""How good plain models are on the rows that a model left out, in the same folds."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from mahala.cli.predictors import errors_of, raw_features
from mahala.support.display import task_bar

# Models learn from at most so many rows, as the model that predicts does.
_MOST_ROWS = 100_000
# One that would take longer than this in all folds is left out.
_MOST_SECONDS = 60.0
# Numbers of neighbours to choose from, by rows that are held out of a training part.
_NEIGHBORS, _HELD_OUT = np.array([1, 3, 5, 9, 15, 25]), 2_000

# Predicts probabilities of classes, or numbers in a column, of test rows, from training rows and their targets.
Predict = Callable[[Any, Any, Any], Any]


class Fold(NamedTuple):
    """The rows of a fold, and those to learn from."""

    test: Any
    train: Any


def measured(model: Any, data: Any, labels: Any, *, others: bool) -> list[dict[str, Any]]:
    """Return the errors of a model and, with `others`, of plain ones, on the rows that were left out.

    One that was not measured, because it would take too long, has the "seconds" that it would take instead.
    """
    folds = model.folds_
    rated = np.flatnonzero(folds >= 0)
    if not len(rated):
        return []
    left_out = model.left_out_[rated]
    predicted = model.classes_[left_out.argmax(axis=1)] if model.is_classifier else left_out
    result = [{"model": "this model", **errors_of(predicted, labels[rated], classes=model.is_classifier)}]
    if not others:
        return result
    with suppress(KeyboardInterrupt, ValueError):  # of Ctrl-C, and of tables on which scikit-learn's models fail
        result += _others(model, data, labels, folds)
    return result


def _others(model: Any, data: Any, labels: Any, folds: Any) -> list[dict[str, Any]]:
    from mahala.evaluation.cross_validation.plan import target_of

    X, target = raw_features(model, data), target_of(labels, len(labels), not model.is_classifier)
    linear = "logistic regression" if model.is_classifier else "ridge regression"
    models = {"k-NN, scaled": _nearest, linear: linear, "gradient boosting": "gradient boosting"}
    learned = np.arange(len(X))
    if len(X) > _MOST_ROWS:
        learned = np.sort(np.random.default_rng(0).choice(len(X), _MOST_ROWS, replace=False))
    parts = [
        Fold(np.flatnonzero(folds == fold), learned[folds[learned] != fold]) for fold in range(int(folds.max()) + 1)
    ]
    result: list[dict[str, Any]] = []
    with task_bar("Other models", sys.stderr.isatty()) as update, suppress(KeyboardInterrupt):
        for number, (name, how) in enumerate(models.items()):
            update(number, name, len(models))
            with suppress(ValueError):  # such as a fold of one class
                result.append({"model": name} | _measured(how, X, target, parts))
        update(len(models), "", len(models))
    return result


def _measured(how: Any, X: Any, target: Any, parts: list[Fold]) -> dict[str, Any]:
    """Return the errors of one model in all parts; if that would take too long, the seconds that it would take."""
    from mahala.data.scaling import divided, feature_scales
    from mahala.evaluation.cross_validation.fitting import baseline_scores

    predicted, started = [], time.perf_counter()
    for number, part in enumerate(parts, start=1):
        scales = feature_scales(X[part.train], "standard")
        train, test = divided(X[part.train], scales), divided(X[part.test], scales)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of descents that did not converge
            chosen = target.select(part.train)
            scores = how(train, chosen, test) if callable(how) else baseline_scores(how, train, chosen, test, 0)
        predicted.append(scores[:, 0] if target.is_number else scores.argmax(axis=1))
        seconds = (time.perf_counter() - started) / number * len(parts)
        if number < len(parts) and seconds > _MOST_SECONDS:
            empty = ["mean_absolute_error", "r2"] if target.is_number else ["error"]
            return dict.fromkeys(empty, None) | {"seconds": seconds}
    rows = np.concatenate([part.test for part in parts])
    truth, values = target.select(rows).values, np.concatenate(predicted)
    return errors_of(values * target.unit, truth * target.unit, classes=not target.is_number)


def _nearest(train: Any, target: Any, test: Any) -> Any:
    """Return the votes of the k nearest rows; k is the best one for rows held out of the training part."""
    from mahala.engine.neighbors import neighbor_means, one_hot

    values = target.values[:, np.newaxis] if target.is_number else one_hot(target.codes, len(target.classes))
    order = np.random.default_rng(0).permutation(len(train))
    held, rest = np.split(order, [min(_HELD_OUT, len(order) // 4)])
    counts = _NEIGHBORS[len(rest) >= _NEIGHBORS]
    votes = np.concatenate(list(neighbor_means(train[rest], values[rest], train[held], counts)), axis=1)
    if target.is_number:
        losses = np.square(votes[:, :, 0] - target.values[held]).mean(axis=1)
    else:
        losses = (votes.argmax(axis=2) != target.codes[held]).mean(axis=1)
    best = counts[losses.argmin()] if len(held) else counts[0]
    return np.concatenate(list(neighbor_means(train, values, test, np.array([best]))), axis=1)[0]

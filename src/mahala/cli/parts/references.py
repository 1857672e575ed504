"""How good plain models are on the rows that a model left out, in the same folds."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from mahala.cli.parts.output import Facts
from mahala.cli.parts.predictors import errors_of, raw_features
from mahala.support.display import task_bar

if TYPE_CHECKING:
    from polars import DataFrame

    from mahala.cli.parts.predictors import Predictor
    from mahala.evaluation.cross_validation.plan import Plan
    from mahala.support.arrays import Array, Rows

# Models learn from at most so many rows, as the model that predicts does.
_MOST_ROWS = 100_000
# One that would take longer than this in all folds is left out.
_MOST_SECONDS = 60.0


def measured(model: Predictor, data: DataFrame | Rows, labels: Array, *, others: bool) -> list[Facts]:
    """Return the errors of a model and, with `others`, of plain ones, on the rows that were left out.

    One that was not measured, because it would take too long, has the "seconds" that it would take instead.
    """
    rated = np.flatnonzero(model.folds_ >= 0)
    if not len(rated):
        return []
    left_out = model.left_out_[rated]
    predicted = model.classes_[left_out.argmax(axis=1)] if model.is_classifier else left_out
    result = [{"model": "this model", **errors_of(predicted, labels[rated], classes=model.is_classifier)}]
    if not others:
        return result
    # Ctrl-C, and tables on which scikit-learn's models fail.
    with suppress(KeyboardInterrupt, ValueError), task_bar("Other models", sys.stderr.isatty()) as update:
        plan, names = _plan(model, data, labels)
        for number, (key, name) in enumerate(names.items()):
            update(number, name, len(names))
            with suppress(ValueError):  # such as a fold of one class
                result.append({"model": name, **_errors(plan, key)})
        update(len(names), "", len(names))
    return result


def _plan(model: Predictor, data: DataFrame | Rows, labels: Array) -> tuple[Plan, dict[str, str]]:
    """Return the plan that measures plain models in the folds of a model, and their names there and here."""
    from mahala.evaluation.cross_validation.panel import EUCLIDEAN_SCALED
    from mahala.evaluation.cross_validation.plan import Plan, target_of
    from mahala.evaluation.cross_validation.settings import Settings
    from mahala.evaluation.knn import DEFAULT_NEIGHBORS

    X, folds, n = raw_features(model, data), model.folds_, len(labels)
    learned = np.arange(n)
    if n > _MOST_ROWS:
        learned = np.sort(np.random.default_rng(0).choice(n, _MOST_ROWS, replace=False))
    parts = [(learned[folds[learned] != fold], np.flatnonzero(folds == fold)) for fold in range(int(folds.max()) + 1)]
    linear = "logistic regression" if model.is_classifier else "ridge regression"
    names = {EUCLIDEAN_SCALED: "k-NN, scaled", linear: linear, "gradient boosting": "gradient boosting"}
    counts = np.array(DEFAULT_NEIGHBORS)
    plan = Plan(
        X, target_of(labels, n, not model.is_classifier), np.arange(n), n, parts,
        counts[counts < min(len(train) for train, _ in parts)], None, "error" if model.is_classifier else "r2",
        Settings(scaling="standard"), learners={}, models=[linear, "gradient boosting"],
    )  # fmt: skip
    return plan, names


def _errors(plan: Plan, name: str) -> Facts:
    """Return the errors of one model in all parts; if that would take too long, the seconds that it would take."""
    from mahala.evaluation.cross_validation.measuring import measure_cell
    from mahala.evaluation.cross_validation.plan import Key
    from mahala.support.parameters import get_config

    predicted, started = [], time.perf_counter()
    for part in range(len(plan.parts)):
        _, cell = measure_cell(plan, Key(name, part), ("standard", "standard"), None, get_config())
        if cell.failure is not None:
            raise ValueError(cell.failure)
        predicted.append(cell.predicted)
        seconds = (time.perf_counter() - started) / (part + 1) * len(plan.parts)
        if part + 1 < len(plan.parts) and seconds > _MOST_SECONDS:
            empty = ["mean_absolute_error", "r2"] if plan.target.is_number else ["error"]
            return dict.fromkeys(empty, None) | {"seconds": seconds}
    target = plan.target
    truth, values = target.values[np.concatenate([test for _, test in plan.parts])], np.concatenate(predicted)
    return errors_of(values * target.unit, truth * target.unit, classes=not target.is_number)

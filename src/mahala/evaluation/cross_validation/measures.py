"""Losses of predicted classes and numbers: lower is better, 0 is best."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy import stats

from mahala.support.arrays import BoolArray, FloatArray, IndexArray

Measure = Literal["error", "balanced", "f1", "roc_auc", "r2"]

# If more rows than this share are of one class, always answering it looks good by the plain error.
LOPSIDED = 0.75


def measure_for(codes: IndexArray) -> Measure:
    """Return the measure that suits the classes: "balanced" if more than 75 % of the rows are of one class.

    >>> measure_for(np.array([0, 0, 0, 0, 1])), measure_for(np.array([0, 0, 1, 1, 1]))
    ('balanced', 'error')
    """
    return "balanced" if np.bincount(codes).max() > LOPSIDED * len(codes) else "error"


def losses(
    measure: Measure, predicted: Any, codes: Any, score: Callable[[int], FloatArray], positive: int | None
) -> FloatArray:
    """Return the loss of each column of predicted classes or numbers, of shape (n_rows, n_columns).

    - "error": the share of rows with a wrong prediction.
    - "balanced": the mean over classes of the share of their rows with a wrong prediction.
    - "f1": 1 minus the F1 score 2 TP / (2 TP + FP + FN) of the `positive` class, or if that is None, minus the mean of
      the F1 scores of all classes.
    - "roc_auc": 1 minus the area under the ROC curve of the `positive` class, the chance that a row of it has a higher
      score than another row, where ties count half; if `positive` is None, minus the mean of the areas of all classes.
    - "r2": the mean squared error of numbers that are divided by their deviation, which is 1 minus R².

    `score` returns, for a class, the scores of the rows in each column; it is called for "roc_auc" only.

    >>> codes, predicted = np.array([0, 0, 0, 1]), np.zeros((4, 1), dtype=np.int64)
    >>> [losses(measure, predicted, codes, lambda c: predicted, 1).item() for measure in ("error", "balanced", "f1")]
    [0.25, 0.5, 1.0]
    """
    if measure == "r2":
        return np.asarray(np.square(predicted - codes[:, np.newaxis]).mean(axis=0))
    wrong = predicted != codes[:, None]
    classes = np.unique(codes) if positive is None or measure == "balanced" else np.array([positive])
    if measure == "error":
        result = wrong
    elif measure == "balanced":
        result = np.array([wrong[codes == code].mean(axis=0) for code in classes])
    elif measure == "f1":
        result = 1.0 - np.array([_f1(predicted == code, codes == code) for code in classes])
    else:
        result = 1.0 - np.array([_area(score(int(code)), codes == code) for code in classes])
    return np.asarray(result.mean(axis=0), dtype=np.float64)


def rarer_class(codes: IndexArray) -> int | None:
    """Return the rarer of two classes, which F1 and the ROC curve are of; None if there are more."""
    counts = np.bincount(codes)
    return int(counts.argmin()) if len(counts) == 2 else None


def row_losses(measure: Measure, predicted: Any, targets: Any) -> FloatArray | None:
    """Return the loss of each row, whose mean is the loss of all; None for measures that are no means over rows.

    `predicted` has any shape whose last dimension is the rows.
    """
    if measure == "r2":
        return np.asarray(np.square(predicted - targets))
    if measure in ("error", "balanced"):
        counts = np.bincount(targets)
        # The mistakes of each class have the same sum of weights.
        weights = 1.0 if measure == "error" else len(targets) / (np.count_nonzero(counts) * counts[targets])
        return np.asarray((predicted != targets) * weights)
    return None


def _f1(predicted: BoolArray, actual: BoolArray) -> FloatArray:
    hits = (predicted & actual[:, None]).sum(axis=0)
    named = predicted.sum(axis=0) + actual.sum()
    score: FloatArray = np.divide(2.0 * hits, named, out=np.zeros(predicted.shape[1]), where=named > 0)
    return score


def _area(scores: FloatArray, actual: BoolArray) -> FloatArray:
    """Return the areas under the ROC curves of columns of scores, by the ranks of the positive rows."""
    n, others = int(actual.sum()), int((~actual).sum())
    if not n or not others:
        return np.full(scores.shape[1], 0.5)
    ranks = stats.rankdata(scores, axis=0)[actual].sum(axis=0)
    area: FloatArray = (ranks - n * (n + 1) / 2.0) / (n * others)
    return area

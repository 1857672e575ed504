"""Sets of classes and intervals of numbers that hold the truth as often as asked: cross-conformal prediction and CV+.

For each fold the model without it predicts both the fold's rows and the new ones. The errors of the former say how far
the latter may be off. If rows are exchangeable and no model sees its fold, sets of level 1 - α hold the truth with a
probability of at least 1 - 2α, and in practice of about 1 - α (R. F. Barber, E. Candès, A. Ramdas, R. Tibshirani:
Predictive inference with the jackknife+. Annals of Statistics 49, 2021; V. Vovk: Cross-conformal predictors. Annals of
Mathematics and Artificial Intelligence 74, 2015). Here a fold chooses when the fit of its map stops, and all folds the
weights of the three experts.
"""

import math

import numpy as np

from mahala.neighbors.fitted import Fitted, Points
from mahala.support.arrays import BoolArray, FloatArray, slices

# Of more rows that were left out, so many are used.
MOST_ERRORS = 5_000
_BLOCK = 200


def prediction_sets(model: Fitted, points: Points, level: float) -> BoolArray:
    """Return for each row which classes its set holds, at least the most probable one.

    A class is in the set unless its probability is below that of the true class of nearly all rows that were left out.
    """
    rows = model.rows
    counts, total = np.zeros((len(points.plain), rows.target.n_classes)), 0
    mean = np.zeros_like(counts)
    for fold in range(model.n_folds):
        rest = rows.in_fold(fold)
        right = np.sort(model.left_out[rest, rows.target.y[rest]].astype(np.float64))
        probabilities = model.predict(points, fold)
        counts += np.searchsorted(right, probabilities, side="right")
        total += len(rest)
        mean += probabilities
    result = (counts + 1.0) / (total + 1.0) > 1.0 - level
    result[np.arange(len(result)), mean.argmax(axis=1)] = True
    return result


def prediction_intervals(model: Fitted, points: Points, level: float) -> FloatArray:
    """Return the lower and the upper end of an interval for each row, in standardised numbers."""
    predictions, errors, rows = [], [], model.rows
    every = max(1, -(-int((rows.folds >= 0).sum()) // MOST_ERRORS))
    for fold in range(model.n_folds):
        rest = rows.in_fold(fold)[::every]
        errors.append(np.abs(model.left_out[rest, 0] - rows.target.y[rest]).astype(np.float64))
        predictions.append(model.predict(points, fold)[:, 0])
    n = sum(map(len, errors))
    # Half a standard error more is asked for, since the rows that were left out chose a few numbers. The ends of the
    # widest intervals are infinite in theory: n rows cannot show more than n / (n + 1).
    safe = level + 0.5 * math.sqrt(level * (1.0 - level) / n)
    rank = min(math.ceil(safe * (n + 1)), n)
    result = np.empty((len(points.plain), 2))
    for block in slices(len(result), _BLOCK):
        ends = [center[block, np.newaxis] + spread for center, spread in zip(predictions, errors, strict=True)]
        starts = [center[block, np.newaxis] - spread for center, spread in zip(predictions, errors, strict=True)]
        result[block, 1] = np.partition(np.hstack(ends), rank - 1, axis=1)[:, rank - 1]
        result[block, 0] = -np.partition(-np.hstack(starts), rank - 1, axis=1)[:, rank - 1]
    return result

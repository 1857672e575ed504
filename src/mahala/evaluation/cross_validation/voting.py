"""Predict test rows by votes of their nearest training rows, whose number is chosen in the training part."""

from typing import Any

import numpy as np

from mahala.engine.neighbors import neighbor_means, one_hot
from mahala.evaluation.cross_validation.measures import losses, rarer_class
from mahala.evaluation.cross_validation.plan import Plan, Target
from mahala.support.arrays import FloatArray, IndexArray

# Rows of a training part that are left out to choose the number of neighbours.
_MOST_LEFT_OUT = 1_000
# Losses of so many numbers of neighbours on either side are averaged with that of a number.
_SMOOTHED = 2
# Folds in which whole groups are left out.
_GROUP_FOLDS = 5


def predictions(
    train: Any, target: Target, test: Any, counts: IndexArray, *, keep: bool = False, left_out: IndexArray | None = None
) -> tuple[Any, FloatArray]:
    """Return predictions by nearest neighbours, rows × numbers of neighbours, and if asked for, the means they follow.

    `test` is None for leave-one-out, of all rows or of those that are `left_out`.
    """
    values = target.values[:, np.newaxis] if target.is_number else one_hot(target.codes, len(target.classes))
    predicted, kept = [], []
    for means in neighbor_means(train, values, test, counts, left_out):
        predicted.append(means[:, :, 0] if target.is_number else means.argmax(axis=2))
        if keep:
            kept.append(means)
    return np.concatenate(predicted, axis=1).T, np.concatenate(kept, axis=1) if keep else np.empty(0)


def chosen_neighbors(plan: Plan, part: int, train: Any, target: Target) -> int:
    """Return the number of neighbours of the plan, or else the best one for a training part.

    That is the `best_count` when the rows of the training part are left out one by one, or group by group. `train` are
    these rows, embedded so that their Euclidean distances are the metric's.
    """
    if plan.settings.n_neighbors is not None:
        return plan.settings.n_neighbors
    rows, n = plan.parts[part][0], train.shape[0]
    keep = plan.measure == "roc_auc"
    groups = np.zeros(n, dtype=np.intp) if plan.groups is None else np.unique(plan.groups[rows], return_inverse=True)[1]
    if groups.max() < 1:
        chosen = np.arange(n)
        if n > _MOST_LEFT_OUT:
            rng = np.random.default_rng(plan.settings.random_state + part)
            chosen = np.sort(rng.choice(n, _MOST_LEFT_OUT, replace=False))
        counts = plan.counts[plan.counts < n]
        predicted, means = predictions(train, target, None, counts, keep=keep, left_out=chosen)
    else:  # rows of one group are near each other, but the test rows are of new groups
        folds = groups % _GROUP_FOLDS
        parts = [np.flatnonzero(folds == fold) for fold in range(int(folds.max()) + 1)]
        counts = plan.counts[plan.counts <= n - max(map(len, parts))]
        chosen, found = np.concatenate(parts), []
        for test in parts:
            others = np.setdiff1d(np.arange(n), test)
            found.append(predictions(train[others], target.select(others), train[test], counts, keep=keep))
        predicted = np.concatenate([own for own, _ in found])
        means = np.concatenate([own for _, own in found], axis=1) if keep else np.empty(0)
    values, positive = target.values[chosen], rarer_class(plan.target.codes)
    curve = losses(plan.measure, predicted, values, lambda code: means[:, :, code].T, positive)
    return int(counts[best_count(curve)])


def best_count(curve: FloatArray) -> int:
    """Return the place of the lowest loss in a curve by number of neighbours, the first of equal ones.

    Each loss is averaged with two on either side: those of a few hundred rows vary too much to trust a single one.

    >>> best_count(np.array([0.4, 0.4, 0.0, 0.4, 0.4, 0.1, 0.1, 0.1, 0.1, 0.1]))
    7
    """
    places = np.arange(len(curve))
    near = np.abs(places[:, np.newaxis] - places) <= _SMOOTHED
    smooth = near @ curve / near.sum(axis=1)
    return int(smooth.round(12).argmin())  # those that differ by rounding are equal

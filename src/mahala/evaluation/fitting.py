"""Fit a learner to scaled features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sklearn.base import clone

from mahala.data.preprocessing import rows_of_table
from mahala.data.scaling import Scaling, divided, feature_scales, in_one_unit
from mahala.learner import Learner
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import IndexArray
from mahala.support.contexts import time_limit
from mahala.support.validation import check_rows, class_codes


def refit(
    X: Any,
    y: Any,
    learner: Learner | None,
    scaling: Scaling = "standard",
    feature_names: Sequence[str] | None = None,
    *,
    seconds: float | None = None,
) -> MahalanobisMetric:
    """Fit a learner to scaled features and return its metric, which scales raw features itself.

    If `learner` is None, return the Euclidean distance of the scaled features. The learner itself is not changed. All
    scalings but "none" give learners features with a mean variance of 1, and "none" divides all features by one number
    to that end, which does not change their proportions.

    Parameters
    ----------
    X, y : rows (dense or CSR) and their class labels; with a data frame, the metric takes data frames too
    learner : a learner of a Mahalanobis metric, or None
    scaling : the scaling of the features, as for :func:`compare`; for an entry of a leaderboard, its `scaling`
    feature_names : names of the columns of X, stored in the metric
    seconds : time after which an iterative learner stops with what it has; None for no limit

    >>> metric = refit([[0.0, 10.0], [1.0, 30.0], [4.0, 10.0], [5.0, 30.0]], ["a", "a", "b", "b"], None)
    >>> metric.scales.round(1).tolist()
    [2.1, 10.0]
    """
    X, preprocessor = rows_of_table(X)
    X = check_rows(X)
    names = None if feature_names is None else tuple(feature_names)
    with time_limit(seconds) as limit:
        metric = fitted(X, class_codes(y, X.shape[0]), learner, scaling)
    origin = dict(metric.origin or {}) | ({"stopped": "time"} if limit.stopped else {})
    return replace(metric, feature_names=names, origin=origin, preprocessor=preprocessor)


def fitted(X: Any, codes: IndexArray, learner: Learner | None, scaling: Scaling) -> MahalanobisMetric:
    """Do the work of `refit`, on valid rows and the codes of their classes."""
    scales = feature_scales(X, scaling)
    if learner is None:
        metric = replace(MahalanobisMetric.euclidean(X.shape[1]), origin={"learner": "Euclidean", "params": {}})
        return metric if scaling == "none" else replace(metric, scales=scales)
    if scaling != "standard":
        scales = in_one_unit(X, scales)
    metric = clone(learner).fit(divided(X, scales), codes).metric_
    if not isinstance(metric, MahalanobisMetric):
        raise ValueError(f"{type(learner).__name__} learns a bilinear similarity, which has no distances")
    return replace(metric, scales=scales)

"""Fit learners to scaled features, and methods that users might try instead, which are context for a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from mahala.batch.lda import LDA
from mahala.batch.pca import PCA
from mahala.data.preprocessing import rows_of_table
from mahala.data.scaling import Scaling, divided, feature_scales, in_one_unit
from mahala.learner import Learner
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import FloatArray, IndexArray, check_room
from mahala.support.contexts import out_of_time, time_limit
from mahala.support.validation import check_rows, class_codes, is_sparse

# Distances, by which the nearest neighbours vote, and classifiers.
DISTANCES = ("k-NN with cosine", "k-NN with PCA", "k-NN with LDA")
CLASSIFIERS = ("logistic regression", "gradient boosting")

_MOST_COMPONENTS = 64
_VARIANCE = 0.95
# Rounds of boosting after which the time is looked at, if there are many numbers and classes; each time takes some.
_ROUNDS = (10, 25, 50, 100)
_MANY = 1e6
# Boosting holds out a tenth of the rows, to stop early, if each class has at least so many.
_LEAST_FOR_STOPPING = 20


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


def embedded(name: str, train: Any, codes: IndexArray, test: Any) -> tuple[Any, Any]:
    """Return training and test rows whose Euclidean distances are those of a baseline, from scaled rows."""
    if name == DISTANCES[0]:
        return normalize(train), normalize(test)
    if name == DISTANCES[2]:
        lda = LDA(shrinkage="auto").fit(train, codes)
        return lda.transform(train), lda.transform(test)
    pca = PCA(n_components=min(_MOST_COMPONENTS, *train.shape)).fit(train)
    mapped = pca.transform(train)
    variances = mapped.var(axis=0)
    squares = train.multiply(train) if is_sparse(train) else np.square(train)
    means = np.asarray(train.mean(axis=0)).ravel()
    total = float(squares.sum() / train.shape[0] - means @ means)
    m = 1 + int(np.searchsorted(np.cumsum(variances), _VARIANCE * total))
    return mapped[:, :m], pca.transform(test)[:, :m]


def class_scores(name: str, train: Any, codes: IndexArray, test: Any, random_state: int) -> FloatArray:
    """Return the probabilities of the classes of test rows by a classifier of scikit-learn, from scaled rows."""
    if not is_sparse(train):
        middle = train.mean(axis=0)
        train, test = train - middle, test - middle
    with threadpool_limits(1):
        if name == "logistic regression":
            scores: FloatArray = LogisticRegression(max_iter=200).fit(train, codes).predict_proba(test)
        else:
            scores = _boosted(_dense(train), codes, random_state).predict_proba(_dense(test))
    return scores


def _boosted(X: FloatArray, codes: IndexArray, random_state: int) -> HistGradientBoostingClassifier:
    """Fit scikit-learn's gradient-boosted trees with default settings, as far as the time limit allows."""
    early = bool(np.bincount(codes).min() >= _LEAST_FOR_STOPPING)
    model = HistGradientBoostingClassifier(warm_start=True, early_stopping=early, random_state=random_state)
    for rounds in _ROUNDS if X.size * (1 + int(codes.max())) > _MANY else _ROUNDS[-1:]:
        model.set_params(max_iter=rounds).fit(X, codes)
        if model.n_iter_ < rounds or (rounds < _ROUNDS[-1] and out_of_time()):
            break
    return model


def _dense(X: Any) -> FloatArray:
    if is_sparse(X):
        check_room(8.0 * X.shape[0] * X.shape[1], None, f"X of shape {X.shape} as a dense array", "reduce its columns")
        X = X.toarray()
    return np.asarray(X)

"""Fit learners to scaled features, and methods that users might try instead, which are context for a comparison."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from mahala.batch.lda import LDA
from mahala.batch.pca import PCA
from mahala.comparisons import Comparisons
from mahala.data.preprocessing import rows_of_table
from mahala.data.scaling import Scaling, feature_scales, learner_scales, unit_length
from mahala.evaluation.cross_validation.measures import Measure, losses
from mahala.evaluation.cross_validation.panel import COSINE, UNSUPERVISED
from mahala.evaluation.cross_validation.plan import Target, target_of
from mahala.evaluation.cross_validation.voting import predictions
from mahala.learner import Learner
from mahala.metric import MahalanobisMetric, Metric, Scales, UnitRows
from mahala.neighbors.model import NeighborModel
from mahala.neighbors.trees import n_bins
from mahala.online.online_learner import OnlineLearner
from mahala.support.arrays import FloatArray, IndexArray, RowsLike, check_room
from mahala.support.limits import has_been_stopped, out_of_time, time_limit
from mahala.support.validation import check_rows, is_sparse

# Distances, by which the nearest neighbours vote; those that do not learn from labels are plain. Then classifiers.
DISTANCES = (*UNSUPERVISED, "LDA")
CLASSIFIERS = ("logistic regression", "ridge regression", "gradient boosting")

_MOST_COMPONENTS = 64
_VARIANCE = 0.95
# Rounds of boosting, and their rate; if there are many numbers and classes, half as many with twice the rate, after
# some of which the time is looked at.
_ROUNDS, _ROUNDS_OF_MANY, _RATE = (100,), (10, 50), 0.1
_MANY = 1e6
# Rows that are left out, and neighbours, to compare a learner that was stopped with its start.
_MOST_LEFT_OUT, _NEIGHBORS = 2_000, 3
# Boosting holds out a tenth of the rows, to stop early, if each class has at least so many.
_LEAST_FOR_STOPPING = 20


def refit(
    X: RowsLike,
    y: ArrayLike,
    learner: Learner | Literal["cosine", "PCA"] | None,
    scaling: Scaling = "standard",
    feature_names: Sequence[str] | None = None,
    *,
    seconds: float | None = None,
    numbers: bool | None = None,
) -> MahalanobisMetric:
    """Fit a learner to scaled features and return its metric, which scales raw features itself.

    If `learner` is None, return the Euclidean distance of the scaled features; "cosine" is that of rows scaled to
    length 1, "PCA" that in the directions of 95 % of the variance. A learner itself is not changed. All scalings but
    "none" give learners features with a mean variance of 1, and "none" divides all features by one number to that end,
    which does not change their proportions.

    Parameters
    ----------
    X : array, CSR matrix or data frame of shape (n_rows, n_features)
        With a data frame, the metric takes data frames, too.
    y : array of shape (n_rows,)
        Class labels, or numbers to predict.
    learner : Learner, "cosine", "PCA" or None
        A learner of a Mahalanobis metric, or the name of a plain distance.
    scaling : "standard", "none", "numbers", "minmax" or "robust", default="standard"
        Scaling of the features, as for :func:`compare`; that of an entry is its `scaling`.
    feature_names : list of str or None, default=None
        Names of the columns of X, stored in the metric.
    seconds : float or None, default=None
        Time after which an iterative learner stops early.
    numbers : bool or None, default=None
        Whether y is a number to predict; None infers it from the values.

    >>> metric = refit([[0.0, 10.0], [1.0, 30.0], [4.0, 10.0], [5.0, 30.0]], ["a", "a", "b", "b"], None)
    >>> metric.steps[0].scales.round(1).tolist()
    [2.1, 10.0]
    """
    table, preprocessor = rows_of_table(X)
    rows = check_rows(table)
    names = None if feature_names is None else tuple(feature_names)
    with time_limit(seconds) as limit:
        target = target_of(y, rows.shape[0], numbers)
        metric = fitted(rows, target.of(learner) if isinstance(learner, Learner) else target.codes, learner, scaling)
    origin = dict(metric.origin or {}) | ({"stopped": "time"} if limit.stopped else {})
    return replace(metric, feature_names=names, origin=origin, preprocessor=preprocessor)


def fitted(X: Any, y: Any, learner: Learner | str | None, scaling: Scaling) -> MahalanobisMetric:
    """Do the work of `refit`, on valid rows and the codes of their classes, or target values.

    A learner that a time limit stopped may be worse than it was at its start, so it returns the better one.
    """
    if learner is None or learner == COSINE:
        scales = feature_scales(X, scaling)
        metric = replace(
            MahalanobisMetric.euclidean(X.shape[1]), origin={"learner": learner or "Euclidean", "params": {}}
        )
        metric = metric if learner is None else metric.after(UnitRows())
        return (metric if scaling == "none" else metric.after(Scales(scales))).learned_from(X)
    step = Scales(learner_scales(X, scaling))
    if isinstance(learner, str):
        rows = step.apply(X)
        learner = PCA(n_components=embedded(learner, rows, None, rows)[0].shape[1])
    metric = clone(learner).fit(step.apply(X), y).metric_
    if not isinstance(metric, MahalanobisMetric):
        raise ValueError(f"{type(learner).__name__} learns a bilinear similarity, which has no distances")
    metric = metric.after(step).learned_from(X)
    if has_been_stopped() and can_be_stopped(learner) and metric.is_psd:
        start = fitted(X, y, None, scaling)
        if _left_out_loss(start, X, y) <= _left_out_loss(metric, X, y):
            return start
    return metric


def can_be_stopped(learner: Learner | NeighborModel) -> bool:
    """Return whether a time limit stops a learner or predictor: those in closed form finish anyway."""
    return isinstance(learner, OnlineLearner) or bool({"max_iter", "max_seconds"} & learner.get_params().keys())


def _left_out_loss(metric: MahalanobisMetric, X: Any, y: Any) -> float:
    """Return the loss of nearest neighbours where rows are left out one by one, of up to 2,000 rows."""
    rows, n = metric.transform(X), X.shape[0]
    numbers = y.dtype.kind == "f"
    target = Target(y, y, () if numbers else tuple(map(str, range(int(y.max()) + 1))))
    left_out = np.sort(np.random.default_rng(0).permutation(n)[:_MOST_LEFT_OUT])
    predicted, _ = predictions(rows, target, None, np.array([min(_NEIGHBORS, n - 1)]), left_out=left_out)
    measure: Measure = "r2" if numbers else "error"
    return float(losses(measure, predicted, y[left_out], lambda _: np.empty(0), None)[0])


def refit_answers(
    data: Comparisons, learner: Learner | None, *, unit_rows: bool = False, seconds: float | None = None
) -> Metric:
    """Return the metric of a learner, fitted to answers, or the Euclidean distance; it takes rows as they are.

    With `unit_rows`, it learns from rows that are scaled to length 1, and scales others itself.
    """
    metric: Metric = MahalanobisMetric.euclidean(data.n_features)
    if learner is not None:
        with time_limit(seconds), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* cannot determine ")  # the judge says whether it helps
            metric = clone(learner).fit(data.over(unit_length(data.X)) if unit_rows else data).metric_
    return metric.after(UnitRows()) if isinstance(metric, MahalanobisMetric) and unit_rows else metric


def embedded(name: str, train: Any, codes: IndexArray | None, test: Any) -> tuple[Any, Any]:
    """Return training and test rows whose Euclidean distances are those of a baseline, from scaled rows.

    Only LDA needs the codes of the classes.
    """
    if name == COSINE:
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


def baseline_scores(
    name: str, train: Any, target: Target, test: Any, random_state: int, balanced: bool = False
) -> FloatArray:
    """Return probabilities of the classes of test rows, or predicted numbers, by a method of scikit-learn.

    With `balanced`, rows are weighted so that all classes have the same weight. Leaves of trees have at most a 40th of
    the rows, and at most 20.
    """
    if not is_sparse(train):
        middle = train.mean(axis=0)
        train, test = train - middle, test - middle
    weights = "balanced" if balanced else None
    with threadpool_limits(1):
        if name != "gradient boosting":
            if target.is_number:
                return np.asarray(RidgeCV(np.geomspace(1e-3, 1e3, 7)).fit(train, target.values).predict(test))[:, None]
            model: Any = LogisticRegression(max_iter=200, class_weight=weights).fit(train, target.codes)
            return _in_all_classes(model, test, len(target.classes))
        leaf = int(np.clip(train.shape[0] // 40, 1, 20))
        settings = {"min_samples_leaf": leaf, "random_state": random_state, "max_bins": n_bins(*train.shape)}
        train, test = _dense(train), _dense(test)
        if target.is_number:
            model = HistGradientBoostingRegressor(**settings)
            return np.asarray(_boosted(model, train, target.values, 1).predict(test))[:, None]
        early = bool(np.bincount(target.codes).min() >= _LEAST_FOR_STOPPING)
        model = HistGradientBoostingClassifier(class_weight=weights, early_stopping=early, **settings)
        return _in_all_classes(_boosted(model, train, target.codes, len(target.classes)), test, len(target.classes))


def predictor_scores(
    model: Any, train: Any, target: Target, test: Any, groups: IndexArray | None, balanced: bool = False
) -> FloatArray:
    """Fit a model that encodes raw features itself; return probabilities of classes of test rows, or their numbers.

    With `balanced`, probabilities are divided by the shares of the classes, so that rare ones are predicted as often as
    the balanced error asks for.
    """
    model = clone(model).fit(train, target.values, groups=groups)
    if target.is_number:
        return np.asarray(model.predict(test))[:, None]
    scores = _in_all_classes(model, test, len(target.classes))
    if balanced:
        scores = scores / np.maximum(np.bincount(target.codes, minlength=len(target.classes)), 1)
        scores /= np.maximum(scores.sum(axis=1, keepdims=True), 1e-300)
    return scores


def _in_all_classes(model: Any, test: Any, n_classes: int) -> FloatArray:
    """Return the probabilities of all classes, also of those that the training rows do not have."""
    scores = np.zeros((test.shape[0], n_classes))
    scores[:, model.classes_] = model.predict_proba(test)
    return scores


def _boosted(model: Any, X: FloatArray, y: Any, n_classes: int) -> Any:
    """Fit gradient-boosted trees as far as the time limit allows."""
    rounds = _ROUNDS_OF_MANY if X.size * n_classes > _MANY else _ROUNDS
    model.set_params(warm_start=True, learning_rate=_RATE * _ROUNDS[-1] / rounds[-1])
    for n in rounds:
        model.set_params(max_iter=n).fit(X, y)
        if model.n_iter_ < n or (n < rounds[-1] and out_of_time()):
            break
    return model


def _dense(X: Any) -> FloatArray:
    if is_sparse(X):
        check_room(8.0 * X.shape[0] * X.shape[1], None, f"X of shape {X.shape} as a dense array", "reduce its columns")
        X = X.toarray()
    return np.asarray(X)

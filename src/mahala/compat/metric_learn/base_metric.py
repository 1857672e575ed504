"""The base classes of metric-learn: distances by a linear map, and judges of pairs, triplets and quadruplets."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from mahala.compat.metric_learn._util import ArrayIndexer, Kind, check_input, renamed, validate_vector
from mahala.metric.thresholds import Strategy, best_threshold
from mahala.support.arrays import Array, FloatArray

# Former names of parameters, whose default is "deprecated" then, and the present names.
_RENAMED = {
    "k": "n_neighbors",
    "num_chunks": "n_chunks",
    "num_constraints": "n_constraints",
    "convergence_threshold": "tol",
}
T = TypeVar("T")


def with_params(**defaults: object) -> Callable[[type[T]], type[T]]:
    """Give a class a constructor that stores parameters: these, in this order, and with these defaults."""

    def decorate(cls: type[T]) -> type[T]:
        cls.__annotations__ = dict.fromkeys(defaults, Any)
        for name, default in defaults.items():
            setattr(cls, name, default)
        return dataclass(eq=False, repr=False)(cls)

    return decorate


class BaseMetricLearner(BaseEstimator):
    """Base class of all learners: it turns indicators into points by `preprocessor`, and checks what is given."""

    _tuple_size: int | None = None
    preprocessor: Any

    if TYPE_CHECKING:  # of `with_params`

        def __init__(self, *values: Any, **params: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    else:

        def __init__(self, preprocessor=None):
            self.preprocessor = preprocessor

    def __post_init__(self) -> None:
        for old, new in _RENAMED.items():
            if getattr(type(self), old, None) == "deprecated":
                setattr(self, new, renamed(getattr(self, old), getattr(self, new), old, new))
                setattr(self, old, "deprecated")

    def _check_preprocessor(self) -> None:
        if self.preprocessor is None or callable(self.preprocessor):
            self.preprocessor_ = self.preprocessor
        elif hasattr(self.preprocessor, "__len__") or hasattr(self.preprocessor, "shape"):
            self.preprocessor_ = ArrayIndexer(self.preprocessor)
        else:
            raise ValueError(
                f"Invalid type for the preprocessor: {type(self.preprocessor)}. You should provide either None, an "
                "array-like object, or a callable."
            )

    def _prepare_inputs(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        type_of_inputs: Kind = "classic",
        *,
        needs_y: bool = False,
        **checks: Any,
    ) -> Any:
        """Return checked points or tuples, and y if it is given, for `fit`."""
        self._check_preprocessor()
        if y is None and needs_y:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        result = self._check_input(X, y, type_of_inputs, **checks)
        points = result if y is None else result[0]
        if self.preprocessor_ is None and type_of_inputs == "classic":
            validate_data(self, X, skip_check_array=True)  # the names of the columns, too
        self.n_features_in_ = points.shape[-1]
        return result

    def _check_input(
        self, X: ArrayLike, y: ArrayLike | None = None, type_of_inputs: Kind = "classic", **checks: Any
    ) -> Any:
        checks = {"tuple_size": self._tuple_size if type_of_inputs == "tuples" else None} | checks
        return check_input(X, y, self.preprocessor_, type_of_inputs, estimator=self, **checks)


class MahalanobisMixin(BaseMetricLearner):
    """Base class of the learners of a Mahalanobis distance, by the linear map L in `components_`."""

    components_: FloatArray

    def _store(self, learner: Any, components: FloatArray, n_components: int = 0) -> Self:
        """Keep a learner that was fitted and its linear map, with rows of zeros up to the number asked for."""
        self.learner_, self.n_iter_ = learner, max(learner.n_iter_, 1)
        missing = max(n_components - len(components), 0)
        self.components_ = np.vstack([components, np.zeros((missing, components.shape[1]))])
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the points mapped by L."""
        check_is_fitted(self, ["preprocessor_", "components_"])
        points = self._check_input(X)
        if self.preprocessor_ is None:
            validate_data(self, X, reset=False, skip_check_array=True)
        return np.asarray(points @ self.components_.T)

    def pair_distance(self, pairs: ArrayLike) -> FloatArray:
        """Return the distance of each pair."""
        check_is_fitted(self, "preprocessor_")
        points = self._check_input(pairs, type_of_inputs="tuples", tuple_size=2)
        check_is_fitted(self, "components_")
        difference = (points[:, 1] - points[:, 0]) @ self.components_.T
        return np.asarray(np.sqrt(np.square(difference).sum(axis=-1)))

    def pair_score(self, pairs: ArrayLike) -> FloatArray:
        """Return minus the distance of each pair."""
        return -1.0 * self.pair_distance(pairs)

    def score_pairs(self, pairs: ArrayLike) -> FloatArray:
        """Return the distance of each pair; deprecated, as in metric-learn."""
        warnings.warn(
            "score_pairs will be deprecated in release 0.7.0. Use pair_score to compute similarity scores, or "
            "pair_distances to compute distances.",
            FutureWarning,
            stacklevel=2,
        )
        return self.pair_distance(pairs)

    def get_metric(self) -> Callable[..., float]:
        """Return the distance as a function of two points, which a later fit does not change."""
        check_is_fitted(self, "components_")
        L = self.components_.T.copy()

        def metric_fun(u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
            difference = (validate_vector(u) - validate_vector(v)).dot(L)
            square = np.dot(difference, difference.T)
            return float(square if squared else np.sqrt(square))

        return metric_fun

    def get_mahalanobis_matrix(self) -> FloatArray:
        """Return M = LᵀL."""
        check_is_fitted(self, "components_")
        return self.components_.T @ self.components_


class PointsLearner(TransformerMixin, MahalanobisMixin):
    """Base class of the learners from points with a target each."""

    def _points(self, X: ArrayLike, y: ArrayLike, **checks: Any) -> Any:
        """Return checked points and their targets."""
        return self._prepare_inputs(X, y, needs_y=True, ensure_min_samples=2, **checks)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


class _PairsClassifierMixin(ClassifierMixin, BaseMetricLearner):
    """Judges pairs: +1 if their distance is at most `threshold_`, else -1."""

    _tuple_size = 2
    classes_ = np.array([-1, 1])

    def predict(self, pairs: ArrayLike) -> Array:
        """Return +1 for similar and -1 for dissimilar pairs."""
        check_is_fitted(self, "preprocessor_")
        if not hasattr(self, "threshold_"):
            raise AttributeError(
                "A threshold for this estimator has not been set, call its set_threshold or calibrate_threshold method."
            )
        return 2 * (-self.decision_function(pairs) <= self.threshold_) - 1

    def decision_function(self, pairs: ArrayLike) -> FloatArray:
        """Return minus the distance of each pair."""
        check_is_fitted(self, "preprocessor_")
        return np.asarray(self.pair_score(self._check_input(pairs, type_of_inputs="tuples")))

    def score(self, pairs: ArrayLike, y: ArrayLike) -> float:
        """Return the area under the ROC curve of the distances."""
        return float(roc_auc_score(y, self.decision_function(pairs)))

    def set_threshold(self, threshold: float) -> Self:
        """Set the largest distance of similar pairs."""
        check_is_fitted(self, "preprocessor_")
        try:
            self.threshold_ = float(threshold)
        except (TypeError, ValueError):
            message = f"Parameter threshold must be a real number. Got {type(threshold)} instead."
            raise ValueError(message) from None
        return self

    def calibrate_threshold(
        self,
        pairs_valid: ArrayLike,
        y_valid: ArrayLike,
        strategy: Strategy = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
    ) -> Self:
        """Choose the threshold that is best on some pairs: by accuracy, F-beta, or one rate given the other."""
        check_is_fitted(self, "preprocessor_")
        self._validate_calibration_params(strategy, min_rate, beta)
        pairs, labels = self._prepare_inputs(pairs_valid, y_valid, "tuples")
        scores = np.asarray(self.decision_function(pairs))
        # Only the square of beta counts, and 0 is allowed: precision alone.
        beta = max(abs(beta), 1e-150)
        self.threshold_ = best_threshold(-scores, labels == 1, strategy, beta, 0.5 if min_rate is None else min_rate)
        return self

    def fit(self, pairs: ArrayLike, y: ArrayLike, calibration_params: dict[str, Any] | None = None) -> Self:
        """Learn from pairs with labels +1 and -1, and choose the threshold."""
        return self._fit_and_calibrate(pairs, y, calibration_params)

    def _fit_and_calibrate(
        self, pairs: ArrayLike, y: ArrayLike, calibration_params: dict[str, Any] | None, **more: object
    ) -> Self:
        params = {} if calibration_params is None else calibration_params
        self._validate_calibration_params(**params)
        self._fit(pairs, y, **more)
        return self.calibrate_threshold(pairs, y, **params)

    @staticmethod
    def _validate_calibration_params(
        strategy: str = "accuracy", min_rate: float | None = None, beta: float | None = 1.0
    ) -> None:
        if strategy not in ("accuracy", "f_beta", "max_tpr", "max_tnr"):
            raise ValueError(
                f'Strategy can either be "accuracy", "f_beta" or "max_tpr" or "max_tnr". Got "{strategy}" instead.'
            )
        is_rate = isinstance(min_rate, int | float) and 0 <= min_rate <= 1
        if strategy in ("max_tpr", "max_tnr") and not is_rate:
            raise ValueError(f"Parameter min_rate must be a number in[0, 1]. Got {min_rate} instead.")
        if strategy == "f_beta" and not isinstance(beta, int | float):
            raise ValueError(f"Parameter beta must be a real number. Got {type(beta)} instead.")


class _OrderMixin(ClassifierMixin, BaseMetricLearner):
    """Judges which of two pairs is nearer."""

    classes_ = np.array([0, 1])

    def decision_function(self, tuples: ArrayLike) -> FloatArray:
        """Return the distance of the second pair minus that of the first."""
        check_is_fitted(self, "preprocessor_")
        points = self._check_input(tuples, type_of_inputs="tuples")
        second = [0, 2] if self._tuple_size == 3 else [2, 3]
        return np.asarray(self.pair_score(points[:, :2]) - self.pair_score(points[:, second]))

    def score(self, tuples: ArrayLike, y: object = None) -> float:
        """Return the share of tuples whose first pair is nearer."""
        return float(self.predict(tuples).mean() / 2 + 0.5)


class _TripletsClassifierMixin(_OrderMixin):
    """Judges triplets: whether the first point is nearer to the second than to the third."""

    _tuple_size = 3

    def predict(self, triplets: ArrayLike) -> Array:
        """Return +1 where the first point is nearer to the second than to the third, else -1."""
        return 2 * (self.decision_function(triplets) > 0) - 1


class _QuadrupletsClassifierMixin(_OrderMixin):
    """Judges quadruplets: whether the first two points are nearer to each other than the last two."""

    _tuple_size = 4

    def predict(self, quadruplets: ArrayLike) -> Array:
        """Return +1 where the first pair is nearer than the second, -1 where it is farther, and 0 for a tie."""
        return np.sign(self.decision_function(quadruplets))

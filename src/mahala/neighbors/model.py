"""The base of NeighborClassifier and NeighborRegressor: validation, fit, prediction, rows that come and go, files."""

import warnings
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import _check_sample_weight, check_array, validate_data

from mahala.data.columns.values import is_frame
from mahala.data.encoding import Encoder
from mahala.engine import engine_for
from mahala.metric import MahalanobisMetric
from mahala.neighbors.fitted import EXPERTS, Fitted
from mahala.neighbors.folds import row_order
from mahala.neighbors.learning import N_STEPS, Rows, Settings, learn
from mahala.neighbors.maps import Target
from mahala.saved_estimator import SavedEstimator
from mahala.support.arrays import FloatArray, IndexArray, RealArray
from mahala.support.contexts import all_or_nothing, one_at_a_time, one_blas_thread, time_limit
from mahala.support.display import progress_bar
from mahala.support.parameters import Count, Positive, Seed, check_params, check_seed
from mahala.support.validation import is_sparse, to_numpy

# Whole numbers as weights repeat rows, up to so many times the rows or in all.
MOST_REPEATS, FEW_REPEATED = 4, 10_000


@dataclass(eq=False, repr=False)
class NeighborModel(SavedEstimator):
    """Base class of models whose predictions are votes of their training rows, a linear expert and boosted trees."""

    n_components: Count = 32
    _: KW_ONLY
    n_bins: Count = 8
    linear: Literal["auto"] | bool = "auto"
    trees: Literal["auto"] | bool = "auto"
    metric: Any = None
    max_seconds: Positive | None = None
    verbose: bool = False
    random_state: Seed = 0

    @abstractmethod
    def _target(self, y: Any, n_rows: int) -> tuple[Any, int]:
        """Return class codes and the number of classes, or standardised numbers and 0; learn their values."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn from a table.

        Parameters
        ----------
        X : data frame with text, categories, dates and gaps as they are, or array (NaN for gaps) or sparse matrix of
            shape (n_rows, n_features)
        y : what is to be predicted of each row
        sample_weight : weights of at least 0 of the rows, in the loss and in their votes; whole numbers count as
            repeats of the row, default=None
        groups : the group of each row, such as a person; the rows of a group are left out together, default=None
        """
        check_params(self)
        with all_or_nothing(self), one_blas_thread(), time_limit(self.max_seconds), engine_for(X):
            return self._fit(X, y, sample_weight, groups)

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        X = self._table(X, reset=True)
        n = X.shape[0]
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        y, n_classes = self._target(to_numpy(y), n)
        numbers, weights = _repeated(sample_weight, X)
        codes = None if groups is None else _group_codes(groups, n)[numbers]
        seed = int(check_seed(self.random_state).randint(2**31))
        encoder = Encoder(int(self.n_bins))
        plain = encoder.fit(X, numbers, seed)
        given = self._given_metric()
        encoded = encoder.encoded(plain)
        order = row_order(encoded, y[numbers])
        numbers = numbers[order]
        coordinates = None if given is None else np.asarray(given.transform(X), dtype=np.float32)[numbers]
        target = Target(y[numbers], weights[order], n_classes)
        rows = Rows(encoder, given, plain[order], encoded[order], coordinates, target, numbers,
                    None if codes is None else codes[order])  # fmt: skip
        settings = Settings(int(self.n_components), self.linear, self.trees, seed)
        with progress_bar(type(self).__name__, N_STEPS, self.verbose) as show:
            self._model, interrupt = learn(rows, settings, show)
        vars(self).pop("metric_", None)
        self._names = _row_names(X)
        self._n_given = n
        if interrupt is not None:
            raise interrupt
        return self

    def _given_metric(self) -> MahalanobisMetric | None:
        """Return the metric of the parameter `metric`, or None; raise for what has none."""
        if self.metric is None:
            return None
        metric = getattr(self.metric, "metric_", self.metric)
        if not isinstance(metric, MahalanobisMetric):
            expected = "None, a MahalanobisMetric or a fitted learner of one"
            raise ValueError(f"metric must be {expected}, got {type(self.metric).__name__}")
        return metric

    def _table(self, X: Any, *, reset: bool) -> Any:
        """Return a data frame, array or CSR matrix that was checked; learn its columns, or compare them."""
        if hasattr(X, "collect") and type(X).__module__.startswith("polars"):
            X = X.collect()
        if is_frame(X):
            if reset:
                names = [str(name) for name in X.columns]
                self.feature_names_in_, self.n_features_in_ = np.array(names, dtype=object), len(names)
            elif self._model.encoder.table is None:
                raise ValueError("X must be an array of numbers as in fit, got a data frame")
            return X
        if not reset and self._model.encoder.table is not None:
            if getattr(X, "ndim", 2) == 1 or not hasattr(X, "shape"):
                X = check_array(X, dtype=None, ensure_all_finite=False)
            if X.shape[1] != self.n_features_in_:
                expected = f"{type(self).__name__} is expecting {self.n_features_in_} features as input"
                raise ValueError(f"X has {X.shape[1]} features, but {expected}")
            return X
        return validate_data(
            self, to_numpy(X), reset=reset, accept_sparse="csr", dtype=np.float64, ensure_all_finite="allow-nan"
        )

    def _predicted(self, X: Any) -> FloatArray:
        """Return the probabilities of classes, or the standardised numbers in a column."""
        self._check_fitted()
        X, model = self._table(X, reset=False), self._model
        with engine_for(X):
            return model.predict(model.encoder.plain(X), model.coordinates_of(X))  # type: ignore[no-any-return]

    @property
    def weights_(self) -> dict[str, float]:
        """How much each expert speaks: exponents of probabilities, or shares of numbers."""
        self._check_fitted()
        return dict(zip(EXPERTS, self._model.weights, strict=True))

    @cached_property
    def metric_(self) -> MahalanobisMetric:
        """The learned metric, with the encoder of tables: usable in search, clustering and `explain`."""
        self._check_fitted()
        model: Fitted = self._model
        if model.given is not None:
            factor = float(model.map[0, 0]) ** 2
            from dataclasses import replace

            return replace(model.given, matrix=model.given.matrix * factor)
        L = model.map.astype(np.float64)
        return MahalanobisMetric(L.T @ L, preprocessor=model.encoder, origin={"learner": type(self).__name__})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags

    def _left_out(self) -> FloatArray:
        """Return the left-out predictions of the rows as they were given; NaN where there are none."""
        model: Fitted = self._model
        known = np.isfinite(model.left_out[:, 0])
        numbers, values = model.numbers[known], model.left_out[known].astype(np.float64)
        n = max(self._n_given, int(model.numbers.max(initial=-1)) + 1)
        counts = np.bincount(numbers, minlength=n)
        sums = np.stack([np.bincount(numbers, column, n) for column in values.T], axis=1)
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / counts[:, np.newaxis])

    def _get_state(self) -> Any:
        raise NotImplementedError

    def _set_state(self, header: Any, arrays: Any) -> None:
        raise NotImplementedError


def _repeated(sample_weight: Any, X: Any) -> tuple[IndexArray, RealArray]:
    """Return the numbers of the rows of positive weight, as often as whole weights say, and what remains of weights."""
    n = X.shape[0]
    if sample_weight is None:
        return np.arange(n), np.ones(n, dtype=np.float32)
    given = _check_sample_weight(to_numpy(sample_weight), np.empty((n, 1)), dtype=np.float64)
    if not ((given == 0.0) | ((given > 1e-100) & (given < 1e100))).all():
        raise ValueError("sample_weight must hold numbers of at least 0, those above it from 1e-100 to 1e100")
    used = np.flatnonzero(given)
    if not len(used):
        raise ValueError("sample_weight must be positive for at least one row, but all weights are zero")
    whole = (given == np.rint(given)).all()
    if whole and given.sum() <= max(MOST_REPEATS * n, FEW_REPEATED):
        return np.repeat(np.arange(n), given.astype(np.intp)), np.ones(int(given.sum()), dtype=np.float32)
    weights = given[used] / given[used].mean()
    return used, np.clip(weights, 1e-6, 1e6).astype(np.float32)


def _group_codes(groups: Any, n: int) -> IndexArray:
    values = np.asarray(to_numpy(groups))
    if values.ndim != 1 or len(values) != n:
        raise ValueError(f"groups must be 1-D with a group for each of the {n} rows, got shape {values.shape}")
    return np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)[1]


def _row_names(X: Any) -> list[Any] | None:
    """Return the names of the rows of a data frame of pandas, or None if they are numbers from 0."""
    index = getattr(X, "index", None)
    if not is_frame(X) or index is None or list(index[:1]) == [0] and index.equals(type(index)(range(len(index)))):
        return None
    return list(index)

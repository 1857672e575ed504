"""The base class of every learner: validation, transform, files."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

import mahala
from mahala.comparisons import Pairs, Triplets
from mahala.comparisons.sampling import check_seed
from mahala.metric import Metric
from mahala.support.estimators import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from mahala.support.model_files import ModelFileError, header_value, read_model, write_model
from mahala.support.rollback import Rollback
from mahala.support.validation import check_scale, class_codes

Arrays = dict[str, NDArray[Any]]

# Rows of differences held at a time: 32 MiB of float64.
CHUNK_ELEMENTS = 2**22

# Neighbours that vote where a learner is scored on labelled rows.
SCORE_NEIGHBORS = 3


class Learner(Rollback, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A scikit-learn estimator whose fitted state yields a `metric_`."""

    random_state: Any
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    _seed: int
    _rng: np.random.Generator

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from comparisons, or from rows and their labels."""

    @property
    @abstractmethod
    def metric_(self) -> Metric:
        """What has been learned so far, as an immutable Metric."""

    @abstractmethod
    def _get_state(self) -> tuple[dict[str, object], Arrays]: ...

    @abstractmethod
    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None: ...

    def transform(self, X: Any) -> Any:
        """X in the space where Euclidean distances are the learned ones.

        Under a bilinear similarity X as queries, whose inner products with items as they are are the similarities.
        """
        check_is_fitted(self)
        if isinstance(X, Pairs | Triplets):
            raise TypeError(f"transform takes rows, got {type(X).__name__}; give their rows, which are its X")
        return self._embed(validate_data(self, X, reset=False, accept_sparse="csr", dtype="numeric"))

    def _embed(self, X: Any) -> Any:
        return self.metric_.embed(X)

    @property
    def _n_features_out(self) -> int:
        metric = self.metric_
        return metric.n_components if metric.kind == "mahalanobis" else int(metric.matrix.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        tags.target_tags.required = True
        return tags

    def _reset_seed(self) -> None:
        self._seed = int(check_seed(self.random_state).randint(2**31))
        self._rng = np.random.default_rng(self._seed)

    def _labelled_rows(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, NDArray[np.intp]]:
        """X and the codes 0..c-1 of its class labels."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; with rows X it holds "
                "class labels"
            )
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_min_samples=2)
        # A column is taken as scikit-learn takes it; all else as it comes, since an array of a list loses its NaN.
        y = column_or_1d(y, warn=True) if getattr(y, "ndim", 1) == 2 else y
        codes = class_codes(y, X.shape[0])
        check_classification_targets(np.asarray(y))
        return check_scale(X), codes

    def _check_n_features_of(self, comparisons: Pairs | Triplets, *, reset: bool) -> None:
        names = comparisons.feature_names
        if reset:
            self.n_features_in_ = comparisons.n_features
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=object)
        elif comparisons.n_features != self.n_features_in_:
            raise ValueError(
                f"{_kind(comparisons)} have {comparisons.n_features} features, but {type(self).__name__} was fitted "
                f"with {self.n_features_in_} features"
            )
        elif names is not None and list(names) != list(getattr(self, "feature_names_in_", names)):
            raise ValueError(
                f"{_kind(comparisons)} have other feature names than {type(self).__name__} was fitted with: {names}"
            )

    def _origin(self) -> dict[str, object]:
        """Where a metric comes from, for its file."""
        plain = (type(None), bool, int, float, str)
        params = {key: value if isinstance(value, plain) else repr(value) for key, value in self.get_params().items()}
        return {"learner": type(self).__name__, "params": params}

    def save(self, path: str | PathLike[str]) -> None:
        """Write the whole state, so that `mahala.load_learner(path)` goes on exactly where this one stands.

        The file is safetensors with a JSON header: no pickle, and it appears whole or not at all.
        """
        header, arrays = self.to_parts()
        write_model(path, "learner", arrays, header)

    def to_parts(self) -> tuple[dict[str, object], Arrays]:
        """The whole state as a header and arrays for a model file; a reader ignores what else is in the header."""
        check_is_fitted(self)
        header, arrays = self._get_state()
        params: dict[str, object] = {}
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Metric):
                parts, metric_arrays = value.to_parts()
                params[name] = {"metric": parts}
                arrays |= {f"{name}.{key}": array for key, array in metric_arrays.items()}
            elif name == "callback":
                params[name] = None  # it is about how a fit is watched, not about what was learned
            elif callable(value) or isinstance(value, (np.random.RandomState, np.random.Generator)):
                raise ValueError(
                    f"{name}={value!r} cannot be written to a file; use a number or a name that mahala knows"
                )
            else:
                params[name] = value.item() if isinstance(value, np.generic) else value
        names = getattr(self, "feature_names_in_", None)
        header |= {
            "learner": type(self).__name__,
            "params": params,
            "n_features_in": self.n_features_in_,
            "feature_names_in": None if names is None else [str(name) for name in names],
        }
        return header, arrays

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read what `save` wrote."""
        learner = load_learner(path)
        if not isinstance(learner, cls):
            raise ModelFileError(f"{path} holds a {type(learner).__name__}, not a {cls.__name__}")
        return learner


def load_learner(path: str | PathLike[str]) -> Any:
    """The learner that was saved at `path`, ready to go on."""
    header, arrays = read_model(path, "learner")
    name = header.get("learner")
    kind = getattr(mahala, name, None) if isinstance(name, str) and name in mahala.__all__ else None
    if not (inspect.isclass(kind) and issubclass(kind, Learner)):
        raise ModelFileError(f"{path} holds a learner {name!r} that this version of mahala does not know")
    try:
        params: dict[str, Any] = {}
        for key, value in header_value(header, "params", dict).items():
            if isinstance(value, dict) and "metric" in value:
                prefix = f"{key}."
                own = {k.removeprefix(prefix): a for k, a in arrays.items() if k.startswith(prefix)}
                value = Metric.from_parts(value["metric"], own)
            params[key] = value
        learner = kind(**params)
        learner.n_features_in_ = header_value(header, "n_features_in", int)
        names = header_value(header, "feature_names_in", list, type(None))
        if names is not None:
            if len(names) != learner.n_features_in_ or not all(isinstance(name, str) for name in names):
                raise ModelFileError(f"feature_names_in should be {learner.n_features_in_} strings")
            learner.feature_names_in_ = np.array(names, dtype=object)
        learner._set_state(header, arrays)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, MemoryError) as error:
        raise ModelFileError(f"{path} does not hold a whole {name}: {error}") from error
    return learner


def _kind(comparisons: Pairs | Triplets) -> str:
    return type(comparisons).__name__.lower()


def n_axes(X: Any) -> int:
    """Number of axes, of frames and lists too."""
    return int(X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim)

"""The base class of the learners that fit all the data at once."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from mahala.batch.run import Callback, Model, Run, matrix_of
from mahala.comparisons import Pairs, Triplets
from mahala.compiled.neighbors import leave_one_out_errors
from mahala.learner import SCORE_NEIGHBORS, Arrays, Learner, n_axes
from mahala.metric import Metric
from mahala.metric.matrices import map_rows
from mahala.support.arrays import FloatArray, IndexArray, RealArray
from mahala.support.memory import check_room
from mahala.support.model_files import ModelFileError, array_value, finite, header_value, number_value
from mahala.support.params import check_params
from mahala.support.progress import progress_bar
from mahala.support.rows import row_blocks
from mahala.support.validation import check_scale, is_sparse

# Sums of squares of float32 numbers in this range neither overflow nor underflow.
FLOAT32_RANGE = 1e-12, 1e12


class LabelledRows(NamedTuple):
    """Dense rows of float32 or float64, and the class code 0..c-1 of each row."""

    X: RealArray
    codes: IndexArray


TrainingData = LabelledRows | Pairs | Triplets


class BatchLearner(Learner):
    """Base class of the learners of a Mahalanobis metric from labelled rows or, for some of them, from comparisons.

    Ctrl-C during `fit` keeps the model of the last complete iteration, sets `stop_reason_` to "interrupted" and raises
    KeyboardInterrupt. Any other error leaves the learner unchanged.
    """

    # The kind of comparisons that the learner accepts besides labelled rows.
    _learns_from: ClassVar[type[Pairs] | type[Triplets] | None] = None
    # Whether the rows must have class labels.
    _needs_labels: ClassVar[bool] = True

    # Values for learners without these parameters.
    max_iter: int = 1
    warm_start: bool = False
    callback: Callback | None = None
    verbose: bool = False
    random_state: Any = None

    _model: Model
    _metric: Metric
    objective_: float
    objectives_: FloatArray
    n_iter_: int
    stop_reason_: str

    @abstractmethod
    def _learn(self, data: TrainingData, run: Run) -> tuple[Model, str]:
        """Return the model and the stop reason: "converged", "max_iter", "callback" or another one.

        Every iteration is recorded by `run.step`, and the last one recorded has the model that is returned.
        """

    def _check_params(self) -> None:
        """Raise a ValueError if parameters do not fit together."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the metric from rows X with class labels y, or from comparisons if the learner accepts them."""
        check_params(self)
        self._check_params()
        interrupt = None
        with self._all_or_nothing():
            data = self._training_data(X, y)
            with progress_bar(type(self).__name__, self.max_iter, self.verbose) as show:
                run = Run(self.callback, show)
                try:
                    model, reason = self._learn(data, run)
                except KeyboardInterrupt as error:
                    if run.model is None:
                        raise
                    model, reason, interrupt = run.model, "interrupted", error
            self._set_model(model)
            self.objectives_ = np.array(run.objectives)
            self.objective_ = run.objectives[-1]
            self.n_iter_ = len(run.objectives)
            self.stop_reason_ = reason
        if interrupt is not None:
            raise interrupt
        return self

    def _training_data(self, X: Any, y: Any) -> TrainingData:
        """Validate the arguments of `fit`; the rows that are returned are dense and of float32 or float64."""
        reset = self._warm_model() is None
        if reset:
            self._reset_seed()
        else:  # a warm start makes the same random choices again
            self._rng = np.random.default_rng(self._seed)
        name, kind = type(self).__name__, self._learns_from
        if isinstance(X, Pairs | Triplets) and not (kind is not None and isinstance(X, kind)):
            wanted = "labelled rows" if kind is None else f"{kind.__name__.lower()} or labelled rows"
            raise TypeError(f"{name} learns from {wanted}, got {type(X).__name__}")
        if kind is not None and (isinstance(X, kind) or n_axes(X) == 3):
            comparisons = X if isinstance(X, kind) else kind.from_array(X)
            if isinstance(comparisons, Pairs):
                comparisons = comparisons.labelled(y)
            elif comparisons.items is not None:
                raise ValueError(f"items must be None, because {name} learns distances between rows of X")
            if len(comparisons) == 0:
                raise ValueError(f"{kind.__name__.lower()} must not be empty, got 0 of them")
            self._check_n_features_of(comparisons, reset=reset)
            return comparisons.over(_dense(comparisons.X))
        if y is None and not self._needs_labels:
            X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_min_samples=2)
            return LabelledRows(_dense(check_scale(X)), np.zeros(X.shape[0], dtype=np.intp))
        X, codes = self._labelled_rows(X, y, reset=reset)
        if codes.max() == 0 and self._needs_labels:
            raise ValueError(f"y has one class; {name} needs rows of at least two classes")
        return LabelledRows(_dense(X), codes)

    def _warm_model(self) -> Model | None:
        """Return the model from which a warm start resumes, or None."""
        return self._model if self.warm_start and hasattr(self, "_model") else None

    def _learned(self, key: str) -> RealArray:
        """Return an array of the fitted model."""
        check_is_fitted(self, "_model")
        return self._model[key]

    def _set_model(self, model: Model) -> None:
        self._model = model
        names = getattr(self, "feature_names_in_", None)
        self._metric = Metric(matrix_of(model), feature_names=names, origin=self._origin())

    @property
    def metric_(self) -> Metric:
        """The learned metric."""
        check_is_fitted(self, "_metric")
        return self._metric

    @property
    def components_(self) -> FloatArray:
        """The linear map L of `transform`, one direction per row: M = LᵀL."""
        metric, model = self.metric_, self._model
        if "w" in model:
            return np.diag(np.sqrt(model["w"].astype(np.float64)))
        # A learned map is returned unchanged, with its directions in order.
        learned = "L" in model and len(model["L"]) <= metric.n_features_in
        return model["L"].astype(np.float64) if learned else metric.components

    def get_mahalanobis_matrix(self) -> FloatArray:
        """The learned matrix M."""
        return self.metric_.matrix

    def _has_weights(self) -> bool:
        return "w" in getattr(self, "_model", {})

    @property
    def feature_importances_(self) -> FloatArray:
        """Weight of each feature's squared difference in the squared distance, for a diagonal M only."""
        check_is_fitted(self, "_model")
        if "w" not in self._model:
            raise AttributeError(
                f"{type(self).__name__} has no feature_importances_, because its matrix M is not diagonal"
            )
        return self._model["w"].astype(np.float64)

    def _embed(self, X: Any) -> Any:
        if not self._has_weights():
            return map_rows(X, self.components_)
        # Scale in float64, because the weights of float32 features may be outside the range of float32.
        scale = np.sqrt(self._model["w"].astype(np.float64))
        scaled = sp.csr_array(X.multiply(scale)) if is_sparse(X) else X * scale
        return scaled.astype(np.float32) if X.dtype == np.float32 else scaled

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns of `transform`: those of the features if M is diagonal."""
        check_is_fitted(self, "_model")
        if self._has_weights():
            return np.asarray(_check_feature_names_in(self, input_features))
        return np.asarray(super().get_feature_names_out(input_features))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the accuracy of leave-one-out 3-NN on rows X with class labels y.

        For Pairs, return the area under the ROC curve of their distances; for Triplets, the share in the right order.
        """
        check_is_fitted(self, "_model")
        if isinstance(X, Pairs):
            self._check_n_features_of(X, reset=False)
            pairs = X.labelled(y)
            return float(roc_auc_score(pairs.similar, -self._squared(pairs, pairs.left, pairs.right)))
        if isinstance(X, Triplets):
            self._check_n_features_of(X, reset=False)
            near, far = (self._squared(X, X.anchor, other) for other in (X.positive, X.negative))
            return float(np.mean(near < far))
        X, codes = self._labelled_rows(X, y, reset=False)
        return 1.0 - float(leave_one_out_errors(self.metric_.transform(X), codes, SCORE_NEIGHBORS)[-1])

    def _squared(self, comparisons: Pairs | Triplets, one: Any, other: Any) -> FloatArray:
        """Squared distances of pairs of rows, computed in blocks."""
        result = np.empty(len(one))
        for part in row_blocks(len(one), comparisons.n_features):
            result[part] = self.metric_.distance(comparisons.X[one[part]], comparisons.X[other[part]], squared=True)
        return result

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = False
        tags.target_tags.required = self._needs_labels
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        header: dict[str, object] = {"stop_reason": self.stop_reason_, "seed": self._seed}
        return header, {"objectives": self.objectives_} | {f"model.{key}": a for key, a in self._model.items()}

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        check_params(self)
        self._check_params()
        self._seed = int(number_value(header, "seed", least=0.0))
        self._rng = np.random.default_rng(self._seed)
        self.stop_reason_ = header_value(header, "stop_reason", str)
        self.objectives_ = array_value(arrays, "objectives", np.float64, (None,))
        if not len(self.objectives_):
            raise ModelFileError("objectives should hold at least one number")
        self.objective_, self.n_iter_ = float(self.objectives_[-1]), len(self.objectives_)
        model = {key.removeprefix("model."): array for key, array in arrays.items() if key.startswith("model.")}
        d = self.n_features_in_
        shapes: dict[str, tuple[int | None, ...]] = {"L": (None, d), "M": (d, d), "w": (d,)}
        form = [key for key in shapes if key in model]
        if len(form) != 1:
            raise ModelFileError(f"a model should be one of L, M and w, found {sorted(model)}")
        for key, array in model.items():
            dtype = array.dtype if array.dtype in (np.float32, np.float64) else np.float64
            shape = shapes.get(key, (None,) * array.ndim)
            model[key] = finite(array_value(arrays, f"model.{key}", dtype, shape), f"model.{key}")
        self._set_model(model)


def _dense(X: Any) -> RealArray:
    """Return the rows as a dense array, of float32 if they are float32 and their squares do not overflow."""
    if is_sparse(X):
        check_room(
            8.0 * X.shape[0] * X.shape[1],
            None,
            f"X of shape {X.shape} as a dense array",
            "reduce its columns first, for instance with TruncatedSVD",
        )
        X = X.toarray()
    dtype: type[np.floating[Any]] = np.float64
    if X.dtype == np.float32:
        largest = float(np.abs(X).max(initial=0.0))
        if largest == 0.0 or FLOAT32_RANGE[0] < largest < FLOAT32_RANGE[1]:
            dtype = np.float32
    return np.ascontiguousarray(X, dtype=dtype)

"""The base class of the learners that fit all the data at once."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import _check_feature_names_in

from mahala.batch.run import Callback, Model, Run, matrix_of
from mahala.comparisons import Pairs, Triplets
from mahala.learner import LabelledRows, Learner
from mahala.metric import MahalanobisMetric
from mahala.metric.matrices import in_dtype, map_rows
from mahala.support.arrays import Arrays, FloatArray, RealArray
from mahala.support.config import config_context, get_config
from mahala.support.contexts import all_or_nothing, one_at_a_time, one_blas_thread
from mahala.support.memory import check_room
from mahala.support.model_files import ModelFileError, array_value, count_value, finite, header_value
from mahala.support.progress import progress_bar
from mahala.support.tensors import engine_of
from mahala.support.validation import check_params, is_sparse

# Sums of squares of float32 numbers in this range neither overflow nor underflow.
FLOAT32_RANGE = 1e-12, 1e12
# A feature whose values are all smaller counts as zero. M has entries up to the inverse square of what two values
# differ by, which for values of this size and the digits that they have stays within those that a metric accepts.
SMALLEST_VALUE = 1e-45


TrainingData = LabelledRows | Pairs | Triplets


class BatchLearner(Learner):
    """Base class of the learners of a Mahalanobis metric from labelled rows or, for some of them, from comparisons.

    Ctrl-C during `fit` keeps the model of the last complete iteration, sets `stop_reason_` to "interrupted" and raises
    KeyboardInterrupt. Any other error leaves the learner unchanged.
    """

    # Values for learners without these parameters.
    max_iter: int = 1
    warm_start: bool = False
    callback: Callback | None = None
    verbose: bool = False

    _model: Model
    _metric: MahalanobisMetric
    objective_: float
    objectives_: FloatArray
    n_iter_: int
    stop_reason_: str

    @abstractmethod
    def _learn(self, data: TrainingData, run: Run) -> str:
        """Return the stop reason: "converged", "max_iter", "callback" or another one.

        Every iteration, of which there is at least one, is recorded by `run.step`; the last model is what is learned.
        """

    @one_at_a_time
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the metric from rows X with class labels y, or from comparisons if the learner accepts them.

        Rows that are a tensor on a GPU are learned from there; see `mahala.set_config` for other rows.
        """
        check_params(self)
        self._check_params()
        interrupt = None
        engine = engine_of(X, get_config()["engine"])
        with all_or_nothing(self), one_blas_thread(), config_context(engine=engine):
            data = self._training_data(X, y)
            with progress_bar(type(self).__name__, self.max_iter, self.verbose) as show:
                run = Run(self.callback, show)
                try:
                    reason = self._learn(data, run)
                except KeyboardInterrupt as error:
                    if not run.model:
                        raise
                    reason, interrupt = "interrupted", error
            self._set_model(run.model)
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
        data = self._given(X, y, reset=reset)
        if isinstance(data, LabelledRows):
            return LabelledRows(_dense(data.X), data.codes)
        if isinstance(data, Triplets) and data.items is not None:
            raise ValueError(f"items must be None, because {type(self).__name__} learns distances between rows of X")
        return data.over(_dense(data.X))

    def _warm_model(self) -> Model | None:
        """Return the model from which a warm start resumes, or None."""
        return self._model if self.warm_start and hasattr(self, "_model") else None

    def _learned(self, key: str) -> RealArray:
        """Return an array of the fitted model."""
        self._check_fitted()
        return self._model[key]

    def _set_model(self, model: Model) -> None:
        self._model = model
        self._metric = MahalanobisMetric(matrix_of(model), **self._about())

    @property
    def metric_(self) -> MahalanobisMetric:
        """The learned metric."""
        self._check_fitted()
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
        self._check_fitted()
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
        return in_dtype(scaled, X.dtype)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns of `transform`: those of the features if M is diagonal."""
        self._check_fitted()
        if self._has_weights():
            return np.asarray(_check_feature_names_in(self, input_features))
        return np.asarray(super().get_feature_names_out(input_features))

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
        self._seed = count_value(header, "seed")
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
        # A view of a file that was just written needs no eigenvalues, and LᵀL has none below zero.
        if form != ["L"] and model[form[0]].flags.writeable and not self._metric.is_psd:
            raise ModelFileError(f"model.{form[0]} should be positive semi-definite")


def _dense(X: Any) -> RealArray:
    """Return the rows as a dense array, of float32 if they are float32 and their squares do not overflow.

    Features too small to learn from are zero in it.
    """
    if is_sparse(X):
        check_room(
            8.0 * X.shape[0] * X.shape[1],
            None,
            f"X of shape {X.shape} as a dense array",
            "reduce its columns first, for instance with TruncatedSVD",
        )
        X = X.toarray()
    largest = np.maximum(X.max(axis=0).astype(np.float64), -X.min(axis=0).astype(np.float64))
    tiny = (largest < SMALLEST_VALUE) & (largest > 0.0)
    if tiny.any():
        X = np.where(tiny, X.dtype.type(0), X)
    fits = (largest == 0.0) | ((largest > FLOAT32_RANGE[0]) & (largest < FLOAT32_RANGE[1]))
    return np.ascontiguousarray(X, dtype=np.float32 if X.dtype == np.float32 and fits.all() else np.float64)

"""The base class of learners from all the data at once: a fit is a run of iterations, and leaves a usable model."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from mahala.batch.run import Callback, Floats, Model, Run, matrix_of
from mahala.comparisons import Pairs, Triplets
from mahala.compiled.neighbors import leave_one_out_errors
from mahala.learner import CHUNK_ELEMENTS, SCORE_NEIGHBORS, Arrays, Learner, n_axes
from mahala.metric import MahalanobisMetric
from mahala.metric.matrices import map_rows
from mahala.support.memory import check_room
from mahala.support.model_files import ModelFileError, array_value, finite, header_value, number_value
from mahala.support.progress import progress_bar
from mahala.support.validation import check_count, check_flag, check_scale, check_tolerance, is_sparse

# Squares of float32 numbers of these sizes, and sums of them, are still far from its limits.
FLOAT32_RANGE = 1e-12, 1e12


class Rows(NamedTuple):
    """Labelled rows: dense, float32 or float64, and the class code 0..c-1 of each."""

    X: Floats
    codes: NDArray[np.intp]


Given = Rows | Pairs | Triplets


class BatchLearner(Learner):
    """A learner of a Mahalanobis metric from labelled rows, and from comparisons where its objective is about them.

    Ctrl-C in a fit leaves the model of the last whole iteration, with `stop_reason_` "interrupted", and raises
    KeyboardInterrupt; any other error leaves the learner as it was.
    """

    # The comparisons from which it learns; None: rows with class labels only.
    _learns_from: ClassVar[type[Pairs] | type[Triplets] | None] = None
    # Whether the rows must have class labels.
    _needs_labels: ClassVar[bool] = True

    random_state: Any = None  # a parameter of those that draw
    max_iter: int
    tol: float
    warm_start: bool
    callback: Callback | None
    verbose: bool

    _model: Model
    _metric: MahalanobisMetric
    objective_: float
    objectives_: NDArray[np.float64]
    n_iter_: int
    stop_reason_: str

    @abstractmethod
    def _learn(self, given: Given, run: Run) -> tuple[Model, str]:
        """The model, and why there are no more iterations: "converged", "max_iter", "callback" or another reason.

        It tells `run` of every iteration, the last one of the model that it returns.
        """

    def _check_params(self) -> None:
        """Refuses parameters that make no sense; a learner has those of these that it has."""
        params = self.get_params(deep=False)
        if "max_iter" in params:
            check_count(self.max_iter, "max_iter")
        if "tol" in params:
            check_tolerance(self.tol, "tol")
        for name in ("warm_start", "verbose"):
            if name in params:
                check_flag(params[name], name)
        if params.get("callback") is not None and not callable(self.callback):
            raise TypeError(f"callback must be None or a function of an Iteration, got {self.callback!r}")

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows X with class labels y, or from comparisons where the learner takes them."""
        self._check_params()
        interrupt = None
        with self._all_or_nothing():
            given = self._given(X, y)
            with progress_bar(
                type(self).__name__, getattr(self, "max_iter", 1), getattr(self, "verbose", False)
            ) as show:
                run = Run(getattr(self, "callback", None), show)
                try:
                    model, reason = self._learn(given, run)
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

    def _given(self, X: Any, y: Any) -> Given:
        """What there is to learn from, checked; its X is dense and of float32 or float64."""
        reset = self._warm_model() is None
        if reset:
            self._reset_seed()
        else:  # what is drawn again is the same
            self._rng = np.random.default_rng(self._seed)
        kind = self._learns_from
        if isinstance(X, Pairs | Triplets) and not (kind is not None and isinstance(X, kind)):
            wanted = "labelled rows" if kind is None else f"{kind.__name__.lower()} or labelled rows"
            raise TypeError(f"{type(self).__name__} learns from {wanted}, got {type(X).__name__}")
        if kind is not None and (isinstance(X, kind) or n_axes(X) == 3):
            comparisons = X if isinstance(X, kind) else kind.from_array(X)
            if isinstance(comparisons, Pairs):
                comparisons = comparisons.labelled(y)
            elif comparisons.items is not None:
                raise ValueError(f"{type(self).__name__} learns a distance, so items must be None: rows of X itself")
            if len(comparisons) == 0:
                name = kind.__name__.lower()
                raise ValueError(f"{name} must not be empty: 0 {name} given, at least one is needed")
            self._check_n_features_of(comparisons, reset=reset)
            return comparisons.over(_dense(comparisons.X))
        if y is None and not self._needs_labels:
            X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_min_samples=2)
            return Rows(_dense(check_scale(X)), np.zeros(X.shape[0], dtype=np.intp))
        X, codes = self._labelled_rows(X, y, reset=reset)
        if codes.max() == 0 and self._needs_labels:
            raise ValueError(f"y has one class; {type(self).__name__} needs rows of at least two classes")
        return Rows(_dense(X), codes)

    def _warm_model(self) -> Model | None:
        """The model from which a fit goes on, where it does."""
        return self._model if getattr(self, "warm_start", False) and hasattr(self, "_model") else None

    def _set_model(self, model: Model) -> None:
        self._model = model
        names = getattr(self, "feature_names_in_", None)
        self._metric = MahalanobisMetric(matrix_of(model), feature_names=names, origin=self._origin())

    @property
    def metric_(self) -> MahalanobisMetric:
        """What has been learned."""
        check_is_fitted(self, "_metric")
        return self._metric

    @property
    def components_(self) -> NDArray[np.float64]:
        """The linear map of `transform`, a row for each direction: M = components_ᵀ components_."""
        metric, model = self.metric_, self._model
        if "w" in model:
            return np.diag(np.sqrt(model["w"].astype(np.float64)))
        # A map that was learned as such is kept as it is, with its directions in their order.
        learned = "L" in model and len(model["L"]) <= metric.n_features_in
        return model["L"].astype(np.float64) if learned else metric.components

    def get_mahalanobis_matrix(self) -> NDArray[np.float64]:
        """The learned matrix M."""
        return self.metric_.matrix

    def _has_weights(self) -> bool:
        return "w" in getattr(self, "_model", {})

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """The weight of each feature's squared difference in the squared distance, where M is diagonal."""
        check_is_fitted(self, "_model")
        if "w" not in self._model:
            raise AttributeError(
                f"feature_importances_ are there where M is diagonal; this {type(self).__name__}'s is full"
            )
        return self._model["w"].astype(np.float64)

    def _embed(self, X: Any) -> Any:
        if not self._has_weights():
            return map_rows(X, self.components_)
        # The features in their order, but scaled; through float64, as the weights of float32 features may need it.
        scale = np.sqrt(self._model["w"].astype(np.float64))
        scaled = sp.csr_array(X.multiply(scale)) if is_sparse(X) else X * scale
        return scaled.astype(np.float32) if X.dtype == np.float32 else scaled

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`: those of the features where it scales them."""
        check_is_fitted(self, "_model")
        if self._has_weights():
            return np.asarray(_check_feature_names_in(self, input_features))
        return np.asarray(super().get_feature_names_out(input_features))

    def score(self, X: Any, y: Any = None) -> float:
        """Accuracy of leave-one-out 3-NN on rows with class labels.

        For Pairs the area under the ROC curve of their distances, for Triplets the share in the right order.
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

    def _squared(self, comparisons: Pairs | Triplets, one: Any, other: Any) -> NDArray[np.float64]:
        """Squared distances of rows, some at a time."""
        result = np.empty(len(one))
        block = max(1, CHUNK_ELEMENTS // comparisons.n_features)
        for start in range(0, len(one), block):
            part = slice(start, start + block)
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


def _dense(X: Any) -> Floats:
    """Rows as a dense array of float32, where they are that and their squares can be, or else of float64."""
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

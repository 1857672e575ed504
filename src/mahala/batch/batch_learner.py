"""The base class of the learners that fit all the data at once."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_feature_names_in, _check_sample_weight

from mahala.batch.cautions import caution
from mahala.batch.run import Callback, Model, Run, matrix_of
from mahala.comparisons import Comparisons, Pairs, Triplets
from mahala.engine import engine_for
from mahala.engine.inputs import apply_to_rows, check_features, check_stored_features, persisted, refuse_chunks
from mahala.engine.moments import extremes
from mahala.learner import DistanceMixin, LabelledRows, Learner, checked_options
from mahala.metric import MahalanobisMetric
from mahala.metric.matrices import in_dtype, map_rows
from mahala.metric.thresholds import Strategy
from mahala.support.arrays import Arrays, FloatArray, RealArray, Rows, RowsLike, check_room
from mahala.support.display import progress_bar
from mahala.support.limits import one_blas_thread
from mahala.support.locking import all_or_nothing, one_at_a_time
from mahala.support.model_files import ModelFileError, array_value, count_value, finite, header_value
from mahala.support.parameters import check_params
from mahala.support.signals import no_interrupt_lost
from mahala.support.states import Fields, prefixed, without_prefix
from mahala.support.tags import TagSets
from mahala.support.validation import is_chunked, is_sparse, to_numpy

# Sums of squares of float32 numbers in this range neither overflow nor underflow.
FLOAT32_RANGE = 1e-12, 1e12
# A feature whose values are all smaller counts as zero. M has entries up to the inverse square of what two values
# differ by, which for values of this size and the digits that they have stays within those that a metric accepts.
SMALLEST_VALUE = 1e-45
# With more features M, which takes seconds to form, is formed when it is needed.
MANY_FEATURES = 4096

Prepare = Callable[[Any], Any]


class BatchLearner(DistanceMixin, Learner):
    """Base class of the learners of a Mahalanobis metric from labelled rows or, for some of them, from comparisons.

    Ctrl-C during `fit` keeps the model of the last complete iteration, sets `stop_reason_` to "interrupted" and raises
    KeyboardInterrupt. Any other error leaves the learner unchanged. A time limit (`mahala.support.limits`), which
    `mahala.compare` sets, ends `fit` after the iteration in which it is reached, with `stop_reason_` "time".
    """

    # Whether it learns from rows in chunks.
    _takes_chunks: ClassVar[bool] = True

    # Whether `_learn` gets rows as they are stored, and reads and checks a part of them at a time.
    _reads_stored_rows = False

    # Values for learners without these parameters.
    max_iter: int = 1
    tol: float = 0.0
    warm_start: bool = False
    callback: Callback | None = None
    verbose: bool = False

    # What a model has beside its matrix, to check in model files.
    _MORE: ClassVar[Fields] = ()

    _model: Model

    @abstractmethod
    def _learn(self, data: Any, run: Run) -> str:
        """Learn from LabelledRows or, if `_learns_from` says so, from comparisons; return the stop reason.

        Record each iteration, at least one, by `run.step`; the last model is what is learned.
        """

    def _finished(self, data: Any, model: Model) -> Model:
        """Return the model of a fit that was not interrupted, from what was learned."""
        return model

    @checked_options
    def fit(self, X: "RowsLike | Comparisons", y: "ArrayLike | None" = None) -> Self:
        """Learn the metric from rows X with class labels y, or from comparisons if the learner accepts them.

        Rows that are a tensor on a GPU, or of Dask, are learned from there; see `mahala.set_config` for other rows.
        """
        return self._fit(X, y)

    @one_at_a_time
    def _fit(
        self,
        X: "RowsLike | Comparisons",
        y: "ArrayLike | None",
        prepare: Prepare | None = None,
        *,
        resumes: bool = False,
    ) -> Self:
        """Fit to what `prepare` makes of valid rows or comparisons, such as weighted rows.

        With `resumes` the fit starts from the present model, if there is one, as a warm start does.
        """
        check_params(self)
        self._check_params()
        warm: Model | None = vars(self).get("_model") if self.warm_start or resumes else None
        interrupt = None
        with all_or_nothing(self), one_blas_thread(), engine_for(X):
            with no_interrupt_lost():
                data = self._training_data(X, y, reset=warm is None)
                data = data if prepare is None else prepare(data)
            with progress_bar(type(self).__name__, self.max_iter, self.verbose) as show:
                goes_on = resumes and warm is not None
                run = Run(self.callback, show, self.max_iter, self.tol, self._rng, warm, goes_on)
                try:
                    with no_interrupt_lost():
                        reason = self._learn(data, run)
                except KeyboardInterrupt as error:
                    if not run.model:
                        raise
                    reason, interrupt = "interrupted", error
            self._set_model(run.model if interrupt else self._finished(data, run.model))
            if not interrupt and (problem := caution(self, data, run)) is not None:
                warnings.warn(f"{type(self).__name__} {problem}", ConvergenceWarning, stacklevel=5)
            self.objectives_ = np.array(run.objectives)
            self.objective_ = run.objectives[-1]
            self.n_iter_ = len(run.objectives)
            self.stop_reason_ = "time" if reason == "callback" and not run.asked_to_stop else reason
        if interrupt is not None:
            raise interrupt
        return self

    def _training_data(
        self, X: "RowsLike | Comparisons", y: "ArrayLike | None", *, reset: bool
    ) -> LabelledRows | Comparisons:
        """Validate the arguments of `fit`; the rows that are returned are dense and of float32 or float64."""
        if is_chunked(X) and not (self._takes_chunks and getattr(X, "ndim", None) == 2):
            advice = "give it NumPy rows; docs/scale.md lists the learners from 2-D arrays in chunks"
            raise TypeError(f"{type(self).__name__} does not learn from this collection of chunks: {advice}")
        if reset:
            self._reset_seed()
        else:  # a warm start makes the same random choices again
            self._rng = np.random.default_rng(self._seed)
        data = self._validated(X, y, reset=reset)
        if isinstance(data, Triplets) and data.items is not None:
            raise ValueError(f"items must be None, because {type(self).__name__} learns distances between rows of X")
        rows = data.X if self._reads_stored_rows and not is_sparse(data.X) else dense_rows(data.X)
        return LabelledRows(rows, data.labels) if isinstance(data, LabelledRows) else data.over(rows)

    def _rows(self, X: "RowsLike", *, reset: bool) -> Rows:
        check = check_stored_features if self._reads_stored_rows else check_features
        rows: Rows = check(self, X, reset=reset, at_least=2)
        return rows

    def _learned(self, key: str) -> RealArray:
        """Return an array of the fitted model."""
        self._check_fitted()
        return self._model[key]

    def _set_model(self, model: Model, threshold: float | None = None) -> None:
        learned = float(model["threshold"][0]) if "threshold" in model else None
        self._model, self._threshold = model, learned if threshold is None else threshold
        many = "L" in model and model["L"].shape[1] > MANY_FEATURES
        self._metric: MahalanobisMetric | None = None if many else self._metric_of_model()
        if "L" in model:  # M beside it spares their product once
            self._model = {key: array for key, array in model.items() if key != "M"}

    def _metric_of_model(self) -> MahalanobisMetric:
        return MahalanobisMetric(matrix_of(self._model), self._threshold, **self._about())

    @property
    def metric_(self) -> MahalanobisMetric:
        """The learned metric."""
        self._check_fitted()
        if self._metric is None:
            self._metric = self._metric_of_model()
        return self._metric

    @property
    def components_(self) -> FloatArray:
        """The linear map L of `transform`, one direction per row: M = LᵀL."""
        self._check_fitted()
        model = self._model
        if "w" in model:
            return np.diag(np.sqrt(model["w"].astype(np.float64)))
        # A learned map is returned unchanged, with its directions in order.
        learned = "L" in model and "weights" not in model and len(model["L"]) <= model["L"].shape[1]
        return model["L"].astype(np.float64) if learned else self.metric_.components

    @property
    def threshold_(self) -> float:
        """Pairs at most this far apart (squared) are predicted to be similar; `calibrate_threshold` sets it."""
        threshold = self.metric_.threshold
        if threshold is None:
            raise AttributeError(f"{type(self).__name__} has no threshold_ before calibrate_threshold is called")
        return threshold

    @one_at_a_time
    def calibrate_threshold(
        self,
        pairs: "Pairs | ArrayLike",
        y: "ArrayLike | None" = None,
        *,
        strategy: Strategy = "accuracy",
        beta: float = 1.0,
        min_rate: float = 0.5,
    ) -> Self:
        """Set the threshold that is best for pairs that the metric was not learned from; the next `fit` removes it.

        Parameters
        ----------
        pairs : Pairs of both kinds, or an array of shape (n_pairs, 2, n_features)
        y : +1 / -1 for pairs without labels of their own
        strategy, beta, min_rate : see :meth:`mahala.MahalanobisMetric.calibrate_threshold`
        """
        calibrated = partial(self.metric_.calibrate_threshold, strategy=strategy, beta=beta, min_rate=min_rate)
        self._metric = calibrated(self._pairs(pairs), y)
        return self

    @property
    def feature_importances_(self) -> FloatArray:
        """Weight of each feature's squared difference in the squared distance, for a diagonal M only."""
        self._check_fitted()
        if "w" not in self._model:
            raise AttributeError(f"{type(self).__name__} has no feature_importances_: its matrix M is not diagonal")
        return self._model["w"].astype(np.float64)

    def _embed(self, X: Rows) -> Any:
        if "w" not in self._model:
            return map_rows(X, self.components_)
        # Scale in float64, because the weights of float32 features may be outside the range of float32.
        scale = np.sqrt(self._model["w"].astype(np.float64))
        scaled = sp.csr_array(X.multiply(scale)) if is_sparse(X) else X * scale
        return in_dtype(scaled, X.dtype)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def get_feature_names_out(self, input_features: "ArrayLike | None" = None) -> NDArray[np.object_]:
        """Return the names of the columns of `transform`: those of the features if M is diagonal."""
        self._check_fitted()
        if "w" in self._model:
            return np.asarray(_check_feature_names_in(self, input_features))
        return np.asarray(super().get_feature_names_out(input_features))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = False
        tags.target_tags.required = self._needs_labels
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        threshold = self._threshold if self._metric is None else self._metric.threshold
        header = {"stop_reason": self.stop_reason_, "seed": self._seed, "threshold": threshold}
        return header, {"objectives": self.objectives_} | prefixed("model", self._model)

    def _set_state(self, header: dict[str, object], arrays: Arrays) -> None:
        check_params(self)
        self._check_params()
        self._seed = count_value(header, "seed")
        self._rng = np.random.default_rng(self._seed)
        self.stop_reason_ = header_value(header, "stop_reason", str)
        self.objectives_ = array_value(arrays, "objectives", np.float64, (None,))
        if not len(self.objectives_):
            raise ModelFileError("objectives should hold at least one number")
        self.objective_, self.n_iter_ = float(self.objectives_[-1]), len(self.objectives_)
        model, d = without_prefix("model", arrays), self.n_features_in_
        shapes: dict[str, tuple[int | None, ...]] = {"L": (None, d), "M": (d, d), "w": (d,)}
        form = [key for key in shapes if key in model]
        if len(form) != 1:
            raise ModelFileError(f"a model should be one of L, M and w, found {sorted(model)}")
        for key, array in model.items():
            dtype = array.dtype if array.dtype in (np.float32, np.float64) else np.float64
            shape = shapes.get(key, (None,) * array.ndim)
            model[key] = finite(array_value(arrays, f"model.{key}", dtype, shape), f"model.{key}")
        for field in self._MORE:
            if not field.optional or field.key in arrays:
                field.read(self, header, arrays)
        self._set_model(model, header_value(header, "threshold", float, type(None)))
        # What was just written and is read back needs no eigenvalues, and LᵀL has none below zero.
        if form != ["L"] and model[form[0]].flags.writeable and not self.metric_.is_psd:
            raise ModelFileError(f"model.{form[0]} should be positive semi-definite")


class WeightedLearner(BatchLearner):
    """Base class of the learners from rows that may have weights."""

    @checked_options
    def fit(
        self, X: "RowsLike | Comparisons", y: "ArrayLike | None" = None, sample_weight: "ArrayLike | None" = None
    ) -> Self:
        """Learn the metric from rows X with class labels y, or from pairs if the learner accepts them.

        Parameters
        ----------
        X : array, CSR matrix, data frame or tensor of shape (n_rows, n_features), or Pairs, or an array of pairs
        y : class labels of rows, +1 / -1 for an array of pairs, else None
        sample_weight : a weight of at least 0 for each row, as if the row were repeated so many times, default=None
        """
        return self._fit(X, y, None if sample_weight is None else partial(weighted_rows, sample_weight))


def weighted_rows(sample_weight: "ArrayLike", data: LabelledRows | Comparisons) -> LabelledRows:
    """Return labelled rows with their weights, without those of weight zero."""
    if not isinstance(data, LabelledRows):
        raise ValueError("sample_weight must be None with comparisons: it weights rows with class labels")
    refuse_chunks(data.X, "sample_weight must be None")
    weights = _check_sample_weight(to_numpy(sample_weight), data.X, dtype=np.float64)
    if not ((weights == 0.0) | ((weights > 1e-100) & (weights < 1e100))).all():
        raise ValueError("sample_weight must hold numbers of at least 0, those above it from 1e-100 to 1e100")
    used = np.flatnonzero(weights)
    present, codes = np.unique(data.codes[used], return_inverse=True)
    if len(present) < 2:
        raise ValueError("sample_weight must be positive for rows of at least two classes, else there is one class")
    return LabelledRows(data.X[used], codes, weights[used])


def copies_of_tags(data: LabelledRows, least_rows: int = 1) -> LabelledRows:
    """Return rows with classes as they are, and of rows with tags a copy for each tag that enough rows have.

    The class of a copy is its tag. All rows have the same weight, which their copies share.
    """
    if not isinstance(data.labels, TagSets):
        return data
    rows, tags = data.labels.copies()
    kept = np.bincount(tags)[tags] >= least_rows
    rows, tags = rows[kept], tags[kept]
    n_copies = np.bincount(rows)[rows]
    weights = n_copies.max(initial=1) / n_copies
    codes = np.unique(tags, return_inverse=True)[1]
    return LabelledRows(data.X[rows], codes, weights if n_copies.max(initial=1) > 1 else None)


def dense_rows(X: Any) -> RealArray:
    """Return dense rows with zeros for features without variance, float32 if the squares do not overflow.

    Those have none whose values are too small, or differ by rounding only.
    """
    if is_sparse(X):
        advice = "reduce its columns first, for instance with TruncatedSVD"
        check_room(8.0 * X.shape[0] * X.shape[1], None, f"X of shape {X.shape} as a dense array", advice)
        X = X.toarray()
    dense: RealArray = persisted(X)
    low, high = extremes(dense)
    largest = np.maximum(high.astype(np.float64), -low.astype(np.float64))
    extent = high.astype(np.float64) - low
    varies = (largest >= SMALLEST_VALUE) & (
        extent > 4.0 * np.finfo(np.result_type(dense.dtype, np.float32)).eps * largest
    )
    if (largest[~varies] > 0.0).any():
        dense = np.where(varies, dense, dense.dtype.type(0))
    largest = np.where(varies, largest, 0.0)
    fits = (largest == 0.0) | ((largest > FLOAT32_RANGE[0]) & (largest < FLOAT32_RANGE[1]))
    dtype = np.float32 if dense.dtype == np.float32 and fits.all() else np.float64
    return apply_to_rows(partial(np.ascontiguousarray, dtype=dtype), dense, dense.shape[1], dtype)  # type: ignore[no-any-return]

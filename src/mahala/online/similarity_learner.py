"""The family of online learners of a bilinear similarity from triplets: OASIS, OGD, SORS, AdaSORS and AROMA."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from mahala.comparisons import Comparisons, Triplets
from mahala.comparisons.triplets import draw_triplets
from mahala.compiled.triplets.rows import LARGEST_CHANGE
from mahala.metric import BilinearMetric
from mahala.metric.matrices import row_dots
from mahala.metric.shrinkage import Shrinkage, Weights, mixing_weights
from mahala.online.online_learner import OnlineLearner
from mahala.online.state.dense import DenseState, dense_bytes, fit_gram, gram_is_cheaper
from mahala.online.state.similarity import LONGEST_STEP, SimilarityRule, SimilarityState, StepLength, items_of, touches
from mahala.online.state.sparse import SparseState
from mahala.support.arrays import FloatArray, Rows, RowsLike, StoredRows, memory_limit
from mahala.support.locking import one_at_a_time
from mahala.support.model_files import ModelFileError, header_value
from mahala.support.parameters import Count, Positive
from mahala.support.signals import uninterrupted
from mahala.support.states import Array, Number
from mahala.support.tags import Labels
from mahala.support.validation import check_row, check_rows, is_sparse, stacked_vectors

# Up to this many bytes a full matrix is held if nothing is known of the stream; beyond them touched entries only.
SMALL_MATRIX = 2**28
LARGE_MATRIX = 2**31
# Triplets from which the scales of similarities are taken.
SCALE_SAMPLE = 100
# The parameters that may be "auto": on the scale of the similarities.
_SCALED = ("margin", "C", "eta", "r")
_LARGEST_SIZE = 1e100  # whose cube is a number of float64
_SMALLEST = float(np.finfo(np.float64).tiny)


@dataclass(kw_only=True, eq=False, repr=False)
class SimilarityLearner(OnlineLearner):
    """An online learner of M in S(x, x') = xᵀ M x' from triplets, or from labels by way of triplets."""

    margin: Literal["auto"] | StepLength = 1.0
    init: Literal["identity", "zero"] | BilinearMetric = "identity"
    average: bool = False
    shrinkage: Shrinkage = "auto"
    n_triplets: Count = 100_000
    storage: Literal["auto", "dense", "sparse", "gram"] = "auto"
    dtype: Literal["float64", "float32"] = "float64"
    max_memory: Positive | None = None

    _learns_from: ClassVar = Triplets
    _fixed: ClassVar = ("margin", "init", "average", "storage", "dtype", "penalty", "covariance")
    FIELDS: ClassVar = (
        Number("_gap", most=LONGEST_STEP),
        Number("_size", most=_LARGEST_SIZE),
        Array("_sample", dtype=np.float64, shape=(None, 2), least=0.0),
        Array("_weights", optional=True, dtype=np.float64, shape=(2,), least=0.0),
    )

    _gap = 1.0  # how much the similarities of an x to two items differ under the identity
    _size = 1.0  # the largest similarity that an x and an item of their lengths can have
    _sample = np.empty((0, 2))  # size and gap of the first triplets, of which the two above are the medians
    _weights = cast("FloatArray | None", None)  # of what was learned and of `init`, if the metric mixes them

    @classmethod
    def _test_instances(cls) -> Iterator[Self]:
        for learner in super()._test_instances():
            yield learner.set_params(n_triplets=150)

    @one_at_a_time
    def learn_one(self, x: "RowsLike", positive: "RowsLike", negative: "RowsLike") -> bool:
        """Learn that x is more similar to `positive` than to `negative`; return whether that was predicted.

        Parameters
        ----------
        x, positive, negative : vectors, dense or sparse; items may have other features than x
        """
        rows: Any = stacked_vectors(x, positive, negative)
        items: Any = None
        if rows is None:
            rows, items = _one_triplet(x, positive, negative)
        is_next = "_model" in vars(self)
        if is_next:
            self._check_stream("learn_one")
            widths = rows.shape[1], (rows if items is None else items).shape[1]
            is_next = self._rule_in_force is not None and widths == (self.n_features_in_, self.n_item_features_)
        if not is_next or is_sparse(rows) or is_sparse(items):
            numbers = np.array([[0], [1], [2]] if items is None else [[0], [0], [1]])
            self.partial_fit(Triplets._build(rows, *numbers, items=items))
            return self._last_step[2] == 1
        with uninterrupted():
            p, tau, predicted = self._model.feed_one(rows, items, self._rule_in_force)
            self._note_one(1, p, tau, predicted)
        return bool(predicted == 1)

    @property
    def metric_(self) -> BilinearMetric:
        """What has been learned so far; after a fit to triplets, mixed with `init` as `shrinkage_` says."""
        metric: BilinearMetric = super().metric_
        return metric

    @property
    def shrinkage_(self) -> float:
        """Share of `init` in the metric."""
        self._check_fitted()
        return 0.0 if self._weights is None else 1.0 - float(self._weights[0])

    @property
    def margin_(self) -> float:
        """By how much a positive should be more similar than a negative."""
        return self._margin(self._gap)

    @property
    def sparsity_(self) -> float:
        """Share of M's entries that are zero."""
        return self.metric_.sparsity

    def step_rule(self, gap: float, size: float) -> SimilarityRule:
        """Return what a step does to M where similarities have this scale, which parameters that are "auto" follow.

        Parameters
        ----------
        gap : how much the similarities of an x to two items differ
        size : the largest similarity that an x and an item of their lengths can have
        """
        margin = self._margin(gap)
        rule = self._step_rule(margin, size)
        return rule._replace(margin=margin, average=bool(self.average), max_memory=self.max_memory)

    @abstractmethod
    def _step_rule(self, margin: float, size: float) -> SimilarityRule:
        """Return what the algorithm does in a step, for a margin and the size of similarities."""

    def _rule(self) -> SimilarityRule:
        return self.step_rule(self._gap, self._size)

    def _margin(self, gap: float) -> float:
        return gap if isinstance(self.margin, str) else float(self.margin)

    def _drawn(self, X: StoredRows, labels: Labels, at_most: bool) -> Triplets:
        return Triplets._build(X, *draw_triplets(labels, self.n_triplets, self._rng, name="n_triplets"))

    def _labelled_rows(self, X: "RowsLike", y: "ArrayLike | None", *, reset: bool) -> tuple[Rows, Labels]:
        rows, labels = super()._labelled_rows(X, y, reset=reset)
        if not reset:
            self._check_items(rows.shape[1])
        return rows, labels

    def _check_features(self, comparisons: Comparisons, *, reset: bool) -> None:
        super()._check_features(comparisons, reset=reset)
        if not reset and isinstance(comparisons, Triplets):
            self._check_items(items_of(comparisons).shape[1])

    def _check_items(self, n_features: int) -> None:
        if n_features != self.n_item_features_:
            fitted = f"{type(self).__name__} was fitted with items of {self.n_item_features_} features"
            raise ValueError(f"items have {n_features} features, but {fitted}")

    def _check_open(self, method: str) -> None:
        if self.storage == "gram":
            advice = f"{method} cannot bring new ones; use fit, or another storage"
            raise ValueError(f"storage='gram' holds the rows that were there from the start: {advice}")

    def _learns_by_gram(self, triplets: Triplets) -> bool:
        """Whether a fit runs through the inner products of the rows: if asked for, or if that is the cheapest."""
        possible = self._rule().plain and isinstance(self.init, str) and self.dtype == "float64"
        if self.storage == "gram":
            if not possible:
                steps = "steps along x qᵀ without thresholds or covariances, in float64 from init='identity' or 'zero'"
                advice = f"{type(self).__name__} as it is set needs storage 'dense' or 'sparse'"
                raise ValueError(f"storage='gram' is for {steps}; {advice}")
            if triplets.items is not None:
                raise ValueError("storage='gram' needs anchors and items from one X; use storage 'dense' or 'sparse'")
            return True
        model = self._model
        may = possible and self.storage == "auto" and triplets.items is None and isinstance(model, DenseState)
        return may and len(triplets) > model.n_first and gram_is_cheaper(triplets, self.max_memory)

    def _learn(self, triplets: Triplets, labels: Labels | None) -> None:
        if not self._learns_by_gram(triplets):
            super()._learn(triplets, labels)
        else:
            model, rules = self._model, list(self._moving_rules(triplets))
            is_sparse_state = isinstance(model, SparseState)
            change, total, steps = fit_gram(triplets, model.initial[0], [*rules, self._rule()], is_sparse_state)
            model.clock = model.n_steps = len(triplets)
            model.settle()
            model.add(change, total)
            self._note(np.ones(len(triplets), dtype=np.int8), *steps)
        if labels is None:
            self._mix(triplets)

    def _mix(self, triplets: Triplets) -> None:
        """Find the weights of what was learned and of `init` in the metric."""
        plain = self._plain()
        if plain is None:
            return
        weights = mixing_weights(type(self).__name__, self.shrinkage, triplets, lambda: self.metric_, plain)
        if weights != Weights():
            self._weights = np.array(weights)
            self._formed.clear()

    def _plain(self) -> BilinearMetric | None:
        """Return the metric before the first step; None if all its similarities are zero."""
        if isinstance(self.init, BilinearMetric):
            return self.init
        return None if self.init == "zero" else BilinearMetric(sp.eye_array(self.n_features_in_, format="csr"))

    def _form_metric(self) -> BilinearMetric:
        metric: BilinearMetric = self._model.metric(**self._about())
        plain = self._plain()
        if self._weights is None or plain is None:
            return metric
        learned_weight, plain_weight = self._weights.tolist()
        return replace(metric, matrix=learned_weight * metric.matrix + plain_weight * plain.matrix)

    def _first_state(self, triplets: Triplets, complete: bool) -> SimilarityState:
        self.n_item_features_ = triplets.n_item_features
        self._weights, self._sample = None, np.empty((0, 2))
        self._gap = self._size = 1.0
        if self.margin == "auto" and self.n_features_in_ != self.n_item_features_:
            problem = "margin='auto' compares inner products of queries and items, which need the same features"
            raise ValueError(f"{problem}, got {self.n_features_in_} and {self.n_item_features_}; give a number")
        shape = self.n_features_in_, self.n_item_features_
        if self.storage in ("dense", "sparse"):
            storage: str = self.storage
        else:
            touched = len(triplets) * touches(triplets) / (float(shape[0]) * shape[1])
            most = LARGE_MATRIX if complete and touched > 1.0 else SMALL_MATRIX
            size = dense_bytes(shape, self._rule(), self.dtype)
            storage = "dense" if size <= min(most, memory_limit(self.max_memory)) else "sparse"
        model = self._model_in(storage, self._rule())
        if isinstance(self.init, BilinearMetric):
            if self.init.matrix.shape != shape:
                raise ValueError(f"init must be a BilinearMetric of shape {shape}, got {self.init!r}")
            if abs(self.init.matrix).max() > LARGEST_CHANGE:
                raise ValueError(f"init must have entries up to {LARGEST_CHANGE:g}: products with larger ones overflow")
            model.add(self.init.matrix, self.init.matrix)
        return model

    @property
    def _n_unscaled(self) -> int:
        """How many triplets are still to be taken into the scales: none, if no parameter is "auto"."""
        is_auto = any(isinstance(vars(self).get(name), str) for name in _SCALED)
        return SCALE_SAMPLE - len(self._sample) if is_auto else 0

    def _accept_params(self) -> None:
        super()._accept_params()
        if self._n_unscaled:
            self._rule_in_force = None  # it follows the next triplets

    def _feed(self, prepared: Any, n_steps: int, rule: Any) -> None:
        """Take steps; while the scales follow the first triplets, one by one, so that chunks make no difference."""
        first = 0
        for rule in self._moving_rules(prepared):
            super()._feed(prepared[first : first + 1], 1, rule)
            first += 1
        if first:
            prepared, rule = prepared[first:], self._rule()
            self._rule_in_force = None if self._n_unscaled else rule
        if first < n_steps:
            super()._feed(prepared, n_steps - first, rule)

    def _moving_rules(self, triplets: Triplets) -> Iterator[SimilarityRule]:
        """Take triplets into the scales, as long as these are not at rest; return the rule for each."""
        scales = _scales(triplets[: self._n_unscaled]) if self._n_unscaled else ()
        for size, gap in scales:
            self._sample = np.vstack([self._sample, [min(size, _LARGEST_SIZE), min(gap, LONGEST_STEP)]])
            # The lower one of two: their mean would be that of an outlier.
            medians = np.sort(self._sample, axis=0)[(len(self._sample) - 1) // 2]
            self._size, self._gap = (float(median) or 1.0 for median in medians)
            yield self._rule()

    def _stored_state(self, header: dict[str, object]) -> SimilarityState:
        model = header_value(header, "model", dict)
        self.n_item_features_ = header_value(model, "n_item_features", int)
        if min(self.n_features_in_, self.n_item_features_) < 1:
            raise ModelFileError("header entries 'n_features_in' and 'n_item_features' should be at least 1")
        if not (self._gap > 0.0 and self._size > 0.0):
            raise ModelFileError("header entries 'gap' and 'size' should be positive scales of similarities")
        storage = header_value(model, "storage", str)
        if storage not in ("dense", "sparse"):
            raise ModelFileError(f"header entry 'storage' should be 'dense' or 'sparse', found {storage[:40]!r}")
        # What was held before is held again: max_memory, which cannot be changed in a file, is for what comes after.
        return self._model_in(storage, self._rule()._replace(max_memory=None))

    def _model_in(self, storage: str, rule: SimilarityRule) -> SimilarityState:
        """Return the model before the first step, unless a metric is given, in a storage."""
        shape = self.n_features_in_, self.n_item_features_
        self._check_shape(rule)
        kind = DenseState if storage == "dense" else SparseState
        return kind(shape, float(self.init == "identity"), rule, self.dtype)

    def _check_shape(self, rule: SimilarityRule) -> None:
        d, e = self.n_features_in_, self.n_item_features_
        features = f"needs queries and items of the same features, got {d} and {e}"
        if d != e and isinstance(self.init, str) and self.init == "identity":
            raise ValueError(f"init='identity' {features}; use init='zero'")
        if d != e and rule.exempt_diagonal:
            raise ValueError(f"penalty='offdiagonal' {features}; use penalty='l1'")


def length_of(step: float | Literal["auto"], margin: float, size: float) -> float:
    """Return the length of a step; "auto" is on the scale of the similarities."""
    if not isinstance(step, str):
        return float(step)
    length = margin**2 / max(size, 1.0 / LONGEST_STEP) ** 3
    return min(max(length, _SMALLEST), LONGEST_STEP)


def _scales(triplets: Triplets) -> FloatArray:
    """Return ‖x‖ ‖x⁺‖ and |xᵀx⁺ - xᵀx⁻| of each triplet; the latter is 0 where x and the items differ in width."""
    items = items_of(triplets)
    x, positive, negative = (
        rows[numbers].astype(np.float64)
        for rows, numbers in ((triplets.X, triplets.anchor), (items, triplets.positive), (items, triplets.negative))
    )
    sizes = np.sqrt(row_dots(x, x)) * np.sqrt(row_dots(positive, positive))
    same = x.shape[1] == positive.shape[1]
    gaps = abs(_dots(x, positive) - _dots(x, negative)) if same else np.zeros(len(sizes))
    return np.asarray(np.nan_to_num(np.column_stack([sizes, gaps]), nan=_LARGEST_SIZE))


def _dots(rows: Rows, others: Rows) -> FloatArray:
    return np.asarray(row_dots(others, rows) if is_sparse(rows) else row_dots(rows, others))


def _one_triplet(x: "RowsLike", positive: "RowsLike", negative: "RowsLike") -> tuple[Any, Any]:
    """Return checked vectors as a row and the rows of its two items; those of which one is sparse stay sparse."""
    query, near, far = _one_row(x, "x"), _one_row(positive, "positive"), _one_row(negative, "negative")
    if near.shape != far.shape:
        widths = f"positive has {near.shape[1]} features and negative {far.shape[1]}"
        raise ValueError(f"{widths}; they must have the same")
    items = [near, far]
    return query, sp.vstack(items, format="csr") if any(map(is_sparse, items)) else np.vstack(items)


def _one_row(row: "RowsLike", name: str) -> Any:
    """Return one vector as a matrix of one row; a sparse one stays sparse."""
    if not is_sparse(row):
        return check_row(row, name)[np.newaxis]
    rows = sp.csr_matrix(row.reshape((1, -1)) if row.ndim == 1 else row)
    if rows.shape[0] != 1:
        raise ValueError(f"{name} must be one vector of features, got a matrix of shape {rows.shape}")
    return check_rows(rows, name)

"""The base class of all filters: streams of documents, the record of predictions, and scikit-learn's interface."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from mahala.compiled.triplets.rows import CSR
from mahala.online.state.dense import csr_rows
from mahala.support.arrays import BoolArray, FloatArray, row_blocks
from mahala.support.lazily import BaseEstimator, ClassifierMixin
from mahala.support.locking import all_or_nothing, one_at_a_time
from mahala.support.parameters import check_params
from mahala.support.signals import uninterrupted
from mahala.support.validation import check_features, check_labels, check_row, is_sparse

# The largest size of the values of the documents that are passed to compiled code at a time.
BLOCK_BYTES = 2**23


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineFilter(ClassifierMixin, BaseEstimator, ABC):
    """A classifier of two classes that predicts each document before it learns from it.

    The second of the sorted classes is the relevant one. A document is relevant iff its `decision_function` is
    positive.
    """

    record: bool = True

    n_passes = 1  # of `fit`

    @abstractmethod
    def _start(self) -> None:
        """Set the model to its state before the first document."""

    @abstractmethod
    def _feed(self, rows: CSR, relevant: BoolArray, predicted: BoolArray) -> Iterator[int]:
        """Predict and learn one document after another; yield how many are done whenever the model is complete."""

    @abstractmethod
    def _decide(self, rows: CSR) -> FloatArray:
        """Return how relevant documents are: positive means relevant."""

    def _check_params(self) -> None:
        check_params(self)

    @one_at_a_time
    def __getstate__(self) -> Any:
        # A copy, because it is pickled after others may have gone on learning.
        return copy.deepcopy(super().__getstate__())

    @one_at_a_time
    def fit(self, X: Any, y: Any) -> Self:
        """Reset the filter and learn from the rows of X in order; of the two classes in y the second is relevant."""
        self._check_params()
        with all_or_nothing(self):
            X, relevant = self._labelled_rows(X, y, None, reset=True)
            self._restart()
            for _ in range(self.n_passes):
                self._learn_all(X, relevant)
        return self

    @one_at_a_time
    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> Self:
        """Learn from more rows, in order; the first call needs `classes` if y is not boolean and has only one class."""
        self._check_params()
        with all_or_nothing(self):
            reset = not hasattr(self, "_seen")
            X, relevant = self._labelled_rows(X, y, classes, reset=reset)
            if reset:
                self._restart()
        self._learn_all(X, relevant)
        return self

    @one_at_a_time
    def learn_one(self, x: Any, relevant: bool) -> bool:
        """Learn from one document; return whether it was predicted to be relevant before.

        If it is the first one, the classes are False and True.
        """
        self._check_params()
        row = check_row(x, "x")
        if not isinstance(relevant, bool | np.bool_):
            raise TypeError(f"relevant must be True or False, got {relevant!r}")
        if not hasattr(self, "_seen"):
            with all_or_nothing(self):
                self.n_features_in_ = len(row)
                self.classes_ = np.array([False, True])
                self._restart()
        elif len(row) != self.n_features_in_:
            raise ValueError(f"x must have the {self.n_features_in_} features seen before, got {len(row)}")
        rows = csr_rows(row.reshape(1, -1))
        return bool(self._learn(rows, np.array([relevant]))[0])

    @one_at_a_time
    def decision_function(self, X: Any) -> FloatArray:
        """Return how relevant documents are: positive means relevant."""
        check_is_fitted(self, "_seen")
        X = check_features(self, X, reset=False)
        return np.concatenate([self._decide(rows) for rows, _ in _blocks(X)])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted class of each document."""
        relevant = self.decision_function(X) > 0.0
        return np.asarray(self.classes_[relevant.astype(np.intp)])

    @property
    def n_steps_(self) -> int:
        """The number of documents learned from, over all passes."""
        check_is_fitted(self, "_seen")
        return int(self._seen.sum())

    @property
    def n_mistakes_(self) -> int:
        """The number of documents predicted wrongly before they were learned from."""
        check_is_fitted(self, "_seen")
        return int(self._wrong.sum())

    @property
    def false_positive_rate_(self) -> float:
        """The share of the irrelevant documents that were predicted to be relevant; NaN if there were none."""
        return self._rate(0)

    @property
    def false_negative_rate_(self) -> float:
        """The share of the relevant documents that were predicted to be irrelevant; NaN if there were none."""
        return self._rate(1)

    @property
    def balanced_error_(self) -> float:
        """The mean of both rates, which does not depend on how rare relevant documents are; NaN rates are skipped."""
        return float(np.nanmean([self._rate(0), self._rate(1)]))

    @property
    def predictions_(self) -> BoolArray:
        """Whether each document was predicted to be relevant before it was learned from."""
        check_is_fitted(self, "_seen")
        if not self.record:
            raise AttributeError("predictions_ is not kept with record=False; set record=True before fitting")
        return np.frombuffer(bytes(self._said), dtype=np.bool_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_seen")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags

    def _rate(self, kind: int) -> float:
        check_is_fitted(self, "_seen")
        return float(self._wrong[kind] / self._seen[kind]) if self._seen[kind] else float("nan")

    def _restart(self) -> None:
        self._start()
        self._said = bytearray()  # the predictions so far, one byte each
        # Documents seen and predicted wrongly, irrelevant ones first.
        self._seen, self._wrong = np.zeros((2, 2), dtype=np.int64)

    def _learn_all(self, X: Any, relevant: BoolArray) -> None:
        for rows, block in _blocks(X):
            self._learn(rows, relevant[block])

    def _learn(self, rows: CSR, relevant: BoolArray) -> BoolArray:
        """Learn from checked rows; return whether each was predicted to be relevant before."""
        predicted = np.empty(len(relevant), dtype=np.bool_)
        steps, n_done = self._feed(rows, relevant, predicted), 0
        while n_done < len(relevant):
            # Ctrl-C waits until the documents learned from are also counted.
            with uninterrupted():
                part = slice(n_done, next(steps))
                self._count(predicted[part], relevant[part])
                n_done = part.stop
        return predicted

    def _count(self, predicted: BoolArray, relevant: BoolArray) -> None:
        n_relevant = np.count_nonzero(relevant)
        self._seen += len(relevant) - n_relevant, n_relevant
        self._wrong += np.count_nonzero(predicted > relevant), np.count_nonzero(predicted < relevant)
        if self.record:
            self._said.extend(predicted.tobytes())

    def _labelled_rows(self, X: Any, y: Any, classes: Any, *, reset: bool) -> tuple[Any, BoolArray]:
        """Return X and whether each row is relevant; with `reset` features and classes are set, otherwise checked."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        X = check_features(self, X, reset=reset)
        # Only a column is converted here: a list made into an array could lose its NaN.
        y = column_or_1d(y, warn=True) if getattr(y, "ndim", 1) == 2 else y
        labels = check_labels(y, X.shape[0])
        present = _distinct(labels, "y")
        if classes is not None:
            classes = _distinct(check_labels(classes, np.size(classes), "classes"), "classes")
            _check_two(classes, "classes")
            if not reset and not np.array_equal(classes, self.classes_):
                raise ValueError(f"classes must be those of the first call, {self.classes_}, got {classes}")
        if reset:
            if classes is None:
                classes = np.array([False, True]) if labels.dtype == np.bool_ else present
                _check_two(classes, "y")
            self.classes_ = classes
        relevant = np.asarray(labels == self.classes_[1])
        unknown = ~(relevant | np.asarray(labels == self.classes_[0]))
        if unknown.any():
            raise ValueError(f"y must hold the classes {self.classes_}, got {labels[unknown].tolist()[0]!r}")
        return X, relevant


def _distinct(labels: NDArray[Any], name: str) -> NDArray[Any]:
    """Return the sorted classes among the labels."""
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(f"{name} must hold finite numbers if classes are numbers, got infinity")
    try:
        check_classification_targets(labels)
        return np.unique(labels)
    except TypeError:
        raise TypeError(f"{name} must hold labels of one type, got types that cannot be sorted together") from None


def _check_two(classes: NDArray[Any], name: str) -> None:
    if len(classes) > 2:
        raise ValueError(
            f"Only binary classification is supported. {name} must hold two classes, irrelevant and relevant, "
            f"got {len(classes)}"
        )
    if len(classes) < 2:
        raise ValueError(
            f"{name} must hold two classes, irrelevant and relevant, got the one class {classes}; if the first "
            "documents are all of one kind, give y as booleans, or use partial_fit with classes"
        )


def _blocks(X: Any) -> Iterator[tuple[CSR, slice]]:
    """Blocks of rows as CSR without stored zeros, so that dense and sparse documents give bit-identical results."""
    n, d = X.shape
    for block in row_blocks(n, -(-X.nnz // n) if is_sparse(X) else d, BLOCK_BYTES):
        if is_sparse(X):
            rows = sp.csr_array(X[block]).astype(np.float64)
            rows.sum_duplicates()
            rows.eliminate_zeros()
            yield (rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data), block
        else:
            yield csr_rows(X[block]), block

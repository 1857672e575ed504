"""What all filters share: documents as they come, the record of what was said of them, and scikit-learn's interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from mahala.compiled.triplets import Rows
from mahala.support.estimators import BaseEstimator, ClassifierMixin
from mahala.support.rollback import Rollback
from mahala.support.signals import uninterrupted
from mahala.support.validation import check_labels, check_row, check_scale

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Documents are handed to compiled code in blocks of at most this many stored values.
BLOCK_VALUES = 2**20


class OnlineFilter(Rollback, ClassifierMixin, BaseEstimator, ABC):
    """A classifier of two classes that predicts each document before it learns from it.

    The second of the sorted classes is the relevant one. A document is relevant iff its `decision_function` is
    positive.
    """

    record: bool

    classes_: NDArray[Any]
    n_features_in_: int
    _said: bytearray  # the predictions so far, a byte each
    _seen: NDArray[np.int64]  # documents of either kind, irrelevant first
    _wrong: NDArray[np.int64]  # of them those predicted wrongly

    @abstractmethod
    def _start(self) -> None:
        """The model before the first document."""

    @abstractmethod
    def _feed(self, rows: Rows, relevant: Bools, predicted: Bools) -> Iterator[slice]:
        """Predict and learn, document by document; yields each part of them that has been learned as a whole."""

    @abstractmethod
    def _decide(self, rows: Rows) -> Floats:
        """How relevant documents are: positive means relevant."""

    def _check_params(self) -> None:
        if not isinstance(self.record, bool | np.bool_):
            raise ValueError(f"record must be True or False, got {self.record!r}")

    @property
    def _passes(self) -> int:
        return 1

    def fit(self, X: Any, y: Any) -> Self:
        """Forget all and learn from the rows of X in their order; y has two classes, the second is the relevant one."""
        self._check_params()
        with self._all_or_nothing():
            X, relevant = self._labelled_rows(X, y, None, reset=True)
            self._restart()
            for _ in range(self._passes):
                self._learn(X, relevant)
        return self

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> Self:
        """Learn from more rows, in their order; `classes` are needed at first where y is not boolean and has one."""
        self._check_params()
        with self._all_or_nothing():
            reset = not hasattr(self, "_seen")
            X, relevant = self._labelled_rows(X, y, classes, reset=reset)
            if reset:
                self._restart()
        self._learn(X, relevant)
        return self

    def learn_one(self, x: Any, relevant: bool) -> bool:
        """Learn from one document; returns whether it was predicted to be relevant before.

        Where it is the first one, the classes are False and True.
        """
        self._check_params()
        row = check_row(x, "x")
        if not isinstance(relevant, bool | np.bool_):
            raise TypeError(f"relevant must be True or False, got {relevant!r}")
        if not hasattr(self, "_seen"):
            with self._all_or_nothing():
                self.n_features_in_ = len(row)
                self.classes_ = np.array([False, True])
                self._restart()
        elif len(row) != self.n_features_in_:
            raise ValueError(f"x must have the {self.n_features_in_} features seen before, got {len(row)}")
        before = self._wrong.sum()
        self._learn(row[None, :], np.array([relevant]))
        return bool(relevant) == bool(self._wrong.sum() == before)

    def decision_function(self, X: Any) -> Floats:
        """How relevant documents are: positive means relevant."""
        check_is_fitted(self, "_seen")
        X = check_scale(validate_data(self, X, reset=False, accept_sparse="csr", dtype="numeric"))
        return np.concatenate([self._decide(rows) for rows, _ in _blocks(X)])

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each document."""
        relevant = self.decision_function(X) > 0.0
        return np.asarray(self.classes_[relevant.astype(np.intp)])

    @property
    def n_steps_(self) -> int:
        """Documents learned from, in all passes."""
        check_is_fitted(self, "_seen")
        return int(self._seen.sum())

    @property
    def n_mistakes_(self) -> int:
        """Documents predicted wrongly before they were learned from."""
        check_is_fitted(self, "_seen")
        return int(self._wrong.sum())

    @property
    def false_positive_rate_(self) -> float:
        """Share of the irrelevant documents that were predicted to be relevant; NaN where there were none."""
        return self._rate(0)

    @property
    def false_negative_rate_(self) -> float:
        """Share of the relevant documents that were predicted to be irrelevant; NaN where there were none."""
        return self._rate(1)

    @property
    def balanced_error_(self) -> float:
        """The mean of both rates, however rare relevant documents are; of the one where the other kind was not seen."""
        rates = [rate for rate in (self._rate(0), self._rate(1)) if not np.isnan(rate)]
        return float(np.mean(rates))

    @property
    def predictions_(self) -> Bools:
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
        self._said = bytearray()
        self._seen, self._wrong = np.zeros((2, 2), dtype=np.int64)

    def _learn(self, X: Any, relevant: Bools) -> None:
        """Learn from rows that have been checked."""
        for rows, block in _blocks(X):
            answers = relevant[block]
            predicted = np.empty(len(answers), dtype=np.bool_)
            steps = self._feed(rows, answers, predicted)
            while True:
                # Ctrl-C waits until what was learned is counted too.
                with uninterrupted():
                    done = next(steps, None)
                    if done is None:
                        break
                    self._note(predicted[done], answers[done])

    def _note(self, predicted: Bools, relevant: Bools) -> None:
        for kind, of_kind in enumerate((~relevant, relevant)):
            self._seen[kind] += np.count_nonzero(of_kind)
            self._wrong[kind] += np.count_nonzero(of_kind & (predicted != relevant))
        if self.record:
            self._said.extend(predicted.tobytes())

    def _labelled_rows(self, X: Any, y: Any, classes: Any, *, reset: bool) -> tuple[Any, Bools]:
        """X and whether each row is relevant; with `reset` the features and classes are learned, else checked."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        X = check_scale(validate_data(self, X, reset=reset, accept_sparse="csr", dtype="numeric"))
        # A column is taken as scikit-learn takes it; all else as it comes, since an array of a list loses its NaN.
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
    """The classes that are there, sorted."""
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(f"{name} must hold finite numbers where classes are numbers, got infinity")
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
            f"{name} must hold two classes, irrelevant and relevant, got the one class {classes}; where the first "
            "documents are all of one kind give y as booleans, or use partial_fit with classes"
        )


def _blocks(X: Any) -> Iterator[tuple[Rows, slice]]:
    """The rows as CSR without stored zeros, so that dense and sparse documents take the same path to the last bit."""
    n, d = X.shape
    size = max(1, BLOCK_VALUES * n // max(X.nnz, 1) if hasattr(X, "indptr") else BLOCK_VALUES // d)
    for start in range(0, n, size):
        block = slice(start, start + size)
        rows = sp.csr_array(X[block], dtype=np.float64)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        yield (rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data), block

"""Filtering by the nearest document seen so far, under the Euclidean metric or one that is learned meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from mahala.compiled.triplets.rows import CSR
from mahala.online.pair_learner import PairLearner
from mahala.support.arrays import BoolArray, FloatArray
from mahala.support.parameters import Where
from papers.pola2004.filters import kernels
from papers.pola2004.filters.online_filter import OnlineFilter

# If more than one value in this many is non-zero, a matrix product for all forms rᵀMr is cheaper than a loop.
DENSE = 4

LearnerOfPairs = Annotated[
    PairLearner | None,
    Where(
        lambda value: value is None or isinstance(value, PairLearner),
        "None or an online learner from pairs, such as mahala.POLA() or mahala.PA()",
    ),
]


@dataclass(eq=False, repr=False)
class NearestFilter(OnlineFilter):
    """A filter that compares each document with those seen before, which it keeps as sparse rows.

    Without a learner it predicts the class of the nearest document: Euclidean, the earliest of those equally near. With
    one, a document is relevant iff its squared distance to the closest *relevant* document is below the threshold,
    under the learner's current model; then the learner receives these two as a pair, similar iff the document is
    relevant. Until there is a document to compare with, and until the learner has seen a pair, all documents are
    predicted to be irrelevant.

    Parameters
    ----------
    learner : None or an online learner from pairs without a kernel, such as `mahala.POLA()` or `mahala.PA()`
        It is cloned; the copy that learns is `learner_`.
    record : bool
        Whether to keep `predictions_`, which grows by one byte per step: turn it off for an endless stream.

    Attributes
    ----------
    learner_ : the learner in its current state, or None
    classes_ : the irrelevant class and the relevant one
    n_features_in_, n_steps_, n_mistakes_ : int
    false_positive_rate_, false_negative_rate_, balanced_error_ : float, of the predictions before each answer
    predictions_ : bool array, the predictions before each answer

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler, normalize
    >>> import mahala
    >>> from papers.pola2004.filters.nearest import NearestFilter
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = normalize(StandardScaler().fit_transform(X))
    >>> round(NearestFilter().fit(X, y == 0).balanced_error_, 3)
    0.05
    >>> NearestFilter(mahala.POLA()).fit(X, y == 0).balanced_error_ < 0.1
    True
    """

    learner: LearnerOfPairs = None

    def _check_params(self) -> None:
        super()._check_params()
        kernel = getattr(self.learner, "kernel", None)
        if kernel is not None:
            raise ValueError(f"learner must have kernel=None, got kernel={kernel!r}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A filter with a learner is made for few relevant documents, not for accuracy on two classes of equal size.
        tags.classifier_tags.poor_score = self.learner is not None
        return tags

    def _start(self) -> None:
        self.learner_: Any = None
        if self.learner is not None:
            # A learner with bad parameters raises its error now, not in the middle of a stream.
            nothing = np.zeros(self.n_features_in_)
            clone(self.learner).learn_one(nothing, nothing, True)
            self.learner_ = clone(self.learner)
        self._memory = Memory()

    def _feed(self, rows: CSR, relevant: BoolArray, predicted: BoolArray) -> Iterator[int]:
        if self.learner_ is None:
            memory, start = self._memory, self._memory.n
            memory.append(rows, relevant)
            memory.n += len(relevant)
            kernels.stream_nearest(memory.rows, memory.norms2, memory.relevant, start, self.n_features_in_, predicted)
            yield len(relevant)
            return
        indptr, columns, values = rows
        for t in range(len(relevant)):
            own = slice(indptr[t], indptr[t + 1])
            predicted[t] = self._step((indptr[t : t + 2] - indptr[t], columns[own], values[own]), bool(relevant[t]))
            yield t + 1

    def _step(self, row: CSR, relevant: bool) -> bool:
        """Predict one document and pass it to the learner; return whether it was predicted to be relevant."""
        memory, learner, d = self._memory, self.learner_, self.n_features_in_
        memory.append(row, np.array([relevant]))
        predicted = moved = False
        if memory.n:
            closest = 0
            if _has_begun(learner):
                M, threshold = _state(learner)
                arrays = memory.rows, memory.norms2, memory.forms
                closest, distance = kernels.closest_under(*arrays, memory.n, memory.n, M, memory.largest)
                predicted = bool(distance < threshold)
            n_updates = getattr(learner, "n_updates_", -1)
            learner.learn_one(memory.dense(memory.n, d), memory.dense(closest, d), relevant)
            # A projection every k steps changes M in steps that are not updates.
            moved = learner.n_updates_ != n_updates or getattr(learner, "psd", "every") not in ("every", "end")
        first = 0 if moved else memory.n
        memory.n += relevant
        if _has_begun(learner):
            memory.measure(first, _state(learner)[0])
        return predicted

    def _decide(self, rows: CSR) -> FloatArray:
        memory, n = self._memory.copy(), self._memory.n
        result = np.full(len(rows[0]) - 1, -np.inf)
        memory.append(rows, np.zeros(len(result), dtype=np.bool_))
        if self.learner_ is None:
            kernels.nearest_margins(memory.rows, memory.norms2, memory.relevant, n, self.n_features_in_, result)
        elif n and _has_begun(self.learner_):
            M, threshold = _state(self.learner_)
            kernels.distances_under(memory.rows, memory.norms2, memory.forms, n, M, memory.largest, result)
            result = threshold - result
        return result


class Memory:
    """Documents as CSR rows in arrays with spare room: the first n are kept, the rows last appended follow them."""

    def __init__(self) -> None:
        self.n = 0
        self.rows: CSR = (np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0))
        self.norms2 = np.empty(0)
        self.relevant = np.empty(0, dtype=np.bool_)
        self.forms = np.empty(0)  # rᵀMr of each document kept, under the learner's M
        self.largest = 0.0  # the largest entry of M

    def append(self, rows: CSR, relevant: BoolArray) -> None:
        """Write rows after those that are kept."""
        n, stop = self.n, self.n + len(relevant)
        indptr, columns, values = self.rows
        used = int(indptr[n])
        n_values = used + len(rows[2])
        self.norms2, self.relevant, self.forms = (
            _with_room(array, n, stop) for array in (self.norms2, self.relevant, self.forms)
        )
        self.rows = (
            _with_room(indptr, n + 1, stop + 1),
            _with_room(columns, used, n_values),
            _with_room(values, used, n_values),
        )
        self.rows[0][n + 1 : stop + 1] = used + rows[0][1:]
        self.rows[1][used:n_values] = rows[1]
        self.rows[2][used:n_values] = rows[2]
        self.relevant[n:stop] = relevant
        kernels.squared_norms(self.rows, n, stop, self.norms2)

    def measure(self, first: int, M: FloatArray) -> None:
        """Update the forms rᵀMr of the documents from number `first`, which is 0 if M has changed."""
        if first == 0:
            self.largest = kernels.largest_entry(M)
        indptr, columns, values = self.rows
        own = slice(indptr[first], indptr[self.n])
        if DENSE * len(values[own]) > (self.n - first) * len(M):
            arrays = values[own], columns[own], indptr[first : self.n + 1] - indptr[first]
            rows = sp.csr_array(arrays, shape=(self.n - first, len(M))).toarray()
            self.forms[first : self.n] = np.einsum("ij,ij->i", rows @ M, rows)
        else:
            kernels.quadratic_forms(self.rows, first, self.n, M, self.forms)

    def dense(self, row: int, d: int) -> FloatArray:
        """Return a document as a dense vector."""
        indptr, columns, values = self.rows
        own = slice(indptr[row], indptr[row + 1])
        result = np.zeros(d)
        result[columns[own]] = values[own]
        return result

    def copy(self) -> Memory:
        """Return the same documents with arrays of their own."""
        other = Memory()
        other.__dict__.update(self.__dict__)
        indptr, columns, values = self.rows
        used = int(indptr[self.n])
        other.rows = indptr[: self.n + 1].copy(), columns[:used].copy(), values[:used].copy()
        for name in ("norms2", "relevant", "forms"):
            setattr(other, name, getattr(self, name)[: self.n].copy())
        return other


def _with_room(array: NDArray[Any], used: int, needed: int) -> NDArray[Any]:
    """Return the array, or a longer one with the same first entries; doubling makes the cost per document O(1)."""
    if needed <= len(array) and array.flags.writeable:
        return array
    longer = np.empty(max(needed, 2 * used), dtype=array.dtype)
    longer[:used] = array[:used]
    return longer


def _has_begun(learner: Any) -> bool:
    return hasattr(learner, "n_steps_")


def _state(learner: PairLearner) -> tuple[FloatArray, float]:
    """Return M and the threshold with which the learner predicts its next pair."""
    # A metric would cost several d × d copies and checks per step, and is projected under psd="end".
    return learner._model.M, learner._model.b

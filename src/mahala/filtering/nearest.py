"""Filtering by the nearest document seen so far, under the Euclidean metric or one learned on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from mahala.compiled.filtering import (
    closest_under,
    distances_under,
    largest_entry,
    nearest_margins,
    quadratic_forms,
    squared_norms,
    stream_nearest,
)
from mahala.compiled.triplets import Rows
from mahala.filtering.online_filter import Bools, Floats, OnlineFilter
from mahala.online.margin_learner import MarginLearner
from mahala.online.online_learner import OnlinePairLearner

# Where more than one value in so many is not zero, all forms rᵀMr through a matrix product cost less than one by one.
DENSE = 4


class NearestFilter(OnlineFilter):
    """A filter that compares each document with those seen before; it keeps them, as sparse rows.

    Without a learner it predicts the class of the nearest document: Euclidean, the earliest of those equally near. With
    one, a document is relevant iff its squared distance to the closest *relevant* document is below the threshold,
    under the learner's model as it stands; then the learner gets these two as a pair, similar iff the document is
    relevant. Before there is anything to compare with, and until the learner has seen a pair, all is irrelevant.

    Parameters
    ----------
    learner : None or an online learner from pairs without a kernel, such as `mahala.POLA()` or `mahala.PA()`
        Cloned; the copy that learns is `learner_`.
    record : bool
        Keep `predictions_`. It grows by a byte a step: turn it off for a stream without end.

    Attributes
    ----------
    learner_ : the learner as it stands, or None
    classes_ : the irrelevant class and the relevant one
    n_features_in_, n_steps_, n_mistakes_ : int
    false_positive_rate_, false_negative_rate_, balanced_error_ : float, of what was predicted before each answer
    predictions_ : bool array, what was predicted before each answer

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler, normalize
    >>> import mahala
    >>> from mahala.filtering.nearest import NearestFilter
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = normalize(StandardScaler().fit_transform(X))
    >>> round(NearestFilter().fit(X, y == 0).balanced_error_, 3)
    0.05
    >>> NearestFilter(mahala.POLA()).fit(X, y == 0).balanced_error_ < 0.1
    True
    """

    learner_: Any
    _memory: Memory

    def __init__(self, learner: Any = None, record: bool = True) -> None:
        self.learner = learner
        self.record = record

    def _check_params(self) -> None:
        super()._check_params()
        if self.learner is None:
            return
        if not isinstance(self.learner, OnlinePairLearner):
            raise TypeError(
                "learner must be None or an online learner from pairs, such as mahala.POLA() or mahala.PA(), "
                f"got {self.learner!r}"
            )
        kernel = getattr(self.learner, "kernel", None)
        if kernel is not None:
            raise ValueError(f"learner must have kernel=None, got kernel={kernel!r}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A learner's filter is for few relevant documents, and is not made for accuracy on two classes of equal size.
        tags.classifier_tags.poor_score = self.learner is not None
        return tags

    def _start(self) -> None:
        self.learner_ = None
        if self.learner is not None:
            # What the learner refuses of its own parameters it refuses now, not in the middle of a stream.
            nothing = np.zeros(self.n_features_in_)
            clone(self.learner).learn_one(nothing, nothing, True)
            self.learner_ = clone(self.learner)
        self._memory = Memory()

    def _feed(self, rows: Rows, relevant: Bools, predicted: Bools) -> Iterator[slice]:
        if self.learner_ is None:
            memory, start = self._memory, self._memory.n
            memory.append(rows, relevant)
            memory.n += len(relevant)
            stream_nearest(memory.rows, memory.norms2, memory.relevant, start, self.n_features_in_, predicted)
            yield slice(None)
            return
        indptr, columns, values = rows
        for t in range(len(relevant)):
            own = slice(indptr[t], indptr[t + 1])
            predicted[t] = self._step((indptr[t : t + 2] - indptr[t], columns[own], values[own]), bool(relevant[t]))
            yield slice(t, t + 1)

    def _step(self, row: Rows, relevant: bool) -> bool:
        """One document for the learner; returns whether it was predicted to be relevant."""
        memory, learner, d = self._memory, self.learner_, self.n_features_in_
        memory.append(row, np.array([relevant]))
        predicted = moved = False
        if memory.n:
            closest = 0
            if _has_begun(learner):
                M, threshold = _state(learner)
                arrays = memory.rows, memory.norms2, memory.forms
                closest, distance = closest_under(*arrays, memory.n, memory.n, M, memory.largest)
                predicted = bool(distance < threshold)
            n_updates = getattr(learner, "n_updates_", -1)
            learner.learn_one(memory.dense(memory.n, d), memory.dense(closest, d), relevant)
            # A projection every k steps moves M in a step that is no update.
            moved = learner.n_updates_ != n_updates or getattr(learner, "psd", "every") not in ("every", "end")
        first = 0 if moved else memory.n
        memory.n += relevant
        if _has_begun(learner):
            memory.measure(first, _state(learner)[0])
        return predicted

    def _decide(self, rows: Rows) -> Floats:
        memory, n = self._memory.copy(), self._memory.n
        result = np.full(len(rows[0]) - 1, -np.inf)
        memory.append(rows, np.zeros(len(result), dtype=np.bool_))
        if self.learner_ is None:
            nearest_margins(memory.rows, memory.norms2, memory.relevant, n, self.n_features_in_, result)
        elif n and _has_begun(self.learner_):
            M, threshold = _state(self.learner_)
            distances_under(memory.rows, memory.norms2, memory.forms, n, M, memory.largest, result)
            result = threshold - result
        return result


class Memory:
    """Documents as CSR rows, with room to spare: n of them are kept, and what was appended last lies behind them."""

    def __init__(self) -> None:
        self.n = 0
        self.rows: Rows = (np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0))
        self.norms2 = np.empty(0)
        self.relevant = np.empty(0, dtype=np.bool_)
        self.forms = np.empty(0)  # rᵀMr of each document kept, under the learner's M
        self.largest = 0.0  # the largest entry of M

    def append(self, rows: Rows, relevant: Bools) -> None:
        """Write rows behind those that are kept."""
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
        squared_norms(self.rows, n, stop, self.norms2)

    def measure(self, first: int, M: Floats) -> None:
        """The documents' forms from number `first` on; from 0 where M has moved."""
        if first == 0:
            self.largest = largest_entry(M)
        indptr, columns, values = self.rows
        own = slice(indptr[first], indptr[self.n])
        if DENSE * len(values[own]) > (self.n - first) * len(M):
            arrays = values[own], columns[own], indptr[first : self.n + 1] - indptr[first]
            rows = sp.csr_array(arrays, shape=(self.n - first, len(M))).toarray()
            self.forms[first : self.n] = np.einsum("ij,ij->i", rows @ M, rows)
        else:
            quadratic_forms(self.rows, first, self.n, M, self.forms)

    def dense(self, row: int, d: int) -> Floats:
        indptr, columns, values = self.rows
        own = slice(indptr[row], indptr[row + 1])
        result = np.zeros(d)
        result[columns[own]] = values[own]
        return result

    def copy(self) -> Memory:
        """The same documents; appending to the copy does not touch this one."""
        other = Memory()
        other.__dict__.update(self.__dict__)
        indptr, columns, values = self.rows
        used = int(indptr[self.n])
        other.rows = indptr[: self.n + 1].copy(), columns[:used].copy(), values[:used].copy()
        for name in ("norms2", "relevant", "forms"):
            setattr(other, name, getattr(self, name)[: self.n].copy())
        return other


def _with_room(array: NDArray[Any], used: int, needed: int) -> NDArray[Any]:
    """The array, or a longer one with the same first entries; it doubles, so that documents cost O(1) each."""
    if needed <= len(array) and array.flags.writeable:
        return array
    longer = np.empty(max(needed, 2 * used), dtype=array.dtype)
    longer[:used] = array[:used]
    return longer


def _has_begun(learner: Any) -> bool:
    return hasattr(learner, "n_steps_")


def _state(learner: OnlinePairLearner) -> tuple[Floats, float]:
    """M and the threshold by which the learner itself predicts its next pair."""
    if isinstance(learner, MarginLearner):
        # A Metric of them costs several d × d copies and checks a step, and is projected under psd="end".
        return learner._model.M, learner._model.b
    return learner.metric_.matrix, learner.threshold_

"""What LEGO and RDML share: a metric that starts as I and stays positive definite by its own update rule."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from mahala.comparisons import Pairs
from mahala.learner import CHUNK_ELEMENTS, Arrays
from mahala.metric import MahalanobisMetric
from mahala.online.online_learner import OnlinePairLearner, Signs, signs
from mahala.online.storage.pair_model import Floats, Steps, one_blas_thread
from mahala.support.memory import check_room
from mahala.support.model_files import finite_array
from mahala.support.params import is_count, is_number
from mahala.support.signals import uninterrupted


class DefiniteLearner(OnlinePairLearner):
    """A learner of M ≻ 0 from pairs, with a threshold that is known beforehand."""

    n_steps: Any

    _n_matrices: int  # d × d matrices that a step reads and writes
    _stream_params: tuple[str, ...] = ()  # parameters that cannot change while a stream runs

    _M: Floats
    _outside: int  # directions left out of M since no pair differs there

    @abstractmethod
    def _steps(self, V: Floats, y: Signs) -> Steps:
        """One step for each row of differences V."""

    @property
    @abstractmethod
    def _threshold(self) -> float:
        """The squared distance up to which a pair counts as similar."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from labelled rows (X 2-D, y class labels) or comparisons (Pairs, or X 3-D and y = ±1)."""
        self._check_params()
        with self._all_or_nothing(), one_blas_thread():
            pairs, _ = self._comparisons(X, y, reset=True)
            n_steps = len(pairs) if isinstance(self.n_steps, str) else int(self.n_steps)
            self._start()
            rows = np.unique(np.concatenate([pairs.left, pairs.right]))
            if span_is_cheaper(len(rows), pairs.n_features, n_steps, self._n_matrices):
                self._fit_in_span(pairs, rows, n_steps)
            else:
                self._feed_for(pairs, n_steps)
        return self

    def _fit_in_span(self, pairs: Pairs, rows: NDArray[np.intp], n_steps: int) -> None:
        """The same stream in coordinates of the span of the differences: M - I is zero outside of it."""
        in_span, Q = coordinates(pairs, rows)
        d, dimension = Q.shape
        self._become_identity(dimension)
        self._outside = d - dimension
        self._feed_for(in_span, n_steps)
        self._M[np.arange(dimension), np.arange(dimension)] -= 1.0
        M = (Q @ self._M) @ Q.T
        M[np.arange(d), np.arange(d)] += 1.0
        self._become(symmetric(M))

    def _start(self) -> None:
        d = self.n_features_in_
        check_room(
            8.0 * d * d * (2 if self._n_matrices > 2 else 1),
            None,
            f"a model of {d} features",
            "reduce the features, for instance with TruncatedSVD, or use a learner from triplets with storage='sparse'",
        )
        self._become_identity(self.n_features_in_)
        self._forget(*self._stream_params)

    def _become_identity(self, d: int) -> None:
        self._become(np.eye(d))

    def _become(self, M: Floats) -> None:
        """Take M as the whole model."""
        self._M = M
        self._outside = 0

    def _feed(self, pairs: Pairs) -> None:
        self._feed_for(pairs, len(pairs))

    def _feed_for(self, pairs: Pairs, n_steps: int) -> None:
        """Feed the pairs in cycles, for n_steps."""
        size = max(64, CHUNK_ELEMENTS // pairs.n_features)
        fed = 0
        while fed < n_steps:
            cycle = pairs[: n_steps - fed]
            for start in range(0, len(cycle), size):
                part = cycle[start : start + size]
                V, y = part.differences(), signs(part)
                with uninterrupted(), one_blas_thread():
                    self._note(y, self._steps(V, y))
            fed += len(cycle)

    def _check_params(self) -> None:
        if not (isinstance(self.n_steps, str) and self.n_steps == "auto") and not is_count(self.n_steps):
            raise ValueError(f"n_steps must be 'auto' or a number from 1 up, got {self.n_steps!r}")

    def _current_metric(self) -> MahalanobisMetric:
        names = getattr(self, "feature_names_in_", None)
        return MahalanobisMetric(self._M, self._threshold, feature_names=names, origin=self._origin())

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        header, arrays = super()._get_state()
        return header, arrays | {"M": self._M}

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        # Whatever the file says, compiled code sees arrays of the right shape and finite numbers only.
        super()._set_state(header, arrays)
        d = self.n_features_in_
        self._become(finite_array(arrays, "M", (d, d)).copy())


def symmetric(M: Floats) -> Floats:
    """M without the rounding errors that tell it from its transpose, in place."""
    M += M.T
    M *= 0.5
    return M


def empty_steps(n: int) -> Steps:
    return np.empty(n), np.empty(n), np.empty(n, dtype=np.int8)


def writeable(array: Floats) -> Floats:
    """The array, or a copy where it is read-only since the learner was loaded as a memory map."""
    return array if array.flags.writeable else array.copy()


def is_positive(value: Any) -> bool:
    return is_number(value) and 0.0 < float(value) < np.inf


def span_is_cheaper(n_rows: int, d: int, n_steps: int, n_matrices: int) -> bool:
    """Whether n_steps in the span of n_rows rows cost less than in all d features, in multiply-adds.

    The span takes a QR decomposition of the rows and, in the end, M in all features.
    """
    if n_rows >= d:
        return False
    m, d_, n = float(n_rows), float(d), float(n_steps)
    return 3.0 * d_ * m * m + d_ * d_ * m + n_matrices * n * m * m < n_matrices * n * d_ * d_


def coordinates(pairs: Pairs, rows: NDArray[np.intp]) -> tuple[Pairs, Floats]:
    """The pairs in orthonormal coordinates of a space that holds all their differences, and its basis as columns.

    `rows` are the numbers of the rows that take part, fewer than there are features. A QR decomposition gives each row
    to full accuracy whatever the others are: nothing need be known of their rank.
    """
    X = pairs.X[rows]
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    X += 0.0  # -0 and 0 are one
    # Rows that are equal must stay so: else their difference would not be exactly zero.
    numbers: dict[bytes, int] = {}
    number_of = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in X])
    distinct = X[np.unique(number_of, return_index=True)[1]]
    distinct -= np.median(distinct, axis=0)  # differences of rows far from the origin keep their digits
    Q, R = qr(distinct.T, mode="economic", overwrite_a=True, check_finite=False)
    left, right = (number_of[np.searchsorted(rows, side)] for side in (pairs.left, pairs.right))
    return Pairs._build(np.ascontiguousarray(R.T), left, right, pairs.similar), Q

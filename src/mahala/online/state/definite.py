"""The state of LEGO and RDML: a matrix that starts as I and stays positive definite by its own update rule."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import lapack, qr

from mahala.comparisons import Pairs
from mahala.metric import MahalanobisMetric
from mahala.online.state.margin import MatrixState, PairChunk, symmetric
from mahala.support.arrays import BLOCK_BYTES, FloatArray, IndexArray, check_room
from mahala.support.model_files import ModelFileError
from mahala.support.states import Array, Fields


class DefiniteState(MatrixState):
    """M ≻ 0 and a threshold b that is known beforehand.

    If `fit` sees few rows of many features, the steps run in coordinates of the span of their differences: outside of
    it M stays I.
    """

    FIELDS: ClassVar[Fields] = (Array("M"),)

    n_matrices: int  # d × d matrices that a step reads and writes

    def __init__(self, d: int, b: float) -> None:
        less = "reduce the features, for instance with TruncatedSVD"
        advice = f"{less}, or use a learner from triplets with storage='sparse'"
        check_room(8.0 * d * d * (2 if self.n_matrices > 2 else 1), None, f"a model of {d} features", advice)
        self.b = b
        self.n_steps = 0
        self._basis: FloatArray | None = None  # of the span, as columns, while steps run there
        self.become(np.eye(d), is_identity=True)

    def become(self, M: FloatArray, is_identity: bool = False) -> None:
        """Take M as the whole model."""
        self.M = M
        self.outside = 0  # directions left out of M because no pair differs there

    def prepare(self, pairs: Pairs, n_steps: int, complete: bool) -> Pairs:
        if not complete:
            return pairs
        rows = np.unique(np.concatenate([pairs.left, pairs.right]))
        if not span_is_cheaper(len(rows), pairs.n_features, n_steps, self.n_matrices):
            return pairs
        pairs, self._basis = coordinates(pairs, rows)
        d, dimension = self._basis.shape
        self.become(np.eye(dimension), is_identity=True)
        self.outside = d - dimension
        return pairs

    def chunks(self, pairs: Pairs, n_steps: int, rule: Any, stop_every: int | None) -> Iterator[PairChunk]:
        for part in pairs.cycles(n_steps, most_bytes=BLOCK_BYTES, stop_every=stop_every, done=self.n_steps):
            yield PairChunk(part.differences(), part.y)

    def finish(self) -> None:
        if self._basis is None:
            return
        Q, self._basis = self._basis, None
        d, dimension = Q.shape
        self.M[np.arange(dimension), np.arange(dimension)] -= 1.0
        M = (Q @ self.M) @ Q.T
        M[np.arange(d), np.arange(d)] += 1.0
        self.become(symmetric(M))

    def metric(self, **about: Any) -> MahalanobisMetric:
        return MahalanobisMetric(self.M, self.b, **about)

    def _check(self) -> None:
        M = self.M
        # Not for what was just written and is read back. Cholesky takes a tenth of the time of the eigenvalues, but
        # fails where rounding has left one below zero.
        if M.flags.writeable and not (
            np.array_equal(M, M.T) and (lapack.dpotrf(M.T, lower=0)[1] == 0 or MahalanobisMetric(M).is_psd)
        ):
            raise ModelFileError("array 'M' should be symmetric and positive definite")


def span_is_cheaper(n_rows: int, d: int, n_steps: int, n_matrices: int) -> bool:
    """Whether n_steps in the span of n_rows rows cost less than in all d features, in multiply-adds.

    The span takes a QR decomposition of the rows and, in the end, M in all features.
    """
    if n_rows >= d:
        return False
    m, d_, n = float(n_rows), float(d), float(n_steps)
    return 3.0 * d_ * m * m + d_ * d_ * m + n_matrices * n * m * m < n_matrices * n * d_ * d_


def coordinates(pairs: Pairs, rows: IndexArray) -> tuple[Pairs, FloatArray]:
    """Return the pairs in orthonormal coordinates of a space with all their differences, and its basis as columns.

    `rows` are the row numbers that take part, fewer than there are features. A QR decomposition gives each row to full
    accuracy whatever the others are, so their rank need not be known.
    """
    X = pairs.X[rows]
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    X += 0.0  # -0 and 0 are equal
    # Rows that are equal must stay so: else their difference would not be exactly zero.
    numbers: dict[bytes, int] = {}
    number_of = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in X])
    distinct = X[np.unique(number_of, return_index=True)[1]]
    distinct -= np.median(distinct, axis=0)  # differences of rows far from the origin keep their digits
    Q, R = qr(distinct.T, mode="economic", overwrite_a=True, check_finite=False)
    left, right = (number_of[np.searchsorted(rows, side)] for side in (pairs.left, pairs.right))
    return Pairs._build(np.ascontiguousarray(R.T), left, right, pairs.similar), Q

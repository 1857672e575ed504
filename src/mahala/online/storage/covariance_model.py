"""A bilinear form with full covariance factors beside it: AROMA's model."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mahala.compiled.triplets import aroma as kernels
from mahala.compiled.triplets.rows import CSR
from mahala.online.storage.dense_model import csr_rows
from mahala.online.storage.model import Steps
from mahala.online.storage.similarity_model import SimilarityModel, SimilarityRule, TripletChunk
from mahala.online.storage.symmetric_matrix import SymmetricMatrix
from mahala.support.arrays import Arrays, FloatArray, block_size, check_room, slices
from mahala.support.model_files import ModelFileError, finite_array
from mahala.support.validation import is_sparse

# How far a covariance, which only ever shrinks, can be from one by rounding.
ROUNDING = 1e-6


class CovarianceModel(SimilarityModel):
    """M of shape (d, e), Λ of shape (d, d) and Γ of shape (e, e), all in full."""

    storage = "dense"

    def __init__(self, shape: tuple[int, int], start: float, rule: SimilarityRule) -> None:
        super().__init__(shape, start, rule, np.float64)
        d, e = shape
        check_room(
            8.0 * (d * d + e * e + d * e * (2 if rule.average else 1)),
            rule.max_memory,
            f"a matrix of {d} × {e} features with its full covariances",
            "raise max_memory, or use covariance='diagonal', whose memory grows with what is touched",
        )
        self.M = start * np.eye(d, e)
        self.late = np.zeros((d, e)) if rule.average else np.empty((0, 0))
        self._Lambda, self._Gamma = SymmetricMatrix(np.eye(d)), SymmetricMatrix(np.eye(e))

    def translate(self, X: Any) -> CSR:
        return csr_rows(X)

    def _stream(self, chunk: TripletChunk, rule: SimilarityRule, steps: Steps) -> tuple[int, int]:
        d, e = self.shape
        X, Y = (
            sp.csr_matrix((data[2], data[1], data[0]), shape=(len(data[0]) - 1, n))
            for data, n in ((chunk.rows, d), (chunk.items, e))
        )
        anchor, positive, negative = chunk.numbers
        for part in slices(len(chunk.y), block_size(2 * max(d, e), least=kernels.BLOCK)):
            x = X[anchor[part]].toarray()
            q = (Y[positive[part]] - Y[negative[part]]).toarray()
            self._take(x, q, rule, self.clock + part.start, (steps[0][part], steps[1][part], steps[2][part]))
        return len(chunk.y), 0

    def _take(self, x: FloatArray, q: FloatArray, rule: SimilarityRule, clock: int, steps: Steps) -> None:
        self.own("M", "late")
        covariances = *self._Lambda.arrays(whole=len(x) > 1), *self._Gamma.arrays(whole=len(x) > 1)
        kernels.stream_full(x, q, self.M, self.late, *covariances, rule.r, rule.margin, clock, *steps)

    def feed_one(
        self, x: FloatArray, positive: FloatArray, negative: FloatArray, rule: SimilarityRule
    ) -> tuple[float, float, int]:
        p, tau, predicted = steps = np.empty(1), np.empty(1), np.empty(1, dtype=np.int8)
        self._take(x[np.newaxis], (positive - negative)[np.newaxis], rule, self.clock, steps)
        self.clock += 1
        self.n_steps += 1
        return float(p[0]), float(tau[0]), int(predicted[0])

    def cost(self, touched: float) -> float:
        d, e = self.shape
        return (d * d + d * e + e * e) / 4.0  # whatever is touched, but through matrix products

    def settle(self) -> None:
        """Do nothing: no entry is late here."""

    def matrix(self) -> FloatArray:
        return self.M - self.late / self.n_steps if self.n_averaged else self.M.copy()

    def products(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return xᵀM of the last model and of the mean of all models; for rules with `average`."""
        last = x @ self.M
        return last, last - x @ self.late / self.n_steps if self.n_steps else last

    def matrices(self) -> tuple[FloatArray, FloatArray]:
        """Return M of the last model and of the mean of all models."""
        return self.M.copy(), self.matrix()

    def add(self, change: Any, total: Any) -> None:
        self.M += change.toarray() if is_sparse(change) else change

    def get_state(self) -> tuple[dict[str, object], Arrays]:
        header, arrays = super().get_state()
        covariances = {"Lambda": self._Lambda.whole(), "Gamma": self._Gamma.whole()}
        return header, arrays | {"M": self.M, "late": self.late} | covariances

    def set_state(self, header: dict[str, Any], arrays: Arrays, n_steps: int) -> None:
        super().set_state(header, arrays, n_steps)
        if self.clock != n_steps:
            raise ModelFileError(f"header entry 'clock' should be the {n_steps} steps, found {self.clock}")
        for name in ("M", "late"):
            setattr(self, name, finite_array(arrays, name, getattr(self, name).shape))
        for name, n in (("Lambda", self.shape[0]), ("Gamma", self.shape[1])):
            covariance = finite_array(arrays, name, (n, n))
            if abs(covariance).max() > 1.0 + ROUNDING or abs(covariance - covariance.T).max() > ROUNDING:
                raise ModelFileError(f"array {name!r} should be a symmetric matrix of numbers from -1 to 1")
            setattr(self, f"_{name}", SymmetricMatrix(covariance))

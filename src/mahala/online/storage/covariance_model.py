"""A bilinear form with full covariance factors beside it: AROMA's model."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mahala.compiled import aroma as kernels
from mahala.compiled.triplets import CSR as Rows
from mahala.learner import CHUNK_ELEMENTS
from mahala.online.storage.dense_model import csr_rows
from mahala.online.storage.pair_model import one_blas_thread
from mahala.online.storage.similarity_model import Ints, Rule, SimilarityModel, Steps
from mahala.support.memory import check_room
from mahala.support.model_files import ModelFileError, finite_array
from mahala.support.validation import is_sparse

# How far a covariance, which only ever shrinks, can be from one by rounding.
ROUNDING = 1e-6


class CovarianceModel(SimilarityModel):
    """M of shape (d, e), Λ of shape (d, d) and Γ of shape (e, e), all in full."""

    def __init__(self, shape: tuple[int, int], start: float, rule: Rule, max_memory: float | None):
        super().__init__(shape, start, rule, np.float64, max_memory)
        d, e = shape
        check_room(
            8.0 * (d * d + e * e + d * e * (2 if rule.average else 1)),
            max_memory,
            f"a matrix of {d} × {e} features with its full covariances",
            "raise max_memory, or use covariance='diagonal', whose memory grows with what is touched",
        )
        self.M = start * np.eye(d, e)
        self.late = np.zeros((d, e)) if rule.average else np.empty((0, 0))
        self.Lambda, self.Gamma = np.eye(d), np.eye(e)

    def translate(self, X: Any) -> Rows:
        return csr_rows(X)

    def _stream(
        self, rows: Rows, items: Rows, triplets: tuple[Ints, Ints, Ints], rule: Rule, steps: Steps
    ) -> tuple[int, int]:
        self._own("M", "late", "Lambda", "Gamma")
        d, e = self.shape
        X, Y = (
            sp.csr_matrix((data[2], data[1], data[0]), shape=(len(data[0]) - 1, n))
            for data, n in ((rows, d), (items, e))
        )
        size = max(kernels.BLOCK, CHUNK_ELEMENTS // max(d, e) // 2)
        with one_blas_thread():
            for first in range(0, len(steps[0]), size):
                part = slice(first, first + size)
                x = X[triplets[0][part]].toarray()
                q = (Y[triplets[1][part]] - Y[triplets[2][part]]).toarray()
                record = steps[0][part], steps[1][part], steps[2][part]
                kernels.stream_full(
                    x, q, self.M, self.late, self.Lambda, self.Gamma, rule.r, self.clock + first, *record
                )
        return len(steps[0]), 0

    def cost(self, touched: float) -> float:
        d, e = self.shape
        return (d * d + d * e + e * e) / 4.0  # whatever is touched, but through matrix products

    def _make_room(self, stuck: int) -> None:
        raise AssertionError("a full matrix is never full")

    def _settle(self) -> None:
        raise AssertionError("nothing here is late")

    def settle(self) -> None:
        """Nothing is thresholded here."""

    def matrix(self) -> NDArray[np.float64]:
        return self.M - self.late / self.n_steps if self.n_averaged else self.M.copy()

    def add(self, change: Any, total: Any) -> None:
        self.M += change.toarray() if is_sparse(change) else change

    def get_state(self) -> tuple[dict[str, object], dict[str, NDArray[Any]]]:
        header, arrays = super().get_state()
        return header, arrays | {"M": self.M, "late": self.late, "Lambda": self.Lambda, "Gamma": self.Gamma}

    def set_state(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]], n_steps: int) -> None:
        super().set_state(header, arrays, n_steps)
        if self.clock != n_steps:
            raise ModelFileError(f"header entry 'clock' should be the {n_steps} steps, found {self.clock}")
        for name in ("M", "late", "Lambda", "Gamma"):
            setattr(self, name, finite_array(arrays, name, getattr(self, name).shape).copy())
        for name in ("Lambda", "Gamma"):
            covariance = getattr(self, name)
            if abs(covariance).max() > 1.0 + ROUNDING or abs(covariance - covariance.T).max() > ROUNDING:
                raise ModelFileError(f"array {name!r} should be a symmetric matrix of numbers from -1 to 1")

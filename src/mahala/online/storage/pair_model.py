"""What the models that learn from pairs share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mahala.metric.kernel_map import KernelMap
from mahala.online.storage.model import Model
from mahala.online.storage.symmetric_matrix import SymmetricMatrix
from mahala.support.arrays import FloatArray
from mahala.support.contexts import one_blas_thread

_LABELS = {label: np.array([label], dtype=np.int8) for label in (-1, 1)}
# Products of one row with a matrix of this size stay on one thread anyway.
SMALL_DIMENSION = 512


class PairChunk(NamedTuple):
    """Differences, dense or CSR, and a label for each; with more steps than differences they are fed in cycles."""

    V: Any
    y: Any


class PairModel(Model):
    """A matrix M and a threshold b that learn from the differences of pairs."""

    _M: SymmetricMatrix
    b: float
    kernel_map: KernelMap | None = None

    @property
    def M(self) -> FloatArray:
        """The matrix after all steps."""
        return self._M.whole()

    @M.setter
    def M(self, M: FloatArray) -> None:
        self._M = SymmetricMatrix(M)

    @property
    def threshold(self) -> float:
        """The squared distance up to which `metric` counts a pair as similar."""
        return self.b

    def feed_one(self, v: FloatArray, y: int, rule: Any) -> tuple[float, float, int]:
        """Take a step for one difference of full length; return its p, τ and predicted label."""
        p, tau, predicted = steps = np.empty(1), np.empty(1), np.empty(1, dtype=np.int8)
        chunk = PairChunk(v[np.newaxis], _LABELS[y])
        if len(v) <= SMALL_DIMENSION:
            self.feed(chunk, rule, steps)
        else:
            with one_blas_thread():
                self.feed(chunk, rule, steps)
        return float(p[0]), float(tau[0]), int(predicted[0])


def symmetric(M: FloatArray) -> FloatArray:
    """Average M with its transpose in place, which removes the rounding errors that tell them apart."""
    M += M.T
    M *= 0.5
    return M

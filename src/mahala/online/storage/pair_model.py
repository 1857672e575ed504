"""What the models that learn from pairs share: chunks of differences, and single steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from mahala.comparisons import Pairs
from mahala.metric import MahalanobisMetric
from mahala.metric.kernel_map import KernelMap
from mahala.online.storage.model import Model, Steps
from mahala.support.arrays import FloatArray, SignArray
from mahala.support.rows import block_size
from mahala.support.threads import one_blas_thread

_LABELS = {label: np.array([label], dtype=np.int8) for label in (-1, 1)}
# Products of one row with a matrix of this size stay on one thread anyway.
SMALL_DIMENSION = 512


class PairChunk(NamedTuple):
    """Differences, dense or CSR, and a label for each; with more steps than differences they are fed in cycles."""

    V: Any
    y: SignArray


class PairModel(Model):
    """A matrix M and a threshold b that learn from the differences of pairs."""

    M: FloatArray
    b: float
    kernel_map: KernelMap | None = None
    steps_per_chunk = 1.0  # relative to as many differences as fit into a block of rows

    def chunks(self, pairs: Pairs, n_steps: int, rule: Any, stop_every: int | None) -> Iterator[PairChunk]:
        sparse = self.takes_sparse(pairs.X)
        size = max(64, int(block_size(pairs.n_features) * self.steps_per_chunk))
        fed = 0
        while fed < n_steps:
            cycle = pairs[: n_steps - fed]
            start = 0
            while start < len(cycle):
                stop = start + size
                if stop_every:
                    stop = min(stop, start + stop_every - self.n_steps % stop_every)
                part = cycle[start:stop]
                yield PairChunk(part.differences(sparse=sparse), signs(part))
                start = stop
            fed += len(cycle)

    @property
    def threshold(self) -> float:
        """The squared distance up to which `metric` counts a pair as similar."""
        return self.b

    def takes_sparse(self, X: Any) -> bool:
        """Whether differences of the rows X should stay sparse."""
        return False

    def feed_one(self, v: FloatArray, y: int, rule: Any) -> tuple[float, float, int]:
        """Take a step for one difference of full length; return its p, τ and predicted label."""
        steps = Steps.empty(1)
        chunk = PairChunk(v[np.newaxis], _LABELS[y])
        if len(v) <= SMALL_DIMENSION:
            self.feed(chunk, rule, steps)
        else:
            with one_blas_thread():
                self.feed(chunk, rule, steps)
        return float(steps.p[0]), float(steps.tau[0]), int(steps.predicted[0])

    @abstractmethod
    def metric(self, **about: Any) -> MahalanobisMetric: ...


def signs(pairs: Pairs) -> SignArray:
    """Return the labels of pairs that have labels."""
    y = pairs.y
    assert y is not None, "pairs are labelled before they are fed"
    return y


def squared_norms(V: Any) -> FloatArray:
    """Return ‖v‖² of each row, dense or CSR."""
    if hasattr(V, "indptr"):
        return np.asarray(V.multiply(V).sum(axis=1), dtype=np.float64).ravel()
    if len(V) == 1:  # einsum takes longer than a step
        return np.array([V[0] @ V[0]])
    norms2: FloatArray = np.einsum("ij,ij->i", V, V)
    return norms2


def symmetric(M: FloatArray) -> FloatArray:
    """Average M with its transpose in place, which removes the rounding errors that tell them apart."""
    M += M.T
    M *= 0.5
    return M

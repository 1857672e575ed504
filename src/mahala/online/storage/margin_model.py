"""The model (M, b) of PA and POLA, and the drivers of its compiled streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from mahala.comparisons import Pairs
from mahala.compiled.pairs.psd import (
    COINCIDING,
    CORRECTIONS,
    LOG_MU,
    NORM,
    PROJECT,
    RTOL,
    SIGMA,
    STATE_SIZE,
    WASTE,
    stream_psd,
)
from mahala.compiled.pairs.steps import add_terms, stream_dual, stream_indefinite, stream_sparse
from mahala.metric import MahalanobisMetric
from mahala.metric.kernel_map import KernelMap
from mahala.online.storage.model import Steps
from mahala.online.storage.pair_model import PairChunk, PairModel, symmetric
from mahala.online.storage.symmetric_matrix import SymmetricMatrix
from mahala.support.arrays import BLOCK_BYTES, Arrays, FloatArray, IndexArray, SignArray, check_room
from mahala.support.contexts import one_blas_thread
from mahala.support.model_files import ModelFileError, finite_array, header_value, number_value

# Smaller models take less than 64 MiB, which needs no check.
LARGE_DIMENSION = 2048
# The dual form holds r × d differences and their r × r squared inner products; beyond this size they would take over
# 512 MiB each.
LARGEST_DUAL = 8192


# The most that may be added to ‖v‖⁴ in a step, and thus the least C of PA: shorter steps are lost in rounding.
MOST_SLACK = 1e50


class MarginRule(NamedTuple):
    """The step length τ = clip(p / (‖v‖⁴ + 1 + slack), lower, upper); steps with |τ| < tol are skipped."""

    slack: float
    lower: float
    upper: float
    tol: float = 0.0

    @property
    def step(self) -> tuple[float, float, float]:
        """The three numbers that compiled code takes."""
        return self[:3]


class MarginModel(PairModel):
    """M, the threshold b, and what "+" keeps beside them: R = (M + σI)⁻¹ and its tuning.

    `psd` is 1 (project after every update), 0 (never: "-") or k (after every k-th step). With a `kernel_map` M acts on
    coordinates of the span of the points compared, and grows with it.
    """

    def __init__(
        self, M: FloatArray, b: float, psd: int, kernel_map: KernelMap | None = None, n_features: int | None = None
    ) -> None:
        self.M = np.array(M, dtype=np.float64, order="C")
        self.b = float(b)
        self.psd = psd
        self.kernel_map = kernel_map
        self.n_features = n_features  # of the points, where M acts on kernel coordinates
        self.n_steps = 0
        self._R: SymmetricMatrix | None = None
        self.tuning = np.zeros(STATE_SIZE)
        # The largest entry that M or a term added to it ever had: what M's rounding errors are relative to.
        self.mass = float(np.abs(self.M).max(initial=0.0))
        self.radius = 1.0  # the largest ‖v‖⁴ + 1 seen

    def prepare(self, pairs: Pairs, n_steps: int, known: bool) -> Pairs:
        """Return the pairs in coordinates of the kernel's span, if there is a kernel; the span grows over them."""
        if self.kernel_map is None:
            return pairs
        rows, places = _in_order(np.stack([pairs.left, pairs.right], axis=1).ravel())
        self.kernel_map.grow(pairs.X, rows)
        if self.kernel_map.dimension > len(self.M):
            self._grow(self.kernel_map.dimension)
        return Pairs._build(self.kernel_map.coordinates(pairs.X[rows]), places[::2], places[1::2], pairs.similar)

    def chunks(self, pairs: Pairs, n_steps: int, rule: MarginRule, stop_every: int | None) -> Iterator[PairChunk]:
        n = len(pairs)
        sparse = self.psd != 1 and hasattr(pairs.X, "indptr") and sparse_is_cheaper(pairs.X)
        may_be_dual = self.psd == 0 and n_steps > n and not stop_every and not sparse
        if may_be_dual and dual_is_cheaper(n, pairs.n_features, n_steps, 1.0 if rule.lower < 0.0 else 0.5):
            yield PairChunk(pairs.differences(), np.resize(np.asarray(pairs.y), n_steps))
            return
        # Ctrl-C waits for the end of a chunk, and steps with a projection take longer.
        most_bytes = BLOCK_BYTES // 8 if self.psd == 1 else BLOCK_BYTES
        for part in pairs.cycles(n_steps, most_bytes=most_bytes, stop_every=stop_every, done=self.n_steps):
            yield PairChunk(part.differences(sparse=sparse), part.y)

    @property
    def threshold(self) -> float:
        return max(self.b, 1.0)

    def feed(self, chunk: PairChunk, rule: MarginRule, steps: Steps) -> None:
        if not self.tuning.flags.writeable:
            self.own("tuning")
        V, y = chunk
        n = len(y)
        norms2 = squared_norms(V)
        if n > len(norms2):
            self._feed_dual(chunk, norms2, rule, steps)
            return
        start = 0
        while start < n:
            stop = n if self.psd < 2 else min(n, start + self.psd - self.n_steps % self.psd)
            part = slice(start, stop)
            own = steps if stop - start == n else (steps[0][part], steps[1][part], steps[2][part])
            if self.psd == 1:
                self._feed_psd(chunk, norms2, rule, own)
            elif hasattr(V, "indptr"):
                rows = V[part]
                arrays = rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
                M, _ = self._M.arrays(whole=True)
                self.b = stream_sparse(*arrays, y[part], M, self.b, rule.step, rule.tol, *own)
            else:
                M, pending = self._M.arrays(whole=stop > start + 1)
                self.b = stream_indefinite(V[part], y[part], M, pending, self.b, rule.step, rule.tol, *own)
            self._count(norms2[part], own[1])
            start = stop
            if self.psd > 1 and self.n_steps % self.psd == 0:
                self.M, self.b = self.constrained()

    def _feed_dual(self, chunk: PairChunk, norms2: FloatArray, rule: MarginRule, steps: Steps) -> None:
        """Feed the pairs in cycles through their distances; for "-" only."""
        V, n = chunk.V, len(chunk.V)
        gram2 = V @ V.T
        np.square(gram2, out=gram2)
        distances = np.einsum("ij,ij->i", V @ self.M, V)
        weights = np.zeros(n)
        order = np.arange(len(chunk.y)) % n
        self.b = stream_dual(gram2, distances, weights, order, chunk.y[:n], self.b, rule.step, rule.tol, *steps)
        add_terms(self.M, V, weights, n)
        self._count(norms2[order], steps[1])

    def _count(self, norms2: FloatArray, tau: FloatArray) -> None:
        self.n_steps += len(tau)
        if len(tau) == 1:  # the same as below at a fraction of its cost
            norm2 = float(norms2[0])
            largest, term = norm2, abs(float(tau[0])) * norm2
        else:
            largest, term = float(norms2.max()), float(np.max(np.abs(tau) * norms2))
        self.radius = max(self.radius, largest**2 + 1.0)
        self.mass = max(self.mass, term, self._M.largest())

    def losses(self, V: FloatArray, y: SignArray) -> FloatArray:
        """Return the signed loss p of each pair under the model as it is."""
        result: FloatArray = 1.0 - y * (self.b - np.einsum("ij,ij->i", V @ self.M, V))
        return result

    @one_blas_thread()
    def constrained(self) -> tuple[FloatArray, float]:
        """Return the nearest model with M ⪰ 0 and b ≥ 1; eigenvalues that are rounding errors count as zero."""
        values, vectors = np.linalg.eigh(0.5 * (self.M + self.M.T))
        positive = values > self._rounding()
        kept = vectors[:, positive]
        return (kept * values[positive]) @ kept.T, max(self.b, 1.0)

    def effective_dimension(self) -> int:
        """Return the rank of the positive part of M."""
        return int(np.count_nonzero(np.linalg.eigvalsh(0.5 * (self.M + self.M.T)) > self._rounding()))

    def _rounding(self) -> float:
        """Return the size of errors in eigenvalues: of the projections under "+", else of sums of n_steps terms."""
        return self.mass * (RTOL if self.psd == 1 else (len(self.M) + np.sqrt(self.n_steps)) * np.finfo(float).eps)

    def _grow(self, d: int) -> None:
        """Add directions in which nothing was learned yet: M is zero there, R is 1/σ."""
        check_memory(d, self.psd)
        old = len(self.M)
        M = np.zeros((d, d))
        M[:old, :old] = self.M
        self.M = M
        if self._R is not None:
            R = padded(d)
            R[:old, :old] = self._R.whole()[:, :old]
            R[np.arange(old, d), np.arange(old, d)] = 1.0 / self.tuning[SIGMA]
            self._R = SymmetricMatrix(R)

    def metric(self, **about: Any) -> MahalanobisMetric:
        """Return the nearest model with M ⪰ 0 and b ≥ 1 as a metric."""
        M, b = self.constrained()
        return MahalanobisMetric(M, b, kernel_map=self.kernel_map, **about)

    def raw_metric(self) -> MahalanobisMetric:
        """Return the model as it is; M may be indefinite and b below 1."""
        return MahalanobisMetric(symmetric(self.M.copy()), self.b, kernel_map=self.kernel_map)

    def get_state(self) -> tuple[dict[str, object], Arrays]:
        header: dict[str, object] = {"threshold": self.b, "mass": self.mass, "radius": self.radius, "kernel": None}
        arrays: Arrays = {"M": self.M, "tuning": self.tuning} | ({} if self._R is None else {"R": self._R.whole()})
        if self.kernel_map is not None:
            header["kernel"], kernel_arrays = self.kernel_map.to_arrays()
            arrays |= {f"kernel.{name}": array for name, array in kernel_arrays.items()}
        return header, arrays

    def set_state(self, header: dict[str, Any], arrays: Arrays, n_steps: int) -> None:
        d = len(self.M)
        if self.kernel_map is not None:
            own = {k.removeprefix("kernel."): a for k, a in arrays.items() if k.startswith("kernel.")}
            loaded = KernelMap.from_arrays(header_value(header, "kernel", dict), own)
            if (loaded.kernel, loaded.n_features_in) != (self.kernel_map.kernel, self.n_features):
                raise ModelFileError("its kernel is not the one that its parameters name")
            self.kernel_map, d = loaded, loaded.dimension
        self.M = finite_array(arrays, "M", (d, d))
        self.b = number_value(header, "threshold")
        self.mass = number_value(header, "mass", least=0.0)
        self.radius = number_value(header, "radius", least=1.0)
        self.tuning = finite_array(arrays, "tuning", self.tuning.shape)
        if self.psd == 1 and "R" in arrays:
            self._R = SymmetricMatrix(finite_array(arrays, "R", padded(d).shape))
            if not self.tuning[SIGMA] > 0.0:
                raise ModelFileError("the shift of R should be positive")
        self.n_steps = n_steps

    def mix(self, models: Sequence[MarginModel]) -> None:
        if self.kernel_map is not None:
            super().mix(models)
        self.M = np.mean([model.M for model in models], axis=0)
        self.b = float(np.mean([model.b for model in models]))
        self.mass = max(model.mass for model in models)
        self.radius = max(model.radius for model in models)
        self._R = None  # computed again when it is needed

    def _feed_psd(self, chunk: PairChunk, norms2: FloatArray, rule: MarginRule, steps: Steps) -> None:
        V, y = chunk
        if self._R is None:
            first = np.flatnonzero(norms2 >= COINCIDING)[:1]
            if first.size:
                # The first subtraction of about this size; later ones retune σ.
                norm2 = float(norms2[first[0]])
                self.tuning[SIGMA] = max(norm2 / (1.0 + rule.slack + norm2 * norm2), 1e-6 * self.mass)
                self.tuning[LOG_MU] = np.log(self.tuning[SIGMA])
                self._refactor()
        # Coinciding points move b alone: R is not read before the first pair that differs.
        R = self._R or SymmetricMatrix(padded(V.shape[1]))
        while True:
            matrices = *self._M.arrays(whole=len(y) > 1), *R.arrays(whole=False)
            self.b, done, why = stream_psd(V, y, *matrices, self.tuning, self.b, rule.step, rule.tol, *steps)
            if why == PROJECT:
                self.M, self.b = self.constrained()
            if why:
                R = self._refactor()
            if done == len(y):
                return
            V, y, steps = V[done:], y[done:], (steps[0][done:], steps[1][done:], steps[2][done:])

    @one_blas_thread()
    def _refactor(self) -> SymmetricMatrix:
        """Compute R = (M + σI)⁻¹ by Cholesky."""
        d = len(self.M)
        diagonal = np.arange(d)
        for _ in range(100):
            shifted = np.array(self.M, order="F")
            shifted[diagonal, diagonal] += self.tuning[SIGMA]
            factor, failed = lapack.dpotrf(shifted, lower=1, overwrite_a=1)
            if not failed:
                break
            # Rounding left M less positive than σ can make up for.
            self.M, self.b = self.constrained()
            self.tuning[SIGMA] = max(2.0 * self.tuning[SIGMA], 1e-12 * np.trace(self.M))
        else:
            raise FloatingPointError("the metric can no longer be kept positive semi-definite; scale the features")
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        R = padded(d)
        R[:, :d] = inverse
        self._R = SymmetricMatrix(R)
        self.tuning[CORRECTIONS] = self.tuning[WASTE] = 0.0
        self.tuning[NORM] = blas.dnrm2(self.M.ravel()) if d else 0.0  # whose squares neither overflow nor vanish
        return self._R


def first_model(d: int, psd: int, kernel: Any, kernel_params: dict[str, Any] | None) -> MarginModel:
    """Return M = 0 and b = 0 for points of d features, or for the span of a kernel, which is empty at first."""
    if kernel is not None:
        return MarginModel(np.zeros((0, 0)), 0.0, psd, KernelMap(kernel, kernel_params), d)
    check_memory(d, psd)
    return MarginModel(np.zeros((d, d)), 0.0, psd)


def check_memory(d: int, psd: int) -> None:
    """Raise MemoryError if this machine cannot hold the model."""
    if d > LARGE_DIMENSION:
        check_room(
            8.0 * d * d * (2 if psd == 1 else 1),
            None,
            f"a model of {d} features",
            "reduce the features, for instance with TruncatedSVD, or use kernel='linear', whose model grows with the "
            "points compared",
        )


def padded(d: int) -> FloatArray:
    """Return a d × d matrix of zeros; its rows are not a power of two apart, as such rows would share cache lines."""
    return np.zeros((d, d + 8 if d % 64 == 0 else d))


def squared_norms(V: Any) -> FloatArray:
    """Return ‖v‖² of each row, dense or CSR."""
    if hasattr(V, "indptr"):
        return np.asarray(V.multiply(V).sum(axis=1), dtype=np.float64).ravel()
    if len(V) == 1:  # einsum takes longer than a step
        return np.array([V[0] @ V[0]])
    norms2: FloatArray = np.einsum("ij,ij->i", V, V)
    return norms2


def sparse_is_cheaper(X: Any) -> bool:
    """Whether steps over nnz(v)² scattered entries cost less than matrix products over d², for pairs of rows of X."""
    if not hasattr(X, "indptr"):
        return False
    nnz = 2.0 * X.nnz / X.shape[0]
    return bool(32.0 * nnz * nnz < float(X.shape[1]) ** 2)  # a scattered entry costs about 32 of a product's


def dual_is_cheaper(r: int, d: int, n_steps: int, share: float) -> bool:
    """Whether n_steps over r fixed pairs cost less through their r × r inner products.

    `share` is the expected share of steps that update. Costs in units of one multiply-add inside a matrix
    product; a row of inner products comes from main memory and costs about 16 of them an entry.
    """
    primal = 2.0 * n_steps * d * d
    dual = float(r) * r * (d + 16) + 16.0 * n_steps * share * r
    return r <= LARGEST_DUAL and r * d <= LARGEST_DUAL**2 and dual < primal


def _in_order(rows: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Return the distinct rows in order of appearance, and the place of each entry among them."""
    distinct, first, places = np.unique(rows, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return distinct[order], rank[places]

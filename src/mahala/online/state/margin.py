"""What the states of learners from pairs share, and that of PA and POLA, with the drivers of its compiled streams."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from mahala.comparisons import Pairs
from mahala.compiled.jit import Steps
from mahala.compiled.pairs import cholesky
from mahala.compiled.pairs import psd as kernels
from mahala.compiled.pairs.steps import COINCIDING, stream_dual, stream_indefinite, stream_sparse
from mahala.metric import MahalanobisMetric
from mahala.metric.kernel_map import KernelMap
from mahala.metric.kernels import Kernel, check_kernel
from mahala.metric.matrices import row_dots
from mahala.metric.steps import Step
from mahala.online.state.symmetric import AfterAllSteps, SymmetricMatrix
from mahala.support.arrays import BLOCK_BYTES, Arrays, FloatArray, IndexArray, Rows, SignArray, check_room
from mahala.support.limits import are_few, one_blas_thread
from mahala.support.model_files import ModelFileError
from mahala.support.states import Array, Number, Objects, Stateful
from mahala.support.validation import is_sparse

# Smaller matrices take less than 64 MiB, which needs no check.
LARGE_DIMENSION = 2048
# The dual form holds r × d differences and their r × r squared inner products; beyond this size they would take over
# 512 MiB each.
LARGEST_DUAL = 8192
# The most that may be added to ‖v‖⁴ in a step, and thus the least C of PA: shorter steps are lost in rounding.
MOST_SLACK = 1e50
# Products of one row with a matrix of this size stay on one thread anyway.
SMALL_DIMENSION = 512

_LABELS = {label: np.array([label], dtype=np.int8) for label in (-1, 1)}

Outcome = tuple[float, float, int]  # of a step: its p, τ and predicted label


class PairChunk(NamedTuple):
    """Differences, dense or CSR, and a label for each; with more steps than differences they are fed in cycles."""

    V: Any
    y: Any


class PairState(Stateful, ABC):
    """What learns from the differences of pairs, with a threshold b."""

    b: float
    n_steps: int
    steps: tuple[KernelMap, ...] = ()  # what points are mapped by before

    @property
    def threshold(self) -> float:
        """The squared distance up to which `metric` counts a pair as similar."""
        return self.b

    def finish(self) -> None:
        """Do nothing: the steps ran in the coordinates of the rows."""

    @abstractmethod
    def feed(self, chunk: PairChunk, rule: Any, steps: Steps) -> None:
        """Take the steps of a chunk and write what they did to `steps`."""

    def feed_one(self, v: FloatArray, y: int, rule: Any) -> Outcome:
        """Take a step for one difference of full length."""
        p, tau, predicted = steps = np.empty(1), np.empty(1), np.empty(1, dtype=np.int8)
        self.feed(PairChunk(v[np.newaxis], _LABELS[y]), rule, steps)
        return p.item(), tau.item(), predicted.item()


class MatrixState(PairState):
    """A matrix M and a threshold: short streams take their steps in NumPy, others in compiled code."""

    M = AfterAllSteps("_M")
    _M: SymmetricMatrix

    def feed(self, chunk: PairChunk, rule: Any, steps: Steps) -> None:
        """Take the steps of a chunk and write what they did to `steps`."""
        V, y = chunk
        if not self._are_few(len(y)) or is_sparse(V):
            self._stream(chunk, rule, steps)
            return
        for t, label in enumerate(y.tolist()):
            steps[0][t], steps[1][t], steps[2][t] = self._step(V[t % len(V)], label, rule)

    def feed_one(self, v: FloatArray, y: int, rule: Any) -> Outcome:
        """Take a step for one difference of full length."""
        if len(v) <= SMALL_DIMENSION:
            return self._feed_one(v, y, rule)
        with one_blas_thread():
            return self._feed_one(v, y, rule)

    def _feed_one(self, v: FloatArray, y: int, rule: Any) -> Outcome:
        return self._step(v, y, rule) if self._are_few(1) else super().feed_one(v, y, rule)

    def _are_few(self, n: int) -> bool:
        """Whether so many more steps are taken one by one, in NumPy: so are single ones."""
        return n == 1 or are_few(self.n_steps + n, float(len(self._M.lower)) ** 2)

    @abstractmethod
    def _step(self, v: FloatArray, y: int, rule: Any) -> Outcome:
        """Take a step in NumPy."""

    @abstractmethod
    def _stream(self, chunk: PairChunk, rule: Any, steps: Steps) -> None:
        """Take the steps of a chunk in compiled code."""


class MarginRule(NamedTuple):
    """The step length τ = clip(p / (‖v‖⁴ + 1 + slack), lower, upper); steps with |τ| < min_step are skipped."""

    slack: float
    lower: float
    upper: float
    min_step: float = 0.0

    @property
    def step(self) -> tuple[float, float, float, float]:
        """The numbers as compiled code takes them."""
        return self[:]


class MarginState(MatrixState):
    """M, the threshold b, and what "+" keeps beside them: R = (M + σI)⁻¹ and its tuning.

    `psd` is 1 (project after every update), 0 (never: "-") or k (after every k-th step). With a kernel map M acts on
    coordinates of the span of the points compared, and grows with it.
    """

    FIELDS: ClassVar = (
        Objects("steps", base=Step),
        Array("M", shape=lambda state: 2 * (state.steps[0].dimension if state.steps else len(state.M),)),
        Number("b"),
        Number("mass", least=0.0),
        Number("radius", least=1.0),
        Array("tuning"),
        Array("R", optional=True, dtype=np.float64, shape=lambda state: padded_shape(len(state.M))),
    )

    def __init__(self, M: FloatArray, b: float, psd: int, *steps: KernelMap) -> None:
        self.M = np.array(M, dtype=np.float64, order="C")
        self.b = float(b)
        self.psd = psd
        self.steps = steps
        self.n_steps = 0
        self.planned = 0  # steps, of a fit or of those that it tries
        self.R: FloatArray | None = None  # of which the lower triangle counts
        self.tuning = np.zeros(kernels.STATE_SIZE)
        # The largest entry that M or a term added to it ever had: what M's rounding errors are relative to.
        self.mass = float(np.abs(self.M).max(initial=0.0))
        self.radius = 1.0  # the largest ‖v‖⁴ + 1 seen

    def prepare(self, pairs: Pairs, n_steps: int, complete: bool) -> Pairs:
        """Return the pairs in coordinates of the kernel's span, if there is a kernel; the span grows over them."""
        if not self.steps:
            return pairs
        rows, places = _in_order(np.stack([pairs.left, pairs.right], axis=1).ravel())
        kernel_map = self.steps[0].grow(pairs.X, rows)
        self.steps = (kernel_map,)
        if kernel_map.dimension > len(self.M):
            self._grow(kernel_map.dimension)
        return Pairs._build(kernel_map.apply(pairs.X[rows]), places[::2], places[1::2], pairs.similar)

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

    def _are_few(self, n: int) -> bool:
        if self.psd != 1:
            return super()._are_few(n)
        # A projection takes an eigenvector.
        return are_few(max(self.n_steps + n, self.planned), 2.0 * float(len(self._M.lower)) ** 3)

    def _step(self, v: FloatArray, y: int, rule: MarginRule) -> Outcome:
        norm2 = blas.ddot(v, v) if len(v) else 0.0
        margin = self.b - (blas.ddot(v, self._M.times(v)) if len(v) else 0.0)
        p = 1.0 - y * margin
        tau = min(max(p / (norm2 * norm2 + 1.0 + rule.slack), rule.lower), rule.upper)
        tau = 0.0 if abs(tau) < rule.min_step else tau + 0.0  # never SKIPPED
        s = tau * y
        if s:
            self.b = max(self.b + s, 1.0) if self.psd == 1 else self.b + s
            if norm2 >= (kernels.COINCIDING if self.psd == 1 else COINCIDING):
                self._M.add(-s, v)
                if self.psd == 1:
                    self._project(s)
        self._count_one(norm2, tau)
        self.n_steps += 1
        if self.psd > 1 and self.n_steps % self.psd == 0:
            self.M, self.b = self.constrained()
        return p, tau, 1 if margin >= 0.0 else -1

    def _project(self, s: float) -> None:
        """Remove the negative eigenvalue of M, at most one, that a step M - s v vᵀ leaves."""
        self.R = None  # which is of an earlier M
        if s > 0.0:
            values, vectors, *_, failed = lapack.dsyevr(self._M.lower.T, range="I", il=1, iu=1, lower=0)
            if failed:
                self.M, self.b = self.constrained()
            elif values[0] < 0.0:
                self._M.add(-float(values[0]), vectors[:, 0])

    def _stream(self, chunk: PairChunk, rule: MarginRule, steps: Steps) -> None:
        if not self.tuning.flags.writeable:
            self.make_writable("tuning", "R")
        V, y = chunk
        n = len(y)
        # Of one row, einsum takes longer than a step.
        norms2 = V @ V[0] if n == 1 and isinstance(V, np.ndarray) else row_dots(V, V)
        if n > len(norms2):
            self._feed_dual(chunk, norms2, rule, steps)
            return
        start = 0
        while start < n:
            stop = n if self.psd < 2 else min(n, start + self.psd - self.n_steps % self.psd)
            part = slice(start, stop)
            taken = steps if stop - start == n else (steps[0][part], steps[1][part], steps[2][part])
            if self.psd == 1:
                self._feed_psd(chunk, norms2, rule, taken)
            elif hasattr(V, "indptr"):
                rows = V[part]
                arrays = rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
                self.b = stream_sparse(arrays, y[part], self.M, self.b, rule.step, taken)
            else:
                self.b = stream_indefinite(V[part], y[part], self._M.for_steps(), self.b, rule.step, taken)
            self._count(norms2[part], taken[1])
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
        self.b = stream_dual(gram2, distances, weights, chunk.y[:n], self.b, rule.step, steps)
        scaled = weights[:, np.newaxis] * V
        blas.dgemm(1.0, V.T, scaled.T, 1.0, self.M.T, trans_b=True, overwrite_c=True)
        self._count(np.resize(norms2, len(chunk.y)), steps[1])

    def _count(self, norms2: FloatArray, tau: FloatArray) -> None:
        self.n_steps += len(tau)
        if len(tau) == 1:  # the same as below at a fraction of its cost
            self._count_one(float(norms2[0]), float(tau[0]))
            return
        largest, term = float(norms2.max()), float(np.max(np.abs(tau) * norms2))
        self.mass = max(self.mass, term, self._M.largest_on_diagonal())
        self.radius = max(self.radius, largest**2 + 1.0)

    def _count_one(self, norm2: float, tau: float) -> None:
        if tau:
            self.mass = max(self.mass, abs(tau) * norm2, self._M.largest_on_diagonal())
        self.radius = max(self.radius, norm2 * norm2 + 1.0)

    def losses(self, V: FloatArray, y: SignArray) -> FloatArray:
        """Return the signed loss p of each pair under the model as it is."""
        result: FloatArray = 1.0 - y * (self.b - np.einsum("ij,ij->i", V @ self.M, V))
        return result

    @one_blas_thread()
    def constrained(self) -> tuple[FloatArray, float]:
        """Return the nearest model with M ⪰ 0 and b ≥ 1; eigenvalues that are rounding errors count as zero."""
        values, vectors = np.linalg.eigh(0.5 * (self.M + self.M.T))
        positive = values > self._rounding()
        directions = vectors[:, positive]
        return (directions * values[positive]) @ directions.T, max(self.b, 1.0)

    def effective_dimension(self) -> int:
        """Return the rank of the positive part of M."""
        return int(np.count_nonzero(np.linalg.eigvalsh(0.5 * (self.M + self.M.T)) > self._rounding()))

    def _rounding(self) -> float:
        """Return the size of errors in eigenvalues: of the projections under "+", else of sums of n_steps terms."""
        terms = len(self.M) + np.sqrt(self.n_steps)
        return self.mass * (kernels.RTOL if self.psd == 1 else terms * np.finfo(float).eps)

    def _grow(self, d: int) -> None:
        """Add directions in which nothing was learned yet: M is zero there, R is 1/σ."""
        check_memory(d, self.psd)
        old = len(self.M)
        M = np.zeros((d, d))
        M[:old, :old] = self.M
        self.M = M
        if self.R is not None:
            R = np.zeros(padded_shape(d))
            R[:old, :old] = self.R[:, :old]
            R[np.arange(old, d), np.arange(old, d)] = 1.0 / self.tuning[kernels.SIGMA]
            self.R = R

    def metric(self, **about: Any) -> MahalanobisMetric:
        """Return the nearest model with M ⪰ 0 and b ≥ 1 as a metric."""
        M, b = self.constrained()
        return MahalanobisMetric(M, b, steps=self.steps, **about)

    def raw_metric(self) -> MahalanobisMetric:
        """Return the model as it is; M may be indefinite and b below 1."""
        return MahalanobisMetric(symmetric(self.M.copy()), self.b, steps=self.steps)

    def set_state(self, header: dict[str, object], arrays: Arrays) -> None:
        expected = [(step.kernel, step.n_features_in) for step in self.steps]
        super().set_state(header, arrays)
        if [(step.kernel, step.n_features_in) for step in self.steps] != expected:
            raise ModelFileError("its kernel is not the one that its parameters name")

    def _check(self) -> None:
        sigma = self.tuning[kernels.SIGMA]
        if sigma < 0.0 or (self.R is not None and sigma == 0.0):
            raise ModelFileError("the shift of R should be positive")

    def _feed_psd(self, chunk: PairChunk, norms2: FloatArray, rule: MarginRule, steps: Steps) -> None:
        V, y = chunk
        if V.shape[1] <= cholesky.MOST_FEATURES:
            self._feed_few(V, y, rule, steps)
            return
        if self.R is None:
            first = np.flatnonzero(norms2 >= kernels.COINCIDING)[:1]
            if first.size:
                # The first subtraction of about this size; later ones retune σ.
                norm2 = float(norms2[first[0]])
                self.tuning[kernels.SIGMA] = max(norm2 / (1.0 + rule.slack + norm2 * norm2), 1e-6 * self.mass)
                self.tuning[kernels.LOG_MU] = np.log(self.tuning[kernels.SIGMA])
                self._refactor()
        # Coinciding points move b alone: R is not read before the first pair that differs.
        R = np.zeros(padded_shape(V.shape[1])) if self.R is None else self.R
        while True:
            single: Any = len(y) == 1 or None
            matrices = self._M.for_steps(len(y) == 1), R
            self.b, done, why = kernels.stream_psd(V, y, matrices, single, self.tuning, self.b, rule.step, steps)
            if why == kernels.PROJECT:
                self.M, self.b = self.constrained()
            if why:
                R = self._refactor()
            if done == len(y):
                return
            V, y, steps = V[done:], y[done:], (steps[0][done:], steps[1][done:], steps[2][done:])

    def _feed_few(self, V: FloatArray, y: SignArray, rule: MarginRule, steps: Steps) -> None:
        self.R = None  # which is for many features
        while True:
            M = self._M.for_steps()
            self.b, done, why = cholesky.stream_few(V, y, M, self.tuning, self.b, rule.step, steps)
            if why == kernels.PROJECT:
                self.M, self.b = self.constrained()
            if done == len(y):
                return
            V, y, steps = V[done:], y[done:], (steps[0][done:], steps[1][done:], steps[2][done:])

    @one_blas_thread()
    def _refactor(self) -> FloatArray:
        """Compute R = (M + σI)⁻¹ by Cholesky."""
        d = len(self.M)
        diagonal = np.arange(d)
        for _ in range(100):
            shifted = np.array(self.M, order="F")
            shifted[diagonal, diagonal] += self.tuning[kernels.SIGMA]
            factor, failed = lapack.dpotrf(shifted, lower=1, overwrite_a=1)
            if not failed:
                break
            # Rounding left M less positive than σ can make up for.
            self.M, self.b = self.constrained()
            self.tuning[kernels.SIGMA] = max(2.0 * self.tuning[kernels.SIGMA], 1e-12 * np.trace(self.M))
        else:
            raise FloatingPointError("the metric can no longer be kept positive semi-definite; scale the features")
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        self.R = np.zeros(padded_shape(d))
        self.R[:, :d] = inverse
        self.tuning[kernels.CORRECTIONS] = self.tuning[kernels.WASTE] = 0.0
        # Its squares neither overflow nor vanish.
        self.tuning[kernels.NORM] = blas.dnrm2(self.M.ravel()) if d else 0.0
        return self.R


def first_state(d: int, psd: int, kernel: Kernel | None, kernel_params: dict[str, Any] | None) -> MarginState:
    """Return M = 0 and b = 0 for points of d features, or for the span of a kernel, which is empty at first."""
    if kernel is not None:
        return MarginState(np.zeros((0, 0)), 0.0, psd, KernelMap(kernel, check_kernel(kernel, kernel_params), d))
    check_memory(d, psd)
    return MarginState(np.zeros((d, d)), 0.0, psd)


def check_memory(d: int, psd: int) -> None:
    """Raise MemoryError if this machine cannot hold the model."""
    if d > LARGE_DIMENSION:
        less = "reduce the features, for instance with TruncatedSVD"
        advice = f"{less}, or use kernel='linear', whose model grows with the points compared"
        check_room(8.0 * d * d * (2 if psd == 1 else 1), None, f"a model of {d} features", advice)


def padded_shape(d: int) -> tuple[int, int]:
    """Return the shape of R: its rows are not a power of two apart, as such rows would share cache lines."""
    return d, d + 8 if d % 64 == 0 else d


def symmetric(M: FloatArray) -> FloatArray:
    """Average M with its transpose in place, which removes the rounding errors that tell them apart."""
    M += M.T
    M *= 0.5
    return M


def sparse_is_cheaper(X: Rows) -> bool:
    """Whether steps over nnz(v)² scattered entries cost less than matrix products over d², for pairs of rows of X."""
    if not is_sparse(X):
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

"""The model (M, b) of the online pair learners and the drivers of its kernels."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack
from threadpoolctl import ThreadpoolController

from mahala.compiled.pairs import COINCIDING, add_terms, stream_dual, stream_indefinite, stream_sparse
from mahala.compiled.psd import CORRECTIONS, LOG_MU, NORM, PROJECT, RTOL, SIGMA, STATE_SIZE, WASTE, stream_psd
from mahala.support.memory import check_room

Floats = NDArray[np.float64]
Signs = NDArray[np.int8]
Rule = tuple[float, float, float]
Steps = tuple[Floats, Floats, Signs]  # p, τ, predicted

# The dual form holds r × d differences and their r × r squared inner products; beyond this size they would take over
# 512 MiB each.
LARGEST_DUAL = 8192


class PairModel:
    """M, the threshold b, and what "+" keeps beside them: R = (M + σI)⁻¹ and its tuning.

    `psd` is 1 (project after every update), 0 (never: "-") or k (after every k-th step).
    """

    def __init__(self, M: Floats, b: float, psd: int) -> None:
        self.M = np.array(M, dtype=np.float64, order="C")
        self.b = float(b)
        self.psd = psd
        self.n_steps = 0
        self.R: Floats | None = None
        self.tuning = np.zeros(STATE_SIZE)
        # The largest entry that M or a term added to it ever had: what M's rounding errors are relative to.
        self.mass = float(np.abs(self.M).max(initial=0.0))
        self.radius = 1.0  # the largest ‖v‖⁴ + 1 seen

    def feed(self, V: Any, y: Signs, rule: Rule, tolerance: float) -> Steps:
        """One step for each row of differences V, which may be CSR unless psd is 1."""
        for name in ("M", "R", "tuning"):  # read-only where the model was loaded as a memory map
            array = getattr(self, name)
            if array is not None and not array.flags.writeable:
                setattr(self, name, array.copy())
        n = len(y)
        p, tau, predicted = np.empty(n), np.empty(n), np.empty(n, dtype=np.int8)
        norms2 = squared_norms(V)
        with one_blas_thread():
            start = 0
            while start < n:
                stop = n if self.psd < 2 else min(n, start + self.psd - self.n_steps % self.psd)
                part = slice(start, stop)
                own = p[part], tau[part], predicted[part]
                if self.psd == 1:
                    self._feed_psd(V, y, norms2, rule, tolerance, own)
                elif hasattr(V, "indptr"):
                    rows = V[part]
                    arrays = rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
                    self.b = stream_sparse(*arrays, y[part], self.M, self.b, rule, tolerance, *own)
                else:
                    self.b = stream_indefinite(V[part], y[part], self.M, self.b, rule, tolerance, *own)
                self._count(norms2[part], tau[part])
                start = stop
                if self.psd > 1 and self.n_steps % self.psd == 0:
                    self.M, self.b = self.constrained()
        return p, tau, predicted

    def feed_dual(self, V: Floats, y: Signs, n_steps: int, rule: Rule, tolerance: float) -> Steps:
        """The pairs V again and again, for n_steps in all, through their distances; for "-" only."""
        p, tau, predicted = np.empty(n_steps), np.empty(n_steps), np.empty(n_steps, dtype=np.int8)
        gram2 = V @ V.T
        np.square(gram2, out=gram2)
        distances = np.einsum("ij,ij->i", V @ self.M, V)
        weights = np.zeros(len(V))
        order = np.arange(n_steps) % len(V)
        self.b = stream_dual(gram2, distances, weights, order, y, self.b, rule, tolerance, p, tau, predicted)
        add_terms(self.M, V, weights, len(V))
        self._count(squared_norms(V)[order], tau)
        return p, tau, predicted

    def _count(self, norms2: Floats, tau: Floats) -> None:
        self.n_steps += len(tau)
        self.radius = max(self.radius, float(norms2.max()) ** 2 + 1.0)
        term = float(np.max(np.abs(tau) * norms2))
        self.mass = max(self.mass, term, float(np.abs(self.M.diagonal()).max(initial=0.0)))

    def losses(self, V: Floats, y: Signs) -> Floats:
        """Signed losses p of the pairs under the model as it is."""
        result: Floats = 1.0 - y * (self.b - np.einsum("ij,ij->i", V @ self.M, V))
        return result

    def constrained(self) -> tuple[Floats, float]:
        """The nearest model with M ⪰ 0 and b ≥ 1; eigenvalues that are rounding errors count as zero."""
        values, vectors = np.linalg.eigh(0.5 * (self.M + self.M.T))
        positive = values > self._rounding()
        kept = vectors[:, positive]
        return (kept * values[positive]) @ kept.T, max(self.b, 1.0)

    def effective_dimension(self) -> int:
        """Rank of the positive part of M."""
        return int(np.count_nonzero(np.linalg.eigvalsh(0.5 * (self.M + self.M.T)) > self._rounding()))

    def _rounding(self) -> float:
        """Eigenvalues below this are errors: of the projections under "+", else of sums of n_steps terms."""
        return self.mass * (RTOL if self.psd == 1 else (len(self.M) + np.sqrt(self.n_steps)) * np.finfo(float).eps)

    def grow(self, d: int) -> None:
        """Make room for new directions, about which nothing is known yet: M is zero there, R is 1/σ."""
        check_memory(d, self.psd)
        old = len(self.M)
        M = np.zeros((d, d))
        M[:old, :old] = self.M
        self.M = M
        if self.R is not None:
            R = padded(d)
            R[:old, :old] = self.R[:, :old]
            R[np.arange(old, d), np.arange(old, d)] = 1.0 / self.tuning[SIGMA]
            self.R = R

    def _feed_psd(self, V: Floats, y: Signs, norms2: Floats, rule: Rule, tolerance: float, steps: Steps) -> None:
        p, tau, predicted = steps
        if self.R is None:
            first = np.flatnonzero(norms2 >= COINCIDING)[:1]
            if first.size:
                # The first subtraction of about this size; later ones retune σ.
                norm2 = float(norms2[first[0]])
                self.tuning[SIGMA] = max(norm2 / (1.0 + rule[0] + norm2 * norm2), 1e-6 * self.mass)
                self.tuning[LOG_MU] = np.log(self.tuning[SIGMA])
                self._refactor()
        # Coinciding points move b alone: R is not read before the first pair that differs.
        R = self.R if self.R is not None else padded(len(self.M))
        done = 0
        while done < len(y):
            rest = slice(done, None)
            self.b, steps_done, why = stream_psd(
                V[rest],
                y[rest],
                self.M,
                R,
                self.tuning,
                self.b,
                rule,
                tolerance,
                p[rest],
                tau[rest],
                predicted[rest],
            )
            done += steps_done
            if why == PROJECT:
                self.M, self.b = self.constrained()
            if why:
                R = self._refactor()

    def _refactor(self) -> Floats:
        """R = (M + σI)⁻¹ anew, by Cholesky."""
        d = len(self.M)
        diagonal = np.arange(d)
        for _ in range(100):
            shifted = np.array(self.M, order="F")
            shifted[diagonal, diagonal] += self.tuning[SIGMA]
            factor, failed = lapack.dpotrf(shifted, lower=1, overwrite_a=1)
            if not failed:
                break
            # Rounding left M less positive than σ can mend.
            self.M, self.b = self.constrained()
            self.tuning[SIGMA] = max(2.0 * self.tuning[SIGMA], 1e-12 * np.trace(self.M))
        else:
            raise FloatingPointError("the metric can no longer be kept positive semi-definite; scale the features")
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        if self.R is None or len(self.R) != d:
            self.R = padded(d)
        self.R[:, :d] = inverse
        self.tuning[CORRECTIONS] = self.tuning[WASTE] = 0.0
        self.tuning[NORM] = blas.dnrm2(self.M.ravel()) if d else 0.0  # whose squares neither overflow nor vanish
        return self.R


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def one_blas_thread() -> AbstractContextManager[Any]:
    """Products in a stream are small: on a busy machine two threads wait for each other and take 70 times as long."""
    limited: AbstractContextManager[Any] = _blas().limit(limits=1)
    return limited


def check_memory(d: int, psd: int) -> None:
    """Refuses a model that no memory of this machine can hold, before it is made."""
    check_room(
        8.0 * d * d * (2 if psd == 1 else 1),
        None,
        f"a model of {d} features",
        "reduce the features, for instance with TruncatedSVD, or use kernel='linear', whose model grows with the "
        "points compared",
    )


def padded(d: int) -> Floats:
    """A d × d matrix whose rows are not a power of two apart: such rows would share the same cache lines."""
    return np.zeros((d, d + 8 if d % 64 == 0 else d))


def squared_norms(V: Any) -> Floats:
    """‖v‖² of each row, dense or CSR."""
    if hasattr(V, "indptr"):
        return np.asarray(V.multiply(V).sum(axis=1), dtype=np.float64).ravel()
    norms2: Floats = np.einsum("ij,ij->i", V, V)
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

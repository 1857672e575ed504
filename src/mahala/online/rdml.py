"""RDML: online regularised distance metric learning (Jin, Wang, Zhou, 2009)."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.linalg import blas, lapack

from mahala.comparisons import Pairs
from mahala.compiled.jit import SKIPPED, Steps
from mahala.compiled.pairs import rank_one as kernels
from mahala.compiled.pairs.steps import COINCIDING
from mahala.online.pair_learner import PairLearner
from mahala.online.state.definite import DefiniteState
from mahala.online.state.margin import Outcome, PairChunk, symmetric
from mahala.online.state.symmetric import AfterAllSteps, SymmetricMatrix
from mahala.support.arrays import FloatArray
from mahala.support.limits import one_blas_thread
from mahala.support.parameters import Count, Positive
from mahala.support.states import Array, Integer


@dataclass(eq=False, repr=False)
class RDML(PairLearner):
    """Learn a Mahalanobis metric under which similar pairs are nearer than 1 and dissimilar ones are not.

    The border is at the squared distance 1: scale the features such that distances are about as large, for instance to
    [0, 1].

    Parameters
    ----------
    eta : float, default=0.1
        Learning rate λ.
    n_steps : int or "auto", default="auto"
        Steps that `fit` takes, through the pairs in cycles; "auto" is one pass.
    n_pairs, balance, record, random_state
        See :class:`mahala.PA`.

    Attributes
    ----------
    metric_ : MahalanobisMetric, what has been learned so far
    threshold_ : float, 1
    history_ : History, what happened at each step; its p is y (d - 1), and its τ is λ_t
    components_, n_steps_, n_updates_, n_mistakes_, n_skipped_
        See :class:`mahala.PA`.
    loss_, squared_loss_ : float, the loss max(0, y (d - 1)) and its square summed over all steps

    Notes
    -----
    From M = I on, a pair with label y = ±1, v = x - x', at distance d = vᵀMv, leaves M as it is if y (1 - d) > 0. Else
    M ← M - λ_t y v vᵀ, with λ_t = λ for dissimilar pairs, and at most λ for similar ones, such that M stays positive
    definite without a projection.

    References
    ----------
    R. Jin, S. Wang, Y. Zhou: Regularized distance metric learning: theory and algorithm. Advances in Neural Information
    Processing Systems 22 (NIPS), 2009, 862-870.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> import mahala
    >>> X, y = load_wine(return_X_y=True)
    >>> X = MinMaxScaler().fit_transform(X)
    >>> learner = mahala.online.RDML(n_pairs=1000, random_state=0).fit(X, y)
    >>> pairs = mahala.Pairs.from_labels(X, y, 1000, random_state=1)
    >>> round(learner.score(pairs), 2)
    0.9
    """

    eta: Positive = 0.1
    _: KW_ONLY
    n_steps: Literal["auto"] | Count = "auto"

    def _loss_terms(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, bool]:
        return -y, y, np.zeros_like(y), False

    def _rule(self) -> float:
        return float(self.eta)

    def _first_state(self, comparisons: Pairs | None, complete: bool) -> DefiniteState:
        return RDMLState(self.n_features_in_, 1.0)


class RDMLState(DefiniteState):
    """M and its inverse R, which follows M by corrections of rank one."""

    FIELDS: ClassVar = (
        Integer("n_corrections"),
        Array("R", optional=True, dtype=np.float64, shape=lambda state: state.M.shape),
    )
    R = AfterAllSteps("_R")  # M⁻¹; None until it is computed from M
    n_matrices = 4  # M and R, each read and written

    def become(self, M: FloatArray, is_identity: bool = False) -> None:
        super().become(M, is_identity)
        self._R = SymmetricMatrix(np.eye(len(M))) if is_identity else None
        self.n_corrections = 0  # of R, since it was made

    def _stream(self, chunk: PairChunk, rule: float, steps: Steps) -> None:
        V, y = chunk
        R = self._R = self._R or self._invert()
        while True:
            model = (self._M.for_steps(), R.for_steps()), self.outside
            done, self.n_corrections, stopped = kernels.stream_rdml(V, y, *model, rule, self.n_corrections, steps)
            self.n_steps += done
            if stopped:
                R = self._R = self._invert()
            if done == len(y):
                return
            V, y, steps = V[done:], y[done:], (steps[0][done:], steps[1][done:], steps[2][done:])

    def _step(self, v: FloatArray, y: int, rule: float) -> Outcome:
        self.n_steps += 1
        dist, norm2, tau = blas.ddot(v, self._M.times(v)), blas.ddot(v, v), 0.0
        p, predicted = y * (dist - 1.0), 1 if dist <= 1.0 else -1
        if not (p >= -kernels.BORDER and norm2 >= COINCIDING):
            return p, tau, predicted
        if self._R is None or self.n_corrections >= kernels.MOST_CORRECTIONS:
            self._R = self._invert()
        R = self._R
        a = R.times(v)
        q, length2 = blas.ddot(a, v), blas.ddot(a, a)
        if q > 0.0:
            dimension, trace = float(len(v) + self.outside), self._M.trace() + self.outside
            if y > 0:
                floor = kernels.FLOOR * trace / dimension
                step = min(rule, kernels.SHARE * max(1.0 - floor * length2 / q, 0.0) / q)
            else:
                room = kernels.LARGEST_CONDITION * dimension / (R.trace() + self.outside)
                step = min(rule, max(room - trace, 0.0) / norm2)
            if not step * norm2 <= kernels.LARGEST_TERM:
                tau = SKIPPED
            elif step > 0.0:
                tau, pivot = step, 1.0 - y * step * q
                self._M.add(-y * step, v)
                R.add(y * step / pivot, a)
                self.n_corrections += 1
                if kernels.SPOILT * pivot > 1.0 and self.n_corrections > len(v) // 16:
                    self.n_corrections = kernels.MOST_CORRECTIONS
        return p, tau, predicted

    @one_blas_thread()
    def _invert(self) -> SymmetricMatrix:
        """Return M⁻¹, by Cholesky."""
        self.n_corrections = 0
        factor, failed = lapack.dpotrf(np.array(self.M, order="F"), lower=1, overwrite_a=1)
        if failed:
            # Steps of sizes more than 1e16 apart: what is below the rounding errors of the rest becomes their size.
            values, vectors = np.linalg.eigh(self.M)
            values = np.maximum(values, 4.0 * len(values) * np.finfo(float).eps * values[-1])
            self.M = symmetric((vectors * values) @ vectors.T)
            return SymmetricMatrix(symmetric((vectors / values) @ vectors.T))
        lower, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        inverse: FloatArray = np.tril(lower)
        inverse += np.tril(lower, -1).T
        return SymmetricMatrix(inverse)

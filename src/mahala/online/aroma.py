"""AROMA: adaptive regularization of a similarity matrix (Crammer, Chechik, 2012)"""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from scipy.linalg import blas

from mahala.compiled.jit import SKIPPED, Steps
from mahala.compiled.triplets import aroma as kernels
from mahala.compiled.triplets.rows import CSR, LARGEST_CHANGE
from mahala.online.similarity_learner import SimilarityLearner, length_of
from mahala.online.state.dense import csr_rows
from mahala.online.state.similarity import SimilarityRule, SimilarityState, TripletChunk
from mahala.online.state.symmetric import AfterAllSteps, SymmetricMatrix
from mahala.support.arrays import FloatArray, Rows, block_size, check_room
from mahala.support.limits import are_few
from mahala.support.model_files import ModelFileError
from mahala.support.parameters import Where, between
from mahala.support.states import Array
from mahala.support.validation import is_sparse

# What a step adds to an inverse variance, up to the fourth power of a feature over r, does not overflow.
SMALLEST_R, LARGEST_R = 1e-50, 1e150
# How far a covariance, which only ever shrinks, can be from one by rounding.
ROUNDING = 1e-6


@dataclass(eq=False, repr=False)
class AROMA(SimilarityLearner):
    """Learn a bilinear similarity with confidence: AROW on the matrix M, with covariance Λ ⊗ Γ.

    Parameters
    ----------
    r : float or "auto", default=1.0
        Regularization: the larger, the shorter the steps and the slower confidence grows. "auto" makes the first step
        for a typical loss as long as the C="auto" of :class:`mahala.OASIS`.
    covariance : {"full", "diagonal"}, default="full"
        Whether Λ and Γ are full matrices or diagonal. Full ones cost O(d²) per step and memory for three matrices, so
        they are for some thousand features at most; with diagonal ones a step costs O(nnz(x) · nnz(q)).
    margin, init, average, shrinkage, n_triplets, storage, dtype, max_memory, record, random_state
        See :class:`mahala.OASIS`; there is no storage "gram".

    The attributes are those of :class:`mahala.OASIS`.

    Notes
    -----
    With q = x⁺ - x⁻, l = max(0, margin - xᵀMq) and s = (xᵀΛx)(qᵀΓq), each step with l > 0 is
    M ← M + l / (s + r) (Λx)(Γq)ᵀ, Λ⁻¹ ← Λ⁻¹ + (qᵀΓq) / (r e) x xᵀ and
    Γ⁻¹ ← Γ⁻¹ + (xᵀΛx) / (r d) q qᵀ, for M of shape (d, e).

    Λ and Γ never grow. After one row that is thousands of times as long as the others, M hardly moves any more along
    it: scale rows to one length.

    References
    ----------
    K. Crammer, G. Chechik: Adaptive regularization for weight matrices. Proceedings of the 29th International
    Conference on Machine Learning (ICML), 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler, normalize
    >>> import mahala
    >>> X, y = load_wine(return_X_y=True)
    >>> X = normalize(StandardScaler().fit_transform(X))
    >>> learner = mahala.AROMA(n_triplets=5000, random_state=0).fit(X, y)
    >>> round(mahala.evaluation.mean_average_precision(learner.metric_, X, y), 2)
    0.99
    """

    _test_settings = (
        {},
        {"covariance": "diagonal", "storage": "dense"},
        {"covariance": "diagonal", "storage": "sparse", "dtype": "float32", "average": True},
    )

    r: Literal["auto"] | Annotated[float, Where(between(SMALLEST_R), f"a number of at least {SMALLEST_R:g}")] = 1.0
    _: KW_ONLY
    covariance: Literal["full", "diagonal"] = "full"

    def _step_rule(self, margin: float, size: float) -> SimilarityRule:
        scaled = min(max(margin / length_of("auto", margin, size), SMALLEST_R), LARGEST_R)
        r = scaled if isinstance(self.r, str) else float(self.r)
        return SimilarityRule(1.0, r, np.inf, r=r)

    def _model_in(self, storage: str, rule: SimilarityRule) -> SimilarityState:
        if self.covariance == "diagonal":
            return super()._model_in(storage, rule)
        self._check_shape(rule)
        return CovarianceState((self.n_features_in_, self.n_item_features_), float(self.init == "identity"), rule)

    def _check_params(self) -> None:
        if self.covariance == "full" and (self.storage == "sparse" or self.dtype != "float64"):
            advice = "use storage 'auto' or 'dense' and dtype='float64', or covariance='diagonal'"
            settings = f"got storage={self.storage!r}, dtype={self.dtype!r}"
            raise ValueError(f"covariance='full' fills the whole matrix, in float64: {advice}; {settings}")


class CovarianceState(SimilarityState):
    """M of shape (d, e), Λ of shape (d, d) and Γ of shape (e, e), all in full."""

    FIELDS: ClassVar = (Array("M"), Array("late"), Array("Lambda"), Array("Gamma"))
    _Lambda: SymmetricMatrix
    _Gamma: SymmetricMatrix
    Lambda, Gamma = AfterAllSteps("_Lambda"), AfterAllSteps("_Gamma")
    storage = "dense"

    def __init__(self, shape: tuple[int, int], start: float, rule: SimilarityRule) -> None:
        super().__init__(shape, start, rule, np.float64)
        d, e = shape
        what = f"a matrix of {d} × {e} features with its full covariances"
        advice = "raise max_memory, or use covariance='diagonal', whose memory grows with what is touched"
        check_room(8.0 * (d * d + e * e + d * e * (2 if rule.average else 1)), rule.max_memory, what, advice)
        self.M = start * np.eye(d, e)
        self.late = np.zeros((d, e)) if rule.average else np.empty((0, 0))
        self.Lambda, self.Gamma = np.eye(d), np.eye(e)

    def translate(self, X: Rows) -> CSR:
        return csr_rows(X)

    def _stream(self, chunk: TripletChunk, rule: SimilarityRule, steps: Steps) -> tuple[int, int]:
        self.make_writable("M", "late")
        work = float(self.shape[0] * self.shape[0] + self.shape[1] * self.shape[1])
        few = are_few(self.n_steps + len(chunk.y), work)
        for part, x, q in chunk.in_full(block_size(2 * max(self.shape), least=kernels.BLOCK), self.shape):
            if few:
                for t in range(len(x)):
                    at = part.start + t
                    steps[0][at], steps[1][at], steps[2][at] = self._step(x[t], q[t], rule, self.clock + at)
                continue
            covariances, numbers = (self._Lambda.for_steps(), self._Gamma.for_steps()), (rule.r, rule.margin)
            taken = steps[0][part], steps[1][part], steps[2][part]
            kernels.stream_full(x, q, (self.M, self.late), covariances, numbers, self.clock + part.start, taken)
        return len(chunk.y), 0

    def _step(self, x: FloatArray, q: FloatArray, rule: SimilarityRule, clock: int) -> tuple[float, float, int]:
        """Take a step in NumPy; return its p, τ and predicted label."""
        score = blas.ddot(x, self.M @ q)
        p, tau, predicted = rule.margin - score, 0.0, 1 if score > 0.0 else -1
        if not p > 0.0:
            return p, tau, predicted
        u, v = self._Lambda.times(x), self._Gamma.times(q)
        x_norm, q_norm = blas.ddot(u, x), blas.ddot(v, q)
        noise = kernels.NOISE
        if x_norm > noise * blas.ddot(x, x) and q_norm > noise * blas.ddot(q, q) and x_norm * q_norm > 0.0:
            step = p / (x_norm * q_norm + rule.r)
            if not step * (x_norm * q_norm) ** 0.5 <= LARGEST_CHANGE:
                return p, SKIPPED, predicted
            (d, e), tau = self.shape, step
            blas.dger(step, v, u, a=self.M.T, overwrite_a=1)
            if len(self.late):
                blas.dger(step * (clock + 1), v, u, a=self.late.T, overwrite_a=1)
            self._Lambda.add(-1.0 / (rule.r * e / q_norm + x_norm), u)
            self._Gamma.add(-1.0 / (rule.r * d / x_norm + q_norm), v)
        return p, tau, predicted

    def feed_one(self, rows: FloatArray, items: FloatArray | None, rule: SimilarityRule) -> tuple[float, float, int]:
        self.make_writable("M", "late")
        positive, negative = rows[1:] if items is None else items
        outcome = self._step(rows[0], positive - negative, rule, self.clock)
        self.clock += 1
        self.n_steps += 1
        return outcome

    def cost(self, touched: float) -> float:
        d, e = self.shape
        return (d * d + d * e + e * e) / 4.0  # whatever is touched, but through matrix products

    def settle(self) -> None:
        """Do nothing: no entry is late here."""

    def matrix(self) -> FloatArray:
        return self.M - self.late / self.n_steps if self.n_averaged else self.M.copy()

    def add(self, change: Rows, total: Rows) -> None:
        self.M += change.toarray() if is_sparse(change) else np.asarray(change)

    def _check(self) -> None:
        super()._check()
        if self.clock != self.n_steps:
            raise ModelFileError(f"header entry 'clock' should be the {self.n_steps} steps, found {self.clock}")
        for name, covariance in (("Lambda", self.Lambda), ("Gamma", self.Gamma)):
            if abs(covariance).max() > 1.0 + ROUNDING or abs(covariance - covariance.T).max() > ROUNDING:
                raise ModelFileError(f"array {name!r} should be a symmetric matrix of numbers from -1 to 1")

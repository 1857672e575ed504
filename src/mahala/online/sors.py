"""SORS and AdaSORS: sparse online relative similarity (Yao, Zhao, Yu, Jin, Li, 2015)"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

from mahala.online.similarity_learner import SimilarityLearner, length_of
from mahala.online.state.similarity import SimilarityRule, StepLength
from mahala.support.parameters import NonNegative, Positive


@dataclass(eq=False, repr=False)
class SORS(SimilarityLearner):
    """Learn a sparse matrix M of a bilinear similarity xᵀ M x' from triplets: sparse online relative similarity.

    Parameters
    ----------
    eta : float or "auto", default=0.1
        Step length; "auto" as for the C of :class:`mahala.OASIS`.
    lam : float, default=1e-6
        Weight of the penalty: the larger, the sparser. In T steps an entry loses up to ηλT in all.
    penalty : {"l1", "offdiagonal"}, default="l1"
        Which entries are thresholded: all (the paper's I), or all but the diagonal (its II).
    margin, init, average, shrinkage, n_triplets, storage, dtype, max_memory, record, random_state
        See :class:`mahala.OASIS`; there is no storage "gram".

    The attributes are those of :class:`mahala.OASIS`.

    Notes
    -----
    With q = x⁺ - x⁻ and the hinge loss l = max(0, margin - xᵀMq), each step is M ← soft(M + η x qᵀ, ηλ) where
    l > 0, else M ← soft(M, ηλ), elementwise; soft(m, θ) = sign(m) max(|m| - θ, 0).

    A step is as long as x qᵀ, so one row that is thousands of times as long as the others spoils M: scale rows to one
    length.

    References
    ----------
    D. Yao, P. Zhao, C. Yu, H. Jin, B. Li: Sparse online relative similarity learning. IEEE International Conference on
    Data Mining (ICDM), 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler, normalize
    >>> import mahala
    >>> X, y = load_wine(return_X_y=True)
    >>> X = normalize(StandardScaler().fit_transform(X))
    >>> learner = mahala.SORS(0.1, lam=0.03, n_triplets=5000, random_state=0).fit(X, y)
    >>> round(mahala.evaluation.mean_average_precision(learner.metric_, X, y), 2)
    0.94
    >>> round(learner.sparsity_, 2)
    0.37
    """

    _test_settings = (
        {"eta": 0.125, "lam": 0.0625, "storage": "dense", "penalty": "offdiagonal", "average": True, "init": "zero"},
        {"eta": 0.125, "lam": 0.0625, "storage": "sparse"},
    )

    eta: Literal["auto"] | StepLength = 0.1
    _: KW_ONLY
    lam: NonNegative = 1e-6
    penalty: Literal["l1", "offdiagonal"] = "l1"

    def _step_rule(self, margin: float, size: float) -> SimilarityRule:
        eta, off_diagonal = length_of(self.eta, margin, size), self.penalty == "offdiagonal"
        return SimilarityRule(0.0, 0.0, eta, eta, eta * float(self.lam), off_diagonal, late=True)

    def _check_params(self) -> None:
        rule = self._rule()
        if not rule.theta / rule.delta < np.inf:
            raise ValueError(f"lam must be such that thresholds are finite, got {self.lam!r} with eta={self.eta!r}")


@dataclass(eq=False, repr=False)
class AdaSORS(SORS):
    """Learn a sparse similarity as SORS does, with step lengths that adapt to each entry of M (AdaGrad).

    Parameters
    ----------
    delta : float, default=0.1
        The least Σ, which keeps the first steps short.
    eta, lam, penalty
        See :class:`mahala.SORS`.
    margin, init, average, shrinkage, n_triplets, storage, dtype, max_memory, record, random_state
        See :class:`mahala.OASIS`; there is no storage "gram".

    The attributes are those of :class:`mahala.OASIS`.

    Notes
    -----
    With q = x⁺ - x⁻ and the hinge loss l = max(0, margin - xᵀMq), G is -x qᵀ where l > 0, else 0. Each step is
    H ← √(H² + G²), Σ = δ + H and M ← soft(M - η G / Σ, ηλ / Σ), elementwise; soft(m, θ) = sign(m) max(|m| - θ, 0).

    Σ never falls. After one row that is thousands of times as long as the others, the entries that it touched hardly
    move any more: scale rows to one length.

    References
    ----------
    D. Yao, P. Zhao, C. Yu, H. Jin, B. Li: Sparse online relative similarity learning. IEEE International Conference on
    Data Mining (ICDM), 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler, normalize
    >>> import mahala
    >>> X, y = load_wine(return_X_y=True)
    >>> X = normalize(StandardScaler().fit_transform(X))
    >>> learner = mahala.AdaSORS(0.1, n_triplets=5000, random_state=0).fit(X, y)
    >>> round(mahala.evaluation.mean_average_precision(learner.metric_, X, y), 2)
    0.99
    """

    _test_settings = (
        {"lam": 0.01, "storage": "dense"},
        {"lam": 0.01, "storage": "sparse", "average": True, "penalty": "offdiagonal"},
    )

    _: KW_ONLY
    delta: Positive = 0.1

    def _step_rule(self, margin: float, size: float) -> SimilarityRule:
        # Where the square of a gradient is too small for a float, so is its quotient by this.
        least = float(np.finfo(self.dtype).tiny) ** 0.5
        return super()._step_rule(margin, size)._replace(upper=1.0, delta=max(float(self.delta), least), adaptive=True)

"""SORS and AdaSORS: sparse online relative similarity (Yao, Zhao, Yu, Jin, Li, 2015)"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from mahala.metric import Metric
from mahala.online.similarity_learner import LONGEST_STEP, SimilarityLearner, Storage
from mahala.online.storage.similarity_model import Rule
from mahala.support.params import is_number
from mahala.support.validation import check_positive


class SORS(SimilarityLearner):
    r"""Sparse online relative similarity: a bilinear similarity xᵀ M x' whose matrix is sparse.

    With q = x⁺ - x⁻ and the hinge loss l = max(0, 1 - xᵀMq), each step is M ← soft(M + η x qᵀ, ηλ) where l > 0, else
    M ← soft(M, ηλ), elementwise; soft(m, θ) = sign(m) max(|m| - θ, 0). A step costs O(nnz(x) · nnz(q)) and is exact:
    what it does to all other entries is done when they are next read.

    Parameters
    ----------
    eta : float
        Step length.
    lam : float
        Weight of the penalty: the larger, the sparser. In T steps an entry loses up to ηλT in all.
    penalty : "l1" or "offdiagonal"
        Which entries are thresholded: all (the paper's I), or all but the diagonal (its II).
    init, average, n_triplets, storage, dtype, max_memory, record, random_state : as for `OASIS`, but no "gram"

    The attributes are those of `OASIS`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler, normalize
    >>> import mahala
    >>> X, y = load_wine(return_X_y=True)
    >>> X = normalize(StandardScaler().fit_transform(X))
    >>> learner = mahala.SORS(eta=0.1, lam=1e-3, n_triplets=5000, random_state=0).fit(X, y)
    >>> round(mahala.mean_average_precision(learner.metric_, X, y), 2)
    0.99
    """

    def __init__(
        self,
        eta: float = 0.1,
        lam: float = 1e-6,
        penalty: Literal["l1", "offdiagonal"] = "l1",
        init: Literal["identity", "zero"] | Metric = "identity",
        average: bool = False,
        n_triplets: int = 100_000,
        storage: Storage = "auto",
        dtype: Literal["float64", "float32"] = "float64",
        max_memory: float | None = None,
        record: bool = True,
        random_state: Any = None,
    ) -> None:
        self.eta = eta
        self.lam = lam
        self.penalty = penalty
        self.init = init
        self.average = average
        self.n_triplets = n_triplets
        self.storage = storage
        self.dtype = dtype
        self.max_memory = max_memory
        self.record = record
        self.random_state = random_state

    def _rule(self) -> Rule:
        eta, off = float(self.eta), self.penalty == "offdiagonal"
        return Rule(0.0, 0.0, eta, eta, eta * float(self.lam), off, late=True, average=bool(self.average))

    def _check_params(self) -> None:
        _check(self, 1.0)
        super()._check_params()


class AdaSORS(SimilarityLearner):
    r"""Sparse online relative similarity with step lengths that adapt to each entry (AdaGrad).

    As `SORS`, but with G = -x qᵀ where l > 0, else 0: H ← sqrt(H² + G²), Σ = δ + H, and
    M ← soft(M - ηG / Σ, ηλ / Σ), elementwise.

    Parameters
    ----------
    eta : float
        Step length.
    lam : float
        Weight of the penalty: the larger, the sparser.
    delta : float
        The least Σ: keeps first steps short.
    penalty : "l1" or "offdiagonal"
        Which entries are thresholded: all (the paper's I), or all but the diagonal (its II).
    init, average, n_triplets, storage, dtype, max_memory, record, random_state : as for `OASIS`, but no "gram"

    The attributes are those of `OASIS`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler, normalize
    >>> import mahala
    >>> X, y = load_wine(return_X_y=True)
    >>> X = normalize(StandardScaler().fit_transform(X))
    >>> learner = mahala.AdaSORS(eta=0.1, lam=1e-3, n_triplets=5000, random_state=0).fit(X, y)
    >>> round(mahala.mean_average_precision(learner.metric_, X, y), 2)
    0.99
    """

    def __init__(
        self,
        eta: float = 0.1,
        lam: float = 1e-6,
        delta: float = 0.1,
        penalty: Literal["l1", "offdiagonal"] = "l1",
        init: Literal["identity", "zero"] | Metric = "identity",
        average: bool = False,
        n_triplets: int = 100_000,
        storage: Storage = "auto",
        dtype: Literal["float64", "float32"] = "float64",
        max_memory: float | None = None,
        record: bool = True,
        random_state: Any = None,
    ) -> None:
        self.eta = eta
        self.lam = lam
        self.delta = delta
        self.penalty = penalty
        self.init = init
        self.average = average
        self.n_triplets = n_triplets
        self.storage = storage
        self.dtype = dtype
        self.max_memory = max_memory
        self.record = record
        self.random_state = random_state

    def _rule(self) -> Rule:
        eta, off = float(self.eta), self.penalty == "offdiagonal"
        return Rule(
            0.0,
            0.0,
            1.0,
            eta,
            eta * float(self.lam),
            off,
            float(self.delta),
            late=True,
            adaptive=True,
            average=bool(self.average),
        )

    def _check_params(self) -> None:
        check_positive(self.delta, "delta")
        _check(self, float(self.delta))
        super()._check_params()


def _check(learner: SORS | AdaSORS, sigma: float) -> None:
    """What both have: a step length, a penalty and its weight, whose threshold in a step is at most ηλ/σ."""
    check_positive(learner.eta, "eta", LONGEST_STEP)
    if not (is_number(learner.lam) and 0.0 <= learner.lam < np.inf):
        raise ValueError(f"lam must be a number from 0 up, got {learner.lam!r}")
    if not float(learner.eta) * float(learner.lam) / sigma < np.inf:
        raise ValueError(f"lam must be such that thresholds are numbers, got {learner.lam!r} with eta={learner.eta!r}")
    if learner.penalty not in ("l1", "offdiagonal"):
        raise ValueError(f"penalty must be 'l1' or 'offdiagonal', got {learner.penalty!r}")

"""AROMA: adaptive regularization of a similarity matrix (Crammer, Chechik, 2012)"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from mahala.metric import Metric
from mahala.online.similarity_learner import SimilarityLearner, Storage
from mahala.online.storage.covariance_model import CovarianceModel
from mahala.online.storage.similarity_model import Rule, SimilarityModel
from mahala.support.params import is_number

# What a step adds to an inverse variance, up to the fourth power of a feature over r, does not overflow.
SMALLEST_R = 1e-50


class AROMA(SimilarityLearner):
    r"""Online learning of a bilinear similarity with confidence: AROW on the matrix, with covariance Λ ⊗ Γ.

    With q = x⁺ - x⁻, l = max(0, 1 - xᵀMq) and s = (xᵀΛx)(qᵀΓq), each step with l > 0 is M ← M + l / (s + r) (Λx)(Γq)ᵀ,
    Λ⁻¹ ← Λ⁻¹ + (qᵀΓq) / (r e) x xᵀ and Γ⁻¹ ← Γ⁻¹ + (xᵀΛx) / (r d) q qᵀ, for M of shape (d, e).

    Parameters
    ----------
    r : float
        Regularization: the larger, the shorter the steps and the slower confidence grows.
    covariance : "full" or "diagonal"
        Whether Λ and Γ are full matrices or diagonal. Full ones cost O(d²) a step and memory for three matrices, so
        they are for some thousand features at most; with diagonal ones a step costs O(nnz(x) · nnz(q)).
    init, average, n_triplets, storage, dtype, max_memory, record, random_state : as for `OASIS`, but no "gram"

    The attributes are those of `OASIS`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler, normalize
    >>> import mahala
    >>> X, y = load_wine(return_X_y=True)
    >>> X = normalize(StandardScaler().fit_transform(X))
    >>> learner = mahala.AROMA(r=1.0, n_triplets=5000, random_state=0).fit(X, y)
    >>> round(mahala.mean_average_precision(learner.metric_, X, y), 2)
    0.99
    """

    def __init__(
        self,
        r: float = 1.0,
        covariance: Literal["full", "diagonal"] = "full",
        init: Literal["identity", "zero"] | Metric = "identity",
        average: bool = False,
        n_triplets: int = 100_000,
        storage: Storage = "auto",
        dtype: Literal["float64", "float32"] = "float64",
        max_memory: float | None = None,
        record: bool = True,
        random_state: Any = None,
    ) -> None:
        self.r = r
        self.covariance = covariance
        self.init = init
        self.average = average
        self.n_triplets = n_triplets
        self.storage = storage
        self.dtype = dtype
        self.max_memory = max_memory
        self.record = record
        self.random_state = random_state

    def _rule(self) -> Rule:
        r = float(self.r)
        return Rule(1.0, r, np.inf, average=bool(self.average), r=r)

    def _make_model(self, storage: str) -> SimilarityModel:
        if self.covariance == "diagonal":
            return super()._make_model(storage)
        shape = self.n_features_in_, self.n_item_features_
        return CovarianceModel(shape, self._start_value(), self._rule(), self.max_memory)

    def _check_params(self) -> None:
        if not (is_number(self.r) and SMALLEST_R <= self.r < np.inf):
            raise ValueError(f"r must be a number from {SMALLEST_R:g} up, got {self.r!r}")
        if self.covariance not in ("full", "diagonal"):
            raise ValueError(f"covariance must be 'full' or 'diagonal', got {self.covariance!r}")
        if self.covariance == "full" and (self.storage == "sparse" or self.dtype != "float64"):
            raise ValueError(
                "covariance='full' fills the whole matrix, in float64: use storage 'auto' or 'dense' and "
                f"dtype='float64', or covariance='diagonal'; got storage={self.storage!r}, dtype={self.dtype!r}"
            )
        super()._check_params()

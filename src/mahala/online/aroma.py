"""AROMA: adaptive regularization of a similarity matrix (Crammer, Chechik, 2012)"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal

import numpy as np

from mahala.online.similarity_learner import SimilarityLearner
from mahala.online.storage.covariance_model import CovarianceModel
from mahala.online.storage.similarity_model import SimilarityModel, SimilarityRule
from mahala.support.parameters import Where, between

# What a step adds to an inverse variance, up to the fourth power of a feature over r, does not overflow.
SMALLEST_R = 1e-50


@dataclass(eq=False, repr=False)
class AROMA(SimilarityLearner):
    r"""Online learning of a bilinear similarity with confidence: AROW on the matrix, with covariance Λ ⊗ Γ.

    With q = x⁺ - x⁻, l = max(0, margin - xᵀMq) and s = (xᵀΛx)(qᵀΓq), each step with l > 0 is
    M ← M + l / (s + r) (Λx)(Γq)ᵀ, Λ⁻¹ ← Λ⁻¹ + (qᵀΓq) / (r e) x xᵀ and
    Γ⁻¹ ← Γ⁻¹ + (xᵀΛx) / (r d) q qᵀ, for M of shape (d, e).

    Parameters
    ----------
    r : float or "auto"
        Regularization: the larger, the shorter the steps and the slower confidence grows. "auto" makes the first step
        for a typical loss as long as the C="auto" of `OASIS`.
    covariance : "full" or "diagonal"
        Whether Λ and Γ are full matrices or diagonal. Full ones cost O(d²) per step and memory for three matrices, so
        they are for some thousand features at most; with diagonal ones a step costs O(nnz(x) · nnz(q)).
    margin, init, average, n_triplets, storage, dtype, max_memory, record, random_state : as for `OASIS`, but no "gram"

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

    r: Literal["auto"] | Annotated[float, Where(between(SMALLEST_R), f"a number of at least {SMALLEST_R:g}")] = 1.0
    _: KW_ONLY
    covariance: Literal["full", "diagonal"] = "full"

    def _step_rule(self) -> SimilarityRule:
        r = max(self.margin_ / self._length("auto"), SMALLEST_R) if isinstance(self.r, str) else float(self.r)
        return SimilarityRule(1.0, r, np.inf, r=r)

    def _model_in(self, storage: str, rule: SimilarityRule) -> SimilarityModel:
        if self.covariance == "diagonal":
            return super()._model_in(storage, rule)
        self._check_shape(rule)
        return CovarianceModel((self.n_features_in_, self.n_item_features_), float(self.init == "identity"), rule)

    def _check_params(self) -> None:
        if self.covariance == "full" and (self.storage == "sparse" or self.dtype != "float64"):
            raise ValueError(
                "covariance='full' fills the whole matrix, in float64: use storage 'auto' or 'dense' and "
                f"dtype='float64', or covariance='diagonal'; got storage={self.storage!r}, dtype={self.dtype!r}"
            )

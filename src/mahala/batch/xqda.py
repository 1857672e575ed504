"""XQDA: cross-view quadratic discriminant analysis (Liao, Hu, Zhu, Li, 2015)."""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.differences import NO_DIRECTION, Differences
from mahala.batch.run import Run, check_n_components
from mahala.batch.whitening import standardised
from mahala.comparisons import Pairs
from mahala.learner import LabelledRows
from mahala.support.parameters import Count, Share


@dataclass(eq=False, repr=False)
class XQDA(BatchLearner):
    r"""Cross-view quadratic discriminant analysis: KISSME in the directions in which dissimilar pairs differ most.

    A is the covariance of the differences of similar pairs, and B that of dissimilar pairs. The directions w have the
    largest ratios wᵀB w / wᵀA w, as far as these are above 1. With W their matrix, one per row, M is
    Wᵀ ((W A Wᵀ)⁻¹ - (W B Wᵀ)⁻¹) W, which is positive semi-definite.

    Parameters
    ----------
    n_components : int or None, default=None
        Largest number of directions; None for all with a ratio above 1.
    shrinkage : float, default=0.01
        Share s, from 0 to 1, of the shrinkage C ← (1 - s) C + s (tr C / r) I of A and B, with features scaled to
        variance one; r is the number of directions in which pairs differ. Other directions have weight zero.

    Attributes
    ----------
    metric_ : MahalanobisMetric, the learned metric
    objective_ : float, minus the sum of the ratios along the directions

    References
    ----------
    S. Liao, Y. Hu, X. Zhu, S. Z. Li: Person re-identification by local maximal occurrence representation and metric
    learning. Proceedings of the IEEE Conference on Computer Vision and Pattern Recognition (CVPR), 2015, 2197-2206.

    Examples
    --------
    >>> from mahala.batch import XQDA
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> round(XQDA().fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2)
    1.0
    """

    _learns_from = Pairs
    _test_settings = ({"n_components": 2},)

    n_components: Count | None = None
    _: KW_ONLY
    shrinkage: Share = 0.01

    def _learn(self, data: LabelledRows | Pairs, run: Run) -> str:
        check_n_components(self.n_components, data.X.shape[1], "the number of features")
        Z, factors = standardised(data.X.astype(np.float64))
        W, ratios = Differences.of(data, Z, float(self.shrinkage)).directions()
        W, ratios = W[::-1][: self.n_components], ratios[::-1][: self.n_components]
        separating = ratios > 1.0
        if not separating.any():
            raise ValueError(NO_DIRECTION)
        W, ratios = W[separating], ratios[separating]
        # Along W, A is the identity and B is diagonal.
        run.step(-float(ratios.sum()), {"L": np.sqrt(1.0 - 1.0 / ratios)[:, None] * W * factors})
        return "converged"

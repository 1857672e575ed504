"""KISSME: keep it simple and straightforward metric learning (Köstinger, Hirzer, Wohlhart, Roth, Bischof, 2012)."""

from dataclasses import dataclass

import numpy as np

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.differences import NO_DIRECTION, Differences, rounding
from mahala.batch.run import Run
from mahala.batch.whitening import standardised
from mahala.comparisons import Pairs
from mahala.learner import LabelledRows
from mahala.support.parameters import Share


@dataclass(eq=False, repr=False)
class KISSME(BatchLearner):
    r"""Keep it simple and straightforward metric learning: the likelihood ratio of similar and dissimilar pairs.

    If differences of similar pairs are normal with covariance A, and those of dissimilar pairs with covariance B, the
    logarithm of their likelihood ratio is, up to a constant and a factor, the squared distance under A⁻¹ - B⁻¹. M is
    the positive semi-definite matrix nearest to it: its negative eigenvalues are set to zero.

    Parameters
    ----------
    shrinkage : float, default=0.01
        Share s, from 0 to 1, of the shrinkage C ← (1 - s) C + s (tr C / r) I of A and B, with features scaled to
        variance one; r is the number of directions in which pairs differ. Other directions have weight zero.

    Attributes
    ----------
    metric_ : MahalanobisMetric, the learned metric
    objective_ : float, the squared Frobenius distance of M to A⁻¹ - B⁻¹

    References
    ----------
    M. Köstinger, M. Hirzer, P. Wohlhart, P. M. Roth, H. Bischof: Large scale metric learning from equivalence
    constraints. Proceedings of the IEEE Conference on Computer Vision and Pattern Recognition (CVPR), 2012, 2288-2295.

    Examples
    --------
    >>> from mahala.batch import KISSME
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> round(KISSME().fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2)
    0.97
    """

    _learns_from = Pairs

    shrinkage: Share = 0.01

    def _learn(self, data: LabelledRows | Pairs, run: Run) -> str:
        Z, factors = standardised(data.X.astype(np.float64))
        W, ratios = Differences.of(data, Z, float(self.shrinkage)).directions()
        W = W * factors
        values, vectors = np.linalg.eigh(W.T @ ((1.0 - 1.0 / ratios)[:, None] * W))
        positive = values > rounding(values)
        if not positive.any():
            raise ValueError(NO_DIRECTION)
        L = np.sqrt(values[positive])[::-1, None] * vectors.T[positive][::-1]
        run.step(float(np.square(values[~positive]).sum()), {"L": L})
        return "converged"

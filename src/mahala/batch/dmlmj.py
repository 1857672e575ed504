"""DMLMJ: distance metric learning by maximising the Jeffrey divergence (Nguyen, Morell, De Baets, 2017)."""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.differences import Differences
from mahala.batch.run import Run, check_n_components
from mahala.batch.whitening import divided_by_largest, mean_square, standardised
from mahala.comparisons.pairs import neighbor_pairs
from mahala.engine.neighbors import class_neighbors
from mahala.learner import LabelledRows
from mahala.support.parameters import Count, Share


@dataclass(eq=False, repr=False)
class DMLMJ(BatchLearner):
    r"""Metric learning by the Jeffrey divergence: tell near rows of other classes from those of one's own.

    A is the covariance of the differences between rows and their k nearest rows of the same class, and B that for the
    nearest rows of other classes. L maximises the Jeffrey divergence of the two normal distributions of L(x - x'),
    which is ½ Σ (λ + 1/λ - 2) over the generalised eigenvalues λ of B and A. Features should be scaled.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of directions, those of the largest λ + 1/λ; None for all in which such rows differ.
    n_neighbors : int, default=5
        The k of both kinds of neighbours; the number of other rows in a class that has fewer.
    embedding : "weighted" or "plain", default="weighted"
        Length of the directions w, which does not change the divergence: wᵀA w = 1 if they are plain, and times √λ.
        With all directions, M = A⁻¹ if they are plain, and else A⁻¹ B A⁻¹.
    shrinkage : float, default=0.01
        Share s, from 0 to 1, of the shrinkage C ← (1 - s) C + s (tr C / r) I of A and B, with features scaled to
        variance one; r is the number of directions in which such rows differ. Other directions have weight zero.

    Attributes
    ----------
    metric_ : MahalanobisMetric, the learned metric
    objective_ : float, minus the divergence that was reached, after shrinkage

    References
    ----------
    B. Nguyen, C. Morell, B. De Baets: Supervised distance metric learning through maximization of the Jeffrey
    divergence. Pattern Recognition 64, 2017, 215-225.

    Examples
    --------
    >>> from mahala.batch import DMLMJ
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> round(DMLMJ().fit(scale(X)[::2], y[::2]).score(scale(X)[1::2], y[1::2]), 2)
    0.99
    """

    _takes_chunks = False
    _test_settings = ({}, {"n_components": 2, "embedding": "plain"})

    n_components: Count | None = None
    _: KW_ONLY
    n_neighbors: Count = 5
    embedding: Literal["weighted", "plain"] = "weighted"
    shrinkage: Share = 0.01

    def _learn(self, data: LabelledRows, run: Run) -> str:
        check_n_components(self.n_components, data.X.shape[1], "the number of features")
        X = data.X.astype(np.float64)
        Z, factors = standardised(X)
        near = class_neighbors(divided_by_largest(X)[0], data.labels, self.n_neighbors, self.n_neighbors)
        similar, dissimilar = (mean_square(Z, *neighbor_pairs(rows)) for rows in near)
        W, ratios = Differences.shrunk(similar, dissimilar, float(self.shrinkage)).directions()
        divergences = 0.5 * (ratios + 1.0 / ratios) - 1.0
        largest = np.argsort(-divergences, kind="stable")[: self.n_components]
        L = W[largest] * factors
        if self.embedding == "weighted":
            L *= np.sqrt(ratios[largest])[:, None]
        run.step(-float(divergences[largest].sum()), {"L": L})
        return "converged"

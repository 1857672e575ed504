"""GMML: geometric mean metric learning (Zadeh, Hosseini, Sra, 2016)."""

import math
from dataclasses import KW_ONLY, dataclass

import numpy as np

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.differences import Differences, rounding
from mahala.batch.run import Run
from mahala.batch.whitening import centred
from mahala.comparisons import Pairs
from mahala.learner import LabelledRows
from mahala.support.parameters import Share


@dataclass(eq=False, repr=False)
class GMML(BatchLearner):
    r"""Geometric mean metric learning: a point between what brings similar pairs near and dissimilar ones apart.

    With A the mean of (x - x')(x - x')ᵀ over similar pairs and B that over dissimilar ones, M = A⁻¹ ♯_t B =
    A^(-1/2) (A^(1/2) B A^(1/2))^t A^(-1/2) minimises (1 - t) δ²(M, A⁻¹) + t δ²(M, B), δ being the Riemannian distance
    of positive definite matrices. For t = 1/2 it also minimises tr(M A) + tr(M⁻¹ B). Features should be scaled.

    Parameters
    ----------
    t : float, default=0.25
        Point on the geodesic from A⁻¹, at 0, to B, at 1; the midpoint, 0.5, is the solution of the paper.
    shrinkage : float, default=0.01
        Share s, from 0 to 1, of the shrinkage C ← (1 - s) C + s (tr C / r) I of A and B; r is the number of directions
        in which pairs differ. Other directions have weight zero.

    Attributes
    ----------
    metric_ : MahalanobisMetric, the learned metric
    objective_ : float, the weighted sum of squared Riemannian distances above

    References
    ----------
    P. H. Zadeh, R. Hosseini, S. Sra: Geometric mean metric learning. Proceedings of the 33rd International Conference
    on Machine Learning (ICML), 2016, 2464-2471.

    Examples
    --------
    >>> from mahala.batch import GMML
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> round(GMML().fit(scale(X)[::2], y[::2]).score(scale(X)[1::2], y[1::2]), 2)
    0.99
    """

    _learns_from = Pairs
    _test_settings = ({}, {"t": 0.5, "shrinkage": 0.0})

    t: Share = 0.25
    _: KW_ONLY
    shrinkage: Share = 0.01

    def _learn(self, data: LabelledRows | Pairs, run: Run) -> str:
        Z, unit = centred(data.X.astype(np.float64))
        pairs = Differences.of(data, Z, float(self.shrinkage))
        variances, axes = np.linalg.eigh(pairs.similar)
        roots = np.sqrt(np.maximum(variances, rounding(variances)))[:, None]
        values, rotation = np.linalg.eigh(roots * (axes.T @ pairs.dissimilar @ axes) * roots.T)
        values = np.maximum(values, rounding(values))
        t = float(self.t)
        L = values[:, None] ** (t / 2.0) * (rotation.T @ (axes.T / roots)) @ pairs.axes
        logarithms = np.log(values) + 4.0 * math.log(unit)  # A and B are of rows divided by `unit`
        run.step(t * (1.0 - t) * float(np.square(logarithms).sum()), {"L": L * unit ** (2.0 * t - 1.0)})
        return "converged"

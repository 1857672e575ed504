"""MCML: metric learning by collapsing classes (Globerson, Roweis, 2005)."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.descent import Init, descend, first_components
from mahala.batch.run import IterationParams, Run
from mahala.batch.triplets import rows_in_shared_classes
from mahala.batch.whitening import centred
from mahala.learner import LabelledRows
from mahala.support.arrays import FloatArray, IndexArray, RealArray, row_blocks
from mahala.support.parameters import Count, NonNegative, Seed
from mahala.support.tags import Labels, similar_to


@dataclass(eq=False, repr=False, kw_only=True)
class MCML(IterationParams, BatchLearner):
    r"""Maximally collapsing metric learning: all rows of a class at one point, far from other classes.

    Row i chooses row j ≠ i with probability p_ij ∝ exp(-d_M(x_i, x_j)), d_M being a squared distance. MCML minimises
    the Kullback-Leibler divergence of p_i from the choice of each other row of the class of i with equal probability,
    summed over rows. This is convex in M = LᵀL, and is minimised over a square L by L-BFGS. Features should be scaled.

    Parameters
    ----------
    init : "auto", "identity", "pca", "lda", "random" or MahalanobisMetric, default="auto"
        The first L, in the unit in which features have a mean variance of 1; "auto" is "identity".
    max_iter, tol, warm_start, callback, verbose, random_state : see :class:`mahala.NCA`

    Attributes
    ----------
    metric_, components_, objective_, objectives_, n_iter_, stop_reason_ : see :class:`mahala.NCA`

    References
    ----------
    A. Globerson, S. Roweis: Metric learning by collapsing classes. Advances in Neural Information Processing Systems 18
    (NIPS), 2005, 451-458.

    Examples
    --------
    >>> from mahala.batch import MCML
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> round(MCML().fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2)
    0.97
    """

    _takes_chunks = False
    _test_settings = ({"max_iter": 10},)

    init: Init = "auto"
    max_iter: Count = 100
    tol: NonNegative = 1e-5
    random_state: Seed = None

    def _learn(self, data: LabelledRows, run: Run) -> str:
        X, unit = centred(data.X.astype(np.float64))
        rows = rows_in_shared_classes(data.labels)

        def objective(L: RealArray) -> tuple[float, RealArray]:
            divergence, pull = _divergence(X @ L.T, data.labels, rows)
            return divergence, 2.0 * pull.T @ X

        start = first_components(self.init, None, X, None, run, unit)
        return descend(objective, start, run, to_model=lambda L: {"L": L / unit})


def _divergence(Z: FloatArray, labels: Labels, rows: IndexArray) -> tuple[float, FloatArray]:
    """Return the sum of the divergences of some rows, and its pull on all rows, half of its gradient."""
    divergence, pull = 0.0, np.zeros_like(Z)
    norms = np.square(Z).sum(axis=1)
    for block in row_blocks(len(rows), 4 * len(Z)):
        chosen = rows[block]
        itself = np.arange(len(chosen)), chosen
        squared = norms[chosen, None] + norms - 2.0 * Z[chosen] @ Z.T
        similar = similar_to(labels, chosen)
        squared[itself], similar[itself] = np.inf, False
        n_similar = similar.sum(axis=1, keepdims=True)
        logarithms = logsumexp(-squared, axis=1, keepdims=True)
        means = np.where(similar, squared, 0.0).sum(axis=1, keepdims=True) / n_similar
        divergence += float((means + logarithms - np.log(n_similar)).sum())
        weights = similar / n_similar - np.exp(-squared - logarithms)  # whose sum is zero in each row
        pull[chosen] -= weights @ Z
        pull += weights.sum(axis=0)[:, None] * Z - weights.T @ Z[chosen]
    return divergence, pull

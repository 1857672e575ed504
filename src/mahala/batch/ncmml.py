"""NCMML and NCMC: metric learning for the nearest class mean, or the nearest of several (Mensink et al., 2013)."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
from scipy.special import logsumexp

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.descent import Init, descend, first_components
from mahala.batch.run import IterationParams, Run
from mahala.batch.whitening import centred
from mahala.engine.moments import class_means
from mahala.learner import LabelledRows
from mahala.support.arrays import BoolArray, FloatArray, IndexArray, RealArray
from mahala.support.parameters import Count, NonNegative, Seed


@dataclass(eq=False, repr=False)
class NCMML(IterationParams, BatchLearner):
    r"""Nearest class mean metric learning: rows near the mean of their class, or near one of its centroids.

    A row x is near centroid μ_j with probability p_j ∝ exp(-½ ‖L(x - μ_j)‖²). NCMML minimises the sum over rows of
    -log Σ p_j, the sum over the centroids of the class of the row, over the linear map L by L-BFGS. The centroid of a
    class is its mean, or those that k-means finds (NCMC). Features should be scaled.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of rows of L; None for the number of features.
    n_centroids : int, default=1
        Number of centroids of each class; the number of its different rows if that is smaller.
    init, max_iter, tol, warm_start, callback, verbose, random_state : see :class:`mahala.NCA`

    Attributes
    ----------
    metric_, components_, objective_, objectives_, n_iter_, stop_reason_ : see :class:`mahala.NCA`

    References
    ----------
    T. Mensink, J. Verbeek, F. Perronnin, G. Csurka: Distance-based image classification: generalizing to new classes at
    near-zero cost. IEEE Transactions on Pattern Analysis and Machine Intelligence 35, 2013, 2624-2637.

    Examples
    --------
    >>> from mahala.batch import NCMML
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> round(NCMML(2).fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2)
    0.97
    """

    _takes_chunks = False
    _test_settings = ({"max_iter": 10, "n_components": 2}, {"max_iter": 10, "n_centroids": 2})

    n_components: Count | None = None
    _: KW_ONLY
    n_centroids: Count = 1
    init: Init = "auto"
    max_iter: Count = 100
    tol: NonNegative = 1e-5
    random_state: Seed = None

    def _learn(self, data: LabelledRows, run: Run) -> str:
        X, unit = centred(data.X.astype(np.float64))
        centroids, of_class = _centroids(X, data.codes, self.n_centroids, self._seed)
        own = data.codes[:, None] == of_class

        def objective(L: RealArray) -> tuple[float, RealArray]:
            return _loss(L, X, centroids, own)

        start = first_components(self.init, self.n_components, X, data.codes, run, unit)
        return descend(objective, start, run, to_model=lambda L: {"L": L / unit})


def _centroids(X: FloatArray, codes: IndexArray, n: int, seed: int) -> tuple[FloatArray, IndexArray]:
    """Return the centroids of the classes, and the class of each."""
    if n == 1:
        return class_means(X, codes), np.arange(codes.max() + 1)
    from sklearn.cluster import KMeans  # which takes long to import

    members = [X[codes == code] for code in range(codes.max() + 1)]
    counts = [min(n, len(np.unique(rows, axis=0))) for rows in members]
    found = [
        KMeans(k, n_init=4, random_state=seed).fit(rows).cluster_centers_
        for k, rows in zip(counts, members, strict=True)
    ]
    return np.concatenate(found), np.repeat(np.arange(len(members)), counts)


def _loss(L: RealArray, X: FloatArray, centroids: FloatArray, own: BoolArray) -> tuple[float, FloatArray]:
    """Return the objective and its gradient."""
    Z, means = X @ L.T, centroids @ L.T
    # Less ½ ‖Lx‖², which all probabilities of a row share.
    scores = Z @ means.T - 0.5 * np.square(means).sum(axis=1)
    of_class = np.where(own, scores, -np.inf)
    all_scores, own_scores = (logsumexp(part, axis=1, keepdims=True) for part in (scores, of_class))
    weights = np.exp(of_class - own_scores) - np.exp(scores - all_scores)
    pull = weights.T @ X  # the sums of weights over a row's centroids are zero
    gradient = (weights.sum(axis=0)[:, None] * means).T @ centroids - means.T @ pull - (weights.T @ Z).T @ centroids
    return float((all_scores - own_scores).sum()), gradient

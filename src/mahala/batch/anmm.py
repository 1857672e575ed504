"""ANMM: average neighbourhood margin maximisation (Wang, Zhang, 2007)."""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.differences import Differences, rounding
from mahala.batch.run import Run, check_n_components
from mahala.batch.whitening import divided_by_largest, mean_square
from mahala.comparisons.pairs import neighbor_pairs
from mahala.engine.neighbors import class_neighbors
from mahala.learner import LabelledRows
from mahala.support.arrays import FloatArray, IndexArray
from mahala.support.parameters import Count


@dataclass(eq=False, repr=False)
class ANMM(BatchLearner):
    r"""Average neighbourhood margin maximisation: directions in which near rows of other classes are farthest.

    The rows of L are orthonormal and maximise the sum over rows of a margin: the mean squared distance to the k nearest
    rows of other classes, less that to the k nearest rows of the same class, both along L. They are the eigenvectors of
    the largest eigenvalues of B - A, the scatters of these differences. Features should be scaled.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of directions; None for all with a positive margin, and at least
        one. There are at most as many as directions in which these rows differ.
    n_neighbors : int, default=10
        The k of both kinds of neighbours; the number of other rows in a class that has fewer.

    Attributes
    ----------
    objective_ : float, minus the sum of the margins

    References
    ----------
    F. Wang, C. Zhang: Feature extraction by maximizing the average neighborhood margin. Proceedings of the IEEE
    Conference on Computer Vision and Pattern Recognition (CVPR), 2007, 1-8.

    Examples
    --------
    >>> from mahala.batch import ANMM
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> round(ANMM().fit(scale(X)[::2], y[::2]).score(scale(X)[1::2], y[1::2]), 2)
    0.94
    """

    _takes_chunks = False
    _test_settings = ({"n_components": 2},)

    n_components: Count | None = None
    _: KW_ONLY
    n_neighbors: Count = 10

    def _learn(self, data: LabelledRows, run: Run) -> str:
        check_n_components(self.n_components, data.X.shape[1], "the number of features")
        X, unit = divided_by_largest(data.X.astype(np.float64))
        near = class_neighbors(X, data.labels, self.n_neighbors, self.n_neighbors)
        similar, other = (_scatter(X, *neighbor_pairs(rows)) for rows in near)
        pairs = Differences.shrunk(similar, other, 0.0)  # only along directions in which these rows differ
        margins, axes = np.linalg.eigh(pairs.dissimilar - pairs.similar)
        m = self.n_components or max(1, int((margins > rounding(margins)).sum()))
        run.step(-float(margins[-m:].sum()) * unit**2, {"L": axes.T[: -m - 1 : -1] @ pairs.axes})
        return "converged"


def _scatter(X: FloatArray, rows: IndexArray, neighbors: IndexArray) -> FloatArray:
    """Return Σ v vᵀ over rows, the mean over their neighbours, with v the differences to these."""
    return len(rows) * mean_square(X, rows, neighbors, 1.0 / np.bincount(rows)[rows])

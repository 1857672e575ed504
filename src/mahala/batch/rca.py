"""RCA: relevant component analysis (Bar-Hillel, Hertz, Shental, Weinshall, 2005)."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from mahala.batch.batch_learner import BatchLearner, Given
from mahala.batch.covariance import covariances, whitening
from mahala.batch.run import Model, Run
from mahala.comparisons import Pairs, Triplets
from mahala.support.params import is_count, is_number


class RCA(BatchLearner):
    r"""The metric under which rows known to be of one kind scatter alike in all directions.

    With C the covariance of rows around the mean of their chunklet and T that around the mean of all rows, RCA is the
    minimum over linear maps L of

        tr(L C Lᵀ) - log |L T Lᵀ|,

    squared distances within chunklets against what L tells about the data (twice the mutual information, if these are
    Gaussian). It has a closed form: M = LᵀL = C⁻¹; with fewer components than features, the directions in which T is
    largest relative to C, each scaled to L C Lᵀ = I.

    Chunklets are the classes or, from pairs, the rows that similar pairs connect; dissimilar pairs say nothing here. A
    row on its own counts in T alone. M does not depend on the units of the features.

    C may be singular: with features in units of their standard deviation, its eigenvalues below `regularization` times
    the largest are raised to that, and directions in which all rows are the same have weight zero.

    Reference: A. Bar-Hillel, T. Hertz, N. Shental, D. Weinshall, Learning a Mahalanobis metric from equivalence
    constraints, JMLR 6, 2005.

    Parameters
    ----------
    n_components : int or None
        Directions kept; None keeps all in which the rows differ. T is larger than C in c - 1 directions, c the number
        of chunklets; the criterion is the same for all others.
    regularization : float
        The least eigenvalue of C, as a share of the largest. M = C⁻¹ where C is better conditioned than that. Where
        features are nearly dependent, as in pictures, a larger share finds better neighbours.

    Attributes
    ----------
    metric_ : Metric, what was learned
    objective_ : float, the criterion above, of the C that was inverted
    components_, n_features_in_, feature_names_in_, stop_reason_

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mahala import RCA
    >>> X, y = load_wine(return_X_y=True)
    >>> rca = RCA().fit(X[::2], y[::2])
    >>> rca.score(X[1::2], y[1::2]) > 0.95
    True
    """

    _learns_from = Pairs

    def __init__(self, n_components: int | None = None, regularization: float = 1e-6) -> None:
        self.n_components = n_components
        self.regularization = regularization

    def _check_params(self) -> None:
        super()._check_params()
        if self.n_components is not None and not is_count(self.n_components):
            raise ValueError(f"n_components must be None or an integer of at least 1, got {self.n_components!r}")
        if not (is_number(self.regularization) and 0.0 <= self.regularization <= 1.0):
            raise ValueError(f"regularization must be a share from 0 to 1, got {self.regularization!r}")

    def _learn(self, given: Given, run: Run) -> tuple[Model, str]:
        d = given.X.shape[1]
        if self.n_components is not None and self.n_components > d:
            raise ValueError(f"n_components must be at most {d}, the number of features, got {self.n_components}")
        assert not isinstance(given, Triplets)
        chunklets = _connected(given) if isinstance(given, Pairs) else given.codes
        if np.bincount(chunklets).max() < 2:
            source = "similar pairs connect" if isinstance(given, Pairs) else "y puts into one class"
            raise ValueError(f"RCA needs rows known to be of one kind, but there are no two rows that {source}")
        if np.array_equal(given.X.min(axis=0), given.X.max(axis=0)):
            raise ValueError("X does not vary: its rows are all the same")
        scatter = covariances(given.X, chunklets)
        L, variances = whitening(scatter.within, scatter.total, float(self.regularization))
        m = len(L) if self.n_components is None else min(int(self.n_components), len(L))
        model = {"L": scatter.in_features(L[:m])}
        run.step(m - float(np.log(variances[:m]).sum()), model)
        return model, "converged"


def _connected(pairs: Pairs) -> NDArray[np.intp]:
    """The number of the group of rows, connected by similar pairs, in which each row is."""
    n = pairs.X.shape[0]
    left, right = pairs.left[pairs.similar], pairs.right[pairs.similar]
    graph = sp.coo_array((np.ones(len(left), dtype=np.int8), (left, right)), shape=(n, n))
    return connected_components(graph, directed=False)[1].astype(np.intp)

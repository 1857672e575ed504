"""RCA: relevant component analysis (Bar-Hillel, Hertz, Shental, Weinshall, 2005)."""

from dataclasses import KW_ONLY, dataclass
from itertools import pairwise

import numpy as np

from mahala.batch.batch_learner import WeightedLearner, copies_of_tags
from mahala.batch.run import Run, check_n_components
from mahala.batch.whitening import check_varies, covariances, whiten_within
from mahala.comparisons import Pairs
from mahala.learner import LabelledRows
from mahala.support.arrays import FloatArray
from mahala.support.lazily import csgraph, sp
from mahala.support.parameters import Count, Share

# Relative difference of variances below which rounding would choose the directions: it turns them by 1e-16 over the
# difference. The floor of the eigenvalues moves equal variances apart by about 1e-6.
TIED = 1e-5


@dataclass(eq=False, repr=False)
class RCA(WeightedLearner):
    r"""Relevant component analysis: whiten the rows within chunklets, which are groups of rows of one kind.

    With C the covariance of rows around the mean of their chunklet and T that around the mean of all rows, RCA
    minimises tr(L C Lᵀ) - log |L T Lᵀ| over linear maps L: M = LᵀL = C⁻¹ or, with fewer components than features, the
    directions in which T is largest relative to C, scaled to L C Lᵀ = I. Chunklets are the classes or, for pairs, the
    rows connected by similar pairs.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of directions; None for all in which the rows differ. T is larger than C in c - 1 directions for c
        chunklets; the criterion is the same for all others.
    regularization : float, default=1e-6
        Eigenvalues of C below this share of the largest, from 0 to 1, are raised to it; M = C⁻¹ if there are none.
        Features are divided by their standard deviation first.
        If features are nearly dependent, as in images, a larger share finds better neighbours.

    Attributes
    ----------
    metric_ : MahalanobisMetric, the learned metric
    objective_ : float, the criterion above, for the C that was inverted

    References
    ----------
    A. Bar-Hillel, T. Hertz, N. Shental, D. Weinshall: Learning a Mahalanobis metric from equivalence constraints.
    Journal of Machine Learning Research 6, 2005, 937-965.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> round(RCA().fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2)
    0.97
    """

    _learns_from = Pairs
    _test_settings = ({"n_components": 2},)

    n_components: Count | None = None
    _: KW_ONLY
    regularization: Share = 1e-6

    def _learn(self, data: LabelledRows | Pairs, run: Run) -> str:
        check_n_components(self.n_components, data.X.shape[1], "the number of features")
        if isinstance(data, Pairs):  # the connected components of the graph of similar pairs
            edges = data.left[data.similar], data.right[data.similar]
            graph = sp.coo_array((np.ones(len(edges[0]), dtype=np.int8), edges), shape=(len(data.X), len(data.X)))
            chunklets = csgraph.connected_components(graph, directed=False)[1].astype(np.intp)
            weights, source = None, "similar pairs connect"
        else:
            data = copies_of_tags(data, least_rows=2)
            chunklets, weights, source = data.codes, data.weights, "y puts into one class"
        if np.bincount(chunklets, minlength=1).max() < 2:
            raise ValueError(f"RCA needs two rows of one kind, but there are none that {source}")
        check_varies(data.X)
        if weights is not None and np.bincount(chunklets, weights).max() <= 1.0:
            advice = "so each counts as a single row; multiply all weights by a number"
            raise ValueError(f"sample_weight counts rows, but no class has a total above 1, {advice}")
        scatter = covariances(data.X, chunklets, weights)
        L, variances = whiten_within(scatter.within, scatter.total, float(self.regularization))
        L = _fixed_rotation(L, variances)
        m = len(L) if self.n_components is None else min(int(self.n_components), len(L))
        run.step(m - float(np.log(variances[:m]).sum()), {"L": scatter.in_features(L[:m])})
        return "converged"


def _fixed_rotation(L: FloatArray, variances: FloatArray) -> FloatArray:
    """Return L with one choice of what the criterion leaves open, and rounding would choose.

    Directions of equal variance form a triangle with a positive diagonal; of others the largest entry is positive.
    """
    result, starts = L.copy(), np.flatnonzero(np.r_[True, variances[1:] < variances[:-1] * (1.0 - TIED)])
    for start, stop in pairwise([*starts, len(L)]):
        if stop - start > 1:
            triangle = np.linalg.qr(L[start:stop])[1]
            result[start:stop] = np.copysign(1.0, triangle.diagonal())[:, None] * triangle
        else:
            result[start] *= np.sign(L[start, np.abs(L[start]).argmax()])
    return result

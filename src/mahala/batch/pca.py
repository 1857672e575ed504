"""PCA: principal component analysis (Pearson, 1901)."""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.run import Run, check_n_components, in_precision
from mahala.batch.whitening import divided_by_largest
from mahala.engine.moments import principal_directions
from mahala.learner import LabelledRows
from mahala.support.parameters import Count, Fraction, Seed


@dataclass(eq=False, repr=False)
class PCA(BatchLearner):
    """Principal component analysis as a metric: M = LᵀL, where L maximises tr(L Σ Lᵀ) under L Lᵀ = I.

    Σ is the covariance of the rows; labels are not needed. This is a wrapper of :class:`sklearn.decomposition.PCA`.

    Parameters
    ----------
    n_components : int, float or None, default=None
        Number of directions; between 0 and 1, the share of the variance that they must explain; None for all of them.
    whiten : bool, default=False
        Whether distances are in units of the standard deviation of each direction; those without variance are left out.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the first vector of the iterative solver, which finds few of many directions; it changes rounding only.

    Attributes
    ----------
    objective_ : float
        The variance that the directions leave unexplained, which PCA minimises: the mean squared distance of the rows
        to their projections, before whitening and with n - 1 as the divisor.

    References
    ----------
    K. Pearson: On lines and planes of closest fit to systems of points in space. Philosophical Magazine 2, 1901,
    559-572.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> round(PCA(whiten=True).fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2)  # 0.66 without whitening
    0.83
    """

    _needs_labels = False
    _test_settings = ({"n_components": 2, "whiten": True},)

    n_components: Count | Fraction | None = None
    _: KW_ONLY
    whiten: bool = False
    random_state: Seed = None

    def _learn(self, data: LabelledRows, run: Run) -> str:
        X, m = data.X, self.n_components
        check_n_components(m, min(X.shape), "the smaller of the numbers of rows and features")
        shifted, largest = divided_by_largest(X)  # so that squares neither overflow nor underflow
        if largest == 0.0:
            raise ValueError("X must have rows that differ, but all its rows are equal")
        L, variances, total = principal_directions(shifted, m, int(self._rng.integers(2**31)))
        error = max(total - float(variances.sum(dtype=np.float64)), 0.0)
        if self.whiten:
            varying = variances > max(X.shape) * np.finfo(X.dtype).eps * variances[0]  # smaller ones are rounding
            L = L[varying] / np.sqrt(variances[varying])[:, None].astype(np.float64) / largest
        run.step(error * largest**2, {"L": in_precision(L, X.dtype)})
        return "converged"

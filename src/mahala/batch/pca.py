"""PCA: the directions of most variance."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.decomposition import PCA as Decomposition

from mahala.batch.batch_learner import BatchLearner, Given, Rows
from mahala.batch.run import Model, Run
from mahala.support.params import is_count, is_number
from mahala.support.validation import check_flag


class PCA(BatchLearner):
    """Principal component analysis as a metric: M = LᵀL, where L maximises tr(L Σ Lᵀ) under L Lᵀ = I.

    Σ is the covariance of the rows; labels are not needed. It wraps :class:`sklearn.decomposition.PCA`. Whitened, each
    direction is divided by its standard deviation, and directions without variance are left out.

    K. Pearson, "On lines and planes of closest fit to systems of points in space", Philosophical Magazine 2, 1901.

    Parameters
    ----------
    n_components : number of directions; between 0 and 1 the share of the variance that they are to explain; None for
        as many as there are, the lesser of rows and features
    whiten : whether distances are in units of the standard deviation of each direction
    random_state : for the randomised solver, which scikit-learn takes where few of many directions are wanted

    Attributes
    ----------
    objective_ : sum of the variances along the directions, before whitening

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> pca = PCA(n_components=2).fit(X)
    >>> pca.transform(X).shape, round(pca.objective_), round(pca.score(X, y), 2)
    ((178, 2), 99374, 0.7)
    >>> round(PCA(n_components=0.999999, whiten=True).fit(X).score(X, y), 2)
    0.91
    """

    _needs_labels = False

    def __init__(self, n_components: int | float | None = None, whiten: bool = False, random_state: Any = None) -> None:
        self.n_components = n_components
        self.whiten = whiten
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        m: Any = self.n_components
        is_share = is_number(m) and 0.0 < m < 1.0
        if not (m is None or is_count(m) or is_share):
            raise ValueError(
                f"n_components must be None, an integer of at least 1 or a share between 0 and 1, got {m!r}"
            )
        check_flag(self.whiten, "whiten")

    def _learn(self, given: Given, run: Run) -> tuple[Model, str]:
        assert isinstance(given, Rows)
        X, m = given.X, self.n_components
        if is_count(m) and m is not None and m > min(X.shape):
            raise ValueError(f"n_components must be at most {min(X.shape)}, the lesser of rows and features, got {m}")
        shifted = X - X[0]
        largest = max(float(shifted.max()), -float(shifted.min()))
        if largest == 0.0:
            raise ValueError("X does not vary: its rows are all the same")
        shifted /= X.dtype.type(largest)  # in these units no square over- or underflows
        found = Decomposition(m, random_state=int(self._rng.integers(2**31))).fit(shifted)
        L, variances = found.components_, found.explained_variance_
        if self.whiten:
            kept = variances > max(X.shape) * np.finfo(X.dtype).eps * variances[0]  # below, it is rounding
            variances = variances[kept]
            L = L[kept] / np.sqrt(variances)[:, None].astype(np.float64) / largest
            L = L.astype(X.dtype) if np.abs(L).max() < 1e18 else L
        model = {"L": L}
        run.step(float(variances.sum(dtype=np.float64)) * largest**2, model)
        return model, "converged"

"""PCA: principal component analysis (Pearson, 1901)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.decomposition import PCA as Decomposition

from mahala.batch.batch_learner import BatchLearner, TrainingData
from mahala.batch.run import Run
from mahala.batch.whitening import divided_by_largest
from mahala.engine.dask_moments import scatter
from mahala.learner import LabelledRows
from mahala.support.arrays import RealArray
from mahala.support.dask_rows import in_memory
from mahala.support.parameters import Count, Fraction, Seed, is_count
from mahala.support.tensors import is_dask


@dataclass(eq=False, repr=False)
class PCA(BatchLearner):
    """Principal component analysis as a metric: M = LᵀL, where L maximises tr(L Σ Lᵀ) under L Lᵀ = I.

    Σ is the covariance of the rows; labels are not needed. This is a wrapper of :class:`sklearn.decomposition.PCA`.
    With `whiten`, each direction is divided by its standard deviation, and directions without variance are left out.

    K. Pearson, "On lines and planes of closest fit to systems of points in space", Philosophical Magazine 2, 1901.

    Parameters
    ----------
    n_components : int, float or None
        Number of directions; between 0 and 1, the share of the variance that they must explain; None for all of them.
    whiten : bool
        Whether distances are in units of the standard deviation of each direction.
    random_state : int, RandomState, Generator or None
        Seed of the randomised solver, which scikit-learn uses for few of many directions.

    Attributes
    ----------
    objective_ : float
        Sum of the variances along the directions, before whitening.

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
    _learns_on_dask = True

    n_components: Count | Fraction | None = None
    _: KW_ONLY
    whiten: bool = False
    random_state: Seed = None

    def _learn(self, data: TrainingData, run: Run) -> str:
        assert isinstance(data, LabelledRows)
        X, m = data.X, self.n_components
        if is_count(m) and m is not None and m > min(X.shape):
            raise ValueError(
                f"n_components must be at most {min(X.shape)}, the smaller of the numbers of rows and features, got {m}"
            )
        shifted, largest = divided_by_largest(X)  # so that squares neither overflow nor underflow
        if largest == 0.0:
            raise ValueError("X does not vary: its rows are all the same")
        if is_dask(X):
            L, variances = _of_dask(shifted, m)
        else:
            found = Decomposition(m, random_state=int(self._rng.integers(2**31))).fit(shifted)
            L, variances = found.components_, found.explained_variance_
        if self.whiten:
            kept = variances > max(X.shape) * np.finfo(X.dtype).eps * variances[0]  # smaller ones are rounding
            variances = variances[kept]
            L = L[kept] / np.sqrt(variances)[:, None].astype(np.float64) / largest
            L = L.astype(X.dtype) if np.abs(L).max() < 1e18 else L
        run.step(float(variances.sum(dtype=np.float64)) * largest**2, {"L": L})
        return "converged"


def _of_dask(X: Any, n_components: float | None) -> tuple[RealArray, RealArray]:
    """Return the directions and variances that scikit-learn finds for rows in memory, from their covariance."""
    n = len(X)
    mean = in_memory(X.mean(axis=0, dtype=np.float64))
    covariance = scatter(X, np.zeros(n, dtype=np.intp), mean[None], np.ones(1)) / (n - 1)
    ascending, vectors = np.linalg.eigh(covariance)
    variances, L = np.maximum(ascending[::-1], 0.0), vectors[:, ::-1].T
    m = min(X.shape)
    if n_components is not None:
        shares = np.cumsum(variances) / variances.sum()
        enough = int(np.searchsorted(shares, n_components, side="right")) + 1
        m = int(n_components) if is_count(n_components) else min(m, enough)
    signs = np.sign(L[np.arange(len(L)), np.abs(L).argmax(axis=1)])
    return (L * signs[:, None])[:m].astype(X.dtype), variances[:m]

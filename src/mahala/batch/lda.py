"""LDA: linear discriminant analysis (Fisher, 1936)."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np

from mahala.batch.batch_learner import WeightedLearner
from mahala.batch.run import Run, check_n_components
from mahala.batch.whitening import Covariances, constant, covariances, whiten_varying
from mahala.engine.inputs import refuse_chunks
from mahala.engine.moments import class_means
from mahala.support.arrays import FloatArray
from mahala.support.parameters import Count, Share

# Variances within classes, and of the class means along a direction, below this share are rounding.
RANK_TOLERANCE = 1e-8


@dataclass(eq=False, repr=False)
class LDA(WeightedLearner):
    """Fisher's linear discriminant analysis as a metric: M = LᵀL, with L of at most (number of classes - 1) rows.

    L maximises tr((L S_w Lᵀ)⁻¹ L S_b Lᵀ), with S_w the scatter within classes and S_b that of their means. It is scaled
    to unit variance within classes in every direction: L S_w Lᵀ = n I.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of directions, at most the number of classes less one; None for all of them.
    shrinkage : None, "auto" or float, default=None
        Share s, from 0 to 1, of the shrinkage S_w ← (1 - s) S_w + s (tr S_w / d) I, with features scaled to variance
        one; "auto" is the estimate of Ledoit and Wolf.

    Attributes
    ----------
    objective_ : float, minus the criterion that was reached, with S_w after shrinkage

    References
    ----------
    R. A. Fisher: The use of multiple measurements in taxonomic problems. Annals of Eugenics 7, 1936, 179-188.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> round(LDA().fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2)
    1.0
    """

    n_components: Count | None = None
    _: KW_ONLY
    shrinkage: Literal["auto"] | Share | None = None

    def _learn(self, data: Any, run: Run) -> str:
        X, codes, weights = data
        most = min(int(codes.max()), X.shape[1])
        check_n_components(self.n_components, most, "the smaller of the number of classes less one and of features")
        if constant(X).all():
            raise ValueError("the classes of X have the same mean, so no direction separates them")
        if weights is not None:  # only their ratios matter; all above 1, so that every class counts in the covariance
            weights = weights * (2.0 / weights.min())
        counts, sizes = np.bincount(codes), np.bincount(codes, weights).astype(np.float64)
        scatter = covariances(X, codes, weights) if counts.max() > 1 else None
        if scatter is None or np.sqrt(scatter.within.diagonal().max()) <= RANK_TOLERANCE:
            raise ValueError("X does not vary within any class; LDA needs a class with two different rows")
        if np.square(scatter.offsets / np.sqrt(sizes)[:, None]).max() <= RANK_TOLERANCE**2:
            raise ValueError("the classes of X have the same mean, so no direction separates them")
        within = scatter.within * (sizes[sizes > 1.0].sum() / sizes.sum())
        if self.shrinkage is not None:
            s = self.shrinkage
            if isinstance(s, str):
                refuse_chunks(X, "shrinkage must be None or a number")
                if weights is not None:
                    raise ValueError("shrinkage must be a number with sample_weight: 'auto' knows rows of equal weight")
                from sklearn.covariance import ledoit_wolf_shrinkage  # a fifth of the time of a first fit

                Z = (X[:, scatter.varies] - X[:, scatter.varies].mean(axis=0, dtype=np.float64)) / scatter.spread
                Z -= class_means(Z, codes)[codes]
                s = float(ledoit_wolf_shrinkage(Z, assume_centered=True))
            within = (1.0 - s) * within + s * np.trace(within) / len(within) * np.eye(len(within))

        L, between = discriminants(scatter, within)
        m = most if self.n_components is None else int(self.n_components)
        L = L[:m].astype(X.dtype) if np.abs(L[:m]).max() < 1e18 else L[:m]
        run.step(-float(np.square(between[:m]).sum() / sizes.sum()), {"L": L})
        return "converged"


def discriminants(scatter: Covariances, within: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return directions that separate groups, with variance 1 within them, and the spread of the means along them."""
    white = whiten_varying(within, RANK_TOLERANCE)
    _, between, directions = np.linalg.svd(scatter.offsets @ white.T, full_matrices=False)
    kept = between > np.sqrt(RANK_TOLERANCE) * between.max(initial=0.0)
    return scatter.in_features(directions[kept] @ white), between[kept]

"""LDA: linear discriminant analysis (Fisher, 1936)."""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

from mahala.batch.batch_learner import WeightedLearner, copies_of_tags
from mahala.batch.run import Run, check_n_components, in_precision
from mahala.batch.whitening import Covariances, constant, covariances, standardised, whiten_varying
from mahala.engine.inputs import refuse_chunks
from mahala.engine.moments import class_means
from mahala.learner import LabelledRows
from mahala.support.arrays import FloatArray, IndexArray, RealArray
from mahala.support.lazily import linalg
from mahala.support.parameters import Count, Share
from mahala.support.validation import is_chunked

Shrinkage = Literal["auto"] | Share | None

# Variances within classes, and of the class means along a direction, below this share are rounding.
RANK_TOLERANCE = 1e-8
# A larger share of shrinkage gives a covariance full rank.
_SHRUNK = 1e-4

SAME_MEANS = "the classes of X have the same mean, so no direction separates them"
SAME_ROWS = "X does not vary within any class; LDA needs a class with two different rows"


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

    _test_settings = ({"shrinkage": "auto", "n_components": 2},)

    n_components: Count | None = None
    _: KW_ONLY
    shrinkage: Shrinkage = None

    def _learn(self, data: LabelledRows, run: Run) -> str:
        data = copies_of_tags(data)
        X, codes, weights = data.X, data.codes, data.weights
        most = min(int(codes.max()), X.shape[1])
        check_n_components(self.n_components, most, "the smaller of the number of classes less one and of features")
        m = most if self.n_components is None else int(self.n_components)
        L, between, n = class_directions(X, codes, weights, self.shrinkage)
        run.step(-float(np.square(between[:m]).sum() / n), {"L": in_precision(L[:m], X.dtype)})
        return "converged"


def class_directions(
    X: RealArray, codes: IndexArray, weights: FloatArray | None = None, shrinkage: Shrinkage = None
) -> tuple[FloatArray, FloatArray, float]:
    """Return LDA's directions, the best first, the spread of the class means along them, and the sum of the weights.

    Raise ValueError if the classes have the same mean, or if rows of no class differ.
    """
    if constant(X).all():
        raise ValueError(SAME_MEANS)
    if weights is not None:  # only their ratios matter; all above 1, so that every class counts in the covariance
        weights = weights * (2.0 / weights.min())
    # Where no matrix has the size of the features squared.
    if len(X) < X.shape[1] and weights is None and shrinkage is None and not is_chunked(X):
        return _of_few_rows(X, codes)
    counts, sizes = np.bincount(codes), np.bincount(codes, weights).astype(np.float64)
    if counts.max() < 2:
        raise ValueError(SAME_ROWS)
    scatter = covariances(X, codes, weights)
    _check_spreads(np.sqrt(scatter.within.diagonal()), scatter.offsets / np.sqrt(sizes)[:, None])
    within = scatter.within * (sizes[sizes > 1.0].sum() / sizes.sum())
    if shrinkage is not None:
        share = _ledoit_wolf(X, codes, weights, scatter) if isinstance(shrinkage, str) else shrinkage
        within = (1.0 - share) * within + share * np.trace(within) / len(within) * np.eye(len(within))
        if share > _SHRUNK:
            return *_shrunk_discriminants(scatter, within), float(sizes.sum())
    return *discriminants(scatter, within), float(sizes.sum())


def _ledoit_wolf(X: RealArray, codes: IndexArray, weights: FloatArray | None, scatter: Covariances) -> float:
    """Return the shrinkage that Ledoit and Wolf estimate."""
    refuse_chunks(X, "shrinkage must be None or a number")
    if weights is not None:
        raise ValueError(
            "shrinkage must be a number with sample_weight and with tags: 'auto' knows rows of equal weight"
        )
    from sklearn.covariance import ledoit_wolf_shrinkage  # a fifth of the time of a first fit

    Z = (X[:, scatter.varies] - X[:, scatter.varies].mean(axis=0, dtype=np.float64)) / scatter.spread
    Z -= class_means(Z, codes)[codes]
    return float(ledoit_wolf_shrinkage(Z, assume_centered=True))


def _of_few_rows(X: RealArray, codes: IndexArray) -> tuple[FloatArray, FloatArray, float]:
    """Return what `class_directions` does, from the singular values of the rows around the means of their classes."""
    Z, factors = standardised(X.astype(np.float64))
    means, sizes = class_means(Z, codes), np.bincount(codes)
    within = (Z - means[codes]) / np.sqrt(len(Z))
    deviations = np.sqrt(np.square(within).sum(axis=0))
    _check_spreads(deviations, means)
    deviations[deviations <= RANK_TOLERANCE] = np.inf
    _, lengths, axes = np.linalg.svd(within / deviations, full_matrices=False)
    spanned = np.square(lengths) > RANK_TOLERANCE
    white = axes[spanned] / lengths[spanned, None] / deviations
    L, between = _separating(means * np.sqrt(sizes)[:, None], white)
    return L * factors, between, float(len(Z))


def _check_spreads(within: FloatArray, means: FloatArray) -> None:
    """Raise ValueError if the rows do not differ within classes, or the means of the classes do not."""
    if within.max() <= RANK_TOLERANCE:
        raise ValueError(SAME_ROWS)
    if np.abs(means).max() <= RANK_TOLERANCE:
        raise ValueError(SAME_MEANS)


def discriminants(scatter: Covariances, within: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return directions that separate groups, with variance 1 within them, and the spread of the means along them."""
    L, between = _separating(scatter.offsets, whiten_varying(within, RANK_TOLERANCE))
    return scatter.in_features(L), between


def _shrunk_discriminants(scatter: Covariances, within: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return what `discriminants` does for a covariance of full rank, in a tenth of the time."""
    factor = np.linalg.cholesky(within)
    offsets = linalg.solve_triangular(factor, scatter.offsets.T, lower=True)
    directions, between, _ = np.linalg.svd(offsets, full_matrices=False)
    separating = between > np.sqrt(RANK_TOLERANCE) * between.max(initial=0.0)
    L = linalg.solve_triangular(factor, directions[:, separating], lower=True, trans="T").T
    return scatter.in_features(L), between[separating]


def _separating(offsets: FloatArray, white: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the directions that `white` maps to those in which the offsets of the groups are largest, and these."""
    _, between, directions = np.linalg.svd(offsets @ white.T, full_matrices=False)
    separating = between > np.sqrt(RANK_TOLERANCE) * between.max(initial=0.0)
    return directions[separating] @ white, between[separating]

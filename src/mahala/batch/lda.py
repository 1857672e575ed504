"""LDA: the directions that spread the classes apart, in units of the spread within them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf_shrinkage

from mahala.batch.batch_learner import BatchLearner, Given, Rows
from mahala.batch.run import Floats, Model, Run
from mahala.learner import CHUNK_ELEMENTS
from mahala.support.params import is_number
from mahala.support.validation import check_count

# Variances within the classes, and variances of the directions of the classes' means, below this share are rounding.
RANK_TOLERANCE = 1e-8


class LDA(BatchLearner):
    """Fisher's linear discriminant analysis as a metric: M = LᵀL, with L of at most (classes - 1) rows.

    L maximises tr((L S_w Lᵀ)⁻¹ L S_b Lᵀ) and is scaled so that the variance within classes is one in every direction:
    L S_w Lᵀ = n I, where S_w = Σ_i (x_i - μ_{y_i})(x_i - μ_{y_i})ᵀ and S_b = Σ_c n_c (μ_c - μ)(μ_c - μ)ᵀ.

    Directions without any variance within the classes are left out, as scikit-learn's solver "svd" does; of them the
    criterion would be infinite. Shrinkage takes them in. Constant features get the weight 0.

    It works on the d × d scatter within classes, in one pass over blocks of rows: O(n d²) time, O(d²) memory beside X.

    R. A. Fisher, "The use of multiple measurements in taxonomic problems", Annals of Eugenics 7, 1936.

    Parameters
    ----------
    n_components : number of directions, at most the number of classes less one; None for all
    shrinkage : None, "auto" (Ledoit and Wolf's estimate) or the share s from 0 to 1 of
        S_w ← (1 - s) S_w + s (tr S_w / d) I, for features scaled to variance one

    Attributes
    ----------
    objective_ : the criterion that was reached, with S_w as shrunken

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> lda = LDA(n_components=1).fit(X, y)
    >>> lda.transform(X).shape, round(lda.objective_, 2), round(lda.score(X, y), 2)
    ((150, 1), 32.19, 0.98)
    """

    def __init__(self, n_components: int | None = None, shrinkage: float | Literal["auto"] | None = None) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage

    def _check_params(self) -> None:
        super()._check_params()
        if self.n_components is not None:
            check_count(self.n_components, "n_components")
        s: Any = self.shrinkage
        is_share = is_number(s) and 0.0 <= s <= 1.0
        if not (s is None or is_share or (isinstance(s, str) and s == "auto")):
            raise ValueError(f"shrinkage must be None, 'auto' or a number from 0 to 1, got {s!r}")

    def _learn(self, given: Given, run: Run) -> tuple[Model, str]:
        assert isinstance(given, Rows)
        X, codes = given
        most = min(int(codes.max()), X.shape[1])
        if self.n_components is not None and self.n_components > most:
            raise ValueError(
                f"n_components must be at most {most}, the lesser of the number of classes less one and of features, "
                f"got {self.n_components}"
            )
        counts, means, centre, spread = _statistics(X, codes)
        varies = spread > 0.0
        unit = np.where(varies, spread, 1.0)
        offsets = (means - centre) / unit
        if not varies.any() or np.square(offsets).max() <= RANK_TOLERANCE**2:
            raise ValueError("the classes of X have the same mean, so no direction separates them")

        within = _scatter(X, codes, means, unit) / len(X)
        inner = np.sqrt(within.diagonal())
        if inner.max() <= RANK_TOLERANCE:
            raise ValueError("X does not vary within any class; LDA needs a class with two different rows")
        if self.shrinkage is not None:
            s = self.shrinkage
            if isinstance(s, str):
                s = _ledoit_wolf(X[:, varies], codes, means[:, varies], unit[varies])
            within *= 1.0 - s
            within[np.diag_indices_from(within)] += np.where(varies, s * np.square(inner).sum() / varies.sum(), 0.0)
            inner = np.sqrt(within.diagonal())

        # Whiten within the classes: from correlations, so that a feature of little variance is not taken for rounding.
        inner[inner <= RANK_TOLERANCE] = np.inf
        values, vectors = np.linalg.eigh(within / np.outer(inner, inner))
        kept = values > RANK_TOLERANCE
        whitening = (vectors[:, kept] / np.sqrt(values[kept])) / inner[:, None]
        _, between, directions = np.linalg.svd(np.sqrt(counts)[:, None] * (offsets @ whitening), full_matrices=False)
        rank = int((between > np.sqrt(RANK_TOLERANCE) * between[0]).sum())
        m = min(most if self.n_components is None else int(self.n_components), rank)
        L = (whitening @ directions[:m].T).T / unit
        model = {"L": L.astype(X.dtype) if np.abs(L).max() < 1e18 else L}
        run.step(float(np.square(between[:m]).sum()) / len(X), model)
        return model, "converged"


def _statistics(X: Floats, codes: NDArray[np.intp]) -> tuple[Floats, Floats, Floats, Floats]:
    """The classes' sizes and means, the mean of all rows, and the features' standard deviations, in float64.

    The deviation of a feature that is constant is exactly 0.
    """
    counts = np.bincount(codes).astype(np.float64)
    # Sums of differences from a row: exact where a feature is constant, and not spoilt by a large offset.
    origin = X[0].astype(np.float64)
    sums = np.zeros((len(counts), X.shape[1]))
    largest = np.zeros(X.shape[1])
    for rows in _blocks(X):
        shifted = X[rows] - origin
        np.add.at(sums, codes[rows], shifted)
        np.maximum(largest, np.abs(shifted).max(axis=0), out=largest)
    means = sums / counts[:, None]
    centre = sums.sum(axis=0) / len(X)
    # In units of the largest difference no square over- or underflows.
    safe = np.where(largest > 0.0, largest, 1.0)
    squares = np.zeros(X.shape[1])
    for rows in _blocks(X):
        squares += np.square((X[rows] - origin - centre) / safe).sum(axis=0)
    return counts, means + origin, centre + origin, largest * np.sqrt(squares / len(X))


def _scatter(X: Floats, codes: NDArray[np.intp], means: Floats, unit: Floats) -> Floats:
    """Σ of the outer products of rows less their class's mean, features divided by `unit`."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for rows in _blocks(X):
        deviations = (X[rows] - means[codes[rows]]) / unit
        total += deviations.T @ deviations
    return total


def _ledoit_wolf(X: Floats, codes: NDArray[np.intp], means: Floats, unit: Floats) -> float:
    """The share of shrinkage that Ledoit and Wolf estimate from the rows less their class's mean."""
    return float(ledoit_wolf_shrinkage((X - means[codes]) / unit, assume_centered=True))


def _blocks(X: Floats) -> list[slice]:
    step = max(1, CHUNK_ELEMENTS // X.shape[1])
    return [slice(start, start + step) for start in range(0, len(X), step)]

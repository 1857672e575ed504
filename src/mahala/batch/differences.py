"""Covariances of the differences of similar and of dissimilar pairs, from which closed forms learn."""

from typing import NamedTuple, Self

import numpy as np

from mahala.batch.pair_costs import drawn
from mahala.batch.whitening import mean_square
from mahala.comparisons import Pairs
from mahala.engine.moments import class_means, scatter
from mahala.learner import LabelledRows
from mahala.support.arrays import FloatArray, RealArray

_EPS = float(np.finfo(np.float64).eps)

NO_DIRECTION = "dissimilar pairs of rows must differ more than similar ones in some direction, but do so in none"


class Differences(NamedTuple):
    """Covariances of the differences of similar and of dissimilar pairs in r directions, the rows of `axes`.

    The directions span those in which pairs differ. In all others the learned metric has weight zero.
    """

    similar: FloatArray
    dissimilar: FloatArray
    axes: FloatArray

    @classmethod
    def of(cls, data: LabelledRows | Pairs, Z: RealArray, shrinkage: float) -> Self:
        """Return the covariances over all pairs of labelled rows, or over given pairs, with centred rows Z."""
        data = drawn(data, "auto", np.random.default_rng(0))
        if isinstance(data, Pairs):
            assert data.similar is not None, "fit requires labels"
            left, right, similar = data.left, data.right, data.similar
            near = mean_square(Z, left[similar], right[similar])
            return cls.shrunk(near, mean_square(Z, left[~similar], right[~similar]), shrinkage)
        sizes, n = np.bincount(data.codes), len(data.codes)
        means, of_row = class_means(Z, data.codes), sizes[data.codes].astype(np.float64)
        within = scatter(Z, data.codes, means, of_row) / max(float(sizes @ (sizes - 1)) / 2.0, 1.0)
        offsets = means * np.sqrt(sizes)[:, None]
        between = scatter(Z, data.codes, means, n - of_row) + n * offsets.T @ offsets
        return cls.shrunk(within, between / (float(sizes @ (n - sizes)) / 2.0), shrinkage)

    @classmethod
    def shrunk(cls, similar: FloatArray, dissimilar: FloatArray, share: float) -> Self:
        """Return (1 - s) C + s (tr C / r) I of two covariances of features C, in r directions that they span."""
        for kind, covariance in (("similar", similar), ("dissimilar", dissimilar)):
            if not np.trace(covariance) > 0.0:
                raise ValueError(f"pairs of both kinds must have rows that differ, but no {kind} pair has")
        variances, axes = np.linalg.eigh(similar + dissimilar)
        axes = axes[:, variances > rounding(variances)]

        def along_axes(C: FloatArray) -> FloatArray:
            C = axes.T @ C @ axes
            return np.asarray((1.0 - share) * C + share * np.trace(C) / len(C) * np.eye(len(C)))

        return cls(along_axes(similar), along_axes(dissimilar), axes.T)

    def directions(self) -> tuple[FloatArray, FloatArray]:
        """Return W with variance 1 of similar pairs along each of its rows, and variances of dissimilar ones, rising.

        Both covariances are diagonal along these directions.
        """
        variances, axes = np.linalg.eigh(self.similar)
        white = axes.T / np.sqrt(np.maximum(variances, rounding(variances)))[:, None]
        ratios, rotation = np.linalg.eigh(white @ self.dissimilar @ white.T)
        return rotation.T @ white @ self.axes, np.maximum(ratios, rounding(ratios))


def rounding(eigenvalues: FloatArray) -> float:
    """Return the size of eigenvalues that are zero up to rounding."""
    return 4.0 * len(eigenvalues) * _EPS * float(np.abs(eigenvalues).max())

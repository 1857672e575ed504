"""Covariances of rows within their groups and in all, and the linear map that makes them the identity."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Floats = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)


class Covariances(NamedTuple):
    """Of the features that vary, in units of their standard deviation, which are in `spread`."""

    within: Floats
    total: Floats
    varies: NDArray[np.bool_]
    spread: Floats

    def in_features(self, L: Floats) -> Floats:
        """A map from these units, as one from all the features: constant ones have no weight."""
        result = np.zeros((len(L), len(self.varies)))
        result[:, self.varies] = L / self.spread
        return result


def covariances(X: NDArray[Any], groups: NDArray[np.intp]) -> Covariances:
    """Around the mean of each group, over the rows in groups of at least two, and around the mean of all rows.

    The groups are numbered from 0 up without gaps, and one has at least two rows. Sums are in float64.
    """
    width = X.max(axis=0).astype(np.float64) - X.min(axis=0)
    varies = width > 0.0
    order, sizes = np.argsort(groups, kind="stable"), np.bincount(groups)
    Z = X[np.ix_(order, np.flatnonzero(varies))].astype(np.float64)
    Z -= Z.mean(axis=0)
    Z /= width[varies]  # so that squares neither overflow nor vanish
    means = np.add.reduceat(Z, np.cumsum(sizes) - sizes, axis=0) / sizes[:, None]
    Z -= np.repeat(means, sizes, axis=0)
    within = Z.T @ Z
    means *= np.sqrt(sizes)[:, None]
    total = (within + means.T @ means) / len(X)
    deviation = np.sqrt(total.diagonal())
    units = np.outer(deviation, deviation)
    return Covariances(within / sizes[sizes > 1].sum() / units, total / units, varies, deviation * width[varies])


def whitening(within: Floats, total: Floats, floor: float) -> tuple[Floats, Floats]:
    """L, and the variances L total Lᵀ = diag(t) from the largest down, where L within Lᵀ = I.

    Eigenvalues of `within` below `floor` times the largest are raised to that; where all are zero, the largest of
    `total` takes its place. Directions in which `total` is zero, as far as rounding lets tell, are left out.
    """
    variances, directions = eigh(total)
    rounding = 4.0 * len(total) * _EPS
    kept = variances > rounding * variances[-1]
    variances, directions = variances[kept], directions[:, kept]
    inner, rotation = eigh(directions.T @ within @ directions)
    # Equal rows differ from their mean by rounding.
    largest = inner[-1] if inner[-1] > 100.0 * _EPS**2 * variances[-1] else variances[-1]
    roots = np.sqrt(np.maximum(inner, max(floor, rounding) * largest))
    # The singular values keep the digits of small variances, which eigenvalues of a product would not.
    axes, deviations, _ = np.linalg.svd((rotation / roots).T * np.sqrt(variances), full_matrices=False)
    return (axes.T / roots) @ rotation.T @ directions.T, deviations**2

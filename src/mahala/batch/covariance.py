"""Covariances of rows within their groups and overall."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mahala.support.arrays import BoolArray, FloatArray, IndexArray, RealArray
from mahala.support.rows import row_blocks


class Covariances(NamedTuple):
    """Covariances of the features that vary, in units of their standard deviation `spread`.

    Row g of `offsets` is the mean of group g less the mean of all rows, times the square root of the group's size.
    """

    within: FloatArray
    total: FloatArray
    offsets: FloatArray
    varies: BoolArray
    spread: FloatArray

    def in_features(self, L: FloatArray) -> FloatArray:
        """Convert a map from these units to one from all features, with weight 0 for constant ones."""
        result = np.zeros((len(L), len(self.varies)))
        result[:, self.varies] = L / self.spread
        return result


def deviations_within(X: RealArray, groups: IndexArray) -> tuple[FloatArray, FloatArray, IndexArray, FloatArray]:
    """Return the rows' deviations from the mean of their group, the groups' means and sizes, and the features' ranges.

    The rows are sorted by group. Deviations and means, which are relative to the mean of all rows, hold only the
    features that vary, divided by their range.
    """
    width = X.max(axis=0).astype(np.float64) - X.min(axis=0)
    varies = width > 0.0
    order, sizes = np.argsort(groups, kind="stable"), np.bincount(groups)
    Z = X[np.ix_(order, np.flatnonzero(varies))].astype(np.float64)
    Z -= Z.mean(axis=0)
    Z /= width[varies]  # so that squares neither overflow nor underflow
    means = np.add.reduceat(Z, np.cumsum(sizes) - sizes, axis=0) / sizes[:, None]
    for block in row_blocks(*Z.shape):
        Z[block] -= means[groups[order[block]]]
    return Z, means, sizes, width


def covariances(X: RealArray, groups: IndexArray) -> Covariances:
    """Return the covariances around the mean of each group and around the mean of all rows, computed in float64.

    The groups are numbered from 0 without gaps. Groups of one row do not count in the covariance within groups; at
    least one group must have two rows.
    """
    Z, means, sizes, width = deviations_within(X, groups)
    varies, roots = width > 0.0, np.sqrt(sizes)
    within = Z.T @ Z
    means *= roots[:, None]
    total = (within + means.T @ means) / len(X)
    deviation = np.sqrt(total.diagonal())
    units = np.outer(deviation, deviation)
    offsets = (means - np.outer(roots, roots @ means) / len(X)) / deviation
    within = within / sizes[sizes > 1].sum() / units
    return Covariances(within, total / units, offsets, varies, deviation * width[varies])

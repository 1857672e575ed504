"""Covariances of rows within their groups and overall."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mahala.engine.dask_moments import class_means, scatter
from mahala.support.arrays import BoolArray, FloatArray, IndexArray, RealArray, row_blocks
from mahala.support.dask_rows import in_memory
from mahala.support.tensors import is_dask


class Covariances(NamedTuple):
    """Covariances of the features that vary, in units of their standard deviation `spread`.

    Row g of `offsets` is the mean of group g less the mean of all rows, times the square root of the group's size, the
    sum of its weights.
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


def deviations_within(
    X: RealArray, groups: IndexArray, weights: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the rows' deviations from the mean of their group, the groups' means and sizes, and the features' ranges.

    The rows are sorted by group. Deviations and means, which are relative to the mean of all rows, hold only the
    features that vary, divided by their range. The deviations of weighted rows are times the root of their weight, and
    the size of a group is the sum of its weights.
    """
    width = X.max(axis=0).astype(np.float64) - X.min(axis=0)
    varies = width > 0.0
    order, sizes = np.argsort(groups, kind="stable"), np.bincount(groups, weights).astype(np.float64)
    Z = X[np.ix_(order, np.flatnonzero(varies))].astype(np.float64)
    Z -= np.average(Z, axis=0, weights=None if weights is None else weights[order])
    Z /= width[varies]  # so that squares neither overflow nor underflow
    counts = np.bincount(groups)
    weighted = Z if weights is None else Z * weights[order, None]
    means = np.add.reduceat(weighted, np.cumsum(counts) - counts, axis=0) / sizes[:, None]
    for block in row_blocks(*Z.shape):
        Z[block] -= means[groups[order[block]]]
    if weights is not None:
        Z *= np.sqrt(weights[order, None])
    return Z, means, sizes, width


def _scatter_within(X: Any, groups: IndexArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the scatter of the deviations of `deviations_within`, and its other results, for rows of Dask."""
    low, high, mean = in_memory(X.min(axis=0), X.max(axis=0), X.mean(axis=0, dtype=np.float64))
    width, sizes = high.astype(np.float64) - low, np.bincount(groups).astype(np.float64)
    varies = width > 0.0
    Z = (X[:, varies].astype(np.float64) - mean[varies]) / width[varies]
    means = class_means(Z, groups)
    return scatter(Z, groups, means, np.ones(len(sizes))), means, sizes, width


def covariances(X: RealArray, groups: IndexArray, weights: FloatArray | None = None) -> Covariances:
    """Return the covariances around the mean of each group and around the mean of all rows, computed in float64.

    The groups are numbered from 0 without gaps. Groups of one row do not count in the covariance within groups; at
    least one group must have two rows. Rows count with their weights, as if they were repeated so many times: at least
    one group must have a total weight above 1.
    """
    if is_dask(X):
        within, means, sizes, width = _scatter_within(X, groups)
    else:
        Z, means, sizes, width = deviations_within(X, groups, weights)
        within = Z.T @ Z
    varies, roots, n = width > 0.0, np.sqrt(sizes), sizes.sum()
    means *= roots[:, None]
    total = (within + means.T @ means) / n
    deviation = np.sqrt(total.diagonal())
    units = np.outer(deviation, deviation)
    offsets = (means - np.outer(roots, roots @ means) / n) / deviation
    within = within / sizes[sizes > 1.0].sum() / units
    return Covariances(within, total / units, offsets, varies, deviation * width[varies])

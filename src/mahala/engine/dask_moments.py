"""Means and scatters of classes of rows of Dask, each in one pass over the rows. Dask itself is not imported."""

from __future__ import annotations

from typing import Any

import numpy as np

from mahala.compiled.sums.pair_sums import _class_sums
from mahala.support.arrays import FloatArray, IndexArray, RealArray
from mahala.support.dask_rows import sum_over_parts


def class_means(X: Any, codes: IndexArray) -> FloatArray:
    """Return the mean of each class, in float64."""
    sizes = np.bincount(codes)
    sums: FloatArray = sum_over_parts(sums_by_class, X, codes, len(sizes))
    return sums / sizes[:, None]


def scatter(X: Any, codes: IndexArray, means: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Σ w (x - mean)(x - mean)ᵀ over rows, with the mean and the weight w of each row's class, in float64."""
    result: FloatArray = sum_over_parts(_scatter, X, codes, means, weights)
    return result


def sums_by_class(rows: RealArray, codes: IndexArray, n_classes: int) -> FloatArray:
    """Return the sum of the rows of each class, in float64."""
    return _class_sums(rows, codes.astype(np.intp), np.ones(len(rows)), np.zeros((n_classes, rows.shape[1])))


def _scatter(rows: RealArray, codes: IndexArray, means: FloatArray, weights: FloatArray) -> FloatArray:
    left = rows - means[codes]
    result: FloatArray = (left * weights[codes, None]).T @ left
    return result

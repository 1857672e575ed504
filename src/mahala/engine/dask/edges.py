"""Sums over the edges between rows of Dask."""

from __future__ import annotations

from typing import Any

import numpy as np

from mahala.engine.dask.rows import compute, parts, persist_value, summed, task
from mahala.engine.edges import leading_eigenvector
from mahala.support.arrays import FloatArray, IndexArray, RealArray


class DaskEdges:
    """Σ w_e v_e v_eᵀ over edges; see `EdgeGraph`. For a product with directions V the images X V travel."""

    def __init__(self, X: Any, left: IndexArray, right: IndexArray) -> None:
        self._X = X
        self._ends = persist_value((left, right))

    def leading(self, weights: FloatArray) -> FloatArray:
        """Return the unit eigenvector of the largest eigenvalue of the sum with these weights."""
        d, dtype = self._X.shape[1], self._X.dtype
        placed = persist_value(weights.astype(dtype))

        def times(V: RealArray) -> RealArray:
            image, share = task(np.matmul), task(_product_share)
            images = [image(part, V.astype(dtype)) for _, part in parts(self._X)]
            products = [share(images, self._ends, placed, rows, part) for rows, part in parts(self._X)]
            return compute([summed(products)])[0]  # type: ignore[no-any-return]

        direction = leading_eigenvector(lambda: times(np.eye(d)), times, d, dtype).astype(np.float64)
        return np.asarray(direction / np.linalg.norm(direction))


def laplacian_of_rows(Z: RealArray, edges: Any, weights: RealArray, rows: slice) -> RealArray:
    """Return some rows of the product of the Laplacian of weighted edges with Z, a matrix or a vector."""
    result = np.zeros_like(Z[rows])
    for ends, others in (edges, edges[::-1]):
        chosen = np.flatnonzero((ends >= rows.start) & (ends < rows.stop))
        differences = Z[ends[chosen]] - Z[others[chosen]]
        np.add.at(result, ends[chosen] - rows.start, (weights[chosen] * differences.T).T)
    return result


def _product_share(images: list[RealArray], ends: Any, weights: RealArray, rows: slice, part: RealArray) -> RealArray:
    return np.asarray(part.T @ laplacian_of_rows(np.concatenate(images), ends, weights, rows))

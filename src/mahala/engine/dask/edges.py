"""Weighted sums over the edges of a graph whose vertices are rows of Dask."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np

from mahala.engine.dask.rows import compute, parts, persist, summed
from mahala.engine.edges import leading_eigenvector
from mahala.support.arrays import FloatArray, IndexArray, RealArray


class DaskEdges:
    """Σ w_e v_e v_eᵀ over edges; see `EdgeGraph`. For a product with directions V the images X V travel."""

    def __init__(self, engine: Any, X: Any, left: IndexArray, right: IndexArray) -> None:
        self._engine, self._X = engine, engine.place(X)
        (self._ends,) = persist([dask.delayed((left, right), pure=False, traverse=False)])

    def leading(self, weights: FloatArray) -> FloatArray:
        """Return the unit eigenvector of the largest eigenvalue of the sum with these weights."""
        d, dtype = self._X.shape[1], self._X.dtype
        (placed,) = persist([dask.delayed(weights.astype(dtype), pure=False)])

        def times(V: RealArray) -> RealArray:
            return self._times(V.astype(dtype), placed)

        direction = leading_eigenvector(lambda: times(np.eye(d)), times, d, dtype).astype(np.float64)
        return np.asarray(direction / np.linalg.norm(direction))

    def _times(self, V: RealArray, weights: Any) -> RealArray:
        """Return the product of the sum with V."""
        image, share = self._engine.call(_image), self._engine.call(_share)
        images = [image(part, V) for _, part in parts(self._X)]
        products = [share(images, self._ends, weights, rows, part) for rows, part in parts(self._X)]
        result: RealArray = compute([summed(products)])[0]
        return result


def laplacian_of_rows(Z: RealArray, left: IndexArray, right: IndexArray, weights: RealArray, rows: slice) -> RealArray:
    """Return some rows of the product of the Laplacian of weighted edges with Z, a matrix or a vector."""
    result = np.zeros_like(Z[rows])
    columns = (slice(None), *(None for _ in Z.shape[1:]))
    for ends, others in ((left, right), (right, left)):
        edges = np.flatnonzero((ends >= rows.start) & (ends < rows.stop))
        np.add.at(result, ends[edges] - rows.start, weights[edges][columns] * (Z[ends[edges]] - Z[others[edges]]))
    return result


def _image(engine: Any, rows: RealArray, V: RealArray) -> RealArray:
    result: RealArray = rows @ V
    return result


def _share(
    engine: Any,
    images: list[RealArray],
    ends: tuple[IndexArray, IndexArray],
    weights: RealArray,
    rows: slice,
    part: RealArray,
) -> RealArray:
    result: RealArray = part.T @ laplacian_of_rows(np.concatenate(images), *ends, weights, rows)
    return result

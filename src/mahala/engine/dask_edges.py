"""Weighted sums over the edges of a graph whose vertices are rows of Dask."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from mahala.engine.edge_graph import EIGEN_TOL, LANCZOS_VECTORS, LAPACK_DIMENSION, _lapack
from mahala.support.arrays import FloatArray, IndexArray, RealArray
from mahala.support.dask_rows import in_memory, kept, parts, summed


class DaskEdges:
    """Σ w_e v_e v_eᵀ over edges; see `EdgeGraph`. For a product with directions V the images X V travel."""

    def __init__(self, engine: Any, X: Any, left: IndexArray, right: IndexArray) -> None:
        import dask

        self._engine, self._X = engine, engine.place(X)
        (self._ends,) = kept([dask.delayed((left, right), pure=False, traverse=False)])

    def leading(self, weights: FloatArray) -> FloatArray:
        """Return the unit eigenvector of the largest eigenvalue of the sum with these weights."""
        import dask

        d, dtype = self._X.shape[1], self._X.dtype
        (placed,) = kept([dask.delayed(weights.astype(dtype), pure=False)])
        if d <= LAPACK_DIMENSION:
            vectors = _lapack(self._times(np.eye(d, dtype=dtype), placed))
        else:
            operator = LinearOperator(
                (d, d), matvec=lambda v: self._times(v.reshape(d, 1).astype(dtype), placed)[:, 0], dtype=dtype
            )
            start = np.random.default_rng(0).normal(size=d).astype(dtype)
            try:
                _, vectors = eigsh(operator, k=1, which="LA", v0=start, ncv=LANCZOS_VECTORS, tol=EIGEN_TOL[dtype])
            except ArpackError:  # the matrix is zero, or its leading eigenvalues are too close for the Lanczos method
                vectors = _lapack(self._times(np.eye(d, dtype=dtype), placed))
        direction: FloatArray = vectors[:, 0].astype(np.float64)
        return direction / np.linalg.norm(direction)

    def _times(self, V: RealArray, weights: Any) -> RealArray:
        """Return the product of the sum with V."""
        image, share = self._engine.call(_image), self._engine.call(_share)
        images = [image(part, V) for _, part in parts(self._X)]
        products = [share(images, self._ends, weights, rows, part) for rows, part in parts(self._X)]
        result: RealArray = in_memory(summed(products))
        return result


def laplacian_of_rows(Z: RealArray, left: IndexArray, right: IndexArray, weights: RealArray, rows: slice) -> RealArray:
    """Return some rows of the product of the Laplacian of weighted edges with Z."""
    result = np.zeros_like(Z[rows])
    for own, other in ((left, right), (right, left)):
        edges = np.flatnonzero((own >= rows.start) & (own < rows.stop))
        np.add.at(result, own[edges] - rows.start, weights[edges, None] * (Z[own[edges]] - Z[other[edges]]))
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
    own: RealArray,
) -> RealArray:
    result: RealArray = own.T @ laplacian_of_rows(np.concatenate(images), *ends, weights, rows)
    return result

"""Sums over the edges between rows of Dask: their leading direction, and LMNN's objective."""

from __future__ import annotations

from typing import Any

import numpy as np

from mahala.compiled.sums.row_sums import hinges_of_rows_share
from mahala.engine.dask.rows import array_of, compute, parts, persist, persist_value, summed, task
from mahala.engine.edges import leading_eigenvector
from mahala.engine.hinges import squared_distances
from mahala.support.arrays import FloatArray, IndexArray, RealArray

Given = tuple[IndexArray, IndexArray, IndexArray, float]  # the arguments of `Engine.hinges`


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


class DaskHinges:
    """LMNN's objective; see `RowHinges`. It is computed in two stages, because an edge pulls on both of its ends."""

    def __init__(self, given: Given) -> None:
        self._given = persist_value(given)

    def __call__(self, Z: Any, smoothing: float) -> tuple[float, float, Any]:
        images, blocks = [part for _, part in parts(Z)], [rows for rows, _ in parts(Z)]
        share, pull = task(_hinge_share, 3), task(_hinge_pull)
        sums, weights, pulls = zip(*(share(images, self._given, rows, smoothing) for rows in blocks), strict=True)
        whole = [pull(images, self._given, rows, list(weights), part) for rows, part in zip(blocks, pulls, strict=True)]
        total, array = persist([summed(sums), array_of(whole, Z, Z.shape[1])])
        ((smooth, plain),) = compute([total])
        return float(smooth), float(plain), array


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


def _hinge_share(
    images: list[RealArray], given: Given, rows: slice, smoothing: float
) -> tuple[FloatArray, FloatArray, RealArray]:
    """Return the sums of a chunk's anchors, the weights of their edges, and the pull of hinges on the chunk."""
    codes, (anchors, targets), ends, mu = given
    Z = np.concatenate(images)
    squared = squared_distances(Z, anchors, targets)
    radius = np.full(len(Z), -np.inf)
    np.maximum.at(radius, anchors, squared + (1.0 + smoothing))
    own = slice(ends[rows.start], ends[rows.stop])
    weights = np.full(own.stop - own.start, 1.0 - mu)
    smooth, plain, pull = hinges_of_rows_share(Z, codes, rows, ends, squared, radius, mu, smoothing, weights)
    near = (1.0 - mu) * float(squared[own].sum())
    return np.array([near + mu * smooth, near + mu * plain]), weights, pull


def _hinge_pull(
    images: list[RealArray], given: Given, rows: slice, weights: list[FloatArray], pull: RealArray
) -> RealArray:
    """Return the pull of hinges and of all edges on a chunk."""
    all_weights = np.concatenate(weights).astype(pull.dtype)
    return pull + laplacian_of_rows(np.concatenate(images), given[1], all_weights, rows)

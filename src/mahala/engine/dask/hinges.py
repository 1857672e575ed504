"""LMNN's objective on a cluster of Dask: each worker has the hinges of the anchors of its chunk."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np

from mahala.compiled.sums.row_sums import hinges_of_rows_share
from mahala.engine.dask.edges import laplacian_of_rows
from mahala.engine.dask.rows import array_of, compute, parts, persist, summed
from mahala.engine.hinges import squared_distances
from mahala.support.arrays import FloatArray, IndexArray, RealArray

Given = tuple[IndexArray, IndexArray, IndexArray, float]  # the arguments of `Engine.hinges`


class DaskHinges:
    """A function of images Z; see `RowHinges`. It is computed in two stages, because an edge pulls on both ends."""

    def __init__(self, engine: Any, given: Given) -> None:
        self._engine = engine
        (self._given,) = persist([dask.delayed(given, pure=False, traverse=False)])

    def __call__(self, Z: Any, smoothing: float) -> tuple[float, float, Any]:
        images = [part for _, part in parts(Z)]
        share, pull = self._engine.call(_share), self._engine.call(_pull)
        shares = [share(images, self._given, rows, smoothing) for rows, _ in parts(Z)]
        weights = [own[1] for own in shares]
        pulls = [
            pull(images, self._given, rows, weights, own[2]) for (rows, _), own in zip(parts(Z), shares, strict=True)
        ]
        total, array = persist([summed([own[0] for own in shares]), array_of(pulls, Z, Z.shape[1])])
        ((smooth, plain),) = compute([total])
        return float(smooth), float(plain), array


def _share(
    engine: Any, images: list[RealArray], given: Given, rows: slice, smoothing: float
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


def _pull(
    engine: Any, images: list[RealArray], given: Given, rows: slice, weights: list[FloatArray], pull: RealArray
) -> RealArray:
    """Return the pull of hinges and of all edges on a chunk."""
    anchors, targets = given[1]
    all_weights = np.concatenate(weights).astype(pull.dtype)
    return pull + laplacian_of_rows(np.concatenate(images), anchors, targets, all_weights, rows)

"""Weighted sums over triplets, computed on the graph whose edges are the pairs of rows in the triplets.

With A_r = (x_i - x_k)(x_i - x_k)ᵀ - (x_i - x_j)(x_i - x_j)ᵀ for a triplet (i, j, k), Σ u_r A_r = Xᵀ Λ X, where Λ is the
Laplacian of the graph with these edge weights: the sum of u_r over triplets with that far edge (i, k), minus the sum
over triplets with that near edge (i, j).
"""

from __future__ import annotations

import numpy as np

from mahala.comparisons import Triplets
from mahala.compiled.threads import product
from mahala.engine import current_engine
from mahala.support.arrays import FloatArray
from mahala.support.dask_rows import in_memory
from mahala.support.tensors import is_dask


class TripletEdges:
    """The rows of triplets, centred and divided by √scale, and the edges between them.

    `scale` is the mean squared distance between two of the rows, so that no result depends on the units of X.
    """

    def __init__(self, triplets: Triplets) -> None:
        rows, numbers = np.unique(
            np.concatenate([triplets.anchor, triplets.positive, triplets.negative]), return_inverse=True
        )
        engine = current_engine()
        X = triplets.X if is_dask(triplets.X) and len(rows) == len(triplets.X) else triplets.X[rows]
        mean, n = in_memory(X.mean(axis=0, dtype=np.float64)), len(X)
        if is_dask(X):
            X = X - mean.astype(X.dtype)
            self.scale = 2.0 * float(in_memory(np.square(X).sum(dtype=np.float64))) / n or 1.0
            X = engine.place(X / X.dtype.type(np.sqrt(self.scale)))
        else:
            np.subtract(X, mean, out=X, casting="same_kind")
            self.scale = 2.0 * float(np.linalg.norm(X)) ** 2 / n or 1.0
            X /= X.dtype.type(np.sqrt(self.scale))
        self.X = X
        anchor, positive, negative = numbers.reshape(3, -1)
        ends = np.concatenate([anchor, anchor]), np.concatenate([positive, negative])
        codes, edges = np.unique(np.minimum(*ends) * n + np.maximum(*ends), return_inverse=True)
        self.left, self.right = codes // n, codes % n
        self.near, self.far = edges.reshape(2, -1)
        self.n_triplets = len(anchor)

        self._graph = engine.edge_graph(X, self.left, self.right)

    def gains(self, direction: FloatArray) -> FloatArray:
        """Return ⟨A_r, ξξᵀ⟩ of every triplet for a direction ξ."""
        projected = in_memory(product(self.X, direction.astype(self.X.dtype))).astype(np.float64)
        squared = np.square(projected[self.left] - projected[self.right])
        result: FloatArray = squared[self.far] - squared[self.near]
        return result

    def leading_direction(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the leading unit eigenvector ξ of Σ u_r A_r and its gains.

        The eigenvalue is the weighted sum Σ u_r ⟨A_r, ξξᵀ⟩ of the gains.
        """
        m = len(self.left)
        weights = np.bincount(self.far, u, m).astype(np.float64) - np.bincount(self.near, u, m)
        direction = self._graph.leading(weights)
        return direction, self.gains(direction)

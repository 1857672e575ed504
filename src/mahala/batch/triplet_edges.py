"""Weighted sums over triplets, computed on the graph whose edges are the pairs of rows in the triplets.

With A_r = (x_i - x_k)(x_i - x_k)ᵀ - (x_i - x_j)(x_i - x_j)ᵀ for a triplet (i, j, k), Σ u_r A_r = Xᵀ Λ X, where Λ is the
Laplacian of the graph with these edge weights: the sum of u_r over triplets with that far edge (i, k), minus the sum
over triplets with that near edge (i, j).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from mahala.comparisons import Triplets
from mahala.support.arrays import FloatArray, RealArray

# Up to this dimension LAPACK is faster than the Lanczos method.
LAPACK_DIMENSION = 256
# Forming the matrix costs as much as (d + 50·edges/n) / 20 products with a vector without forming it; measured.
EDGE_COST, FORM_COST = 50.0, 1.0 / 20.0
# Assumed number of products of the first run of the Lanczos method.
FIRST_PRODUCTS = 30
LANCZOS_VECTORS = 32
# Residual relative to the eigenvalue at which the eigenvector is as accurate as the products.
EIGEN_TOL = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-10}


class TripletEdges:
    """The rows of triplets, centred and divided by √scale, and the edges between them.

    `scale` is the mean squared distance between two of the rows, so that no result depends on the units of X.
    """

    def __init__(self, triplets: Triplets) -> None:
        rows, numbers = np.unique(
            np.concatenate([triplets.anchor, triplets.positive, triplets.negative]), return_inverse=True
        )
        X: RealArray = triplets.X[rows]
        np.subtract(X, X.mean(axis=0, dtype=np.float64), out=X, casting="same_kind")
        n, d = X.shape
        self.scale = 2.0 * float(np.linalg.norm(X)) ** 2 / n or 1.0
        X /= X.dtype.type(np.sqrt(self.scale))
        self.X = X
        # With fewer rows than features, the relevant directions lie in the span of the rows, which has n dimensions.
        self._basis: RealArray | None = None
        self._coordinates = X
        if n < d:
            self._basis, triangle = np.linalg.qr(X.T)
            self._coordinates = np.ascontiguousarray(triangle.T)
            d = n

        anchor, positive, negative = numbers.reshape(3, -1)
        ends = np.concatenate([anchor, anchor]), np.concatenate([positive, negative])
        codes, edges = np.unique(np.minimum(*ends) * n + np.maximum(*ends), return_inverse=True)
        self.left, self.right = codes // n, codes % n
        self.near, self.far = edges.reshape(2, -1)
        self.n_triplets = len(anchor)

        # Each edge appears twice in the adjacency matrix, whose sparsity pattern never changes.
        from_, to = np.concatenate([self.left, self.right]), np.concatenate([self.right, self.left])
        order = np.argsort(from_, kind="stable")
        self._edge_of_entry = order % len(codes)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(from_, minlength=n))])
        self._adjacency = sp.csr_array((np.empty(len(order), dtype=X.dtype), to[order], indptr), shape=(n, n))
        self._form_cost = FORM_COST * (d + EDGE_COST * len(codes) / n)
        self._products = FIRST_PRODUCTS
        self._start = np.asarray(np.random.default_rng(0).normal(size=d), dtype=X.dtype)

    def gains(self, direction: FloatArray) -> FloatArray:
        """Return ⟨A_r, ξξᵀ⟩ of every triplet for a direction ξ."""
        projected = (self.X @ direction.astype(self.X.dtype)).astype(np.float64)
        squared = np.square(projected[self.left] - projected[self.right])
        result: FloatArray = squared[self.far] - squared[self.near]
        return result

    def leading_direction(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the leading unit eigenvector ξ of Σ u_r A_r and its gains.

        The eigenvalue is the weighted sum Σ u_r ⟨A_r, ξξᵀ⟩ of the gains.
        """
        X = self._coordinates
        m, (n, d), dtype = len(self.left), X.shape, X.dtype
        weights = np.bincount(self.far, u, m) - np.bincount(self.near, u, m)
        degrees = (np.bincount(self.left, weights, n) + np.bincount(self.right, weights, n)).astype(dtype)
        adjacency = self._adjacency
        adjacency.data[:] = weights[self._edge_of_entry]

        def laplacian(values: RealArray) -> RealArray:
            product: RealArray = (degrees * values.T).T - adjacency @ values
            return product

        def formed() -> RealArray:
            product: RealArray = X.T @ laplacian(X)
            return product

        if d <= LAPACK_DIMENSION:
            vectors = _lapack(formed())
        else:
            matrix = formed() if self._form_cost < self._products else None
            self._products = 0  # counted in this run, to choose the method of the next one

            def times(direction: RealArray) -> RealArray:
                self._products += 1
                direction = direction.ravel()
                product: RealArray = X.T @ laplacian(X @ direction) if matrix is None else matrix @ direction
                return product

            operator = LinearOperator((d, d), matvec=times, dtype=dtype)
            try:
                _, vectors = eigsh(operator, k=1, which="LA", v0=self._start, ncv=LANCZOS_VECTORS, tol=EIGEN_TOL[dtype])
            except ArpackError:  # the matrix is zero, or its leading eigenvalues are too close for the Lanczos method
                vectors = _lapack(formed())
        leading = vectors[:, 0]
        direction = (leading if self._basis is None else self._basis @ leading).astype(np.float64)
        direction /= np.linalg.norm(direction)
        return direction, self.gains(direction)


def _lapack(matrix: RealArray) -> RealArray:
    last = len(matrix) - 1
    vectors: RealArray = scipy.linalg.eigh((matrix + matrix.T) / 2, subset_by_index=[last, last])[1]
    return vectors

"""Triplets as a graph: their differences are its edges, so sums over triplets are sums over rows and edges.

With A_r = (x_i - x_k)(x_i - x_k)ᵀ - (x_i - x_j)(x_i - x_j)ᵀ of a triplet (i, j, k), Σ u_r A_r = Xᵀ Λ X, where Λ is the
Laplacian of the graph whose edge weights are the sums of u_r, less where the edge is a triplet's near one.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from mahala.batch.run import Floats
from mahala.comparisons import Triplets
from mahala.compiled.neighbors import nearest

# Up to this dimension LAPACK's leading pair takes less time than Lanczos' method.
LAPACK_DIMENSION = 256
# To form the matrix costs as much as (d + 50·edges/n) / 20 products of it with a vector through X; measured.
EDGE_COST, FORM_COST = 50.0, 1.0 / 20.0
# Products that Lanczos' method is taken to need before its first run.
FIRST_PRODUCTS = 30
LANCZOS_VECTORS = 32
# Of the residual against the eigenvalue: the eigenvector is then as good as the products are.
EIGEN_TOL = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-10}


def label_triplets(X: Floats, codes: NDArray[np.intp], k: int) -> Triplets:
    """For each row, its k nearest rows of its class × its k nearest rows of other classes.

    Classes of fewer rows give what they have; a row alone in its class is no anchor.
    """
    parts = []
    for code in range(int(codes.max()) + 1):
        own, others = np.flatnonzero(codes == code), np.flatnonzero(codes != code)
        n_near, n_far = min(k, len(own) - 1), min(k, len(others))
        if n_near == 0:
            continue
        rows = X[own]
        near = own[nearest(rows, rows, n_near, exclude_self=True)[0]]
        far = others[nearest(X[others], rows, n_far)[0]]
        anchor = np.repeat(own, n_near * n_far)
        parts.append((anchor, np.repeat(near, n_far, axis=1).ravel(), np.tile(far, (1, n_near)).ravel()))
    if not parts:
        raise ValueError("y has only classes of one row; at least one class must have two, a row and its near one")
    anchor, positive, negative = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Triplets(X, anchor, positive, negative)


class TripletEdges:
    """The rows of triplets, centred and brought to unit scale, and their edges.

    `scale` is the mean squared distance between two of the rows: what is returned is about X/√scale, so that nothing
    depends on the units of X.
    """

    def __init__(self, triplets: Triplets) -> None:
        rows, numbers = np.unique(
            np.concatenate([triplets.anchor, triplets.positive, triplets.negative]), return_inverse=True
        )
        X: Floats = triplets.X[rows]
        np.subtract(X, X.mean(axis=0, dtype=np.float64), out=X, casting="same_kind")
        n, d = X.shape
        self.scale = 2.0 * float(np.linalg.norm(X)) ** 2 / n or 1.0
        X /= X.dtype.type(np.sqrt(self.scale))
        self.X = X
        # Fewer rows than features: the directions that matter lie in the span of the rows, where the rows are short.
        self._basis: Floats | None = None
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

        # Each edge stands twice in the adjacency matrix, whose pattern never changes.
        from_, to = np.concatenate([self.left, self.right]), np.concatenate([self.right, self.left])
        order = np.argsort(from_, kind="stable")
        self._edge_of_entry = order % len(codes)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(from_, minlength=n))])
        self._adjacency = sp.csr_array((np.empty(len(order), dtype=X.dtype), to[order], indptr), shape=(n, n))
        self._form_cost = FORM_COST * (d + EDGE_COST * len(codes) / n)
        self._products = FIRST_PRODUCTS
        self._start = np.asarray(np.random.default_rng(0).normal(size=d), dtype=X.dtype)

    def gains(self, direction: NDArray[np.float64]) -> NDArray[np.float64]:
        """⟨A_r, ξξᵀ⟩ of every triplet for a direction ξ."""
        projected = (self.X @ direction.astype(self.X.dtype)).astype(np.float64)
        squared = np.square(projected[self.left] - projected[self.right])
        result: NDArray[np.float64] = squared[self.far] - squared[self.near]
        return result

    def leading_direction(self, u: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The eigenvector ξ of length one of the largest eigenvalue of Σ u_r A_r, and its gains.

        The eigenvalue is the mean Σ u_r ⟨A_r, ξξᵀ⟩ of the gains.
        """
        X = self._coordinates
        m, (n, d), dtype = len(self.left), X.shape, X.dtype
        weights = np.bincount(self.far, u, m) - np.bincount(self.near, u, m)
        degrees = (np.bincount(self.left, weights, n) + np.bincount(self.right, weights, n)).astype(dtype)
        adjacency = self._adjacency
        adjacency.data[:] = weights[self._edge_of_entry]

        def laplacian(values: Floats) -> Floats:
            product: Floats = (degrees * values.T).T - adjacency @ values
            return product

        def formed() -> Floats:
            product: Floats = X.T @ laplacian(X)
            return product

        if d <= LAPACK_DIMENSION:
            vectors = _lapack(formed())
        else:
            matrix = formed() if self._form_cost < self._products else None
            self._products = 0  # of this run, from which the next one knows

            def times(direction: Floats) -> Floats:
                self._products += 1
                direction = direction.ravel()
                product: Floats = X.T @ laplacian(X @ direction) if matrix is None else matrix @ direction
                return product

            operator = LinearOperator((d, d), matvec=times, dtype=dtype)
            try:
                _, vectors = eigsh(operator, k=1, which="LA", v0=self._start, ncv=LANCZOS_VECTORS, tol=EIGEN_TOL[dtype])
            except ArpackError:  # the matrix is zero, or its eigenvalues lie too close for Lanczos' method
                vectors = _lapack(formed())
        leading = vectors[:, 0]
        direction = (leading if self._basis is None else self._basis @ leading).astype(np.float64)
        direction /= np.linalg.norm(direction)
        return direction, self.gains(direction)


def _lapack(matrix: Floats) -> Floats:
    last = len(matrix) - 1
    vectors: Floats = scipy.linalg.eigh((matrix + matrix.T) / 2, subset_by_index=[last, last])[1]
    return vectors

"""Weighted sums over the edges of a graph whose vertices are rows."""

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from mahala.compiled.sums.edges import Laplacian
from mahala.compiled.threads import n_threads, product, transposed_product
from mahala.support.arrays import FloatArray, IndexArray, RealArray

# Up to this dimension LAPACK is faster than the Lanczos method.
LAPACK_DIMENSION = 256
# Forming the matrix costs as much as (d + 50·edges/n) / 20 products with a vector without forming it; measured.
EDGE_COST, FORM_COST = 50.0, 1.0 / 20.0
# Assumed number of products of the first run of the Lanczos method.
FIRST_PRODUCTS = 30
LANCZOS_VECTORS = 32
# Residual relative to the eigenvalue at which the eigenvector is as accurate as the products.
EIGEN_TOL = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-10}


class EdgeGraph:
    """Σ w_e v_e v_eᵀ over edges, v_e the difference of two rows: Xᵀ Λ X with the Laplacian Λ of the weighted graph."""

    def __init__(self, X: RealArray, left: IndexArray, right: IndexArray) -> None:
        n, d = X.shape
        # With fewer rows than features, the relevant directions lie in the span of the rows, which has n dimensions.
        self._basis: RealArray | None = None
        self._X = X
        if n < d:
            self._basis, triangle = np.linalg.qr(X.T)
            self._X = np.ascontiguousarray(triangle.T)
            d = n
        self._laplacian = Laplacian(n, left, right)
        # Threads help to form the matrix, and hardly in products with vectors, which wait for memory.
        self._form_cost = FORM_COST * (d + EDGE_COST * len(left) / n) / n_threads()
        self._products = FIRST_PRODUCTS

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return the unit eigenvector of the largest eigenvalue of the sum with these weights."""
        X = self._X
        d, dtype = X.shape[1], X.dtype

        def laplacian(values: RealArray) -> RealArray:
            return self._laplacian(weights, values)

        def formed() -> RealArray:
            return np.asarray(transposed_product(X, laplacian(X)))

        matrix = None
        if d > LAPACK_DIMENSION:
            matrix = formed() if self._form_cost < self._products else None
            self._products = 0  # counted in this run, to choose the method of the next one

        def times(direction: RealArray) -> RealArray:
            self._products += 1
            if matrix is not None:
                return matrix @ direction
            return np.asarray(transposed_product(X, laplacian(product(X, direction))))

        leading = leading_eigenvector(formed, times, d, dtype)
        direction = (leading if self._basis is None else self._basis @ leading).astype(np.float64)
        direction /= np.linalg.norm(direction)
        return direction


def leading_eigenvector(
    formed: Callable[[], RealArray], times: Callable[[RealArray], RealArray], d: int, dtype: np.dtype[np.floating]
) -> RealArray:
    """Return the leading eigenvector of a d × d matrix, which is formed, or multiplied with vectors if d is large."""
    if d > LAPACK_DIMENSION:
        operator = LinearOperator((d, d), matvec=lambda v: times(v.ravel()), dtype=dtype)
        start = np.random.default_rng(0).normal(size=d).astype(dtype)
        with suppress(ArpackError):  # the matrix is zero, or its leading eigenvalues are too close
            _, vectors = eigsh(operator, k=1, which="LA", v0=start, ncv=LANCZOS_VECTORS, tol=EIGEN_TOL[dtype])
            return np.asarray(vectors[:, 0])
    matrix = formed()
    return np.asarray(scipy.linalg.eigh((matrix + matrix.T) / 2, subset_by_index=[d - 1, d - 1])[1][:, 0])

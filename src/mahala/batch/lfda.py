"""LFDA: local Fisher discriminant analysis (Sugiyama, 2007)."""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.lda import RANK_TOLERANCE
from mahala.batch.run import Run, check_n_components
from mahala.batch.whitening import divided_by_largest, standardised, whiten_varying
from mahala.compiled.threads import in_pairs_of_blocks, n_threads, scratch, squared_norms, transposed_product
from mahala.engine.neighbors import class_neighbors
from mahala.learner import LabelledRows
from mahala.support.arrays import FloatArray, IndexArray, RealArray, check_matrices
from mahala.support.parameters import Count

# Rows of a block of affinities, which stays in the cache.
BLOCK_ROWS = 256


@dataclass(eq=False, repr=False)
class LFDA(BatchLearner):
    """Local Fisher discriminant analysis: LDA that keeps only near rows of a class together.

    L maximises tr((L S_w Lᵀ)⁻¹ L S_b Lᵀ), where S = ½ Σ W_ij (x_i - x_j)(x_i - x_j)ᵀ. For rows of one class of n_c,
    W is A_ij / n_c in S_w and A_ij (1/n - 1/n_c) in S_b; for others 0 and 1/n. The affinity A_ij is
    exp(-‖x_i - x_j‖² / (σ_i σ_j)), with σ_i the distance of x_i to its k-th nearest row of its class. So a class may
    consist of several clusters, and L may have more rows than there are classes. Features should be scaled.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of directions; None for all in which rows of a class differ.
    n_neighbors : int, default=7
        The k of the affinities; the number of other rows in a class that has fewer.
    embedding : "weighted", "orthonormalized" or "plain", default="weighted"
        Scale of the directions φ, which have φᵀ S_w φ = 1 if they are plain: times the root of φᵀ S_b φ, without
        directions in which that is not positive, or made orthonormal.

    Attributes
    ----------
    objective_ : float, minus the criterion that was reached

    References
    ----------
    M. Sugiyama: Dimensionality reduction of multimodal labeled data by local Fisher discriminant analysis. Journal of
    Machine Learning Research 8, 2007, 1027-1061.

    Examples
    --------
    >>> from mahala.batch import LFDA
    >>> from sklearn.datasets import load_iris
    >>> learner = LFDA(2).fit(*load_iris(return_X_y=True))
    >>> learner.components_.shape, round(learner.score(*load_iris(return_X_y=True)), 2)
    ((2, 4), 0.97)
    """

    _takes_chunks = False
    _test_settings = ({"n_components": 2},)

    n_components: Count | None = None
    _: KW_ONLY
    n_neighbors: Count = 7
    embedding: Literal["weighted", "orthonormalized", "plain"] = "weighted"

    def _learn(self, data: LabelledRows, run: Run) -> str:
        X, codes = data.X, data.codes
        d = X.shape[1]
        check_n_components(self.n_components, d, "the number of features")
        check_matrices(4, d, d)
        Z, factors = standardised(X.astype(np.float64))
        within, between = _scatters(Z, divided_by_largest(X.astype(np.float64))[0], codes, self.n_neighbors)
        white = whiten_varying(within, RANK_TOLERANCE)
        if not len(white):
            raise ValueError("X does not vary within any class; LFDA needs a class with two different rows")
        values, rotation = np.linalg.eigh(white @ between @ white.T)
        m = min(self.n_components or d, len(white))
        values, L = values[::-1][:m], (rotation.T[::-1][:m] @ white) * factors
        if self.embedding == "weighted":
            L = np.sqrt(values[values > 0.0])[:, None] * L[values > 0.0]
            if not len(L):
                raise ValueError("the classes of X do not differ more than near rows of a class do in any direction")
        elif self.embedding == "orthonormalized":
            L = np.linalg.qr(L.T)[0].T
        run.step(-float(values.sum()), {"L": L})
        return "converged"


def _scatters(Z: FloatArray, X: FloatArray, codes: IndexArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Return S_w and S_b of centred rows Z, with the affinities of rows X."""
    n, d = Z.shape
    within, between = np.zeros((d, d)), np.zeros((d, d))
    sizes = np.bincount(codes)
    near = class_neighbors(X, codes, k, 0)[0] if sizes.max() > 1 else np.empty((n, 0), dtype=np.intp)
    for code, size in enumerate(sizes):
        rows = np.flatnonzero(codes == code)
        mean = Z[rows].mean(axis=0)
        centred = Z[rows] - mean
        # Half the sum over pairs of this class and others, without differences of large numbers.
        between += (1.0 - size / n) * transposed_product(centred, centred) + size * np.outer(mean, mean)
        if size > 1:
            neighbors = near[rows, min(k, size - 1) - 1]
            sigma = np.sqrt(squared_norms(X[rows] - X[neighbors]))
            local = sigma > 0.0  # other rows coincide with their neighbours, and have no affinity
            scatter = _local_scatter(centred[local], X[rows[local]], sigma[local])
            within += scatter / size
            between += (1.0 / n - 1.0 / size) * scatter
    return within, between


def _local_scatter(Z: FloatArray, X: FloatArray, sigma: FloatArray) -> FloatArray:
    """Return ½ Σ A_ij (z_i - z_j)(z_i - z_j)ᵀ over the rows of a class, without n × n numbers."""
    if not len(Z):
        return np.zeros((Z.shape[1], Z.shape[1]))
    X = X - X.mean(axis=0)
    scaled, inverse = X / sigma[:, None], 1.0 / sigma
    norms = squared_norms(X) * inverse
    # The exponent -‖x_i - x_j‖² / (σ_i σ_j) is one product.
    left = np.column_stack([2.0 * scaled, -norms, -inverse])
    right = np.column_stack([scaled, inverse, norms])
    values = np.column_stack([Z, np.ones(len(Z))])  # the last column of the sums is Σ_j A_ij
    sums: RealArray = np.zeros_like(values)

    def add(rows: slice, others: slice) -> None:
        shape = rows.stop - rows.start, others.stop - others.start
        A = np.matmul(left[rows], right[others].T, out=scratch(shape, np.float64))
        np.exp(np.minimum(A, 0.0, out=A), out=A)
        sums[rows] += A @ values[others]
        if rows != others:
            sums[others] += A.T @ values[rows]

    in_pairs_of_blocks(add, len(Z), BLOCK_ROWS, n_threads(float(len(Z)) ** 2 * Z.shape[1]))
    return np.asarray(transposed_product(Z, sums[:, -1:] * Z - sums[:, :-1]))

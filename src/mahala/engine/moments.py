"""Sums over rows in one pass: means, scatters, principal directions. Rows are NumPy's or in chunks."""

from collections.abc import Callable
from functools import partial, reduce
from operator import add

import numpy as np

from mahala.compiled.threads import PER_NUMBER, class_sums, in_threads, n_threads, product, transposed_product
from mahala.engine.dask.rows import sum_over_chunks
from mahala.engine.inputs import computed
from mahala.support.arrays import FloatArray, IndexArray, RealArray, block_size, check_matrices, row_blocks, slices
from mahala.support.parameters import is_count
from mahala.support.validation import check_scale, is_chunked


def sum_over_rows(function: Callable[..., RealArray], X: RealArray, *by_row: RealArray | None) -> RealArray:
    """Return Σ function(rows, *by_row of these rows) over blocks or chunks of rows, added in a fixed order."""
    if is_chunked(X):
        return sum_over_chunks(function, X, by_row)
    blocks = row_blocks(*X.shape)
    terms = (function(X[part], *(None if values is None else values[part] for values in by_row)) for part in blocks)
    return reduce(add, terms)


def extremes(X: RealArray) -> tuple[RealArray, RealArray]:
    """Return the smallest and the largest value of each column; raise ValueError if a value cannot be learned from."""
    low, high = computed(X.min(axis=0), X.max(axis=0))
    if is_chunked(X):  # whose values were not checked yet
        if not (np.isfinite(low) & np.isfinite(high)).all():
            raise ValueError("X contains NaN or infinity; every feature must be a finite number")
        check_scale(np.stack([low, high]))
    return low, high


def class_means(X: RealArray, codes: IndexArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the mean of each class, in float64; rows count with their weights."""
    sizes = np.bincount(codes, weights)
    sums: FloatArray = sum_over_rows(partial(class_sums, len(sizes)), X, codes, weights)
    return sums / sizes[:, None]


def scatter(X: RealArray, codes: IndexArray, means: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return Σ w (x - mean)(x - mean)ᵀ over rows, with the mean of each row's class, in float64."""
    check_matrices(4, X.shape[1], X.shape[1])  # as many as there are when it is factorised

    def of_part(rows: RealArray, codes: IndexArray, weights: FloatArray | None) -> FloatArray:
        left = rows - means[codes]
        return np.asarray(transposed_product(left if weights is None else left * weights[:, None], left))

    return np.asarray(sum_over_rows(of_part, X, codes, weights))


def squared_differences(X: RealArray, rows: IndexArray, *others: IndexArray) -> list[FloatArray]:
    """Return for each list of other rows Σ (x - other)² of each column, over the rows x."""
    if is_chunked(X):
        x = X[rows].astype(np.float64)
        return list(computed(*(np.square(x - X[other]).sum(axis=0) for other in others)))

    def of_block(block: slice) -> FloatArray:
        x = X[rows[block]].astype(np.float64)
        return np.stack([np.square(x - X[other[block]]).sum(axis=0) for other in others])

    threads = n_threads(PER_NUMBER * len(rows) * X.shape[1])
    blocks = slices(len(rows), min(block_size(X.shape[1]), -(-len(rows) // threads)))
    return list(np.sum(in_threads(of_block, blocks, threads=threads), axis=0))


def rows_times(X: RealArray, B: RealArray) -> RealArray:
    """Return X @ B, with the rows of X shared among the threads or left in their chunks."""
    images: RealArray = X @ B if is_chunked(X) else product(X, B)
    return images


def principal_directions(X: RealArray, n_components: float | None, seed: int) -> tuple[RealArray, RealArray, float]:
    """Return the directions and variances that scikit-learn's PCA finds, and the sum of the variances of all features.

    Those of rows in chunks are found from their covariance, in O(d²) memory. All solvers are exact: the randomised one
    would give learners another start for NumPy rows than for the same rows in chunks.
    """
    n, d = X.shape
    if not is_chunked(X):
        from sklearn.decomposition import PCA  # which takes a tenth of the time of a first fit to import

        few = is_count(n_components) and max(n, d) > 500 and n_components < 0.8 * min(n, d)
        solver = "auto" if not few else "arpack" if min(n, d) > 1000 else "covariance_eigh" if d <= n else "full"
        pca = PCA(n_components, svd_solver=solver, random_state=seed).fit(X)
        return pca.components_, pca.explained_variance_, float(X.var(axis=0, ddof=1, dtype=np.float64).sum())
    mean = computed(X.mean(axis=0, dtype=np.float64))
    ascending, vectors = np.linalg.eigh(scatter(X, np.zeros(n, dtype=np.intp), mean[None]) / (n - 1))
    variances, L = np.maximum(ascending[::-1], 0.0), vectors[:, ::-1].T
    total, m = float(variances.sum()), min(X.shape)
    if n_components is not None:
        enough = int(np.searchsorted(np.cumsum(variances) / total, n_components, side="right")) + 1
        m = int(n_components) if is_count(n_components) else min(m, enough)
    signs = np.sign(L[np.arange(len(L)), np.abs(L).argmax(axis=1)])
    return (L * signs[:, None])[:m].astype(X.dtype), variances[:m], total

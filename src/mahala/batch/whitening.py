"""White coordinates of the span of the data, in which descent is well-conditioned: they change no objective."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala.batch.run import Floats

# Added to all variances, as a share of the largest: directions of less are mostly noise, and are whitened less.
RIDGE = 1e-2
BLOCK_ENTRIES = 2**22


class Space(NamedTuple):
    """Rows in white coordinates: X = (rows - mean) forthᵀ and rows - mean = X back."""

    X: Floats
    forth: NDArray[np.float64]
    back: NDArray[np.float64]


def whiten(X: Floats) -> Space:
    """Coordinates in which features of any scale, and correlated ones, look alike; without directions of no variance.

    They change no objective, only the way that descent takes.
    """
    n, d = X.shape
    mean = X.mean(axis=0, dtype=np.float64)
    block = max(1, BLOCK_ENTRIES // d)
    parts = [slice(start, start + block) for start in range(0, n, block)]
    # Less than this is the rounding of the mean.
    least = 1e-14 * np.abs(X).max(axis=0).astype(np.float64)
    scale = np.sqrt(sum(np.square(X[part] - mean).sum(axis=0) for part in parts) / n)
    scale[scale <= least] = 0.0
    inverse = np.divide(1.0, scale, out=np.zeros(d), where=scale > 0.0)
    if n < d:
        _, lengths, axes = np.linalg.svd((X - mean) * inverse, full_matrices=False)
        variances, V = np.square(lengths) / n, axes.T
    else:
        covariance = np.zeros((d, d))
        for part in parts:
            rows = (X[part] - mean) * inverse
            covariance += rows.T @ rows
        variances, V = np.linalg.eigh(covariance / n)
    kept = variances > max(n, d) * np.finfo(np.float64).eps * variances.max()
    if not kept.any():
        raise ValueError("X must have rows that differ; all are the same, and no metric tells them apart")
    lengths = np.sqrt(variances[kept] + RIDGE * variances.max())
    forth = (V[:, kept] / lengths).T * inverse
    white = np.empty((n, len(forth)), dtype=X.dtype)
    for part in parts:
        white[part] = (X[part] - mean) @ forth.T
    return Space(white, forth, (V[:, kept] * lengths).T * scale)

"""RCA from its definition: a loop over chunklets and a plain inverse."""

from __future__ import annotations

import numpy as np


def within_covariance(X, chunklets):
    """The covariance around the means of the chunklets, over the rows in chunklets of at least two."""
    C, n = np.zeros((X.shape[1], X.shape[1])), 0
    for chunklet in np.unique(chunklets):
        rows = X[chunklets == chunklet]
        if len(rows) > 1:
            C += (rows - rows.mean(axis=0)).T @ (rows - rows.mean(axis=0))
            n += len(rows)
    return C / n


def criterion(L, C, T):
    """tr(L C Lᵀ) - log |L T Lᵀ|."""
    return np.trace(L @ C @ L.T) - np.linalg.slogdet(L @ T @ L.T)[1]


def connected(n, left, right):
    """The group of each row, by merging groups until nothing changes."""
    groups = np.arange(n)
    for i, j in zip(left, right, strict=True):
        groups[groups == groups[j]] = groups[i]
    return groups

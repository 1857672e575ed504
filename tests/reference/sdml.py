"""SDML's objective from the paper: a loop over the pairs."""

from __future__ import annotations

import numpy as np


def objective(M, prior, pairs, balance, sparsity):
    """D(M, M₀) + η Σ ± d(x, y)² + λ Σ_{i≠j} |M_ij|."""
    P = M @ np.linalg.inv(prior)
    total = np.trace(P) - np.linalg.slogdet(P)[1] - len(P)
    for i, j, similar in zip(pairs.left, pairs.right, pairs.similar, strict=True):
        v = pairs.X[i] - pairs.X[j]
        total += balance * (1.0 if similar else -1.0) * (v @ M @ v)
    return total + sparsity * (np.abs(M).sum() - np.trace(M))

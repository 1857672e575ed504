"""LSML's objective from the paper: a loop over the quadruplets."""

from __future__ import annotations

import numpy as np


def distance(M, x, y):
    return np.sqrt((x - y) @ M @ (x - y))


def objective(M, prior, quadruplets, gamma=1.0, weights=None):
    """D(M, M₀) + γ Σ w max(0, d(a, b) - d(c, d))² / Σ w, for an array of shape (n, 4, d)."""
    weights = np.ones(len(quadruplets)) if weights is None else weights
    P = M @ np.linalg.inv(prior)
    total = np.trace(P) - np.linalg.slogdet(P)[1] - len(P)
    for (a, b, c, d), weight in zip(quadruplets, weights, strict=True):
        total += gamma * weight / weights.sum() * max(0.0, distance(M, a, b) - distance(M, c, d)) ** 2
    return total

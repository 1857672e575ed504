"""LFDA from its definition: loops over pairs of rows."""

from __future__ import annotations

import numpy as np


def affinities(X, y, k):
    """exp(-‖x_i - x_j‖² / (σ_i σ_j)) for rows of one class, else 0; σ is the distance to the k-th nearest of them."""
    n = len(X)
    sigma, A = np.zeros(n), np.zeros((n, n))
    for i in range(n):
        distances = sorted(np.linalg.norm(X[i] - X[j]) for j in range(n) if j != i and y[j] == y[i])
        sigma[i] = distances[min(k, len(distances)) - 1] if distances else 0.0
    for i in range(n):
        for j in range(n):
            if y[i] == y[j] and sigma[i] > 0.0 and sigma[j] > 0.0:
                A[i, j] = np.exp(-np.sum((X[i] - X[j]) ** 2) / (sigma[i] * sigma[j]))
    return A


def scatters(X, y, k):
    """The local scatter within classes and that between them."""
    n, d = X.shape
    within, between, A = np.zeros((d, d)), np.zeros((d, d)), affinities(X, y, k)
    for i in range(n):
        size = np.sum(y == y[i])
        for j in range(n):
            outer = np.outer(X[i] - X[j], X[i] - X[j]) / 2
            within += outer * (A[i, j] / size if y[i] == y[j] else 0.0)
            between += outer * (A[i, j] * (1 / n - 1 / size) if y[i] == y[j] else 1 / n)
    return within, between


def criterion(L, within, between):
    """tr((L S_w Lᵀ)⁻¹ L S_b Lᵀ)."""
    return np.trace(np.linalg.solve(L @ within @ L.T, L @ between @ L.T))

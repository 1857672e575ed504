"""ITML in plain NumPy, one projection after the other: the oracle of its minimum."""

from __future__ import annotations

import numpy as np


def itml(V, similar, targets, gamma, n_sweeps, M):
    """Davis et al. (2007), Algorithm 1, with α as in their program: γ/(γ+1) (1/p - 1/ξ) solves the projection.

    Returns M, λ and ξ.
    """
    lam, xi = np.zeros(len(V)), np.where(similar, *targets).astype(float)
    for _ in range(n_sweeps):
        for t, v in enumerate(V):
            if not v.any():
                continue
            p = v @ M @ v
            delta = 1.0 if similar[t] else -1.0
            alpha = min(lam[t], delta * gamma / (gamma + 1) * (1 / p - 1 / xi[t]))
            beta = delta * alpha / (1 - delta * alpha * p)
            xi[t] = gamma * xi[t] / (gamma + delta * alpha * xi[t])
            lam[t] -= alpha
            M = M + beta * np.outer(M @ v, M @ v)
            M = (M + M.T) / 2
    return M, lam, xi


def best_slack(V, M, similar, xi0):
    """The ξ nearest to ξ₀ that the distances under M allow; ξ₀ for pairs of equal rows, which do not count."""
    p = np.einsum("ij,jk,ik->i", V, M, V)
    best = np.where(similar, np.maximum(p, xi0), np.minimum(p, xi0))
    return np.where(V.any(axis=1), best, xi0)


def divergence(A, B):
    """D(A, B) = tr(AB⁻¹) - log|AB⁻¹| - d."""
    product = np.linalg.solve(B, A)
    return np.trace(product) - np.linalg.slogdet(product)[1] - len(A)


def objective(M, M0, xi, xi0, gamma):
    return divergence(M, M0) + gamma * np.sum(xi / xi0 - np.log(xi / xi0) - 1)

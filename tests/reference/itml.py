"""ITML in plain NumPy, one projection after the other: the oracle of its sweeps."""

from __future__ import annotations

import numpy as np


def itml(V, similar, targets, gamma, n_sweeps, M, least_share=0.0, condition=np.inf):
    """Davis et al. (2007), Algorithm 1, with α as in their program: γ/(γ+1) (1/p - 1/ξ) solves the projection.

    A projection changes p by a factor from `least_share` to its inverse, and keeps tr M · tr M⁻¹ up to `condition`
    times the dimension. Returns M, λ and ξ.
    """
    d = len(M)
    lam, xi = np.zeros(len(V)), np.where(similar, *targets).astype(float)
    for _ in range(n_sweeps):
        for t, v in enumerate(V):
            p = v @ M @ v
            if not v.any():
                continue
            delta = 1.0 if similar[t] else -1.0
            alpha = min(lam[t], delta * gamma / (gamma + 1) * (1 / p - 1 / xi[t]))
            step = delta * alpha
            if alpha != 0 and (least_share > 0 or np.isfinite(condition)):
                g = M @ v
                step = min(max(step, (1 - 1 / least_share) / p), (1 - least_share) / p)
                trace, inverse_trace = np.trace(M), np.trace(np.linalg.inv(M))
                step = max(step, -max(condition * d / trace - inverse_trace, 0) / (v @ v))
                growth = max(condition * d / inverse_trace - trace, 0) / (g @ g)
                step = min(step, growth / (1 + growth * p))
                alpha = delta * step
            beta = step / (1 - step * p)
            xi[t] = gamma * xi[t] / (gamma + step * xi[t])
            lam[t] -= alpha
            M = M + beta * np.outer(M @ v, M @ v)
            M = (M + M.T) / 2
    return M, lam, xi


def divergence(A, B):
    """D(A, B) = tr(AB⁻¹) - log|AB⁻¹| - d."""
    product = np.linalg.solve(B, A)
    return np.trace(product) - np.linalg.slogdet(product)[1] - len(A)


def objective(M, M0, xi, xi0, gamma):
    return divergence(M, M0) + gamma * np.sum(xi / xi0 - np.log(xi / xi0) - 1)

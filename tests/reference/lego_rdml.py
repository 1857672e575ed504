"""LEGO and RDML in plain NumPy, a matrix product or a solution a step: the oracle of their streams."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np


def lego_tau(distance, target, eta):
    """The coefficient of M v vᵀ M as the paper has it, in so many digits since its formulas cancel."""
    with localcontext(prec=600):
        distance, target, eta = (Decimal(float(value)) for value in (distance, target, eta))
        e = eta * target * distance - 1
        new = (e + (e * e + 4 * eta * distance**2).sqrt()) / (2 * eta * distance)
        return float(eta * (new - target) / (1 + eta * (new - target) * distance))


def lego(V, y, eta, targets, least_share=0.0, limit=np.inf):
    """Jain et al. (2008); returns M and per step (predicted, p, τ).

    A step leaves `least_share` of a distance and keeps tr M · tr M⁻¹ up to `limit` times the dimension.
    """
    M, steps = np.eye(V.shape[1]), []
    for v, label in zip(V, y, strict=True):
        target, g = targets[0 if label > 0 else 1], M @ v
        distance, tau = v @ g, 0.0
        if distance > 0:
            tau, trace, inverse_trace = lego_tau(distance, target, eta), np.trace(M), np.trace(np.linalg.inv(M))
            shortest = 1 / (1 / distance + (limit * len(M) / trace - inverse_trace) / (v @ v))
            tau = min(tau, (1 - max(least_share, shortest / distance)) / distance)
            tau = max(tau, -(limit * len(M) / inverse_trace - trace) / (g @ g))
        steps.append((1 if distance <= np.mean(targets) else -1, abs(distance - target), tau))
        M = M - tau * np.outer(g, g)
    return M, steps


def rdml(V, y, lam, share, floor, border, limit=np.inf):
    """Jin, Wang, Zhou (2009) from M = I, where a step takes at most `share` of M above its floor.

    Steps that add to M are shortened so that tr M tr M⁻¹ stays below the limit times the number of features.
    """
    M, steps = np.eye(V.shape[1]), []
    for v, label in zip(V, y, strict=True):
        distance = v @ M @ v
        p, tau = label * (distance - 1), 0.0
        if p >= -border and v @ v > 0:
            w = np.linalg.solve(M, v)
            least = floor * np.trace(M) / len(M) * (w @ w) / (v @ w)
            room = limit * len(M) / np.trace(np.linalg.inv(M)) - np.trace(M)
            tau = min(lam, max(0.0, room) / (v @ v) if label < 0 else share * max(0.0, 1 - least) / (v @ w))
        steps.append((1 if distance <= 1 else -1, p, tau))
        M = M - tau * label * np.outer(v, v)
    return M, steps

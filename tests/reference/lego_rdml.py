"""LEGO and RDML in plain NumPy, a matrix product or a solution a step: the oracle of their streams."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np


def lego_tau(distance, target, eta):
    """The coefficient of M v vᵀ M as the paper has it, in a hundred digits since its formulas cancel."""
    with localcontext(prec=100):
        distance, target, eta = (Decimal(float(value)) for value in (distance, target, eta))
        e = eta * target * distance - 1
        new = (e + (e * e + 4 * eta * distance**2).sqrt()) / (2 * eta * distance)
        return float(eta * (new - target) / (1 + eta * (new - target) * distance))


def lego(V, y, eta, targets, floor):
    """Jain et al. (2008), where M keeps `floor` of its mean along v; returns M and per step (predicted, p, τ)."""
    M, steps = np.eye(V.shape[1]), []
    for v, label in zip(V, y, strict=True):
        target, distance, tau = targets[0 if label > 0 else 1], v @ M @ v, 0.0
        if distance > 0:
            least = floor * np.trace(M) / len(M) * (v @ v)
            tau = min(lego_tau(distance, target, eta), max(0.0, 1 - least / distance) / distance)
        steps.append((1 if distance <= np.mean(targets) else -1, abs(distance - target), tau))
        M = M - tau * np.outer(M @ v, M @ v)
    return M, steps


def rdml(V, y, lam, share, floor, border):
    """Jin, Wang, Zhou (2009) from M = I, where a step takes at most `share` of M above its floor."""
    M, steps = np.eye(V.shape[1]), []
    for v, label in zip(V, y, strict=True):
        distance = v @ M @ v
        p, tau = label * (distance - 1), 0.0
        if p >= -border and v @ v > 0:
            w = np.linalg.solve(M, v)
            least = floor * np.trace(M) / len(M) * (w @ w) / (v @ w)
            tau = lam if label < 0 else min(lam, share * max(0.0, 1 - least) / (v @ w))
        steps.append((1 if distance <= 1 else -1, p, tau))
        M = M - tau * label * np.outer(v, v)
    return M, steps

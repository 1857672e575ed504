"""The papers' pseudo-code in plain NumPy: the oracle of the streams over pairs."""

from __future__ import annotations

import numpy as np

RULES = {
    "hard": lambda C: (0.0, 0.0, np.inf),
    "I": lambda C: (0.0, 0.0, C),
    "II": lambda C: (1 / (2 * C), 0.0, np.inf),
    "LS": lambda C: (1 / (2 * C), -np.inf, np.inf),
}


def project(M):
    """The nearest PSD matrix."""
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    return (vectors * np.maximum(values, 0)) @ vectors.T


def passive_aggressive(V, y, rule, psd, M=None, b=0.0, tolerance=0.0):
    """Algorithm 1 of the 2013 paper (POLA is psd=1 with slack γ). psd: 1 every update, 0 never, k every k steps.

    Returns M, b, and per step (predicted, p, τ).
    """
    slack, lower, upper = rule
    M = np.zeros((V.shape[1],) * 2) if M is None else M.copy()
    steps = []
    for t, (v, label) in enumerate(zip(V, y, strict=True), start=1):
        distance = v @ M @ v
        p = 1 - label * (b - distance)
        tau = min(max(p / (1 + slack + (v @ v) ** 2), lower), upper)
        if abs(tau) < tolerance:
            tau = 0.0
        steps.append((1 if distance <= b else -1, p, tau))
        if tau != 0:
            M = M - tau * label * np.outer(v, v)
            b = b + tau * label
            if psd == 1:
                M, b = project(M), max(b, 1.0)
        if psd > 1 and t % psd == 0:
            M, b = project(M), max(b, 1.0)
    return M, b, steps

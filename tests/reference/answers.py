"""The objective of LogisticMetric in plain NumPy."""

import numpy as np


def margins(X, L, near, far, threshold=0.0):
    """The squared distance that should be larger minus the other one; a pair None stands for the threshold."""
    squared = [threshold if pair is None else np.sum((L @ (X[pair[0]] - X[pair[1]])) ** 2) for pair in near]
    others = [threshold if pair is None else np.sum((L @ (X[pair[0]] - X[pair[1]])) ** 2) for pair in far]
    return np.array(others) - np.array(squared)


def objective(X, L, near, far, lam, t, weights=None, noise=0.0, threshold=0.0):
    """The mean loss of answers that are right with probability noise + (1 - 2 noise) σ(m / t), and lam ‖L - I‖²."""
    m = margins(X, L, near, far, threshold) / t
    losses = -np.log(noise + (1 - 2 * noise) / (1 + np.exp(-m)))
    return np.average(losses, weights=weights) + lam * np.sum((L - np.eye(len(L))) ** 2)

"""The objectives of NCMML, NCMC and MCML from their definitions, in loops."""

from __future__ import annotations

import numpy as np


def nearest_centroid_loss(L, X, y, centroids, of_class):
    """Σ -log p(class of the row), in which centroids have probabilities ∝ exp(-½ ‖L(x - μ)‖²)."""
    total = 0.0
    for x, label in zip(X, y, strict=True):
        p = np.array([np.exp(-0.5 * np.sum((L @ (x - centroid)) ** 2)) for centroid in centroids])
        total -= np.log(p[of_class == label].sum() / p.sum())
    return total


def collapse_divergence(L, X, y):
    """Σ KL(q_i ‖ p_i), with q_i uniform over the other rows of the class and p_ij ∝ exp(-‖L(x_i - x_j)‖²)."""
    total = 0.0
    for i in range(len(X)):
        others = [j for j in range(len(X)) if j != i]
        p = np.array([np.exp(-np.sum((L @ (X[i] - X[j])) ** 2)) for j in others])
        same = np.array([y[i] == y[j] for j in others])
        if same.any():
            q = same / same.sum()
            total += np.sum(q[same] * np.log(q[same] / (p / p.sum())[same]))
    return total

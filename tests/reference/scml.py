"""SCML's objective from the paper, in a loop over triplets, and its minimum by linear programming."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog


def differences(triplets, bases):
    """(bᵀ(a - p))² - (bᵀ(a - n))² for each triplet and basis."""
    X = triplets.X
    rows = zip(triplets.anchor, triplets.positive, triplets.negative, strict=True)
    return np.array([(bases @ (X[a] - X[p])) ** 2 - (bases @ (X[a] - X[n])) ** 2 for a, p, n in rows])


def objective(weights, triplets, bases, beta):
    """mean max(0, 1 + d(a, p) - d(a, n)) + β Σ w, with M = Σ w b bᵀ."""
    M, X, total = (bases.T * weights) @ bases, triplets.X, 0.0
    for a, p, n in zip(triplets.anchor, triplets.positive, triplets.negative, strict=True):
        near, far = X[a] - X[p], X[a] - X[n]
        total += max(0.0, 1.0 + near @ M @ near - far @ M @ far)
    return total / len(triplets) + beta * np.sum(weights)


def minimum(triplets, bases, beta):
    """The minimum over w ≥ 0, with a slack for each triplet."""
    D, n = differences(triplets, bases), len(triplets)
    costs = np.concatenate([np.full(len(bases), beta), np.full(n, 1.0 / n)])
    return linprog(costs, A_ub=np.hstack([D, -np.eye(n)]), b_ub=-np.ones(n), method="highs").fun

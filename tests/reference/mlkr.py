"""The objective of MLKR as the paper has it, row by row."""

from __future__ import annotations

import numpy as np


def mlkr(L, X, y):
    total = 0.0
    for i in range(len(X)):
        weights = {j: np.sum((L @ (X[i] - X[j])) ** 2) for j in range(len(X)) if j != i}
        nearest = min(weights.values())
        kernel = {j: np.exp(nearest - distance) for j, distance in weights.items()}
        predicted = sum(kernel[j] * y[j] for j in kernel) / sum(kernel.values())
        total += (y[i] - predicted) ** 2
    return total

"""Filters in plain NumPy, a document at a time: the oracle of the filters' streams."""

from __future__ import annotations

import numpy as np


def perceptron(X, relevant, *, fit_intercept=True):
    """Rosenblatt's rule; returns w, b and what was predicted before each update."""
    w, b, predicted = np.zeros(X.shape[1]), 0.0, []
    for x, y in zip(X, np.where(relevant, 1, -1), strict=True):
        f = w @ x + b
        predicted.append(f > 0)
        if y * f <= 0:
            w = w + y * x
            b = b + y * fit_intercept
    return w, b, predicted


def paum(X, relevant, tau_relevant, tau_irrelevant, eta, *, fit_intercept=True):
    """Algorithm 1 of Li et al. (2002), with R² the largest squared norm so far."""
    w, b, radius2, predicted = np.zeros(X.shape[1]), 0.0, 0.0, []
    for x, y in zip(X, np.where(relevant, 1, -1), strict=True):
        radius2 = max(radius2, x @ x)
        f = w @ x + b
        predicted.append(f > 0)
        if y * f <= (tau_relevant if y == 1 else tau_irrelevant):
            w = w + eta * y * x
            b = b + eta * y * radius2 * fit_intercept
    return w, b, predicted


def nearest(X, relevant):
    """The kind of the nearest document before each one, the earliest of the nearest; at first irrelevant."""
    predicted = []
    for t, x in enumerate(X):
        squared = np.sum((X[:t] - x) ** 2, axis=1)
        predicted.append(bool(t > 0 and relevant[np.argmin(squared)]))
    return predicted


def learned(X, relevant, state, step):
    """The 2004 paper's filter around a learner.

    `state()` gives its M and threshold and `step(x, other, similar)` one of its steps. Returns the predictions, and how
    far each was from being another: from the threshold, and from another closest document.
    """
    memory, predicted, gaps, n_pairs = [], [], [], 0
    for x, own in zip(X, relevant, strict=True):
        said, gap = False, np.inf
        if memory:
            closest = memory[0]
            if n_pairs:
                M, threshold = state()
                distances = np.array([(x - r) @ M @ (x - r) for r in memory])
                closest = memory[int(np.argmin(distances))]
                said = bool(distances.min() < threshold)
                gap = abs(distances.min() - threshold)
                others = [d for d, r in zip(distances, memory, strict=True) if not np.array_equal(r, closest)]
                gap = min([gap, *(d - distances.min() for d in others)])
            step(x, closest, own)
            n_pairs += 1
        predicted.append(said)
        gaps.append(gap)
        if own:
            memory.append(x)
    return predicted, np.array(gaps)

"""Relief, Simba and MDM straight from their papers: the oracles of the feature weightings."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog


def hit_and_miss(X, y, row, weights):
    """The nearest other row of the class and the nearest of any other class, first ones first; None without a hit."""
    distances = ((X - X[row]) ** 2) @ weights
    hits = [i for i in range(len(X)) if y[i] == y[row] and i != row]
    misses = [i for i in range(len(X)) if y[i] != y[row]]
    if not hits:
        return None
    return min(hits, key=lambda i: distances[i]), min(misses, key=lambda i: distances[i])


def relief(X, y):
    """Kira and Rendell (1992) over all rows with a hit: the mean of the squared diffs."""
    extent = np.ptp(X, axis=0)
    scaled = np.where(extent > 0, X - X.min(axis=0), 0.0) / np.where(extent > 0, extent, 1.0)
    terms = []
    for row in range(len(X)):
        found = hit_and_miss(scaled, y, row, np.ones(X.shape[1]))
        if found is not None:
            hit, miss = found
            terms.append((scaled[row] - scaled[miss]) ** 2 - (scaled[row] - scaled[hit]) ** 2)
    return np.mean(terms, axis=0)


def margin(X, y, w2):
    """The sum of Gilad-Bachrach's hypothesis margins under weights of squared differences."""
    total = 0.0
    for row in range(len(X)):
        found = hit_and_miss(X, y, row, w2)
        if found is not None:
            hit, miss = (np.sqrt(w2 @ (X[row] - X[i]) ** 2) for i in found)
            total += 0.5 * (miss - hit)
    return total


def simba(X, y, order, w):
    """Steps 2 (a) to (d) of Gilad-Bachrach, Navot and Tishby (2004) for the rows in `order`."""
    w = w.copy()
    for row in order:
        hit, miss = hit_and_miss(X, y, row, w**2)
        gradient = np.zeros_like(w)
        for sign, other in ((1.0, miss), (-1.0, hit)):
            z = X[row] - X[other]
            length = np.sqrt(np.sum(w**2 * z**2))
            if length > 0:
                gradient += sign * 0.5 * z**2 / length * w
        w += gradient
    return w


def pairs_of(y):
    """All pairs i < j, and which are similar."""
    i, j = np.triu_indices(len(y), 1)
    return i, j, y[i] == y[j]


def largest_within(X, y, w):
    """MDM's t of weights: the largest squared distance of similar pairs where the smallest of others is 1."""
    i, j, similar = pairs_of(y)
    squares = (X[i] - X[j]) ** 2
    apart = squares.any(axis=1)
    return (squares[similar] @ w).max(), (squares[~similar & apart] @ w).min()


def mdm(V, similar):
    """The optimal t of Hocke and Martinetz's linear program over differences V, all constraints at once."""
    squares = V**2
    one = np.ones((len(V), 1))
    A = np.where(similar[:, None], np.hstack([squares, -one]), np.hstack([-squares, 0 * one]))
    result = linprog(np.eye(V.shape[1] + 1)[-1], A_ub=A, b_ub=np.where(similar, 0.0, -1.0), method="highs-ipm")
    assert result.status == 0
    return result.fun

"""Votes of rows for each other's class or number, their loss and its gradient, in plain NumPy."""

from __future__ import annotations

import numpy as np


def loss(Z, y, weights=None, *, n_classes):
    """Mean of -log(share of the votes for the row's class), or of (mean vote - number)²; rows without votes have 0."""
    w = np.ones(len(Z)) if weights is None else weights
    votes = np.exp(-distances(Z)) * w
    np.fill_diagonal(votes, 0.0)
    every = votes.sum(axis=1)
    if n_classes:
        mine = np.where(y[:, None] == y, votes, 0.0).sum(axis=1)
        losses = np.where(mine > 0.0, np.log(np.where(every > 0.0, every, 1.0) / np.where(mine > 0.0, mine, 1.0)), 0.0)
    else:
        means = votes @ y / np.where(every > 0.0, every, 1.0)
        losses = np.where(every > 0.0, (means - y) ** 2, 0.0)
    return (w * losses).sum() / w.sum()


def gradient(Z, y, weights=None, *, n_classes):
    """Σ_j w_ij (z_i - z_j) over what pulls i and j; rows closer than rounding do not pull."""
    w = np.ones(len(Z)) if weights is None else weights
    d = distances(Z)
    votes = np.exp(-d) * w
    np.fill_diagonal(votes, 0.0)
    every = np.where(votes.sum(axis=1) > 0.0, votes.sum(axis=1), 1.0)
    if n_classes:
        same = y[:, None] == y
        mine = np.where(same, votes, 0.0).sum(axis=1)
        right = np.where(mine > 0.0, mine, 1.0)
        pull = votes * (same / right[:, None] - 1.0 / every[:, None]) * (mine > 0.0)[:, None]
    else:
        means = votes @ y / every
        pull = votes / every[:, None] * -2.0 * (means - y)[:, None] * (y - means[:, None])
    pull *= (w / w.sum())[:, None] * (d * d > 2e-4)
    pull /= np.where(d > 0.0, d, 1.0)
    pull = pull + pull.T
    return pull.sum(axis=1)[:, None] * Z - pull @ Z


def means(queries, voters, values, weights):
    """Means of the voters' values, weighted by w exp(-distance)."""
    d = np.sqrt(((queries[:, None] - voters) ** 2).sum(axis=2))
    votes = weights * np.exp(d.min(axis=1, keepdims=True) - d)
    return votes @ values / votes.sum(axis=1, keepdims=True)


def distances(Z):
    return np.sqrt(((Z[:, None] - Z) ** 2).sum(axis=2))

"""LMNN's objective as the paper writes it, triplet by triplet."""

from __future__ import annotations

import numpy as np


def targets(X, codes, k):
    """Pairs (i, j): the k nearest rows j of the class of i, or as many as there are; ties go to the smaller number."""
    pairs = []
    for i in range(len(X)):
        own = [j for j in range(len(X)) if codes[j] == codes[i] and j != i]
        pairs += [(i, j) for j in sorted(own, key=lambda j: (np.sum((X[i] - X[j]) ** 2), j))[:k]]
    return pairs


def triplets(pairs, codes):
    """Rows (i, j, l): each pair with every row of another class than its first."""
    parts = []
    for i, j in pairs:
        others = np.flatnonzero(codes != codes[i])
        parts.append(np.column_stack([np.full_like(others, i), np.full_like(others, j), others]))
    return np.concatenate(parts)


def squared(Z, i, j):
    return np.sum((Z[i] - Z[j]) ** 2)


def objective(Z, pairs, triplets, mu):
    """The rows Z = X Lᵀ are where Euclidean distances are those of M = LᵀL."""
    pull = sum(squared(Z, i, j) for i, j in pairs)
    push = sum(max(0.0, 1.0 + squared(Z, i, j) - squared(Z, i, l)) for i, j, l in triplets)
    return (1 - mu) * pull + mu * push


def rounded(hinge, s):
    """A hinge that is a parabola within s/2 about its kink, and its slope."""
    if hinge <= -s / 2:
        return 0.0, 0.0
    if hinge >= s / 2:
        return hinge, 1.0
    return (hinge + s / 2) ** 2 / (2 * s), (hinge + s / 2) / s


def rounded_objective(Z, pairs, triplets, mu, s):
    """The objective with rounded hinges, and half its gradient by Z."""
    value, gradient = 0.0, np.zeros_like(Z)

    def add(weight, i, j):
        gradient[i] += weight * (Z[i] - Z[j])
        gradient[j] -= weight * (Z[i] - Z[j])

    for i, j in pairs:
        value += (1 - mu) * squared(Z, i, j)
        add(1 - mu, i, j)
    for i, j, l in triplets:
        loss, slope = rounded(1.0 + squared(Z, i, j) - squared(Z, i, l), s)
        value += mu * loss
        add(mu * slope, i, j)
        add(-mu * slope, i, l)
    return value, gradient


def lower_bound(M, X, pairs, triplets, mu, s):
    """No M' is below this: as [h]₊ ≥ u h for slopes u from 0 to 1, objective(M') ≥ mu Σ u + ⟨G, M'⟩.

    G is the gradient by M with these slopes. Where it has a negative direction, ⟨G, M'⟩ is bounded by its least
    eigenvalue relative to the targets' scatter S, as (1 - mu) ⟨S, M'⟩ is at most the objective.
    """
    pairs = np.array(pairs)

    def scatter(left, right, weights):
        difference = X[left] - X[right]
        return (difference * np.broadcast_to(weights, len(left))[:, None]).T @ difference

    def distance(left, right):
        difference = X[left] - X[right]
        return np.sum((difference @ M) * difference, axis=1)

    i, j, l = triplets.T
    slopes = np.clip((1.0 + distance(i, j) - distance(i, l)) / s + 0.5, 0.0, 1.0)
    S = scatter(*pairs.T, 1.0)
    G = (1 - mu) * S + mu * (scatter(i, j, slopes) - scatter(i, l, slopes))
    value = mu * slopes.sum()
    root = np.linalg.inv(np.linalg.cholesky(S))
    least = min(0.0, np.linalg.eigvalsh(root @ G @ root.T).min())
    # f* ≥ value + least ⟨S, M*⟩ ≥ value + least f* / (1 - mu)
    return value / (1.0 - least / (1 - mu))

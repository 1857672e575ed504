"""BoostMetric and PSDBoost straight from the papers, with every matrix A_r formed."""

from __future__ import annotations

import numpy as np


def triplets_of_labels(X, codes, k):
    """(anchor, positive, negative) of each row's k nearest rows of its class × k nearest of other classes."""
    found = []
    for i in range(len(X)):
        squared = [float(np.sum(np.square(X[i].astype(float) - x.astype(float)))) for x in X]
        by_distance = sorted(range(len(X)), key=lambda j: (squared[j], j))
        near = [j for j in by_distance if codes[j] == codes[i] and j != i][:k]
        far = [j for j in by_distance if codes[j] != codes[i]][:k]
        found += [(i, j, m) for j in near for m in far]
    return found


def matrices(X, anchor, positive, negative):
    """A_r of every triplet."""
    X = X.astype(np.float64)
    far, near = X[anchor] - X[negative], X[anchor] - X[positive]
    return np.einsum("ri,rj->rij", far, far) - np.einsum("ri,rj->rij", near, near)


def scale(X, anchor, positive, negative):
    """Mean squared distance between two of the rows that are in triplets, drawn with replacement."""
    rows = np.unique(np.concatenate([anchor, positive, negative]))
    X = X[rows].astype(np.float64)
    return float(np.mean([np.sum(np.square(a - b)) for a in X for b in X]))


def exponential_objective(A, M, v):
    """(P0): log Σ exp(-⟨A_r, M⟩) + v tr M."""
    margins = np.einsum("rij,ij->r", A, M)
    return np.log(np.sum(np.exp(margins.min() - margins))) - margins.min() + v * np.trace(M)


def left_side(H, log_u, v, w):
    """Of (8), without overflow: only its sign counts."""
    exponents = log_u - w * H
    return np.sum((H - v) * np.exp(exponents - exponents.max()))


def bisection(H, log_u, v, upper):
    """Algorithm 1."""
    low, high = 0.0, upper
    for _ in range(200):
        w = (low + high) / 2
        if left_side(H, log_u, v, w) > 0:
            low = w
        else:
            high = w
    return (low + high) / 2


def boost(A, v, n_iter):
    """Algorithm 2: the weights and directions found, until λ < v."""
    u = np.full(len(A), 1.0 / len(A))
    found = []
    for _ in range(n_iter):
        values, vectors = np.linalg.eigh(np.einsum("r,rij->ij", u, A))
        if values[-1] < v:
            break
        direction = vectors[:, -1]
        H = np.einsum("i,rij,j->r", direction, A, direction)
        w = bisection(H, np.log(u), v, 36.0 / v)
        u = u * np.exp(-w * H)
        u /= u.sum()
        found.append((w, direction))
    return found


def soft_margin_objective(margins, nu):
    """min over ρ of Σ [ρ - margin]₊ / (nu n) - ρ; it is convex and has its kinks at the margins."""
    C = 1.0 / (nu * len(margins))
    return min(C * np.sum(np.maximum(rho - margins, 0.0)) - rho for rho in margins)

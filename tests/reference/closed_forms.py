"""GMML, KISSME, XQDA and DMLMJ from their formulas: loops over pairs, plain inverses and eigenvectors."""

from __future__ import annotations

import numpy as np


def all_pairs(y):
    """The pairs of rows, similar if they have the same label."""
    left, right = np.triu_indices(len(y), 1)
    return left, right, y[left] == y[right]


def near_pairs(X, y, k):
    """Each row with its k nearest of its class, and with its k nearest of other classes; the first of equal ones."""
    found = []
    for i in range(len(y)):
        distances = np.sum((X - X[i]) ** 2, axis=1)
        for own in (True, False):
            others = [j for j in range(len(y)) if j != i and (y[j] == y[i]) == own]
            found += [(i, j, own) for j in sorted(others, key=lambda j: distances[j])[:k]]
    left, right, similar = (np.array(column) for column in zip(*found, strict=True))
    return left, right, similar.astype(bool)


def covariance(V):
    """The mean of v vᵀ."""
    total = np.zeros((V.shape[1], V.shape[1]))
    for v in V:
        total += np.outer(v, v)
    return total / len(V)


def learned(X, pairs, shrinkage, formula, *, scale=True):
    """M from a formula of A and B, which are shrunk in the directions in which pairs differ."""
    left, right, similar = pairs
    deviations = X.std(axis=0)
    constant = np.ptp(X, axis=0) == 0.0
    factors = np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, deviations)) if scale else np.ones(X.shape[1])
    V = (X[left] - X[right]) * factors
    _, lengths, axes = np.linalg.svd(V, full_matrices=False)
    Q = axes[lengths > 1e-7 * lengths[0]]
    A, B = (covariance(V[kind] @ Q.T) for kind in (similar, ~similar))
    A, B = ((1 - shrinkage) * C + shrinkage * np.trace(C) / len(C) * np.eye(len(C)) for C in (A, B))
    back = Q * factors
    return formula(A, B, back)


def power(C, exponent):
    """C to a power, for a positive definite C."""
    values, vectors = np.linalg.eigh(C)
    return (vectors * values**exponent) @ vectors.T


def gmml(t):
    """A^(-1/2) (A^(1/2) B A^(1/2))^t A^(-1/2)."""

    def formula(A, B, back):
        root = power(A, 0.5)
        return back.T @ np.linalg.inv(root) @ power(root @ B @ root, t) @ np.linalg.inv(root) @ back

    return formula


def kissme(A, B, back):
    """A⁻¹ - B⁻¹ without its negative eigenvalues, which are those in the features as they are."""
    values, vectors = np.linalg.eigh(back.T @ (np.linalg.inv(A) - np.linalg.inv(B)) @ back)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def generalised(A, B):
    """The eigenvalues of A⁻¹ B and its eigenvectors, in columns."""
    values, vectors = np.linalg.eig(np.linalg.inv(A) @ B)
    return values.real, vectors.real


def xqda(most=None):
    """Wᵀ ((W A Wᵀ)⁻¹ - (W B Wᵀ)⁻¹) W with the eigenvectors of A⁻¹ B of the largest eigenvalues above 1."""

    def formula(A, B, back):
        values, vectors = generalised(A, B)
        order = np.argsort(-values)[:most]
        W = vectors[:, order[values[order] > 1.0]].T
        return back.T @ W.T @ (np.linalg.inv(W @ A @ W.T) - np.linalg.inv(W @ B @ W.T)) @ W @ back

    return formula


def dmlmj(most=None, weighted=True):
    """Wᵀ W with the eigenvectors w of A⁻¹ B of the largest λ + 1/λ, with wᵀA w = λ or 1."""

    def formula(A, B, back):
        values, vectors = generalised(A, B)
        M = np.zeros_like(A)
        for i in np.argsort(-(values + 1 / values))[:most]:
            w = vectors[:, i]
            M += np.outer(w, w) / (w @ A @ w) * (values[i] if weighted else 1.0)
        return back.T @ M @ back

    return formula


def jeffrey_divergence(L, A, B):
    """½ tr((L A Lᵀ)⁻¹ L B Lᵀ) + ½ tr((L B Lᵀ)⁻¹ L A Lᵀ) - m, of the normal distributions of mapped differences."""
    near, far = L @ A @ L.T, L @ B @ L.T
    return 0.5 * np.trace(np.linalg.solve(near, far) + np.linalg.solve(far, near)) - len(L)


def average_margins(X, y, k):
    """Σ over rows of the mean v vᵀ to the k nearest rows of other classes, less that to those of the same class."""
    left, right, similar = near_pairs(X, y, k)
    margins = np.zeros((X.shape[1], X.shape[1]))
    for i in range(len(y)):
        for own, sign in ((True, -1.0), (False, 1.0)):
            chosen = (left == i) & (similar == own)
            if chosen.any():
                margins += sign * covariance(X[left[chosen]] - X[right[chosen]])
    return margins

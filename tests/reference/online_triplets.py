"""The papers' pseudo-code in plain NumPy: the oracle of the streams over triplets. Each step costs O(d²)."""

from __future__ import annotations

import numpy as np


def soft(M, threshold):
    return np.sign(M) * np.maximum(np.abs(M) - threshold, 0)


def hinge(M, x, positive, negative, margin):
    return max(0.0, margin - x @ M @ positive + x @ M @ negative)


def _run(step, M, triplets, margin):
    """M after all steps, the mean of the models before each of them, and the loss of each step."""
    mean, losses = np.zeros_like(M), []
    for x, positive, negative in triplets:
        mean += M / len(triplets)
        losses.append(hinge(M, x, positive, negative, margin))
        M = step(M, x, positive - negative, losses[-1])
    return M, mean, np.array(losses)


def ogd(triplets, M, eta, margin=1.0):
    return _run(lambda M, x, q, l: M + eta * np.outer(x, q) if l > 0 else M, M, triplets, margin)


def oasis(triplets, M, C, margin=1.0):
    def step(M, x, q, l):
        norm = (x @ x) * (q @ q)
        return M + min(C, l / norm) * np.outer(x, q) if l > 0 and norm > 0 else M

    return _run(step, M, triplets, margin)


def sors(triplets, M, eta, lam, off_diagonal, margin=1.0):
    """Algorithm 1 of the 2015 paper; with off_diagonal its equation (7)."""
    threshold = eta * lam * (1 - np.eye(*M.shape) if off_diagonal else np.ones(M.shape))

    def step(M, x, q, l):
        G = -np.outer(x, q) if l > 0 else 0
        return soft(M - eta * G, threshold)

    return _run(step, M, triplets, margin)


def adasors(triplets, M, eta, lam, delta, off_diagonal, margin=1.0):
    """Algorithm 2 of the 2015 paper; with off_diagonal its equation (11)."""
    threshold = eta * lam * (1 - np.eye(*M.shape) if off_diagonal else np.ones(M.shape))
    H = np.zeros(M.shape)

    def step(M, x, q, l):
        nonlocal H
        G = -np.outer(x, q) if l > 0 else np.zeros(M.shape)
        H = np.sqrt(H**2 + G**2)
        Sigma = delta + H
        return soft(M - eta * G / Sigma, threshold / Sigma)

    return _run(step, M, triplets, margin)


def aroma(triplets, M, r, diagonal, margin=1.0):
    """AROW on the matrix with covariance Λ ⊗ Γ (Crammer, Chechik, 2012), its factors full or diagonal."""
    d, e = M.shape
    Lambda, Gamma = np.eye(d), np.eye(e)

    def grow_inverse(cov, c, v):
        return np.linalg.inv(np.linalg.inv(cov) + c * np.outer(v, v))

    def step(M, x, q, l):
        nonlocal Lambda, Gamma
        if l > 0 and x.any() and q.any():
            sx, sq = x @ Lambda @ x, q @ Gamma @ q
            M = M + l / (sx * sq + r) * np.outer(Lambda @ x, Gamma @ q)
            if diagonal:
                Lambda = np.diag(1 / (1 / np.diag(Lambda) + sq / (r * e) * x**2))
                Gamma = np.diag(1 / (1 / np.diag(Gamma) + sx / (r * d) * q**2))
            else:
                Lambda = grow_inverse(Lambda, sq / (r * e), x)
                Gamma = grow_inverse(Gamma, sx / (r * d), q)
        return M

    return _run(step, M, triplets, margin)

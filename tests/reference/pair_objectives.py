"""The objectives of NCA, GML and MMC over pairs, as the papers write them, and one step of vSGD."""

from __future__ import annotations

import numpy as np


def unordered_pairs(codes):
    """Row numbers of all pairs i < j, and whether they are of one class."""
    left, right = np.triu_indices(len(codes), 1)
    return left, right, codes[left] == codes[right]


def distances(L, X, left, right):
    return np.linalg.norm((X[left] - X[right]) @ L.T, axis=1)


def nca(L, X, codes):
    """The expected number of rows whose random neighbour is of another class."""
    errors = 0.0
    for i in range(len(X)):
        others = np.delete(np.arange(len(X)), i)
        q = np.sum((X[i] @ L.T - X[others] @ L.T) ** 2, axis=1)
        p = np.exp(q.min() - q)
        p /= p.sum()
        errors += 1.0 - p[codes[others] == codes[i]].sum()
    return errors


def gml(L, X, left, right, similar, alpha):
    d = distances(L, X, left, right)
    return alpha * np.sum((1.0 - np.minimum(d[~similar], 1.0)) ** 2) + (1.0 - alpha) * np.sum(d[similar] ** 2)


def mmc(L, X, left, right, similar):
    """The similar pairs' squared distances, where the dissimilar pairs' distances are scaled to sum to 1."""
    d = distances(L, X, left, right)
    return np.sum(d[similar] ** 2) / np.sum(d[~similar]) ** 2


def gml_pair_gradient(L, v, similar, alpha):
    z = L @ v
    d = np.linalg.norm(z)
    if similar:
        return 2.0 * (1.0 - alpha) * np.outer(z, v)
    return -2.0 * alpha * (1.0 - d) / d * np.outer(z, v) if 0.0 < d < 1.0 else np.zeros_like(L)


def vsgd_step(theta, gradients, shifted_gradients, step, state):
    """One step on a batch: gradients of its samples at θ and at θ + step. Changes and returns θ and the state."""
    n = len(gradients)
    g, g2 = np.mean(gradients, axis=0), np.mean(np.square(gradients), axis=0)
    curvatures = np.abs((np.array(shifted_gradients) - np.array(gradients)) / step)
    h, h2 = curvatures.mean(axis=0), np.square(curvatures).mean(axis=0)
    if state is None:
        return theta, {"g": g, "g2": 10 * g2, "h": h, "h2": 10 * h2, "tau": np.full_like(g, 10.0)}
    s = state
    outlier = (g - s["g"]) ** 2 > 4 * (s["g2"] - s["g"] ** 2) / n
    outlier |= (h - s["h"]) ** 2 > 4 * (s["h2"] - s["h"] ** 2) / n
    tau = s["tau"] + outlier
    s = {name: s[name] + (new - s[name]) / tau for name, new in (("g", g), ("g2", g2), ("h", h), ("h2", h2))}
    rate = s["h"] / s["h2"] * n * s["g"] ** 2 / (s["g2"] + (n - 1) * s["g"] ** 2)
    s["tau"] = 1.0 + (1.0 - np.minimum(s["g"] ** 2 / s["g2"], 1.0)) * tau
    return theta - rate * g, s

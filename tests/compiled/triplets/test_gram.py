from __future__ import annotations

import numpy as np

from compiled.kernel_inputs import RULES, after, record, triplets
from mahala.compiled.triplets.gram import stream


def test_steps_through_inner_products_are_the_papers():
    X = np.random.default_rng(0).normal(size=(9, 20))
    (a, b, c), rows = triplets(X)
    K, L = X @ X.T, (X - X[0]) @ (X - X[0]).T
    q = X[b] - X[c]
    P, steps = np.zeros((9, 9)), record(40)
    stream(K, L, P, (a, b, c), np.sum(X[a] * q, axis=1), np.sum(q**2, axis=1), RULES["oasis"][1], steps)
    M = np.eye(20) + np.linalg.solve(K, X).T @ P @ X
    np.testing.assert_allclose(M, after("oasis", rows, np.eye(20)), atol=1e-10)

from __future__ import annotations

import numpy as np

from compiled.kernel_inputs import read_only
from mahala.compiled.itml import sweep
from reference.itml import itml


def test_sweeps_are_the_papers_projections():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 4))
    left, right = read_only(rng.integers(0, 20, size=60)), read_only(rng.integers(0, 20, size=60))
    similar = rng.random(60) < 0.5
    V, targets, gamma = X[left] - X[right], (1.0, 6.0), 1.5
    signs, precisions = np.where(similar, 1.0, -1.0), (1.0 / targets[0], 1.0 / targets[1])
    M, duals, slack = np.eye(4), np.zeros(60), np.where(similar, *precisions)
    for _ in range(3):
        inverse_trace = float(np.trace(np.linalg.inv(M)))
        assert not sweep(X, left, right, 1.0, signs, precisions, gamma, M, inverse_trace, duals, slack)
    expected, lam, xi = itml(V, similar, targets, gamma, 3, np.eye(4))
    np.testing.assert_allclose(M, expected, atol=1e-9)
    np.testing.assert_allclose(duals, lam, atol=1e-9)
    moved = left != right
    np.testing.assert_allclose(1.0 / slack[moved], xi[moved], rtol=1e-9)

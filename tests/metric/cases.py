"""Matrices of Mahalanobis metrics with rows to compare, and their squared distances by the definition."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def mahalanobis(draw, indefinite=False):
    """A matrix of some rank and scale, and rows X, Y to compare."""
    rng = np.random.default_rng(draw(SEEDS))
    d, rank = draw(st.integers(1, 8)), draw(st.integers(0, 8))
    A = rng.normal(size=(rank, d))
    signs = rng.choice([-1.0, 1.0], size=rank) if indefinite else np.ones(rank)
    M = (A.T * signs) @ A * draw(st.sampled_from([1e-300, 1e-10, 1.0, 1e100]))
    M = (M + M.T) / 2
    X, Y = rng.normal(size=(draw(st.integers(1, 6)), d)), rng.normal(size=(draw(st.integers(1, 6)), d))
    return M, X, Y


def brute_force(M, X, Y):
    """Squared distances by the definition."""
    return np.array([[(x - y) @ M @ (x - y) for y in Y] for x in X])

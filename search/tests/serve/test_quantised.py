"""Bounds on inner products against the products themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala_search.serve.index.quantised import kth_largest, quantised, score_bounds


@pytest.mark.parametrize("width", [1, 7, 384, 16_384])
def test_bounds_hold_and_are_close(width):
    rng = np.random.default_rng(width)
    X = (rng.normal(size=(40, width)) * rng.choice([1e-3, 1.0, 1e12], size=(40, 1))).astype(np.float32)
    X[:8] = np.abs(X[:8]).max()  # as large as sums of products get
    rows = np.delete(np.arange(40), 5)
    for query in (np.ones(width), rng.uniform(-1.0, 1.0, size=width)):
        lower, upper = score_bounds(*quantised(X), np.arange(40) != 5, query)
        assert (lower[5], upper[5]) == (-np.inf, -np.inf)
        query = query / np.abs(query).max()
        scores = X.astype(np.float64) @ query
        assert ((lower <= scores) & (scores <= upper))[rows].all()
        doubt = (upper[rows] - lower[rows]) / (np.linalg.norm(X[rows], axis=1) * np.linalg.norm(query))
        assert (doubt < 0.05).all()


def test_a_query_of_zeros_and_rows_of_zeros_have_the_score_zero():
    X = np.zeros((3, 4), dtype=np.float32)
    for query in (np.zeros(4), np.ones(4)):
        lower, upper = score_bounds(*quantised(X), np.ones(3, dtype=bool), query)
        assert (np.abs([lower, upper]) < 1e-30).all()


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=30), st.integers(1, 12))
def test_the_kth_largest_is_that_of_a_sorted_list(values, k):
    expected = sorted(values, reverse=True)[k - 1] if k <= len(values) else -np.inf
    assert kth_largest(np.array(values, dtype=np.float32), k) == expected

"""Sums over pairs against a loop over them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from mahala import Pairs
from mahala.batch.pair_costs import drawn, pair_costs
from mahala.learner import LabelledRows
from reference.pair_objectives import unordered_pairs
from strategies import labelled_rows


@given(labelled_rows(max_n=12, max_d=4), st.booleans())
def test_sums_and_scatters(case, as_pairs):
    X, codes = case
    left, right, similar = unordered_pairs(codes)
    costs = pair_costs(Pairs(X, left, right, similar) if as_pairs else LabelledRows(X, codes))
    V = X[left] - X[right]
    d = np.linalg.norm(V, axis=1)
    atol = 1e-9 * (1.0 + np.square(X).sum() * len(X))
    assert costs.similar(X)[0] == pytest.approx(np.square(d[similar]).sum(), abs=atol)
    near = d[~similar][d[~similar] < 2.0]
    assert costs.dissimilar(X, (1.0, -2.0, 3.0), 2.0)[0] == pytest.approx(np.sum(1 - 2 * near + 3 * near**2), abs=atol)
    within, far, n_far = costs.scatters(X)
    np.testing.assert_allclose(within, V[similar].T @ V[similar], atol=atol)
    assert far == pytest.approx(np.square(d[~similar]).sum(), abs=atol)
    assert n_far == np.count_nonzero(~similar)


@pytest.mark.parametrize("as_pairs", [False, True])
def test_pulls_are_half_the_gradient(labelled, as_pairs):
    X, y = labelled[0][:10], labelled[1][:10]
    costs = pair_costs(Pairs(X, *unordered_pairs(y)) if as_pairs else LabelledRows(X, y))
    for cost in (costs.similar, lambda Z: costs.dissimilar(Z, (1.0, -2.0, 1.0), 3.0)):
        slopes = approx_fprime(X.ravel(), lambda z, cost=cost: cost(z.reshape(X.shape))[0], 1e-7)
        np.testing.assert_allclose(2.0 * cost(X)[1].ravel(), slopes, atol=1e-4)


def test_pairs_are_drawn_from_labelled_rows_only(labelled):
    X, y = labelled
    rows, rng = LabelledRows(X, y), np.random.default_rng(0)
    assert drawn(rows, "auto", rng) is rows
    pairs = drawn(rows, 50, rng)
    assert len(pairs) == 50
    np.testing.assert_array_equal(pairs.similar, y[pairs.left] == y[pairs.right])
    assert drawn(pairs, 10, rng) is pairs
    assert len(drawn(LabelledRows(X[:5], y[:5]), 10**6, rng)) <= 10

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


@given(labelled_rows(max_n=12, max_d=4), st.sampled_from(["rows", "weights", "pairs"]))
def test_sums_and_scatters(case, given):
    X, codes = case
    left, right, similar = unordered_pairs(codes)
    w = np.random.default_rng(0).uniform(0.1, 2.0, size=len(X)) if given == "weights" else np.ones(len(X))
    rows = LabelledRows(X, codes, 7.0 * w if given == "weights" else None)  # scaled to a mean of 1
    costs = pair_costs(Pairs(X, left, right, similar) if given == "pairs" else rows)
    w = w[left] * w[right] / w.mean() ** 2
    V = X[left] - X[right]
    d = np.linalg.norm(V, axis=1)
    atol = 1e-9 * (1.0 + np.square(X).sum() * len(X))
    assert costs.similar(X)[0] == pytest.approx(np.sum((w * d**2)[similar]), abs=atol)
    near = ~similar & (d < 2.0)
    expected = np.sum((w * (1 - 2 * d + 3 * d**2))[near])
    # A squared distance is a difference of squared norms: that of equal rows may be their rounding, and d its root.
    rounding = 8.0 * np.finfo(np.float64).eps * np.square(X).sum(axis=1).max()
    of_roots = np.sum((w * np.minimum(np.sqrt(rounding), rounding / np.maximum(d, 1e-300)))[near])
    assert costs.dissimilar(X, (1.0, -2.0, 3.0), 2.0)[0] == pytest.approx(expected, abs=atol + 2.0 * of_roots)
    np.testing.assert_allclose(costs.scatter(X), (w[:, None] * V)[similar].T @ V[similar], atol=atol)
    if not similar.all():
        assert costs.mean_dissimilar(X) == pytest.approx(np.average(d[~similar] ** 2, weights=w[~similar]), abs=atol)


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

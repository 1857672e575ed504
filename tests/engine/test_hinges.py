"""LMNN's objective and its gradient against their definition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from mahala import Triplets
from mahala.batch.triplets import TripletHinges, target_neighbors
from mahala.engine import hinges as row_hinges
from mahala.engine import near_search
from mahala.engine.hinges import RowHinges
from mahala.support.parameters import config_context
from reference import lmnn as reference
from strategies import examples, labelled_rows

MUS = st.sampled_from([0.1, 0.5, 0.9])


@examples(10)
@given(case=labelled_rows(max_n=20, max_d=4), k=st.integers(1, 4), mu=MUS, seed=st.integers(0, 10**6))
def test_the_objective_is_the_papers(case, k, mu, seed):
    """Also of rows of so many coordinates that pairs are looked for by some of them."""
    X, codes = case
    assume(np.bincount(codes).max() > 1)
    edges, ends = target_neighbors(X, codes, k)
    pairs = reference.targets(X, codes, k)
    assert list(zip(*edges.tolist(), strict=True)) == pairs
    loss, triplets = RowHinges(codes, edges, ends, mu), reference.triplets(pairs, codes)
    rng = np.random.default_rng(seed)
    for m, noise in ((3, 0.0), (20, 0.1), (40, 0.01)):
        Z = X @ rng.normal(size=(X.shape[1], m)) * rng.choice([0.1, 1.0, 10.0]) + noise * rng.normal(size=(len(X), m))
        value, plain, gradient = loss(Z, 0.01)
        expected, slopes = reference.rounded_objective(Z, pairs, triplets, mu, 0.01)
        assert plain == pytest.approx(reference.objective(Z, pairs, triplets, mu), rel=1e-9)
        assert value == pytest.approx(expected, rel=1e-9)
        np.testing.assert_allclose(
            gradient, slopes, rtol=1e-6, atol=1e-6 * np.abs(slopes).max() + 1e-9 * np.abs(Z).max()
        )


@given(case=labelled_rows(max_n=20), mu=MUS, seed=st.integers(0, 10**6))
def test_the_objective_of_triplets_is_that_of_their_list(case, mu, seed):
    X, _ = case
    rng = np.random.default_rng(seed)
    anchor, positive, negative = rng.integers(0, len(X), size=(3, 15))
    loss = TripletHinges(Triplets(X, anchor, positive, negative), mu)
    pairs = sorted(set(zip(anchor.tolist(), positive.tolist(), strict=True)))
    triplets = list(zip(anchor, positive, negative, strict=True))
    value, plain, gradient = loss(X, 0.01)
    expected, slopes = reference.rounded_objective(X, pairs, triplets, mu, 0.01)
    assert plain == pytest.approx(reference.objective(X, pairs, triplets, mu), rel=1e-9)
    assert value == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6 * np.abs(slopes).max() + 1e-9 * np.abs(X).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_and_leading_coordinates_change_nothing(dtype, monkeypatch):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300].astype(dtype), y[:300]
    loss = RowHinges(y, *target_neighbors(X, y, 3), 0.5)
    Z = X * dtype(0.05)
    whole = loss(Z, 0.01)
    assert row_hinges.NearPairs(y)._search.heads(Z).shape[1] < 50
    monkeypatch.setattr(row_hinges, "BLOCK_BYTES", 400)
    monkeypatch.setattr(near_search, "FEW_COORDINATES", 64)
    again = loss(Z, 0.01)
    assert again[:2] == pytest.approx(whole[:2], rel=1e-6)
    np.testing.assert_allclose(again[2], whole[2], rtol=1e-3, atol=1e-4 * np.abs(whole[2]).max())


@pytest.mark.parametrize("threads", [1, 3])
def test_pairs_that_are_kept_from_earlier_rows_change_nothing(threads):
    """Along a path of small steps most searches are saved; each objective is that of a new search."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] * 0.05, y[:400]
    rng = np.random.default_rng(0)
    edges = target_neighbors(X, y, 3)
    kept = RowHinges(y, *edges, 0.5)
    found = []
    with config_context(n_threads=threads):
        for step in (0.1, 0.01, 0.001, 0.001, 0.001, 0.001, 0.2, 0.001):
            X = X @ (np.eye(64) + step / 8 * rng.normal(size=(64, 64)))
            for value, expected in zip(kept(X, 0.01), RowHinges(y, *edges, 0.5)(X, 0.01), strict=True):
                np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9)
            found.append(kept._near._search.pairs)
    assert sum(a is b and bool(a) for a, b in pairwise(found)) >= 2


@pytest.mark.parametrize("kind", [RowHinges, TripletHinges])
def test_best_scale_is_the_lowest_of_the_grid(labelled, kind):
    X, y = (values[:40] for values in labelled)
    pairs = reference.targets(X, y, 3)
    triplets = reference.triplets(pairs, y)
    if kind is RowHinges:
        loss = RowHinges(y, *target_neighbors(X, y, 3), 0.5)
    else:
        loss = TripletHinges(Triplets(X, *triplets.T), 0.5)
    best = loss.best_scale(X)
    value = reference.objective(np.sqrt(best) * X, pairs, triplets, 0.5)
    for factor in (0.5, 2.0):
        assert value <= reference.objective(np.sqrt(factor * best) * X, pairs, triplets, 0.5)

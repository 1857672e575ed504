"""Votes of rows against their definition, finite differences and each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.devices import ENGINES
from mahala.compiled.sums import vote_sums
from mahala.compiled.sums.vote_sums import Votes, leading_votes
from mahala.engine import current_engine
from mahala.support.parameters import config_context
from reference import votes as reference
from strategies import labelled_rows


@pytest.fixture(autouse=True, scope="module", params=[0, vote_sums.FEW_PAIRS], ids=["compiled", "few pairs"])
def _both_ways(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vote_sums, "FEW_PAIRS", request.param)
        yield


def problem(case, scale, seed, numbers):
    """Rows in the order of their classes, in float32, with weights and classes or numbers."""
    Z, codes = case
    order = np.argsort(codes, kind="stable")
    rng = np.random.default_rng(seed)
    weights = rng.choice([1.0, 0.25, 3.0], size=len(Z)).astype(np.float32)
    y = rng.normal(size=len(Z)).astype(np.float32) if numbers else codes[order]
    return (Z[order] * scale).astype(np.float32), y, weights


def votes_of(y, weights, numbers):
    return Votes.of_numbers(y, weights) if numbers else Votes.of_classes(y, weights)


# Above the scale of 3 rows may be so far away that they do not vote at all.
@pytest.mark.parametrize("engine", ENGINES)
@given(case=labelled_rows(), scale=st.sampled_from([0.05, 1.0, 3.0]), seed=st.integers(0, 99), numbers=st.booleans())
def test_loss_and_gradient_are_their_definitions(engine, case, scale, seed, numbers):
    Z, y, weights = problem(case, scale, seed, numbers)
    if reference.distances(Z.astype(float)).max() > 100.0:
        Z = Z / np.float32(reference.distances(Z.astype(float)).max() / 50.0)
    with config_context(engine=engine):
        engine = current_engine()
    loss, gradient = engine.vote_sums(votes_of(y, weights, numbers))(engine.place(Z))
    exact = Z.astype(float), y.astype(float) if numbers else y, weights.astype(float)
    n_classes = 0 if numbers else int(y.max()) + 1
    assert loss == pytest.approx(reference.loss(*exact, n_classes=n_classes), rel=2e-3, abs=2e-4)
    expected = reference.gradient(*exact, n_classes=n_classes)
    # Rounding of a squared distance moves a distance of duplicates, whose pull has no direction.
    tolerance = 2e-3 * (np.abs(expected).max() + 0.01)
    np.testing.assert_allclose(engine.fetch(gradient), expected, rtol=5e-3, atol=tolerance)


@pytest.mark.parametrize("numbers", [False, True])
def test_the_gradient_is_that_of_the_loss(numbers):
    rng = np.random.default_rng(0)
    Z, codes = rng.normal(size=(300, 5)), np.sort(rng.integers(0, 4, size=300))
    y = rng.normal(size=300) if numbers else codes
    n_classes = 0 if numbers else 4
    _, gradient = vote_sums.VoteSums(votes_of(y, np.ones(300, dtype=np.float32), numbers))(Z.astype(np.float32))
    direction, step = rng.normal(size=Z.shape), 1e-5
    ahead, behind = (reference.loss(Z + sign * step * direction, y, n_classes=n_classes) for sign in (1, -1))
    assert (gradient * direction).sum() == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=1e-6)


def test_rows_too_far_away_neither_vote_nor_pull():
    Z = np.array([[0.0], [1.0], [500.0], [501.0], [2000.0]], dtype=np.float32)
    codes = np.array([0, 0, 0, 1, 1])
    loss, gradient = vote_sums.VoteSums(Votes.of_classes(codes, np.ones(5, dtype=np.float32)))(Z)
    # Two rows see each other only, and three see no row of their class.
    assert loss == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_array_equal(gradient, 0.0)


@given(case=labelled_rows(), seed=st.integers(0, 99), numbers=st.booleans())
def test_all_rows_drawn_are_all_rows(case, seed, numbers):
    Z, y, weights = problem(case, 1.0, seed, numbers)
    votes = votes_of(y, weights, numbers)
    loss, gradient = vote_sums.VoteSums(votes)(Z)
    drawn, pull, back = vote_sums.drawn_vote_sums(Z, votes, Z, votes, np.arange(len(Z)))
    assert drawn == pytest.approx(loss, rel=1e-3, abs=1e-4)
    np.testing.assert_allclose(pull + back, gradient, rtol=5e-3, atol=2e-3 * (np.abs(gradient).max() + 0.01))


@pytest.mark.parametrize("engine", ENGINES)
@given(case=labelled_rows(), scale=st.sampled_from([0.05, 1.0, 100.0]), seed=st.integers(0, 99))
def test_means_are_their_definition(engine, case, scale, seed):
    Z, _, weights = problem(case, scale, seed, True)
    rng = np.random.default_rng(seed)
    queries = (rng.normal(size=(7, Z.shape[1])) * scale).astype(np.float32)
    values = rng.normal(size=(len(Z), 3)).astype(np.float32)
    with config_context(engine=engine):
        result = current_engine().vote_means(queries, Z, values, weights)
    expected = reference.means(*(array.astype(float) for array in (queries, Z, values, weights)))
    # A product in float32 knows squared distances up to the norms of the rows.
    lengths = np.sqrt(
        np.square(Z - Z.mean(axis=0)).sum(axis=1).max() + np.square(queries - Z.mean(axis=0)).sum(axis=1).max()
    )
    np.testing.assert_allclose(result, expected, atol=5e-3 * (1.0 + lengths))


def test_leading_votes_are_the_largest_shares_in_order():
    rng = np.random.default_rng(0)
    Z, queries = rng.normal(size=(40, 3)).astype(np.float32), rng.normal(size=(6, 3)).astype(np.float32)
    numbers, shares = leading_votes(queries, Z, 4)
    every = reference.means(queries.astype(float), Z.astype(float), np.eye(40), np.ones(40))
    np.testing.assert_array_equal(numbers, np.argsort(-every, axis=1)[:, :4])
    np.testing.assert_allclose(shares, np.take_along_axis(every, numbers, axis=1), rtol=1e-3)


def test_the_number_of_threads_changes_nothing():
    rng = np.random.default_rng(0)
    Z, codes = rng.normal(size=(900, 6)).astype(np.float32), np.sort(rng.integers(0, 3, size=900))
    sums = vote_sums.VoteSums(Votes.of_classes(codes, np.ones(900, dtype=np.float32)))
    results = []
    for threads in (1, 2, 3):
        with config_context(n_threads=threads):
            results.append(sums(Z))
    for loss, gradient in results[1:]:
        assert loss == results[0][0]
        np.testing.assert_array_equal(gradient, results[0][1])

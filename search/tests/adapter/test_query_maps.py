"""QueryMaps: what an adapter serves at a moment."""

from __future__ import annotations

import numpy as np
import pytest

from mahala_search import QueryAdapter
from mahala_search.adapter.maps.query_maps import QueryMaps


def taught(**params):
    rng = np.random.default_rng(0)
    adapter = QueryAdapter(random_state=0, **params)
    for at in range(30):
        adapter.learn_one(
            rng.normal(size=4), rng.normal(size=(5, 4)), rng.integers(0, 2, size=5), query_id=f"q{at % 5}"
        )
    return adapter, rng


def test_maps_are_what_the_adapter_serves_and_stay_as_they_were():
    adapter, rng = taught()
    maps, x = adapter.maps(), rng.normal(size=4)
    for query_id, known in (("q1", True), ("other", False), (None, False)):
        assert maps.is_known(x, query_id) == known
    assert maps.embed(x, "other") == pytest.approx(adapter.embed(x, "other"), rel=1e-12)
    before = maps.embed(x, "q1").copy()
    adapter.learn_one(x, rng.normal(size=(5, 4)), [0, 1, 0, 0, 1])
    assert (maps.embed(x, "q1") == before).all()
    assert adapter.maps().is_known(x)  # without an id, by the vector itself
    again = QueryMaps.from_arrays(maps.to_arrays())
    assert again.embed(x, "q1") == pytest.approx(before, rel=1e-5)


def test_directions_are_those_of_the_singular_value_decomposition():
    maps = taught()[0].maps()
    for M, (values, left) in ((maps.new, maps.new_directions), (maps.known, maps.known_directions)):
        expected, sizes, _ = np.linalg.svd(M - np.eye(4))
        assert values == pytest.approx(sizes, abs=1e-7 * sizes[0])
        assert np.abs((expected * left).sum(axis=0))[:2] == pytest.approx(1.0)  # up to their signs
    assert maps.new_directions is maps.new_directions  # computed once


def test_a_user_is_trusted_no_more_than_learned_from():
    """One user who clicks against the ranking moves trust like few impressions, however many there are."""
    rng = np.random.default_rng(1)
    x, items = rng.normal(size=4), rng.normal(size=(6, 4))
    items = items[np.argsort(-items @ x)]
    trusts = {}
    for cap, n in ((None, 100), (2, 100), (None, 2)):
        adapter = QueryAdapter(user_cap=cap, random_state=0)
        adapter.learn_one(x, items, [0, 0, 0, 0, 0, 0], user="another", ranked=False)
        for _ in range(n):
            adapter.learn_one(x, items, [0, 0, 0, 0, 0, 1], query_id="q", user="u", ranked=False)
        trusts[cap, n] = adapter._trust.hedge["known"].n
    assert trusts[None, 100] == 99  # all but the first
    assert trusts[2, 100] == pytest.approx(1 + sum(2 / n for n in range(3, 101)))
    assert trusts[None, 2] == 1

"""QueryMaps: what an adapter serves at a moment."""

from __future__ import annotations

import numpy as np
import pytest

from mahala_search import QueryAdapter
from mahala_search.adapter.maps.query_maps import QueryMaps


def taught():
    rng = np.random.default_rng(0)
    adapter = QueryAdapter(random_state=0)
    for at in range(30):
        adapter.learn_one(
            rng.normal(size=4), rng.normal(size=(5, 4)), rng.integers(0, 2, size=5), query_id=f"q{at % 5}"
        )
    return adapter, rng


def test_maps_are_what_the_adapter_serves_and_stay_as_they_were():
    adapter, rng = taught()
    maps, x = adapter.maps(), rng.normal(size=4)
    assert maps.embed(x) == pytest.approx(adapter.embed(x), rel=1e-12)
    before = maps.bonus(x, "q1")
    bonus = adapter._bonus("q1")
    np.testing.assert_array_equal(before[0], bonus.items)
    np.testing.assert_allclose(before[1], bonus.values, rtol=1e-5)
    adapter.learn_one(x, rng.normal(size=(5, 4)), [0, 1, 0, 0, 1], user="u")
    assert len(maps.bonus(x).items) == 0
    assert len(adapter.maps().bonus(x).items) == 5  # without an id, by the vector itself
    again = QueryMaps.from_arrays(maps.to_arrays())
    assert again.embed(x) == pytest.approx(maps.embed(x), rel=1e-5)
    np.testing.assert_array_equal(again.bonus(x, "q1")[1], before[1])

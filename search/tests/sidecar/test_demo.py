"""The demo: people whose searches are kept, and who click what they like."""

from __future__ import annotations

from collections import Counter

import numpy as np
import sqlalchemy as sa

from mahala_search.sidecar.demo.dishes import Dishes
from mahala_search.sidecar.demo.people import DIETS, People
from mahala_search.sidecar.demo.run import SPACE, demo
from mahala_search.sidecar.store.tables import pages

from .http_sidecar import opened, running, wait_for


def test_the_engine_is_exact():
    dishes = Dishes()
    query = dishes.encode("soup of tomatoes")
    found = dishes.search(query, 953)
    scores = [dishes.vectors([id])[id] @ query for id in found]
    np.testing.assert_allclose(list(found.values()), scores, atol=1e-12)
    assert (np.diff(scores) <= 1e-12).all()


def settled(progress, n):
    """Whether all that n searches brought is in the log."""
    return progress["logged"] >= n and progress["missing"] == progress["waiting"] == 0


def test_people_search_beside_a_sidecar(tmp_path):
    with opened(tmp_path) as sidecar, running(sidecar) as address:
        with demo(address, rate=1000.0) as people:
            wait_for(lambda: people.n_searches >= 100)
            people.stop()
            space = sidecar.store.spaces()[SPACE]
            wait_for(lambda: settled(sidecar.store.progress(space.id), people.n_searches))
        assert space.settings.control.share > 0.0
        with sidecar.store.reading() as connection:
            rows = connection.execute(sa.select(pages).where(pages.c.space == space.id)).all()
        assert len(rows) == people.n_searches
        assert all(3 <= row.seen <= len(row.ids) == 10 for row in rows)
        clicked = Counter(people._about[item]["diet"] in DIETS for row in rows for item in row.reactions)
        assert clicked[True] > 2 * clicked[False] > 0


def test_they_like_a_kind_and_a_diet():
    dish = {"kind": "soup", "diet": "vegan"}
    liked = [People._liking({**dish, **change}, "soup") for change in ({}, {"diet": "meat"}, {"kind": "cake"})]
    assert liked == sorted(liked, reverse=True)
    assert len(set(liked)) == 3

"""The map of clicks against its definition: the minimum of a penalised likelihood, in plain NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mahala_search.adapter.maps.click_map import CONTRAST, ENOUGH, PENALTY, ClickMap
from mahala_search.adapter.maps.fitting import plain_ratio
from mahala_search.adapter.memory.click_memory import Counts
from mahala_search.adapter.memory.vectors import Vectors
from reference.feedback import click_map
from strategies import examples

D, QUERIES, ITEMS = 3, 24, 9


@examples(4)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.03, 1.0]))
def test_the_fit_is_the_minimum_of_its_definition(seed, scale):
    rng = np.random.default_rng(seed)
    stored, keys = [], (np.arange(QUERIES, dtype=np.uint64) * 7, np.arange(ITEMS, dtype=np.uint64) + 5)
    for names in keys:
        stored.append(Vectors(D))
        stored[-1].add(names, rng.normal(size=(len(names), D)))
    query = np.repeat(np.arange(QUERIES), 4)
    item = np.concatenate([np.sort(rng.permutation(ITEMS)[:4]) for _ in range(QUERIES)])
    clicks, expected = rng.random(len(query)) * rng.integers(0, 9, len(query)), rng.random(len(query)) * 4.0
    base = np.eye(D) + 0.1 * rng.normal(size=(D, D))
    model = ClickMap(D)
    model.fit(Counts(keys[0], query, keys[1][item], clicks, expected), *stored, base, scale, QUERIES)

    rows, vectors = (of.of(names).astype(float) for of, names in zip(stored, keys, strict=True))
    sizes = [np.sqrt(np.square(part).sum(axis=1).mean()) for part in (rows, vectors[np.unique(item)])]
    mapped, vectors = rows / sizes[0] @ base, vectors / sizes[1]
    weights = np.minimum(1.0, ENOUGH / np.bincount(query, expected))[query]
    counted = weights * clicks, weights * expected
    plain = plain_ratio(*counted, np.einsum("ij,ij->i", mapped[query], vectors[item]))
    slope = CONTRAST * sizes[0] * sizes[1] / scale
    want = click_map(mapped[query], vectors[item], *counted, plain, slope, PENALTY)
    np.testing.assert_allclose(model.change, want, atol=2e-3 * np.abs(want).max())
    assert np.abs(want).max() > 1e-3

"""The map of clicks against its definition: the minimum of a penalised likelihood, in plain NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mahala_search.adapter.maps.click_map import CONTRAST, ENOUGH, FOLDS, PENALTY, SPREAD, SUM, TRIED, ClickMap
from mahala_search.adapter.maps.fitting import plain_ratio
from mahala_search.adapter.memory.click_memory import Counts
from mahala_search.adapter.memory.vectors import Vectors
from reference.feedback import click_map
from strategies import examples

D, QUERIES, ITEMS = 3, 24, 9


@examples(4)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.1, 1.0]), strength=st.sampled_from([0.0, 0.3, 2.0]))
def test_the_fit_is_the_minimum_of_its_definition(seed, scale, strength):
    rng = np.random.default_rng(seed)
    stored, keys = [], (np.arange(QUERIES, dtype=np.uint64) * 7, np.arange(ITEMS, dtype=np.uint64) + 5)
    for names in keys:
        stored.append(Vectors(D))
        stored[-1].add(names, rng.normal(size=(len(names), D)))
    query = np.repeat(np.arange(QUERIES), 4)
    item = np.concatenate([np.sort(rng.permutation(ITEMS)[:4]) for _ in range(QUERIES)])
    taste = rng.normal(size=(D, D))
    likes = np.einsum("ij,ij->i", stored[0].of(keys[0])[query] @ taste, stored[1].of(keys[1][item]))
    clicks = rng.random(len(query)) * rng.integers(0, 9, len(query)) * np.exp(np.clip(strength * likes, -4.0, 4.0))
    expected = rng.random(len(query)) * 4.0
    base = np.eye(D) + 0.1 * rng.normal(size=(D, D))
    model = ClickMap(D)
    model.fit(Counts(keys[0], query, keys[1][item], clicks, expected), *stored, base, scale, QUERIES)

    rows, vectors = (of.of(names).astype(float) for of, names in zip(stored, keys, strict=True))
    sizes = [np.sqrt(np.square(part).sum(axis=1).mean()) for part in (rows, vectors[np.unique(item)])]
    mapped, vectors = rows / sizes[0] @ base, vectors / sizes[1]
    weights = np.minimum(1.0, ENOUGH / np.bincount(query, expected))[query]
    counted = weights * clicks, weights * expected
    plain = np.einsum("ij,ij->i", mapped[query], vectors[item])
    slope = CONTRAST * sizes[0] * sizes[1] / scale
    covariance = np.cov(vectors[np.unique(item)], rowvar=False, bias=True)

    def spread(matrix):
        return np.mean([np.sqrt(row @ matrix @ covariance @ matrix.T @ row) for row in mapped])

    base_ratio = slope * (plain - np.average(plain, weights=sum(counted)))

    def fitted(part):
        """Return the change that is served if it is fitted to a part of the pairs, and what it adds to scores."""
        numbers = [part * each for each in counted]
        change = click_map(mapped[query], vectors[item], *numbers, base_ratio, slope, PENALTY)
        change *= SPREAD * spread(np.eye(D)) / spread(change)
        return change, np.einsum("ij,ij->i", mapped[query] @ change, vectors[item])

    added = np.zeros(len(query))
    for fold in range(FOLDS):
        test = (keys[0] % FOLDS == fold)[query]
        added[test] = fitted(~test)[1][test]
    ratios = [plain_ratio(*counted, scores) for scores in (plain + TRIED * added, plain)]
    gains = np.bincount(query, np.subtract(*(likelihoods(*counted, ratio) for ratio in ratios)))
    want = fitted(np.ones(len(query)))[0]
    np.testing.assert_allclose(model.change, want, atol=4e-3 * np.abs(want).max())
    share = (gains.mean() / (gains.std(ddof=1) / np.sqrt(QUERIES)) - 0.25) / (1.25 - 0.25)
    assert abs(model.share - max(min(share, gains.sum() / SUM, 0.02 * QUERIES), 0.0)) < 2e-3


def likelihoods(clicks, expected, ratio):
    return clicks * np.log(1.0 / (1.0 + np.exp(-ratio))) + expected * np.log(1.0 / (1.0 + np.exp(ratio)))

"""The deferred map, against models that change step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mahala
from mahala.support.model_files import ModelFileError
from mahala_search.adapter.maps.deferred_map import WAITING, DeferredMap
from strategies import examples


def pages(rng, n, d):
    """Queries of which some numbers are zero, items, and weighted pairs of them, sometimes none."""
    for _ in range(n):
        x = rng.normal(size=d) * (rng.random(d) < 0.7)
        items = rng.normal(size=(4, d)) * (rng.random((4, d)) < 0.7)
        positive, negative = rng.integers(0, 4, (2, int(rng.integers(0, 5))))
        yield x, items, (positive, negative, rng.choice([0.25, 1.0], len(positive)))


@pytest.mark.parametrize("learner", [mahala.OASIS(0.5, margin=0.25), mahala.OGD(0.125)], ids=repr)
@examples(6)
@given(seed=st.integers(0, 2**32 - 1))
def test_steps_are_those_of_the_definition(learner, seed):
    rng, rule = np.random.default_rng(seed), learner.step_rule(1.0, 1.0)
    d = int(rng.integers(1, 9))
    fast, M, models = DeferredMap(d, None), np.eye(d), []
    for x, items, (positive, negative, weights) in pages(rng, int(rng.integers(1, 2 * WAITING + 8)), d):
        fast.feed_query(x, items, (positive, negative, weights), rule.step(np.float64))
        for better, worse, weight in zip(items[positive], items[negative], weights, strict=True):
            models.append(M)
            q = better - worse
            norm, loss = x @ x * (q @ q), rule.margin - x @ M @ q
            if norm and loss > 0.0:
                with np.errstate(divide="ignore"):  # steps of OGD all have the largest length
                    tau = min(rule.upper, loss / (rule.scale * norm + rule.slack))
                M = M + weight * tau * np.outer(x, q)
    mean = np.mean(models, axis=0) if models else np.eye(d)
    assert fast.n_steps == len(models)
    for matrix, product, expected in zip(fast.matrices(), fast.products(x), (M, mean), strict=True):
        np.testing.assert_allclose(matrix, expected, atol=1e-9)
        np.testing.assert_allclose(product, x @ expected, atol=1e-9)


def test_neither_batches_nor_reads_nor_a_stop_change_a_bit():
    rng, rule, d = np.random.default_rng(0), mahala.OASIS(0.5, margin=0.25).step_rule(1.0, 1.0).step(np.float64), 13
    entries = list(pages(rng, 80, d))
    alone, together = DeferredMap(d, None), DeferredMap(d, None)
    for at, (x, items, pairs) in enumerate(entries):
        alone.feed_query(x, items, pairs, rule)
        if at in (0, 15, 55):
            together.expect(np.array([x for x, _, _ in entries[at : at + 30]]))
        if at in (25, 60):
            header, arrays = together.get_state()
            together.matrices()
            together = DeferredMap(d, None)
            together.set_state(header, {name: array.copy() for name, array in arrays.items()})
        together.feed_query(x, items, pairs, rule)
    assert all((one == other).all() for one, other in zip(alone.matrices(), together.matrices(), strict=True))


def test_a_damaged_state_is_refused():
    header, arrays = DeferredMap(3, None).get_state()
    with pytest.raises(ModelFileError, match="'n_waiting' should be less than 32"):
        DeferredMap(3, None).set_state(header | {"n_waiting": 32}, arrays)

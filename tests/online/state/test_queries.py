"""Steps for one query and products with one query, against the streams and matrices that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mahala
from mahala import Triplets
from strategies import examples

LEARNERS = [
    mahala.OASIS(0.5, margin=0.25),
    mahala.OASIS(0.5, dtype="float32"),
    mahala.SORS(0.125, lam=0.0625),
    mahala.SORS(0.125, lam=0.0625, penalty="offdiagonal"),
    mahala.AdaSORS(0.125, lam=0.0625),
    mahala.AROMA(2.0),
    mahala.AROMA(2.0, covariance="diagonal"),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@examples(8)
@given(seed=st.integers(0, 2**32 - 1))
def test_steps_for_a_query_are_those_of_its_triplets(learner, seed):
    rng = np.random.default_rng(seed)
    d, n_items = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    params = learner.get_params() | {"average": True, "storage": "dense"}
    fast, slow = type(learner)(**params), type(learner)(**params)
    first = Triplets(rng.normal(size=(3, d)), [0], [1], [2])
    for stream in fast, slow:
        stream.partial_fit(first)
    for _ in range(3):
        x = rng.normal(size=d) * (rng.random(d) < 0.7)
        items = rng.normal(size=(n_items, d)) * (rng.random((n_items, d)) < 0.7)
        n = int(rng.integers(0, 6))
        positive, negative = rng.integers(0, n_items, (2, n))
        fast._model.feed_query(x, items, (positive, negative, np.ones(n)), fast._rule())
        if n:
            slow.partial_fit(Triplets(x[np.newaxis], np.zeros(n, dtype=int), positive, negative, items=items))
    tolerance = 1e-4 if params["dtype"] == "float32" else 1e-9
    last, mean = fast._model.products(x)
    np.testing.assert_allclose(fast._model.matrix(), slow._model.matrix(), atol=tolerance)
    np.testing.assert_allclose(mean, x @ slow._model.matrix(), atol=tolerance)
    if hasattr(slow._model, "planes"):
        slow._model.settle()
        np.testing.assert_allclose(last, x @ slow._model.planes[:, 0].astype(float), atol=tolerance)
    assert fast._model.n_steps == slow._model.n_steps


def test_products_before_the_first_step_are_those_of_the_start():
    learner = mahala.OASIS(average=True).partial_fit(Triplets(np.eye(3), [0], [1], [2]))
    learner._begin(Triplets(np.eye(3), [0], [1], [2]), complete=False)
    for product in learner._model.products(np.array([1.0, 2.0, 3.0])):
        np.testing.assert_array_equal(product, [1.0, 2.0, 3.0])

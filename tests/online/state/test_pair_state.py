from __future__ import annotations

import numpy as np
import pytest

import mahala
from mahala import Pairs
from mahala.online.state import margin


@pytest.mark.parametrize(
    "learner",
    [
        mahala.PA("I"),
        mahala.PA("II", psd="end"),
        mahala.online.RDML(),
        mahala.LEGO(similar_target=1.0, dissimilar_target=3.0),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_single_steps_at_large_dimensions_equal_those_of_a_stream(learner, monkeypatch):
    """Above a number of features single steps limit BLAS to one thread first; that changes nothing."""
    monkeypatch.setattr(margin, "SMALL_DIMENSION", 4)
    rng = np.random.default_rng(0)
    X, similar = rng.normal(size=(30, 6)), rng.random(15) < 0.5
    pairs = Pairs(X, np.arange(0, 30, 2), np.arange(1, 30, 2), similar)
    stream = learner.set_params(random_state=0).fit(pairs).metric_
    single = type(learner)(**learner.get_params())
    for number, own in enumerate(similar):
        single.learn_one(X[2 * number], X[2 * number + 1], bool(own))
    np.testing.assert_allclose(single.metric_.matrix, stream.matrix, rtol=1e-9, atol=1e-9)

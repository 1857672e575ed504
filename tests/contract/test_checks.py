"""The checks that `mahala.checks` has for every learner, on ours, and what they say of one that is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import mahala
from contract.learners import ALL, REPRESENTATIVES
from mahala.checks import OF_BASE_CLASSES, check_learner, draw, learner_checks, models_agree

# What the base classes do is checked on one learner of each.
OF_BASES = {check.__name__.replace("_", " ") for check in OF_BASE_CLASSES}
CHECKS = [
    pytest.param(check, id=f"{learner!r}-{name}")
    for learner in ALL
    for name, check in learner_checks(learner)
    if name not in OF_BASES or learner in REPRESENTATIVES
]


@pytest.mark.parametrize("check", CHECKS)
def test_learner_passes(check):
    check()


class Halved(mahala.RCA):
    pass


class Forgetful(mahala.RCA):
    def fit(self, X, y=None):
        self.n_features_in_ = 3
        return super().fit(X, y)


class Restless(mahala.RCA):
    def _learn(self, data, run):
        run.step(0.0, {"L": np.random.default_rng().normal(size=(2, data.X.shape[1]))})
        return "closed form"


class Impatient(mahala.OASIS):
    def partial_fit(self, X, y=None):
        return super().partial_fit(X, y) if isinstance(X, np.ndarray) else super().partial_fit(X[:1])


@pytest.mark.parametrize(
    ("learner", "sentence"),
    [
        (Forgetful(), "fails the check 'a refused fit changes nothing': a refused fit leaves n_features_in_"),
        (Restless(), "fails the check 'a refused fit changes nothing': transform after a second fit differs by up to"),
        (Impatient(random_state=0), "fails the check 'a stream gives one model': the matrix of comparisons in chunks"),
    ],
    ids=repr,
)
def test_a_wrong_learner_is_told_what_is_wrong(learner, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_learner(learner)


def test_a_learner_of_another_package_passes():
    """It has no files, since those hold the learners that mahala exports."""

    check_learner(Halved(n_components=2))


def test_inner_products_learn_what_a_stream_learns(labelled):
    learner = mahala.OASIS(storage="gram", average=True, init="zero", random_state=0)
    triplets = draw(learner, *labelled, n=80)
    whole, stream = (clone(learner).set_params(storage=storage).fit(triplets) for storage in ("gram", "dense"))
    models_agree(whole, stream, triplets)
    np.testing.assert_array_equal(whole.history_.predicted, stream.history_.predicted)
    np.testing.assert_allclose(whole.history_.p, stream.history_.p, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(whole.history_.tau, stream.history_.tau, rtol=1e-7, atol=1e-10)

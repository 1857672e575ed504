"""The checks that `mahala.testing` has for every learner, on ours, and what they say of one that is wrong."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
from sklearn.base import clone

import mahala
from contract.learners import ALL, LEARNERS, REPRESENTATIVES
from mahala.batch.batch_learner import BatchLearner
from mahala.online.online_learner import OnlineLearner
from mahala.testing import OF_BASE_CLASSES, check_learner, draw, learner_checks, models_agree

# What the base classes do is checked on one learner of each.
OF_BASES = {check.__name__.replace("_", " ") for check in OF_BASE_CLASSES}
# What does not depend on the settings of a learner is checked on one of each class.
OF_CLASSES = {"every choice of a parameter is learned with"}
FIRST = {type(learner): learner for learner in reversed(ALL)}.values()
CHECKS = [
    pytest.param(check, id=f"{learner!r}-{name}")
    for learner in ALL
    for name, check in learner_checks(learner)
    if (name not in OF_BASES or learner in REPRESENTATIVES) and (name not in OF_CLASSES or learner in FIRST)
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


@dataclass(eq=False, repr=False)
class Untried(mahala.batch.Covariance):
    shape: Literal["full", "round"] = "full"

    def _learn(self, data, run):
        if self.shape == "round":
            raise KeyError("radius")
        return super()._learn(data, run)


@pytest.mark.parametrize(
    ("learner", "sentence"),
    [
        (Forgetful(), "fails the check 'a refused fit changes nothing': a refused fit leaves n_features_in_"),
        (Restless(), "fails the check 'a refused fit changes nothing': transform after a second fit differs by up to"),
        (Untried, "with': shape='round' cannot be learned with: KeyError"),
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


def test_every_learner_is_exported_and_so_checked():
    """A class that a stub does not name would have no contract, no file and no page."""
    folders = "mahala.online.", "mahala.batch."
    kinds, found = [BatchLearner, OnlineLearner], set()
    for folder in (mahala.online, mahala.batch):
        for module in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
            importlib.import_module(module.name)
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith(folders) and not inspect.isabstract(kind):
            found.add(kind)
    assert found == set(LEARNERS)


WITHOUT_EXTRAS = """
import sys
for name in ("pytest", "hypothesis", "rich", "typer", "polars", "pandas", "matplotlib"):
    sys.modules[name] = None  # importing it fails
import mahala.testing
mahala.testing.check_learner(mahala.batch.Covariance)
"""


def test_learners_are_checked_without_extras():
    subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], check=True)


def test_inner_products_learn_what_a_stream_learns(labelled):
    learner = mahala.OASIS(storage="gram", average=True, init="zero", random_state=0)
    triplets = draw(learner, *labelled, n=80)
    whole, stream = (clone(learner).set_params(storage=storage).fit(triplets) for storage in ("gram", "dense"))
    models_agree(whole, stream, triplets)
    np.testing.assert_array_equal(whole.history_.predicted, stream.history_.predicted)
    np.testing.assert_allclose(whole.history_.p, stream.history_.p, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(whole.history_.tau, stream.history_.tau, rtol=1e-7, atol=1e-10)

"""Single steps leave a term pending: nothing that a user does in between may show it."""

from __future__ import annotations

import copy
import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone

import mahala
from contract.learners import case
from mahala import AROMA, LEGO, PA, POLA
from mahala.online import RDML
from mahala.online.lego import LEGOState
from mahala.online.rdml import RDMLState
from mahala.online.state.margin import MarginState
from mahala.support import limits
from mahala.testing import draw, models_agree, same_model, single_comparisons

LEARNERS = [
    PA("I", C=0.1),
    PA("LS", psd="end"),
    PA("II", psd=4),
    POLA(),
    LEGO(eta=0.5, similar_target=0.5, dissimilar_target=4.0),
    RDML(),
    AROMA(),
    AROMA(average=True),
]
every_learner = pytest.mark.parametrize("learner", LEARNERS, ids=repr)


def saved(learner, path):
    learner.save(path)
    return mahala.load(path)


def mapped(learner, path):
    joblib.dump(learner, path)
    return joblib.load(path, mmap_mode="r")


LOOKS = {
    "metric": lambda learner, path: (learner.metric_, learner)[1],
    "saved": saved,
    "read-only map": mapped,
    "pickled": lambda learner, path: pickle.loads(pickle.dumps(learner)),
    "copied": lambda learner, path: copy.deepcopy(learner),
}


@every_learner
def test_no_look_changes_a_bit_of_a_stream(learner, labelled, tmp_path):
    comparisons = draw(learner, *labelled, n=70)
    plain = clone(learner)
    looked_at = {name: clone(learner) for name in LOOKS}
    for number, one in enumerate(single_comparisons(comparisons)):
        plain.learn_one(*one)
        for name, look in LOOKS.items():
            looked_at[name].learn_one(*one)
            if number % 7 == 0:
                looked_at[name] = look(looked_at[name], tmp_path / f"{number}.model")
    assert plain.n_updates_ > 10
    for name, other in looked_at.items():
        with case(name):
            same_model(other, plain)
            np.testing.assert_array_equal(other.history_.p, plain.history_.p)
            np.testing.assert_array_equal(other.history_.tau, plain.history_.tau)


@pytest.mark.parametrize("learner", [PA(), POLA(), LEGO(), RDML()], ids=repr)
def test_a_short_fit_calls_no_kernel(learner, monkeypatch):
    """Nothing is compiled, or loaded, for a fit with default parameters to a small table."""
    X, y = np.random.default_rng(0).normal(size=(178, 13)), np.arange(178) % 3

    def refuse(*arguments):
        raise AssertionError("a kernel is called")

    for state in (MarginState, LEGOState, RDMLState):
        monkeypatch.setattr(state, "_stream", refuse)
    assert learner.fit(X, y).n_updates_ > 0


@every_learner
def test_single_steps_among_chunks(learner, labelled, monkeypatch):
    """NumPy takes single steps, and all of a short stream, as kernels do."""
    comparisons = draw(learner, *labelled)
    by_numpy = clone(learner).partial_fit(comparisons)
    monkeypatch.setattr(limits, "FEW_STEPS_WORK", 0)
    whole, mixed = clone(learner).partial_fit(comparisons), clone(learner)
    singles = list(single_comparisons(comparisons))
    for start in range(0, 150, 15):
        for one in singles[start : start + 6]:
            mixed.learn_one(*one)
        mixed.partial_fit(comparisons[start + 6 : start + 15])
        np.testing.assert_array_equal(
            mixed.predict_comparisons(comparisons),
            clone(learner).partial_fit(comparisons[: start + 15]).predict_comparisons(comparisons),
        )
    for other in (mixed, by_numpy):
        models_agree(other, whole, comparisons)
        np.testing.assert_array_equal(other.history_.predicted, whole.history_.predicted)
        np.testing.assert_allclose(other.history_.tau, whole.history_.tau, rtol=1e-6, atol=1e-9)

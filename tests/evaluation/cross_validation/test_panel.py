"""The learners that are compared by default, and learners by name."""

from __future__ import annotations

import numpy as np
import pytest

from mahala import GML, LDA, LMNN, MLKR, PA
from mahala.evaluation.compare import compare
from mahala.evaluation.cross_validation.panel import default_panel, left_out, members, named_learners
from mahala.learner import Learner


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("shape", [(150, 4), (1797, 64), (5000, 784), (20_000, 16), (20_000, 300), (500, 3000)])
def test_panels_are_learners(shape, numbers):
    panel = default_panel(*shape, numbers=numbers)
    assert "LDA" in panel
    assert all(isinstance(learner, Learner) for learner in panel.values())
    assert ("MLKR" in panel) == (numbers and shape[1] <= 1000)


@pytest.mark.parametrize(
    ("shape", "names"), [((12_000, 300), {"GML", "GML weights"}), ((20_000, 16), set()), ((90, 4), set())]
)
def test_who_is_left_out_has_a_reason(shape, names):
    reasons = left_out(*shape)
    assert set(reasons) == names
    assert set(default_panel(*shape)) == set(members(*shape)) - names
    assert all(f"{shape[0]:,} rows" in why or f"{shape[1]} features" in why for why in reasons.values())


def test_names_of_the_leaderboard_are_learners():
    found = named_learners(["GML weights", "lmnn", "PA"], members(90, 4, 3))
    assert list(found) == ["GML weights", "LMNN", "PA-I"]
    assert isinstance(found["GML weights"], GML)
    assert found["GML weights"].diagonal
    assert isinstance(found["LMNN"], LMNN)
    assert isinstance(found["PA-I"], PA)
    assert found["PA-I"].random_state == 3
    assert isinstance(named_learners(["mlkr"], members(90, 4, numbers=True))["MLKR"], MLKR)
    for wrong, numbers in (("MLKR", False), ("NCA", True), (LDA(), False)):
        with pytest.raises(ValueError, match="learners must be learners by name, or names among"):
            named_learners([wrong], members(90, 4, numbers=numbers))


def test_a_comparison_of_names_is_that_of_the_learners():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3)) + y[:, None]
    arguments = {"folds": 2, "repeats": 1, "baselines": False}
    named = compare(X, y, ["LDA", "rca"], **arguments)
    given = compare(X, y, {name: members(60, 3)[name] for name in ("LDA", "RCA")}, **arguments)
    for one, two in zip(named.entries, given.entries, strict=True):
        assert one.name == two.name
        np.testing.assert_array_equal(one.errors, two.errors)
    assert not named.left_out
    from_generator = compare(X, y, (name for name in ["LDA"]), **arguments)
    assert [entry.name for entry in from_generator.entries if entry.learned] == ["LDA"]

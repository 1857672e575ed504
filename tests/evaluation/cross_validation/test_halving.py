"""Successive halving: which learners are measured in the next repetition, and what the judge sees of the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mahala import GML, LDA, RCA, compare
from mahala.batch.covariance import Covariance
from mahala.evaluation.cross_validation.entries import units_of
from mahala.evaluation.cross_validation.halving import finished_parts, most_keys, next_keys
from mahala.evaluation.cross_validation.measuring import Cell
from mahala.evaluation.cross_validation.plan import Plan, target_of
from mahala.evaluation.cross_validation.settings import Settings
from mahala.evaluation.cross_validation.splits import parts_of
from mahala.evaluation.cross_validation.summary import summarise

LEARNERS = {name: LDA() for name in ("a", "b", "c", "d", "e")}


def plan_of(n=200, repeats=3, **fields):
    target = target_of(np.arange(n) % 2, n, False)
    return Plan(
        X=np.arange(2.0 * n).reshape(n, 2) ** 2, target=target, rows=np.arange(n), n_rows=n,
        parts=parts_of(target.codes, 4, repeats, 0), counts=np.arange(1, 3), groups=None, measure="error",
        settings=Settings(folds=4, repeats=repeats, n_neighbors=2),
        **({"is_halved": True, "baselines": ["k-NN with PCA"], "learners": LEARNERS} | fields),
    )  # fmt: skip


def measure(plan, cells, keys, shares):
    """Add cells whose predictions are wrong for the first rows, by the share of them for each candidate."""
    for key in keys:
        test = plan.parts[key.part][1]
        values = plan.target.values[test]
        predicted = np.where(test < shares.get(key.name, 0.5) * len(plan.target.codes), 1 - values, values)
        cells[key] = Cell(np.array([0.5, np.mean(predicted != values)]), predicted, 0.5, "standard", n_neighbors=2)


def run(plan, shares):
    """Measure all rounds; return the cells and the learners of each round."""
    cells, rounds = {}, []
    while keys := next_keys(plan, cells):
        rounds.append(sorted({key.name for key in keys} & {*plan.learners}))
        measure(plan, cells, keys, shares)
    return cells, rounds


def test_the_better_third_goes_on():
    shares = {"a": 0.10, "b": 0.105, "c": 0.11, "d": 0.115, "e": 0.12}
    cells, rounds = run(plan_of(repeats=5), shares)
    assert rounds == [["a", "b", "c", "d", "e"], ["a", "b"], ["a"], ["a"], ["a"]]
    plan = plan_of(repeats=5)
    assert finished_parts(plan, cells) == list(range(20))
    assert {key.part for key in cells if key.name == "k-NN with PCA"} == {0, 1, 2, 3}


def test_learners_that_cannot_win_are_out():
    """They are behind the best one, or behind the plain distance, by more than chance."""
    assert run(plan_of(), {"a": 0.1})[1] == [["a", "b", "c", "d", "e"], ["a"], ["a"]]
    plan = plan_of()
    cells, rounds = run(plan, {"Euclidean": 0.1})
    assert rounds == [["a", "b", "c", "d", "e"]]
    assert finished_parts(plan, cells) == [0, 1, 2, 3]
    assert most_keys(plan, cells) == len(cells)


def test_the_others_keep_their_losses_on_every_row():
    """So the judge may still choose them, on rows that they have not learned from."""
    plan = plan_of()
    cells, _ = run(plan, {"a": 0.1})
    units = units_of(plan, cells, finished_parts(plan, cells))
    assert units.losses["b"].shape == (3, 200)
    np.testing.assert_array_equal(units.losses["b"], np.tile(np.arange(200) < 100, (3, 1)))


def test_a_round_ends_before_the_next_one_begins():
    """Whichever of its cells are finished first."""
    plan = plan_of()
    cells = {}
    first = next_keys(plan, cells)
    measure(plan, cells, first[1:], {"a": 0.1})
    assert next_keys(plan, cells) == first[:1]
    assert finished_parts(plan, cells) == [1, 2, 3]
    assert most_keys(plan, cells) == 4 * 8 + 4 * (2 + 2) + 4 * (2 + 1)
    whole = replace(plan, is_halved=False)
    assert next_keys(whole, cells) == [first[0], *whole.keys[len(first) :]]


@pytest.mark.parametrize("options", [{}, {"repeats": 3}, {"metric": "roc_auc"}])
def test_a_comparison_drops_learners_if_repeats_are_its_own_choice(options):
    rng = np.random.default_rng(0)
    y = np.arange(150) % 2
    X = np.column_stack([rng.normal(size=150) + 2.0 * y, rng.normal(size=150)])
    X = np.column_stack([X[:, 0] + 5.0 * X[:, 1], X[:, 1], 3.0 * rng.normal(size=(150, 2))])
    learners = {"LDA": LDA(), "RCA": RCA(), "GML": GML(), "Covariance": Covariance()}
    board = compare(X, y, learners, baselines=False, **({"folds": 3} | options))
    parts = {entry.name: len(entry.errors) for entry in board.entries}
    assert not board.partial
    if options:
        assert set(parts.values()) == {board.parts}
        return
    assert (parts["Euclidean"], min(parts.values())) == (board.parts, 3)
    assert (board.verdict.kind, board.verdict.repeats) == ("shown to help", board.parts // 3)
    assert any("others were ahead" in text and "Covariance (3 of" in text for text in board.remarks())


def test_a_learner_that_fell_out_may_be_chosen():
    """The others were lucky when they were ahead of it."""
    plan = plan_of(repeats=2, learners={"a": LDA(), "b": LDA()})
    cells = {}
    measure(plan, cells, next_keys(plan, cells), {"a": 0.1, "b": 0.105})
    measure(plan, cells, next_keys(plan, cells), {"a": 0.4})
    board = summarise(plan, cells, finished_parts(plan, cells), "")
    assert (board.chosen, len(board["b"].errors), board.parts) == ("b", 4, 8)
    assert board.remarks() == ["Measured on fewer test parts, because others were ahead by then: b (4 of 8)."]

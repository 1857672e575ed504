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
from mahala.evaluation.cross_validation.plan import Key, Plan, target_of
from mahala.evaluation.cross_validation.planning import make_plan
from mahala.evaluation.cross_validation.settings import Settings
from mahala.evaluation.cross_validation.splits import parts_of
from mahala.evaluation.cross_validation.summary import summarise

LEARNERS = {name: LDA() for name in ("a", "b", "c", "d", "e")}


def plan_of(n=200, repeats=3, **fields):
    target = target_of(np.arange(n) % 2, n, False)
    parts = {"parts": parts_of(target.codes, 4, repeats, 0)}
    return Plan(
        X=np.arange(2.0 * n).reshape(n, 2) ** 2, target=target, rows=np.arange(n), n_rows=n, counts=np.arange(1, 3),
        groups=None, measure="error", settings=Settings(folds=4, repeats=repeats, n_neighbors=2),
        **({"is_halved": True, "baselines": ["PCA"], "learners": LEARNERS} | parts | fields),
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
    assert {key.part for key in cells if key.name == "PCA"} == {0, 1, 2, 3}


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


@pytest.fixture
def panel(monkeypatch):
    """A default panel of a few quick learners."""
    panel = {"LDA": LDA(), "RCA": RCA(), "GML": GML(), "Covariance": Covariance()}
    monkeypatch.setattr("mahala.evaluation.cross_validation.planning.default_panel", lambda *_, **__: panel)
    return panel


@pytest.mark.parametrize("options", [{}, {"repeats": 3}, {"metric": "roc_auc"}, {"learners": "all"}])
def test_a_comparison_drops_learners_if_nothing_asks_for_them(options, panel, stored):
    stored({"LDA": 0.05, "RCA": 0.2, "GML": 0.2, "Covariance": 0.3})
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 2)), np.arange(150) % 2
    options = options | ({"learners": panel} if "learners" in options else {})
    board = compare(X, y, baselines=False, **({"folds": 3} | options))
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


def screened_plan(**fields):
    """A plan of 200 rows, of which a screening in two folds has every fifth."""
    codes, rows = np.arange(200) % 2, np.arange(0, 200, 5)
    others = np.setdiff1d(np.arange(200), rows)
    screening = [(rows[train], rows[test]) for train, test in parts_of(codes[rows], 2, 1, 0)]
    parts = [(np.sort(np.r_[others[train], rows]), others[test]) for train, test in parts_of(codes[others], 4, 2, 0)]
    return plan_of(repeats=2, parts=[*screening, *parts], n_screening=2, **fields)


def test_a_screening_chooses_learners_that_other_rows_test():
    plan = screened_plan()
    assert plan.repetitions == [[2, 3, 4, 5], [6, 7, 8, 9]]
    cells = {}
    screening = next_keys(plan, cells)
    assert screening == [Key(name, part) for part in (0, 1) for name in plan.candidates]
    assert most_keys(plan, cells) == 2 * 7 + 4 * (2 + 2 + 1) + 4 * (2 + 1)
    measure(plan, cells, screening, {"a": 0.1, "b": 0.12})
    partial = summarise(plan, cells, finished_parts(plan, cells), "Ctrl-C")
    assert (partial.parts, partial.planned, partial.verdict.n) == (2, 8, 40)
    assert {entry.name for entry in partial.entries} == {*plan.candidates}
    while keys := next_keys(plan, cells):
        measure(plan, cells, keys, {"a": 0.45, "b": 0.2})
    done = finished_parts(plan, cells)
    assert done == list(range(2, 10))
    board = summarise(plan, cells, done, "")
    assert [entry.name for entry in board.entries if entry.learned] == ["b", "a"]
    assert (board.chosen, board.verdict.n, board.partial) == ("b", 160, False)
    assert board.remarks()[-1].startswith(
        "Not compared: c, d, e (others were ahead on the 40 rows of a first comparison)."
    )
    np.testing.assert_array_equal(board.first_part[1], plan.parts[2][1])


def test_models_are_measured_on_two_test_parts_that_have_enough_rows(monkeypatch):
    """And compared with the metrics on their rows; if the parts are small, on more of them."""
    plan = screened_plan(models=["gradient boosting"])
    assert plan.model_parts == plan.repetitions[0]
    monkeypatch.setattr("mahala.evaluation.cross_validation.plan._ROWS_OF_MODELS", 80)
    assert plan.model_parts == [2, 3]
    cells = {}
    while keys := next_keys(plan, cells):
        if not cells:
            assert most_keys(plan, cells) == 2 * 7 + 4 * (2 + 2 + 1) + 2 + 4 * (2 + 1)
        measure(plan, cells, keys, {"a": 0.1, "gradient boosting": 0.3})
    assert {key.part for key in cells if key.name == "gradient boosting"} == {2, 3}
    board = summarise(plan, cells, finished_parts(plan, cells), "")
    tested = np.concatenate([plan.parts[part][1] for part in (2, 3)])
    assert board.models[0].error == pytest.approx(np.mean(tested < 60))
    assert board.models[0].difference == pytest.approx(np.mean(tested < 60) - np.mean(tested < 100))
    assert board.advice.name == "2-NN with a"


def test_models_without_a_finished_test_part_are_left_out():
    """A budget may end while the first test part after the screening is measured."""
    plan, cells = screened_plan(models=["gradient boosting"]), {}
    measure(plan, cells, next_keys(plan, cells), {"a": 0.1})
    measure(plan, cells, [Key("gradient boosting", 2)], {})
    board = summarise(plan, cells, finished_parts(plan, cells), "the budget")
    assert (board.parts, board.models) == (2, ())


def test_one_learner_is_tested_even_if_none_is_better_in_the_screening():
    """Or nothing would tell that learning does not help."""
    plan = screened_plan()
    cells, rounds = run(plan, {"Euclidean": 0.1, "c": 0.4})
    assert rounds == [["a", "b", "c", "d", "e"], ["c"]]
    assert summarise(plan, cells, finished_parts(plan, cells), "").verdict.kind == "does not help"


@pytest.mark.parametrize("numbers", [False, True])
def test_large_tables_are_screened(panel, numbers):
    """Unless learners are named, which are all compared then."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3200, 2))
    y = X[:, 0] if numbers else np.where(np.arange(3200) < 5, 2, (X[:, 0] > 0).astype(int))
    plan = make_plan(X, y, None, Settings())
    screened = np.unique(np.concatenate([row for part in plan.parts[: plan.n_screening] for row in part]))
    assert (plan.n_screening, abs(len(screened) - 1500) < 5) == (3, True)
    for train, test in plan.parts[plan.n_screening :]:
        assert np.isin(screened, train).all()
        assert not np.isin(screened, test).any()
        assert len(np.union1d(train, test)) == len(train) + len(test) == 3200
    if not numbers:
        assert not (plan.target.codes[screened] == 2).any()  # a class too rare for both
    assert not make_plan(X, y, panel, Settings()).n_screening
    assert not make_plan(X, y, None, Settings(repeats=2)).n_screening
    assert not make_plan(X, y, None, Settings(groups=np.arange(3200) // 2)).n_screening


def test_wide_tables_are_screened_if_they_have_rows_for_that():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1001, 1000)), np.arange(1001) % 2
    plan = make_plan(X, y, None, Settings())
    screened = np.unique(np.concatenate([row for part in plan.parts[:3] for row in part]))
    assert (plan.n_screening, len(screened), plan.model_parts) == (3, 500, [3, 4, 5])
    assert not make_plan(X[:1000], y[:1000], None, Settings()).n_screening
    few = make_plan(np.tile(X[:900], 2), y[:900], None, Settings())
    assert (few.n_screening, few.model_parts) == (0, [0, 1])


def test_previews_follow_rounds_or_come_inside_of_long_ones(monkeypatch, panel):
    """They do not change the result, and each time takes twice as long as the last one."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = np.column_stack([rng.normal(size=120) + 2.0 * y, 3.0 * rng.normal(size=120)])
    boards = []
    settings = {"folds": 3, "n_neighbors": 3, "baselines": False}
    compare(X, y, preview=boards.append, **settings)
    assert boards == []
    monkeypatch.setattr("mahala.evaluation.compare._ROUND_SECONDS", 0.0)
    board = compare(X, y, preview=boards.append, **settings)
    assert boards[0].parts == 3
    assert all(early.parts % 3 == 0 for early in boards)
    assert all(early.partial and early.verdict.n == 120 for early in boards)
    assert len(boards) < board.parts / 3 - 1
    assert boards[0].notes[-1].startswith("Partial: a preview ended")
    assert compare(X, y, **settings).verdict == board.verdict
    boards.clear()
    monkeypatch.setattr("mahala.evaluation.compare._PREVIEW_SECONDS", 0.0)
    compare(X, y, preview=boards.append, **settings)
    assert (boards[0].parts, boards[0].verdict.kind) == (1, "too early to tell")

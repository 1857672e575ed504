"""Entries and verdicts from the cells of a comparison, against plain loops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mahala import LDA, RCA
from mahala.evaluation.cross_validation.entries import decide, entries, entry_of, reference_of, scaled_of, units_of
from mahala.evaluation.cross_validation.measuring import Cell
from mahala.evaluation.cross_validation.plan import Key, Plan, target_of
from mahala.evaluation.cross_validation.settings import Settings
from mahala.evaluation.cross_validation.splits import parts_of
from mahala.judge import judge, paired_test
from stored_cells import stored_cells

LEARNERS = {"LDA": LDA(), "RCA": RCA()}


def plan_of(y, *, folds=3, repeats=2, groups=None, **arguments):
    """A plan of rows whose features do not matter, because cells are given."""
    numbers = np.asarray(y).dtype.kind == "f"
    target = target_of(y, len(y), numbers)
    codes = None if numbers else target.codes
    settings = {name: arguments.pop(name) for name in ("n_neighbors", "scaling") if name in arguments}
    unit = "rows" if groups is None else "groups"
    fields = {
        "unit": unit, "X": np.column_stack([np.arange(len(y)), np.arange(len(y)) ** 2]).astype(float), "target": target,
        "rows": np.arange(len(y)), "n_rows": len(y), "parts": parts_of(codes, folds, repeats, 0, groups, None, len(y)),
        "counts": np.arange(1, 3), "groups": groups, "measure": "r2" if numbers else "error", "learners": LEARNERS,
        "settings": Settings(**({"folds": folds, "repeats": repeats, "n_neighbors": 2} | settings)),
    }  # fmt: skip
    return Plan(**(fields | arguments))


SHARES = {"Euclidean": 0.7, "Euclidean, scaled": 0.4, "LDA": 0.1, "RCA": 0.3}


def slow_losses(plan, cells, name, parts):
    """The loss of each row in each repetition, in a dictionary."""
    found = {}
    counts = np.bincount(plan.target.codes)
    for part in parts:
        repeat = next(r for r, numbers in enumerate(plan.repetitions) if part in numbers)
        for row, predicted in zip(plan.parts[part][1].tolist(), cells[Key(name, part)].predicted.tolist(), strict=True):
            actual = plan.target.values[row]
            if plan.measure == "r2":
                found[repeat, row] = (predicted - actual) ** 2
            elif plan.measure == "error":
                found[repeat, row] = float(predicted != actual)
            else:
                found[repeat, row] = (predicted != actual) * len(plan.target.codes) / len(counts) / counts[actual]
    return found


@pytest.mark.parametrize("measure", ["error", "balanced", "r2"])
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.booleans())
def test_units_are_the_losses_of_rows(measure, seed, repeats, grouped):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=24) if measure == "r2" else np.repeat(["a", "b", "c"], [12, 6, 6])[rng.permutation(24)]
    groups = np.arange(24) // 2 if grouped else None
    plan = plan_of(y, repeats=repeats, groups=groups, measure=measure)
    cells = stored_cells(plan, SHARES, seed)
    units = units_of(plan, cells, range(len(plan.parts)))
    assert (units.name, units.overlap) == ("groups" if grouped else "rows", 0.0)
    assert set(units.losses) == set(plan.candidates)
    for name, losses in units.losses.items():
        slow = slow_losses(plan, cells, name, range(len(plan.parts)))
        expected = [[slow[repeat, row] for row in range(24)] for repeat in range(repeats)]
        np.testing.assert_allclose(losses, expected, atol=1e-12)
    for repeat, parts in enumerate(plan.repetitions):
        for part in parts:
            assert (units.folds[repeat, plan.parts[part][1]] == part).all()
    if grouped:
        np.testing.assert_array_equal(units.groups, groups)


def test_of_a_partial_comparison_complete_repetitions_count():
    plan = plan_of(np.arange(24) % 2, repeats=2)
    cells = stored_cells(plan, SHARES)
    whole = units_of(plan, cells, [0, 1, 2, 4])
    np.testing.assert_array_equal(whole.losses["LDA"], units_of(plan, cells, range(6)).losses["LDA"][:1])
    some = units_of(plan, cells, [0, 2])
    rows = np.sort(np.concatenate([plan.parts[part][1] for part in (0, 2)]))
    np.testing.assert_array_equal(some.losses["LDA"], whole.losses["LDA"][:, rows])
    later = units_of(plan, cells, [4])  # processes may finish a part of the second repetition first
    assert later.losses["LDA"].shape == (1, 8)


@pytest.mark.parametrize("measure", ["f1", "roc_auc"])
def test_units_of_other_measures_are_test_parts(measure):
    plan = plan_of(np.arange(24) % 2, measure=measure)
    cells = stored_cells(plan, SHARES)
    units = units_of(plan, cells, range(6))
    assert (units.name, units.overlap, units.groups) == ("test parts", 0.5, None)
    assert units.losses["LDA"].tolist() == [[cells[Key("LDA", part)].losses[1] for part in range(6)]]
    assert units.folds.tolist() == [[0, 1, 2, 3, 4, 5]]


def test_what_the_budget_stopped_before_it_was_ahead_is_not_ranked():
    """A ruined score is no result, but one that is better than the plain distance is."""
    plan = plan_of(np.arange(90) % 3)
    shares = {"Euclidean": 0.7, "Euclidean, scaled": 0.4, "LDA": 0.5, "RCA": 0.1}
    cells = stored_cells(plan, shares)
    cells |= {key: replace(cell, stopped=True) for key, cell in cells.items() if key.name in LEARNERS}
    units = units_of(plan, cells, range(6))
    found = entries(plan, cells, range(6), units, "Euclidean, scaled")
    assert [entry.name for entry in found] == ["RCA", "Euclidean, scaled", "Euclidean", "LDA"]
    assert [entry.is_set_apart for entry in found] == [False, False, False, True]


@pytest.mark.parametrize("measure", ["error", "balanced", "r2"])
def test_entries_have_what_was_measured(measure):
    rng = np.random.default_rng(0)
    y = rng.normal(5.0, 3.0, size=30) if measure == "r2" else np.repeat(["a", "b"], [20, 10])[rng.permutation(30)]
    plan = plan_of(y, measure=measure)
    cells = stored_cells(plan, SHARES, 1)
    for part, how in enumerate(("none", "minmax", "minmax", "robust", "minmax", "none")):
        cell = cells[Key("LDA", part)]
        stopped = how == "none"
        cells[Key("LDA", part)] = Cell(cell.losses, cell.predicted, float(part), how, stopped=stopped, n_neighbors=2)
    cells[Key("RCA", 2)] = Cell(np.empty(0), np.empty(0), 0.5, "standard", failure="no luck")
    units = units_of(plan, cells, range(6))
    assert "RCA" not in units.losses
    reference = reference_of(plan, units)
    assert reference == "Euclidean, scaled"
    found = entries(plan, cells, range(6), units, reference)
    assert [entry.name for entry in found] == ["LDA", "Euclidean, scaled", "Euclidean", "RCA"]
    assert [entry.learned for entry in found] == [True, False, False, True]
    assert found[-1].failure == "no luck"
    assert math.isnan(found[-1].error)
    lda, base = found[0], found[1]
    assert (lda.scaling, lda.stopped, lda.seconds) == ("minmax", 2, 2.5)
    assert (base.difference, base.difference_low, base.difference_high) == (0.0, 0.0, 0.0)
    by_row = {}
    for name in plan.candidates[:3]:
        slow = slow_losses(plan, cells, name, range(6))
        by_row[name] = np.array([(slow[0, row] + slow[1, row]) / 2 for row in range(30)])
    for entry in found[:3]:
        losses = by_row[entry.name]
        low, high = stats.t.interval(0.95, 29, losses.mean(), stats.sem(losses))
        assert entry.error == pytest.approx(losses.mean())
        assert entry.low == pytest.approx(max(low, 0.0))
        assert entry.high == pytest.approx(high if measure == "r2" else min(high, 1.0))
        differences = losses - by_row[reference]
        if entry.name != reference:
            expected = paired_test(differences)[:3]
            assert (entry.difference, entry.difference_low, entry.difference_high) == pytest.approx(expected)
        predicted = np.concatenate([cells[Key(entry.name, part)].predicted for part in range(6)])
        actual = np.concatenate([plan.target.values[test] for _, test in plan.parts])
        if measure == "r2":
            assert entry.absolute_error == pytest.approx(np.abs(predicted - actual).mean() * y.std())
            assert entry.confusion is None
            assert math.isnan(entry.plain_error)
        else:
            wrong = [np.mean(predicted[actual == code] != code) for code in (0, 1)]
            assert entry.balanced_error == pytest.approx(np.mean(wrong))
            assert entry.plain_error == pytest.approx(np.mean(predicted != actual))
            assert entry.confusion.tolist() == [
                [int(np.sum((actual == i) & (predicted == j))) for j in (0, 1)] for i in (0, 1)
            ]
            assert math.isnan(entry.absolute_error)


def test_the_number_of_neighbours_is_the_median_of_the_parts():
    plan = plan_of(np.arange(24) % 2, n_neighbors=None)
    cells = stored_cells(plan, SHARES)
    for part, k in enumerate((2, 1, 2, 1, 2, 2)):
        cell = cells[Key("LDA", part)]
        cells[Key("LDA", part)] = Cell(cell.losses, cell.predicted, 0.5, "standard", n_neighbors=k)
    own = {part: cells[Key("LDA", part)] for part in range(6)}
    entry = entry_of(plan, "LDA", own)
    assert (entry.n_neighbors, entry.n_neighbors_low, entry.n_neighbors_high) == (2, 1, 2)
    assert entry.error == pytest.approx(np.mean([cell.losses[cell.n_neighbors - 1] for cell in own.values()]))


def test_the_decision_is_the_judges():
    plan = plan_of(np.arange(60) % 2)
    cells = stored_cells(plan, SHARES)
    units = units_of(plan, cells, range(6))
    name, decision = decide(plan, units, "Euclidean, scaled", "3-NN error")
    values = -np.stack([units.losses[name] for name in ("Euclidean, scaled", "LDA", "RCA")], axis=2)
    expected = judge(values, units.folds, measure="3-NN error", units="rows")
    assert decision.verdict == expected.verdict
    assert (name, decision.verdict.kind) == ("LDA", "shown to help")
    noise = stored_cells(plan, dict.fromkeys(SHARES, 0.4))
    name, decision = decide(plan, units_of(plan, noise, range(6)), "Euclidean", "3-NN error")
    assert (name, decision.verdict.helps) == ("Euclidean", False)


def test_a_tie_goes_to_the_plain_distance_and_to_raw_features():
    plan = plan_of(np.arange(24) % 2)
    cells = stored_cells(plan, dict.fromkeys(SHARES, 0.0))
    units = units_of(plan, cells, range(6))
    assert reference_of(plan, units) == "Euclidean"
    found = entries(plan, cells, range(6), units, "Euclidean")
    assert [entry.learned for entry in found] == [False, False, True, True]
    assert decide(plan, units, "Euclidean", "error")[0] == "Euclidean"


@pytest.mark.parametrize(
    ("measure", "share", "expected"),
    [
        ("error", 0.38, "Euclidean, scaled"),
        ("error", 0.2, "cosine"),
        ("balanced", 0.2, "cosine"),
        ("f1", 0.2, "cosine"),
    ],
)
def test_the_cosine_is_the_reference_if_it_is_clearly_better(measure, share, expected):
    """A lower error alone is not enough, and LDA as context is never a reference."""
    plan = plan_of(np.arange(90) % 2, measure=measure, baselines=["cosine", "PCA", "LDA"], learners={"RCA": RCA()})
    cells = stored_cells(
        plan, {"Euclidean": 0.7, "Euclidean, scaled": 0.4, "cosine": share, "PCA": 0.5, "LDA": 0.0, "RCA": 0.3}
    )
    units = units_of(plan, cells, range(6))
    assert units.losses["cosine"].mean() < units.losses["Euclidean, scaled"].mean()
    assert reference_of(plan, units) == expected
    found = entries(plan, cells, range(6), units, expected)
    assert [entry.name for entry in found if not entry.learned] == [
        *(["cosine"] if expected == "cosine" else []), "Euclidean, scaled", "Euclidean",
    ]  # fmt: skip
    assert decide(plan, units, expected, measure)[0] == ("RCA" if expected != "cosine" else "cosine")


def test_a_baseline_that_is_not_measured_in_a_whole_repetition_is_no_reference():
    plan = plan_of(np.arange(24) % 2, baselines=["cosine"])
    cells = stored_cells(plan, SHARES | {"cosine": 0.0})
    del cells[Key("cosine", 1)]
    assert reference_of(plan, units_of(plan, cells, range(6))) == "Euclidean, scaled"
    first = {key: cell for key, cell in cells.items() if key.part == 0}  # partial: one test part
    assert "cosine" in units_of(plan, first, [0]).losses


@pytest.mark.parametrize(("share", "expected"), [(0.38, "Euclidean, all scaled"), (0.1, "Euclidean, scaled")])
def test_all_features_are_scaled_unless_another_scaling_is_clearly_better(share, expected):
    y = np.arange(60) % 2
    plan = plan_of(y, X=np.column_stack([np.arange(60.0), y]))
    shares = {"Euclidean": 0.0, "Euclidean, scaled": share, "Euclidean, all scaled": 0.5, "LDA": 0.5, "RCA": 0.5}
    units = units_of(plan, stored_cells(plan, shares), range(6))
    means = {name: units.losses[name].mean() for name in shares}
    assert means["Euclidean, scaled"] < means["Euclidean, all scaled"]  # a lower error alone is not enough
    assert scaled_of(plan, units) == expected


def test_without_0_1_features_there_is_one_scaled_distance():
    plan = plan_of(np.arange(24) % 2)
    units = units_of(plan, stored_cells(plan, SHARES), range(6))
    assert scaled_of(plan, units) == "Euclidean, scaled"
    assert scaled_of(plan_of(np.arange(24) % 2, scaling="none"), units) == "Euclidean"


def test_the_context_of_baselines_is_a_mean_over_their_parts():
    plan = plan_of(np.arange(24) % 2)
    cells = stored_cells(plan, SHARES)
    own = {part: cells[Key("RCA", part)] for part in range(3)}
    boosting = entry_of(plan, "gradient boosting", own)
    assert not boosting.learned
    assert boosting.error == pytest.approx(np.mean([cell.losses[1] for cell in own.values()]))
    failed = {0: Cell(np.empty(0), np.empty(0), 1.0, "standard", failure="no luck")}
    assert entry_of(plan, "gradient boosting", failed).failure == "no luck"

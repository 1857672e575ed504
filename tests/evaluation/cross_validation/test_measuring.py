"""Neighbours and scalings are chosen in training parts, and the time of a comparison is shared among its fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from mahala import ITML, LDA, NCA, PA
from mahala.data.scaling import feature_scales
from mahala.evaluation.cross_validation.measuring import (
    Budget,
    choose,
    clearly_best,
    final_seconds,
    measure_cell,
    usual_neighbors,
)
from mahala.evaluation.cross_validation.plan import Key, Plan, target_of
from mahala.evaluation.cross_validation.splits import parts_of
from mahala.support.parameters import get_config

LEARNERS = {"ITML": ITML(), "NCA": NCA(), "PA": PA(), "LDA": LDA()}
KEYS = [Key(name, part) for part in range(10) for name in ("Euclidean", *LEARNERS)]


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("mahala.evaluation.cross_validation.measuring.time.monotonic", lambda: now[0])
    return now


def test_equal_shares_of_those_that_can_be_stopped(clock):
    budget = Budget(300.0, KEYS, LEARNERS, 1)
    assert budget.limit("ITML") == pytest.approx(0.8 * 300.0 / 30)
    assert budget.limit("LDA") is None
    assert budget.limit("Euclidean") is None
    assert Budget(300.0, KEYS, LEARNERS, 4).limit("PA") == pytest.approx(4 * 0.8 * 300.0 / 30)
    assert Budget(None, KEYS, LEARNERS, 1).limit("ITML") is None
    boosted = [*KEYS, *(Key("gradient boosting", part) for part in range(5))]
    assert Budget(300.0, boosted, LEARNERS, 1).limit("gradient boosting") == pytest.approx(0.1 * 300.0 / 5)
    assert (final_seconds(300.0), final_seconds(None)) == (30.0, None)


def test_what_quick_learners_leave_goes_to_the_others(clock):
    budget = Budget(300.0, KEYS, LEARNERS, 1)
    for name, seconds, stopped in (("ITML", 8.0, True), ("NCA", 1.0, False), ("PA", 1.0, False)):
        budget.limit(name)
        clock[0] += seconds
        budget.note(name, seconds, stopped)
    # 230 seconds are left, of which nine fits of NCA and of PA take 18.
    assert budget.limit("ITML") == pytest.approx((240.0 - 10.0 - 18.0) / 9)
    assert not budget.is_spent()
    clock[0] = 240.0
    assert budget.limit("ITML") == pytest.approx(8.0)  # its share, even if it is late
    clock[0] = 301.0
    assert budget.is_spent()


def test_all_is_used_and_not_more(clock):
    """A learner that always needs more, beside quick ones, gets nearly all the time of the learners."""
    budget = Budget(300.0, KEYS, LEARNERS, 1)
    for key in KEYS:
        limit = budget.limit(key.name)
        seconds = limit if key.name == "ITML" else 0.1
        clock[0] += seconds
        budget.note(key.name, seconds, key.name == "ITML")
    assert 230.0 < clock[0] <= 245.0


def plan_of(X, y, **arguments):
    target = target_of(y, len(y), np.asarray(y).dtype.kind == "f")
    settings = {
        "X": X, "target": target, "rows": np.arange(len(y)), "n_rows": len(y),
        "parts": parts_of(None if target.is_number else target.codes, 3, 2, 0, None, None, len(y)), "folds": 3,
        "repeats": 2, "counts": np.arange(1, 13), "n_neighbors": 3, "groups": None,
        "measure": "r2" if target.is_number else "error", "scaling": "auto", "random_state": 0, "budget": None,
        "learners": {"LDA": LDA()}, "baselines": [], "left_out": {}, "preprocessor": None, "notes": [],
    }  # fmt: skip
    return Plan(**(settings | arguments))


def slow_neighbors(plan, y):
    """3, unless the gain of another number over it is above one standard error, over the rows of one repetition."""
    losses = {k: [] for k in (1, 3, 5, 9)}
    for train, test in plan.parts[:3]:
        scales = plan.X[train].std(axis=0)
        for k, found in losses.items():
            model = KNeighborsRegressor if plan.target.is_number else KNeighborsClassifier
            predicted = (
                model(k, algorithm="kd_tree").fit(plan.X[train] / scales, y[train]).predict(plan.X[test] / scales)
            )
            if plan.target.is_number:
                found += (((predicted - y[test]) / y.std()) ** 2).tolist()
            else:
                counts = {label: np.sum(y[test] == label) for label in np.unique(y[test])}
                weights = [len(test) / len(counts) / counts[label] for label in y[test]]
                wrong = predicted != y[test]
                found += (wrong * (np.ones(len(test)) if plan.measure == "error" else weights)).tolist()
    best = min(losses, key=lambda k: round(np.mean(losses[k]), 12))
    gains = np.subtract(losses[3], losses[best])
    return best if round(gains.mean() - gains.std(ddof=1) / np.sqrt(len(gains)), 12) > 0.0 else 3


@pytest.mark.parametrize("measure", ["error", "balanced", "r2"])
def test_the_number_of_neighbours_suits_the_scaled_distance(measure):
    chosen = set()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        codes = np.arange(90) % 3 if seed % 2 else np.minimum(np.arange(90) % 6, 1)
        X = rng.normal(size=(90, 3)) + (0.7 + 0.3 * (seed % 3)) * codes[:, None]
        y = codes + 0.8 * rng.normal(size=90) if measure == "r2" else codes
        plan = plan_of(X * [1.0, 10.0, 0.1], y, measure=measure)
        chosen.add(usual_neighbors(plan))
        assert usual_neighbors(plan) == slow_neighbors(plan, y)
    assert len(chosen) > 1
    few = plan_of(X[:9], y[:9], measure=measure, counts=np.arange(1, 3))
    assert usual_neighbors(few) <= 2


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_another_scaling_is_clearly_better_by_two_standard_errors(rows):
    """As in McNemar's test: (b - c)² > 4 (b + c); b rows are wrong with the first scaling only, c with the other."""
    wrong = np.array(rows, dtype=float)
    losses = dict(zip(("standard", "none", "minmax"), wrong.T, strict=True))
    other = min(("none", "minmax"), key=lambda how: losses[how].sum())
    b = sum(one and not two for one, two in zip(losses["standard"], losses[other], strict=True))
    c = sum(two and not one for one, two in zip(losses["standard"], losses[other], strict=True))
    assert clearly_best(losses) == (other if b > c and (b - c) ** 2 > 4 * (b + c) else "standard")


def test_scalings_are_chosen_in_the_training_part_alone():
    """Whatever the test rows are."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 2
    X = np.column_stack([rng.normal(size=90) + 4.0 * y, 0.001 * rng.normal(size=(90, 20))])
    plan = plan_of(X, y)
    test = plan.parts[0][1]
    changed = X.copy()
    changed[test] = 1000.0 * rng.normal(size=(len(test), 21))
    chosen = choose(plan, 0, get_config())
    assert chosen[0] == "none"
    assert chosen[1] != "none"
    assert choose(replace(plan, X=changed), 0, get_config()) == chosen
    assert choose(replace(plan, scaling="robust"), 0, get_config()) == ("robust", "robust")


@pytest.mark.parametrize("kind", ["numbers", "copies"])
def test_cells_do_not_depend_on_the_order_of_rows(kind):
    """The same test rows, in a table in another order, have the same predictions."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(90, 3)).astype(float)
    if kind == "copies":
        X = rng.normal(size=(30, 3))[rng.integers(0, 30, 90)]
    y, order = rng.integers(0, 3, 90), rng.permutation(90)
    at = np.argsort(order)  # where each row has gone
    plan = plan_of(X, y, scaling="none")
    moved = plan_of(X[order], y[order], scaling="none", parts=[(np.sort(at[a]), at[b]) for a, b in plan.parts])
    for name in ("Euclidean", "LDA") if kind == "copies" else ("Euclidean",):
        for part in range(3):
            key = Key(name, part)
            cells = [measure_cell(p, key, choose(p, part, get_config()), None, get_config())[1] for p in (plan, moved)]
            np.testing.assert_array_equal(cells[0].predicted, cells[1].predicted)
            np.testing.assert_array_equal(cells[0].losses, cells[1].losses)


def test_a_cell_has_the_predictions_of_its_test_rows():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 3)) + y[:, None]
    plan = plan_of(X, y, scaling="standard")
    train, test = plan.parts[1]
    _, cell = measure_cell(plan, Key("Euclidean, scaled", 1), choose(plan, 1, get_config()), None, get_config())
    scales = feature_scales(X[train], "standard")
    for k in (1, 3, 12):
        model = KNeighborsClassifier(k, algorithm="kd_tree").fit(X[train] / scales, y[train])
        assert cell.losses[k - 1] == pytest.approx(1.0 - model.score(X[test] / scales, y[test]))
        if k == 3:
            np.testing.assert_array_equal(cell.predicted, model.predict(X[test] / scales))
    assert (cell.scaling, cell.stopped, cell.failure) == ("standard", False, None)

"""Scalings are chosen in training parts, and the time of a comparison is shared among its fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier

from mahala import ITML, LDA, NCA, PA
from mahala.data.preprocessing import TablePreprocessor
from mahala.data.scaling import feature_scales
from mahala.evaluation.cross_validation.measuring import Budget, Clock, choose, clearly_best, measure_cell
from mahala.evaluation.cross_validation.plan import Key, Plan, target_of
from mahala.evaluation.cross_validation.settings import Settings
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
    budget = Budget(Clock(300.0), 1.0, KEYS, LEARNERS, 1)
    assert budget.limit("ITML") == pytest.approx(0.8 * 300.0 / 30)
    assert budget.limit("LDA") == budget.limit("Euclidean") == 300.0
    assert Budget(Clock(300.0), 1.0, KEYS, LEARNERS, 4).limit("PA") == pytest.approx(4 * 0.8 * 300.0 / 30)
    assert Budget(Clock(300.0), 0.5, KEYS, LEARNERS, 1).limit("PA") == pytest.approx(0.8 * 150.0 / 30)
    assert Budget(Clock(None), 1.0, KEYS, LEARNERS, 1).limit("ITML") is None
    boosted = [*KEYS, *(Key("gradient boosting", part) for part in range(5))]
    assert Budget(Clock(300.0), 1.0, boosted, LEARNERS, 1).limit("gradient boosting") == pytest.approx(0.1 * 300.0 / 5)


def test_what_quick_learners_leave_goes_to_the_others(clock):
    budget = Budget(Clock(300.0), 1.0, KEYS, LEARNERS, 1)
    for name, seconds, stopped in (("ITML", 8.0, True), ("NCA", 1.0, False), ("PA", 1.0, False)):
        budget.limit(name)
        clock[0] += seconds
        budget.note(name, seconds, stopped)
    # 230 seconds are left, of which nine fits of NCA and of PA take 18.
    assert budget.limit("ITML") == pytest.approx((240.0 - 10.0 - 18.0) / 9)
    clock[0] = 240.0
    assert budget.limit("ITML") == pytest.approx(8.0)  # its share, even if it is late
    clock[0] = 297.0
    assert budget.limit("ITML") == budget.limit("Euclidean") == pytest.approx(3.0)
    clock[0] = 301.0
    assert budget.limit("ITML") == 0.0


def test_all_is_used_and_not_more(clock):
    """A learner that always needs more, beside quick ones, gets nearly all the time of the learners."""
    budget = Budget(Clock(300.0), 1.0, KEYS, LEARNERS, 1)
    for key in KEYS:
        limit = budget.limit(key.name)
        seconds = limit if key.name == "ITML" else 0.1
        clock[0] += seconds
        budget.note(key.name, seconds, key.name == "ITML")
    assert 230.0 < clock[0] <= 245.0


def plan_of(X, y, **arguments):
    target = target_of(y, len(y), np.asarray(y).dtype.kind == "f")
    names = ("n_neighbors", "scaling", "preprocessor")
    settings = {name: arguments.pop(name) for name in names if name in arguments}
    fields = {
        "X": X, "target": target, "rows": np.arange(len(y)), "n_rows": len(y),
        "parts": parts_of(None if target.is_number else target.codes, 3, 2, 0, None, None, len(y)),
        "counts": np.arange(1, 13), "groups": None, "measure": "r2" if target.is_number else "error",
        "settings": Settings(**({"folds": 3, "repeats": 2, "n_neighbors": 3} | settings)), "learners": {"LDA": LDA()},
    }  # fmt: skip
    return Plan(**(fields | arguments))


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
    assert choose(plan_of(X, y, scaling="robust"), 0, get_config()) == ("robust", "robust")


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
    assert (cell.scaling, cell.stopped, cell.failure, cell.n_neighbors) == ("standard", False, None, 3)
    assert cell.loss == cell.losses[2]


def test_each_cell_has_its_own_number_of_neighbours():
    """One feature matters among noise: the plain distance needs many neighbours, and LDA few."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 8
    X = np.column_stack([y + 0.05 * rng.normal(size=240), rng.normal(size=(240, 12))])
    plan = plan_of(X, y, scaling="none", counts=np.arange(1, 26), n_neighbors=None)
    scalings = choose(plan, 0, get_config())
    cells = [measure_cell(plan, Key(name, 0), scalings, None, get_config())[1] for name in ("Euclidean", "LDA")]
    assert cells[0].n_neighbors != cells[1].n_neighbors
    values = y[plan.parts[0][1]]
    for cell in cells:
        assert cell.loss == cell.losses[cell.n_neighbors - 1] == pytest.approx(np.mean(cell.predicted != values))


def test_shares_of_records_are_those_of_the_distance_in_the_training_part():
    pandas = pytest.importorskip("pandas")
    X, y = np.random.default_rng(0).normal(size=(90, 2)), np.arange(90) % 3
    frame = pandas.DataFrame(X, columns=["a", "b"]).assign(sample=np.arange(90) % 45)
    preprocessor = TablePreprocessor().fit(frame)
    X = preprocessor.transform(frame)
    plan = plan_of(X, y, preprocessor=preprocessor, scaling="standard")
    assert plan.records == {"sample": "a running number"}
    train = X[plan.parts[1][0]]
    shares = {
        name: measure_cell(plan, Key(name, 1), ("standard", "standard"), None, get_config())[1].record_shares.tolist()
        for name in ("Euclidean", "Euclidean, scaled", "LDA")
    }
    assert shares["Euclidean"] == pytest.approx([train[:, 2].var() / train.var(axis=0).sum()])
    assert shares["Euclidean, scaled"] == pytest.approx([1 / 3])
    scaled = train / train.std(axis=0)
    learned = LDA().fit(scaled, y[plan.parts[1][0]]).metric_
    assert shares["LDA"] == pytest.approx([learned.column_weights(scaled)["x2"]])

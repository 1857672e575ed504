"""What to use: which model, or k-NN with a metric, is ahead on the same rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evaluation.cross_validation.test_entries import SHARES, plan_of
from mahala import NeighborClassifier, NeighborRegressor
from mahala.evaluation.compare import compare
from mahala.evaluation.cross_validation.advice import advise, model_entries, shared_losses
from mahala.evaluation.cross_validation.entries import decide, entries, reference_of, units_of
from mahala.evaluation.cross_validation.measuring import choose, measure_cell
from mahala.evaluation.cross_validation.plan import Key
from mahala.judge import judge, mean_interval, paired_test
from mahala.support.parameters import get_config
from stored_cells import store, stored_cells

MODELS = ["NeighborClassifier", "logistic regression", "gradient boosting"]
QUICK = {"trees": False, "linear": False, "n_bins": 2}


def measured(shares, *, n=120, measure="error", missing=(), repeats=2, numbers=False, failed=(), **arguments):
    """A plan and cells of which a share is wrong, those of models in the first repetition."""
    y = np.random.default_rng(0).normal(size=n) if numbers else np.arange(n) % 2
    plan = plan_of(y, measure="r2" if numbers else measure, models=MODELS, repeats=repeats, **arguments)
    cells = stored_cells(plan, SHARES | shares | dict.fromkeys(failed, "no luck"))
    return plan, {key: cell for key, cell in cells.items() if key not in missing}


def advice_of(plan, cells, done=None):
    done = range(len(plan.parts)) if done is None else done
    units = units_of(plan, cells, done)
    reference = reference_of(plan, units)
    name, decision = decide(plan, units, reference, plan.measure)
    ranked = entries(plan, cells, done, units, reference)
    shared = shared_losses(plan, cells, done, units)
    models = model_entries(plan, cells, shared, reference)
    chosen = next(entry for entry in ranked if entry.name == name)
    return advise(plan, shared, decision, chosen, ranked[0], models), models, ranked, shared


def shown(share):
    return f"{100 * share:.1f} %"


def test_a_model_that_is_ahead_of_all():
    shares = {"NeighborClassifier": 0.0, "logistic regression": 0.3, "gradient boosting": 0.4, "LDA": 0.2}
    advice, models, ranked, _ = advice_of(*measured(shares))
    assert [entry.name for entry in models] == MODELS
    assert (advice.name, advice.error, advice.level_with) == ("NeighborClassifier", 0.0, ())
    assert set(advice.ahead_of) == {*MODELS[1:], "2-NN with LDA"}
    assert advice.headline == "NeighborClassifier is ahead"
    assert advice.sentence == (
        f"NeighborClassifier (0.0 % error) is far ahead of any distance ({shown(ranked[0].error)}). It is also ahead "
        f"of logistic regression ({shown(models[1].error)}) and gradient boosting ({shown(models[2].error)})."
    )


def test_a_model_is_far_ahead_with_half_of_the_errors():
    shares = {"NeighborClassifier": 0.4, "logistic regression": 0.4, "LDA": 0.4}
    for share, ahead in ((0.1, "far ahead"), (0.23, "ahead")):
        advice, *_ = advice_of(*measured(shares | {"gradient boosting": share}, n=480))
        assert advice.headline == "Gradient boosting is ahead"
        assert advice.sentence.startswith(
            f"Gradient boosting ({shown(advice.error)} error) is {ahead} of any distance ("
        )


def test_a_metric_that_is_ahead_of_all():
    advice, models, ranked, _ = advice_of(*measured(dict.fromkeys(MODELS, 0.4) | {"LDA": 0.02}, n_neighbors=None))
    assert advice.name == "k-NN with LDA"
    assert advice.level_with == ()
    behind = [f"{entry.name} ({shown(entry.error)})" for entry in models]
    for text in behind:
        assert text in advice.sentence
    assert advice.sentence.startswith(f"k-NN with LDA ({shown(ranked[0].error)} error) is far ahead of ")
    assert "any distance" not in advice.sentence


def test_a_distance_of_the_context_is_a_distance():
    """A model that is ahead of the candidates, but not of k-NN with PCA, is not ahead of any distance."""
    shares = {"NeighborClassifier": 0.05, "logistic regression": 0.4, "gradient boosting": 0.4, "LDA": 0.3}
    advice, *_ = advice_of(*measured(shares))
    assert "any distance" in advice.sentence
    for share, expected in ((0.2, "(20."), (0.06, None)):
        found, *_ = advice_of(*measured(shares | {"PCA": share}, baselines=["PCA"], n=240))
        assert (found is None) == (expected is None)
        assert expected is None or f"any distance {expected}" in found.sentence


def test_some_are_not_clearly_behind():
    shares = {"NeighborClassifier": 0.01, "logistic regression": 0.02, "gradient boosting": 0.4, "LDA": 0.3}
    advice, models, ranked, _ = advice_of(*measured(shares))
    assert advice.level_with == ("logistic regression",)
    assert advice.headline == f"{models[0].name} or {advice.level_with[0]}"
    assert advice.sentence == (
        f"NeighborClassifier ({shown(models[0].error)} error) is far ahead of any distance ({shown(ranked[0].error)}). "
        f"It is also ahead of gradient boosting ({shown(models[2].error)}). Logistic regression "
        f"({shown(models[1].error)}) is not clearly behind."
    )


@pytest.mark.parametrize(
    "shares",
    [
        dict.fromkeys((*SHARES, *MODELS), 0.3),
        {"LDA": 0.02, "NeighborClassifier": 0.03},  # ahead of the other models only
        {"LDA": 0.03, "NeighborClassifier": 0.02},
    ],
)
def test_nothing_is_said_where_models_and_distances_do_not_differ_clearly(shares):
    usual = {"logistic regression": 0.4, "gradient boosting": 0.4}
    assert advice_of(*measured(usual | shares))[0] is None


@pytest.mark.parametrize("kind", ["error", "balanced", "r2", "grouped"])
def test_models_are_judged_by_the_units_of_the_metrics(kind):
    shares = {"NeighborClassifier": 0.1, "logistic regression": 0.3, "gradient boosting": 0.5, "LDA": 0.4}
    groups = np.arange(120) // 4 if kind == "grouped" else None
    measure = kind if kind == "balanced" else "error"
    plan, cells = measured(shares, numbers=kind == "r2", measure=measure, groups=groups)
    advice, models, _, shared = advice_of(plan, cells)
    units = units_of(plan, cells, range(6))
    reference = reference_of(plan, units)
    base = units.losses[reference].mean(axis=0)
    own = {}
    for name in MODELS:
        own[name] = np.empty(120)
        for part in plan.repetitions[0]:
            test = plan.parts[part][1]
            predicted, values = cells[Key(name, part)].predicted, plan.target.values[test]
            # Both classes have the same number of rows, so that the balanced error weights rows as the plain one.
            own[name][test] = np.square(predicted - values) if kind == "r2" else predicted != values
    for entry in models:
        np.testing.assert_allclose(shared.losses[entry.name], own[entry.name])
        low, high = mean_interval(own[entry.name], groups)
        assert entry.error == pytest.approx(own[entry.name].mean())
        assert (entry.low, entry.high) == pytest.approx((max(low, 0.0), high if kind == "r2" else min(high, 1.0)))
        expected = paired_test(own[entry.name] - base, groups)[:3]
        assert (entry.difference, entry.difference_low, entry.difference_high) == pytest.approx(expected)
    assert ("(1 - R² of " in advice.sentence) == (kind == "r2")
    for other in MODELS[1:]:
        values = -np.stack([own[other], own[MODELS[0]]], axis=1)[np.newaxis]
        verdict = judge(values, units.folds[:1], measure="", units="", groups=groups).verdict
        assert (other in advice.ahead_of) == (verdict.low > 0.0)


def test_units_that_are_test_parts():
    shares = {"NeighborClassifier": 0.0, "logistic regression": 0.4, "gradient boosting": 0.5}
    plan, cells = measured(shares, measure="f1", folds=6, n=240)
    advice, models, _, shared = advice_of(plan, cells)
    assert shared.rows.tolist() == list(range(6))
    assert advice.name == "NeighborClassifier"
    assert advice.sentence.startswith("NeighborClassifier (1 - F1 of 0.0 %) is ")
    losses = [cells[Key("logistic regression", part)].loss for part in range(6)]
    assert {entry.name: entry.error for entry in models}["logistic regression"] == pytest.approx(np.mean(losses))
    few = advice_of(*measured(shares, measure="f1"))
    assert few[0] is None  # three test parts tell nothing
    assert all(np.isfinite(entry.difference) for entry in few[1])


def test_a_model_that_is_not_measured_on_all_rows_is_not_compared():
    shares = {"NeighborClassifier": 0.0, "logistic regression": 0.3, "gradient boosting": 0.4}
    advice, models, *_ = advice_of(*measured(shares, missing=[("NeighborClassifier", 1)], failed=["gradient boosting"]))
    by_name = {entry.name: entry for entry in models}
    assert by_name["NeighborClassifier"].error == 0.0
    assert np.isnan(by_name["NeighborClassifier"].difference)
    assert (models[-1].name, models[-1].failure) == ("gradient boosting", "no luck")
    assert not {"NeighborClassifier", "gradient boosting"} & {advice.name, *advice.ahead_of, *advice.level_with}
    none = measured(shares, missing=[(name, part) for name in MODELS for part in range(3)])
    assert advice_of(*none)[:2] == (None, [])


def test_the_parts_of_a_partial_comparison_that_models_have():
    shares = {"NeighborClassifier": 0.0, "logistic regression": 0.3, "gradient boosting": 0.4}
    plan, cells = measured(shares, missing=[("gradient boosting", 2)])
    some = {key: cell for key, cell in cells.items() if key.part < 2}
    _, models, _, shared = advice_of(plan, some, [0, 1])
    rows = np.sort(np.concatenate([plan.parts[part][1] for part in (0, 1)]))
    assert len(shared.rows) == len(rows)
    assert all(np.isfinite(entry.difference) for entry in models)
    others = {key: cell for key, cell in cells.items() if key.part in (0, 4)}  # a part that no model was measured on
    assert advice_of(plan, others, [4])[0] is None


def test_a_cell_of_a_predictor_has_its_own_predictions():
    """From raw features, with the groups of the training rows."""
    rng = np.random.default_rng(0)
    y, groups = np.arange(90) % 3, np.arange(90) // 3
    model = NeighborClassifier(**QUICK)
    plan = plan_of(
        y, models=["mine"], predictors={"mine": model}, groups=groups, X=rng.normal(size=(90, 3)) + y[:, None]
    )
    _, cell = measure_cell(plan, Key("mine", 1), choose(plan, 1, get_config()), None, get_config())
    train, test = plan.parts[1]
    expected = NeighborClassifier(**QUICK).fit(plan.X[train], y[train], groups=groups[train])
    np.testing.assert_array_equal(cell.predicted, expected.predict(plan.X[test]))
    assert (cell.losses.tolist(), cell.n_neighbors, cell.failure) == ([cell.loss], 0, None)
    assert cell.loss == np.mean(cell.predicted != y[test])
    balanced = replace(plan, measure="balanced", target=plan.target)
    _, cell = measure_cell(balanced, Key("mine", 1), choose(plan, 1, get_config()), None, get_config())
    shares = expected.predict_proba(plan.X[test]) / np.bincount(y[train])
    np.testing.assert_array_equal(cell.predicted, shares.argmax(axis=1))


def test_a_predictor_stops_at_its_limit():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    model = NeighborClassifier()
    plan = plan_of(y, models=["mine"], predictors={"mine": model}, X=rng.normal(size=(300, 12)) + y[:, None])
    scalings = choose(plan, 0, get_config())
    _, cell = measure_cell(plan, Key("mine", 0), scalings, 1e-9, get_config())
    assert (cell.stopped, cell.failure) == (True, None)


def test_predictors_are_compared_by_name_and_as_estimators(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 3)) + 2.0 * y[:, None]
    settings = {"folds": 3, "repeats": 1, "baselines": False}
    board = compare(X, y, {"mine": NeighborClassifier(**QUICK)}, **settings)
    assert [entry.name for entry in board.models] == ["mine"]
    assert board.verdict.sentence.startswith("No metric was learned; ")
    assert repr(board).splitlines()[1].split()[:2] == ["model", "error"]
    assert compare(X, y, ["LDA"], **settings).models == ()
    numbers = compare(X, X[:, 0] + 0.0, {"it": NeighborRegressor(**QUICK)}, **settings)
    assert [entry.name for entry in numbers.models] == ["it"]
    assert np.isfinite(numbers.models[0].absolute_error)
    store(monkeypatch, {"mine": 0.0})
    board = compare(X, y, {"mine": NeighborClassifier(**QUICK)}, **settings)
    assert board.headline.startswith("mine is ahead · ")
    assert board.summary.startswith("mine (0.0 % error) is far ahead of any distance (")
    assert board.advice.sentence in " ".join(repr(board).split())

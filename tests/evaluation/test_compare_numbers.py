"""Comparisons where the target is a number, against plain loops of scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.model_selection import RepeatedKFold
from sklearn.neighbors import KNeighborsRegressor

from mahala import LDA, MLKR
from mahala.evaluation.compare import compare, held_out
from mahala.evaluation.cross_validation.splits import parts_of


def houses(n=120, seed=0):
    """A price that follows one of five features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) * [1.0, 10.0, 0.1, 1.0, 1.0]
    return X, 100.0 + 20.0 * X[:, 0] + 4.0 * rng.normal(size=n)


@pytest.mark.parametrize("scaling", ["none", "standard"])
def test_errors_are_those_of_a_plain_loop(scaling):
    X, y = houses()
    board = compare(X, y, {"LDA": LDA()}, folds=2, repeats=2, n_neighbors=5, scaling=scaling, baselines=False)
    predicted, losses = {}, {}
    for part, (train, test) in enumerate(RepeatedKFold(n_splits=2, n_repeats=2, random_state=0).split(X)):
        for name in ("Euclidean", "Euclidean, scaled"):
            scales = X[train].std(axis=0) if name == "Euclidean, scaled" else np.ones(5)
            for k in (1, 5, 25):
                model = KNeighborsRegressor(k, algorithm="kd_tree").fit(X[train] / scales, y[train])
                found = model.predict(X[test] / scales)
                predicted.setdefault((name, k), np.empty((2, 120)))[part // 2, test] = found
                losses.setdefault((name, k), []).append(np.mean((found - y[test]) ** 2) / y.var())
    plain = [entry for entry in board.entries if not entry.learned]
    assert len(plain) == (1 if scaling == "none" else 2)
    for entry in plain:
        for k in (1, 5, 25):
            np.testing.assert_allclose(entry.errors[:, k - 1], losses[entry.name, k], rtol=1e-9)
        once, twice = predicted[entry.name, 5]
        np.testing.assert_allclose(entry.predicted, once)  # in the units of y
        r2 = (r2_score(y, once) + r2_score(y, twice)) / 2
        assert entry.error == pytest.approx(1.0 - r2)
        absolute = (mean_absolute_error(y, once) + mean_absolute_error(y, twice)) / 2
        assert entry.absolute_error == pytest.approx(absolute)
        assert entry.confusion is None
    np.testing.assert_allclose(board.targets, y)
    assert (board.metric, board.measure, board.classes, board.class_counts) == ("r2", "5-NN error (1 - R²)", (), ())
    assert board.notes == ("The target is a number: k-NN regression is compared. For classes, pass them as text.",)


def test_learning_helps_where_one_feature_matters():
    X, y = houses()
    board = compare(X, y, ["MLKR"], folds=3, repeats=1, n_neighbors=5, baselines=False)
    assert (board.chosen, board.verdict.kind, board.verdict.units) == ("MLKR", "shown to help", "rows")
    [entry] = [entry for entry in board.entries if entry.learned]
    assert entry.error < 0.5 * board.euclidean.error
    assert board.verdict.sentence.startswith("Shown to help: MLKR has a 5-NN error (1 - R²) of ")
    assert board.cautions == ()


def test_predicted_and_true_numbers_are_drawn():
    plt = pytest.importorskip("matplotlib.pyplot")
    X, y = houses(60)
    board = compare(X, y, ["MLKR", "LDA"], folds=2, repeats=1, baselines=False)
    own = plt.subplots()[1]
    assert board.plot_predictions("LDA", own) is own
    np.testing.assert_allclose(own.collections[-1].get_offsets(), np.column_stack([board["LDA"].predicted, y]))
    assert own.get_title() == "LDA"
    best = min(board.entries, key=lambda entry: entry.error).name
    assert board.plot_predictions().get_title() == best
    with pytest.raises(KeyError, match="no entry 'PCA', only"):
        board.plot_predictions("PCA")
    classes = compare(X, y > y.mean(), ["LDA"], folds=2, repeats=1, baselines=False)
    with pytest.raises(ValueError, match="only predicted numbers"):
        classes.plot_predictions()
    plt.close("all")


@pytest.mark.usefixtures("few_rounds")
def test_the_panel_of_numbers_runs_with_its_baselines():
    X, y = houses(60)
    board = compare(X, y, folds=2, repeats=1)
    assert {entry.name for entry in board.entries if entry.learned} == {
        "LDA", "RCA", "LMNN", "GML", "GML weights", "MLKR"
    }  # fmt: skip
    assert all(entry.failure is None for entry in board.entries)
    assert (board.reference, board["cosine"].learned) == ("cosine", False)  # it is clearly better than the others
    assert [entry.name for entry in board.baselines] == ["PCA"]
    models = {entry.name: entry for entry in board.models}
    assert set(models) == {"NeighborRegressor", "ridge regression", "gradient boosting"}
    assert all(entry.failure is None for entry in (*board.baselines, *board.models))
    assert board.models[0].name in ("NeighborRegressor", "ridge regression")
    expected = []
    for train, test in RepeatedKFold(n_splits=2, n_repeats=1, random_state=0).split(X):
        scales = X[train].std(axis=0)
        model = RidgeCV(np.geomspace(1e-3, 1e3, 7)).fit(X[train] / scales, y[train])
        expected.append(np.mean((model.predict(X[test] / scales) - y[test]) ** 2) / y.var())
    assert models["ridge regression"].error == pytest.approx(np.mean(expected), rel=0.01)


@pytest.mark.usefixtures("stored")
def test_whole_numbers_are_classes_unless_r2_is_asked_for():
    X, _ = houses(60)
    y = np.arange(60) % 6
    assert compare(X, y, ["LDA"], folds=2, repeats=1, baselines=False).metric == "error"
    board = compare(X, y, ["MLKR"], folds=2, repeats=1, baselines=False, metric="r2")
    assert (board.metric, board.notes) == ("r2", ())
    with pytest.raises(ValueError, match="y must be finite numbers for the metric 'r2', got 'a'"):
        compare(X, np.array(["a", "b"])[y % 2], ["LDA"], metric="r2")
    with pytest.raises(ValueError, match=r"names among .*MLKR, NeighborRegressor, got 'NCA'"):
        compare(X, y, ["NCA"], metric="r2")


def test_groups_and_times_of_numbers():
    X, y = houses(60)
    groups = np.arange(60) // 3
    board = compare(X, y, ["LDA"], folds=3, repeats=1, groups=groups, baselines=False, n_neighbors=3, scaling="none")
    expected = []
    for train, test in parts_of(None, 3, 1, 0, groups, None, 60):
        assert not set(groups[train]) & set(groups[test])
        found = KNeighborsRegressor(3, algorithm="kd_tree").fit(X[train], y[train]).predict(X[test])
        expected.append(np.mean((found - y[test]) ** 2) / y.var())
    np.testing.assert_allclose(board.euclidean.errors[:, 2], expected, rtol=1e-9)
    assert (board.verdict.units, board.verdict.n) == ("groups", 20)
    later = compare(X, y, ["LDA"], folds=3, times=np.arange(60), baselines=False)
    assert (later.planned, later.repeats) == (3, 1)


@pytest.mark.usefixtures("stored")
def test_held_out_rows_are_not_learned_from():
    X, y = houses(60)
    board = compare(X, y, ["MLKR"], folds=3, repeats=1, baselines=False)
    metric, mask = held_out(X, y, MLKR(max_iter=10, random_state=0), board)
    assert mask.sum() == 20
    values, scales = (y - y.mean()) / y.std(), X[~mask].std(axis=0)
    expected = MLKR(max_iter=10, random_state=0).fit(X[~mask] / scales, values[~mask]).metric_
    np.testing.assert_allclose(metric.steps[0].scales, scales)
    np.testing.assert_allclose(metric.matrix, expected.matrix, rtol=1e-9, atol=1e-12)

"""NeighborClassifier and NeighborRegressor: predictions, reasons, sets, rows that come and go, odd tables, files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mahala
from mahala import NeighborClassifier, NeighborRegressor
from mahala.neighbors import maps
from sklearn_checks import each_with_checks, run


# The other experts would take most of the time; tests below have them.
@pytest.mark.usefixtures("few_rounds")
@each_with_checks(
    [NeighborClassifier(linear=False, trees=False), NeighborRegressor(linear=False, trees=False)], once=True
)
def test_scikit_learns_checks(estimator, checks):
    run(checks, estimator)


@pytest.fixture(scope="module")
def wine():
    data = load_wine(as_frame=True)
    table = data.data[["alcohol", "malic_acid", "flavanoids", "proline"]].copy()
    table["strength"] = np.where(table.alcohol > 13.0, "strong", "weak")
    table.loc[::7, "malic_acid"] = np.nan
    table.index = [f"bottle {i}" for i in range(len(table))]
    return table, data.target_names[data.target]


@pytest.fixture(scope="module")
def model(wine):
    X, y = wine
    return NeighborClassifier(trees=False).fit(X[::2], y[::2])


@pytest.fixture(scope="module")
def regressor():
    X, y = load_diabetes(return_X_y=True)
    return NeighborRegressor(trees=False).fit(X[::2], y[::2])


def test_it_is_ahead_of_scaled_neighbours():
    X, y = load_breast_cancer(return_X_y=True)
    peer = make_pipeline(StandardScaler(), KNeighborsClassifier(5))
    model = NeighborClassifier(trees=False)
    assert cross_val_score(model, X, y, cv=2).mean() > cross_val_score(peer, X, y, cv=2).mean()


def test_tables_as_they_are(wine, model):
    X, y = wine
    assert model.score(X[1::2], y[1::2]) > 0.9
    assert model.score_ > 0.9
    assert model.left_out_.shape == (len(X[::2]), 3)
    np.testing.assert_allclose(model.left_out_.sum(axis=1), 1.0)
    same = NeighborClassifier(trees=False).fit(polars.DataFrame(X[::2].to_dict("list"), nan_to_null=True), y[::2])
    np.testing.assert_allclose(same.predict_proba(X[1::2]), model.predict_proba(X[1::2]), atol=1e-5)


@pytest.mark.usefixtures("few_rounds")
def test_the_order_of_rows_and_the_number_of_threads_change_nothing(wine):
    X, y = wine
    order = np.random.default_rng(0).permutation(len(X))
    expected = NeighborClassifier(trees=True).fit(X, y).predict_proba(X)
    with mahala.config_context(n_threads=2):
        again = NeighborClassifier(trees=True).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(again, expected)
    again = NeighborClassifier(trees=True).fit(X.iloc[order], y[order]).predict_proba(X)
    np.testing.assert_allclose(again, expected, atol=1e-6)


@pytest.mark.usefixtures("few_rounds")
@pytest.mark.parametrize("kind", [NeighborClassifier, NeighborRegressor])
def test_whole_weights_are_repeats_and_zero_is_absence(kind):
    X, y = load_iris(return_X_y=True)
    weights = np.random.default_rng(0).integers(0, 3, size=len(y))
    weighted = kind(trees=False).fit(X, y, sample_weight=weights)
    repeated = kind(trees=False).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)
    rows, shares = weighted.neighbors(X[:5], k=4)
    assert (weights[rows] > 0).all()
    assert all(len(set(row)) == 4 for row in rows.tolist())
    assert np.isnan(weighted.left_out_[weights == 0]).all()
    assert (shares[:, :-1] >= shares[:, 1:]).all()


@pytest.mark.usefixtures("few_rounds")
def test_weights_of_any_size_count():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.integers(2, size=200)
    model = NeighborClassifier(trees=False).fit(X, y, sample_weight=np.where(y == 1, 1e-3, 0.7))
    assert (model.predict(rng.normal(size=(100, 2))) == 0).all()
    assert model.predict_proba(X)[:, 1].mean() < 0.05


def test_rows_of_a_group_are_left_out_together():
    rng = np.random.default_rng(0)
    people = np.repeat(np.arange(40), 5)
    labels = rng.integers(2, size=40)[people]  # of each person, by chance
    X = rng.normal(size=(40, 4))[people] + 0.01 * rng.normal(size=(200, 4))
    assert NeighborClassifier(trees=False).fit(X, labels).score_ > 0.9
    model = NeighborClassifier(trees=False).fit(X, labels, groups=people)
    assert model.score_ < 0.75
    assert model.add(X[:1] + 5.0, labels[:1]).forget([3]).refit().score_ < 0.75
    with pytest.raises(ValueError, match="groups must be 1-D with a group for each of the 200 rows"):
        NeighborClassifier().fit(X, labels, groups=people[:7])


@pytest.mark.usefixtures("few_rounds")
def test_pipelines_clones_and_searches():
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(NeighborClassifier(trees=False), {"n_bins": [2, 8]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.9
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()


@pytest.mark.usefixtures("few_rounds")
@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.zeros((5, 2)), [0, 1, 0, 1, 1]),
        (np.arange(10.0).reshape(5, 2), [0, 0, 0, 0, 0]),
        (np.arange(10.0).reshape(5, 2), ["a", "b", "b", "b", "b"]),
        (np.random.default_rng(0).normal(size=(6, 300)), [0, 1, 0, 1, 0, 1]),
        (np.repeat([[0.0, 1.0], [1.0, 0.0]], 20, axis=0), [0] * 20 + [1] * 20),
        (np.repeat([[0.0, 1.0]], 40, axis=0), [0, 1] * 20),
        (np.array([[1.0], [2.0]]), [True, False]),
        (np.array([[3.0]]), ["only"]),
        (pd.DataFrame({"id": [f"u{i}" for i in range(900)], "x": np.arange(900) % 7}), np.arange(900) % 7 % 2),
        (sp.csr_array(np.eye(60, 3000) + np.eye(60, 3000, 999)), np.arange(60) % 3),
        (np.full((4, 1), np.nan), [0, 1, 1, 0]),
    ],
    ids=["constant", "one class", "class of one row", "wide", "duplicates", "contradictions", "two rows", "one row",
         "levels", "sparse", "gaps only"],
)  # fmt: skip
def test_odd_tables_are_learned(X, y):
    y = np.array(y)
    model = NeighborClassifier().fit(X, y)
    probabilities = model.predict_proba(X)
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert set(model.predict(X)) <= set(y)
    if isinstance(X, np.ndarray) and len(X) > 1:
        numbers = NeighborRegressor().fit(X, np.zeros(len(y)))
        np.testing.assert_allclose(numbers.predict(X), 0.0, atol=1e-12)
        assert np.isfinite(NeighborRegressor().fit(X, np.arange(len(y))).predict(X)).all()


def test_trees_join_where_they_help(monkeypatch):
    monkeypatch.setattr("mahala.neighbors.trees.N_TREES", 20)
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 6))
    y = (np.floor(4 * X[:, 0]) + np.floor(4 * X[:, 1])) % 2 == 0
    model = NeighborClassifier().fit(X, y)
    assert model.weights_["trees"] > 0.3
    assert model.score_ > NeighborClassifier(trees=False).fit(X, y).score_
    line = NeighborRegressor().fit(X, X @ np.arange(6.0))
    assert line.weights_["trees"] == 0.0
    assert line.weights_["line"] > 0.8


def test_a_metric_that_is_given_votes_in_its_own_space(tmp_path):
    X, y = load_iris(return_X_y=True)
    learner = mahala.LDA().fit(X[::2], y[::2])
    model = NeighborClassifier(metric=learner, linear=False, trees=False).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.93
    ratio = model.metric_.pairwise(X[:3])[0, 1:] / learner.metric_.pairwise(X[:3])[0, 1:]
    assert ratio[0] == pytest.approx(ratio[1])
    model.save(tmp_path / "model.safetensors")
    np.testing.assert_allclose(mahala.load(tmp_path / "model.safetensors").predict_proba(X), model.predict_proba(X))
    with pytest.raises(
        ValueError, match="metric must be None, a MahalanobisMetric or a fitted learner of one, got 'euclidean'"
    ):
        NeighborClassifier(metric="euclidean").fit(X, y)


def test_the_metric_takes_what_fit_took(wine, model):
    X, _ = wine
    embedded = model.metric_.transform(X[1:4])
    assert model.metric_.distance(X[1:2], X[2:3])[0] == pytest.approx(np.linalg.norm(embedded[0] - embedded[1]))
    contributions = model.metric_.explain(X[1:2], X[2:3])
    assert contributions.features.sum() == pytest.approx(np.square(embedded[0] - embedded[1]).sum())
    assert sum(model.column_weights().values()) == pytest.approx(1.0)


def test_reasons_add_up(wine, model):
    X, y = wine
    reasons = model.explain(X[1:2], k=3)
    assert reasons.prediction == model.predict(X[1:2])[0]
    assert reasons.probability == pytest.approx(model.predict_proba(X[1:2]).max())
    assert sum(reasons.columns.values()) == pytest.approx(1.0)
    assert set(reasons.columns) == {"alcohol", "malic_acid", "flavanoids", "proline", "strength"}
    rows, shares = model.neighbors(X[1:2], k=3)
    assert [name for name, _, _ in reasons.rows] == rows[0].tolist()
    assert [share for _, _, share in reasons.rows] == pytest.approx(shares[0].tolist())
    assert all(label == y[X.index.get_loc(name)] for name, label, _ in reasons.rows)
    text, html = str(reasons), reasons._repr_html_()
    assert reasons.rows[0][0] in text
    assert reasons.rows[0][0] in html
    # Moving a row along one column moves the line's score by that column's part only.
    moved = X[1:2].assign(proline=X.proline.max())
    change = {name: value - reasons.line[name] for name, value in model.explain(moved).line.items()}
    assert [name for name, value in change.items() if abs(value) > 1e-6] == ["proline"]
    with pytest.raises(ValueError, match="x must be one row, got 2"):
        model.explain(X[:2])


def test_reasons_of_numbers(regressor):
    X, y = load_diabetes(return_X_y=True)
    reasons = regressor.explain(X[1])
    assert reasons.prediction == pytest.approx(regressor.predict(X[1:2])[0])
    mixed = sum(reasons.weights[name] * value for name, value in reasons.experts.items())
    assert reasons.prediction == pytest.approx(mixed)
    assert all(label == pytest.approx(y[::2][row]) for row, label, _ in reasons.rows)


@pytest.mark.usefixtures("few_rounds")
def test_added_rows_vote_at_once_and_forgotten_ones_are_gone(wine, tmp_path):
    X, y = wine
    model = NeighborClassifier(trees=True).fit(X[::2], y[::2])
    new = X[1:2]
    model.add(new, y[1:2])
    assert model.neighbors(new, k=1)[0][0, 0] == "bottle 1"
    with pytest.raises(ValueError, match="X must name new rows, but 'bottle 1' is there"):
        model.add(new, y[1:2])
    with pytest.raises(ValueError, match="y must hold classes that fit has seen, got 'other'"):
        model.add(X[3:4], ["other"])
    gone = ["bottle 1", "bottle 0", "bottle 2"]
    model.forget(gone)
    model.save(tmp_path / "model.safetensors")
    assert not any(name in model.neighbors(X, k=100)[0] for name in gone)
    content = (tmp_path / "model.safetensors").read_bytes()
    assert all(f'"{name}"'.encode() not in content for name in gone)
    # What is left is what a model has that never had these rows, but for the metric and the weights of the experts.
    rest = ~X[::2].index.isin(gone)
    assert len(model._model.rows) == rest.sum()
    refitted = model.refit()
    fresh = NeighborClassifier(trees=True).fit(X[::2][rest], y[::2][rest])
    assert refitted.score(X[1::2], y[1::2]) == pytest.approx(fresh.score(X[1::2], y[1::2]), abs=0.05)
    with pytest.raises(ValueError, match="rows must be names of training rows, got 'bottle 0'"):
        model.forget("bottle 0")
    with pytest.raises(ValueError, match="rows must leave at least one row"):
        model.forget(model.neighbors(X[:1], k=1000)[0][0])


@pytest.mark.usefixtures("few_rounds")
def test_numbers_of_rows_stay_when_others_go(regressor):
    X, y = load_diabetes(return_X_y=True)
    model = NeighborRegressor(trees=False).fit(X[:50], y[:50]).add(X[50:52], y[50:52]).forget([3, 51])
    rows, _ = model.neighbors(X[50:51], k=1)
    assert rows[0, 0] == 50
    assert 3 not in model.neighbors(X, k=50)[0]
    assert len(model.left_out_) == 52
    assert np.isnan(model.left_out_[[3, 50, 51]]).all()


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_sets_and_intervals_hold_the_truth_as_often_as_asked(level):
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(1500, 3)), rng.normal(size=1500)
    y = X[:, 0] + np.abs(X[:, 1]) + 0.5 * noise
    classes = np.digitize(y + 0.5 * noise, [0.0, 1.0, 2.0])
    part = slice(0, 500)
    ends = NeighborRegressor(trees=False).fit(X[part], y[part]).predict_interval(X[500:], level)
    assert np.mean((ends[:, 0] <= y[500:]) & (y[500:] <= ends[:, 1])) == pytest.approx(level, abs=0.06)
    sets = NeighborClassifier(trees=False).fit(X[part], classes[part]).predict_set(X[500:], level)
    assert sets.any(axis=1).all()
    assert level - 0.06 < np.mean(sets[np.arange(1000), classes[500:]]) < max(level, 0.62) + 0.06


def test_levels_are_checked(model, wine):
    with pytest.raises(ValueError, match=r"level must be a number between 0 and 1, both excluded, got 1\.5"):
        model.predict_set(wine[0], level=1.5)


def test_strange_rows_are_told_and_one_in_twenty_of_the_usual_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 5)) @ rng.normal(size=(5, 5))
    model = NeighborRegressor(trees=False, linear=False).fit(X[:500], X[:500, 0])
    usual, shuffled = model.strangeness(X[500:]), model.strangeness(rng.permuted(X[500:], axis=0))
    assert np.mean(usual > 0.95) == pytest.approx(0.05, abs=0.03)
    assert roc_auc_score(np.repeat([0, 1], 500), np.concatenate([usual, shuffled])) > 0.8
    assert model.strangeness(np.full((1, 5), 1e9))[0] > 0.99


def test_duplicates_and_wrong_labels_are_found():
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    flipped = rng.random(len(y)) < 0.05
    model = NeighborClassifier(trees=False).fit(np.vstack([X, X[:2]]), np.append(np.where(flipped, 1 - y, y), y[:2]))
    assert [group.tolist() for group in model.duplicates()] == [[0, 569], [1, 570]]
    suspects = model.suspects(None)
    known = suspects.rows < 569
    assert roc_auc_score(flipped[suspects.rows[known]], suspects.doubts[known]) > 0.95
    assert (suspects.doubts[:-1] >= suspects.doubts[1:]).all()
    np.testing.assert_array_equal(model.suspects(3).rows, suspects.rows[:3])


@pytest.mark.usefixtures("few_rounds")
@pytest.mark.parametrize("trees", [False, True])
def test_files_hold_the_whole_model(wine, tmp_path, trees):
    X, y = wine
    model = NeighborClassifier(trees=trees, random_state=3).fit(X[::2], y[::2])
    model.save(tmp_path / "model.safetensors")
    again = mahala.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict_set(X), model.predict_set(X))
    assert again.get_params() == model.get_params()
    assert str(again.explain(X[1:2])) == str(model.explain(X[1:2]))
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


@pytest.mark.usefixtures("few_rounds")
@pytest.mark.parametrize("labels", [[True, False], [-5, 7], ["é", "b"], [1.5, 2.5], [np.uint8(3), np.uint8(9)]])
def test_classes_of_any_type_are_saved(tmp_path, labels):
    X, y = load_iris(return_X_y=True)
    y = (
        np.array(labels)[(y > 0).astype(int)]
        if not isinstance(labels[0], float)
        else np.array(["1.5", "2.5"])[(y > 0) * 1]
    )
    model = NeighborClassifier(trees=False).fit(X, y)
    model.save(tmp_path / "model.safetensors")
    predicted = mahala.load(tmp_path / "model.safetensors").predict(X)
    np.testing.assert_array_equal(predicted, model.predict(X))
    assert predicted.dtype.kind == y.dtype.kind


def test_many_rows_are_learned_by_minibatches(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 5))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    exact = NeighborClassifier(trees=False).fit(X[:500], y[:500]).score(X[500:], y[500:])
    monkeypatch.setattr(maps, "MOST_EXACT", 200)
    monkeypatch.setattr(maps, "N_VOTERS", 250)
    monkeypatch.setattr(maps, "BATCH", 100)
    monkeypatch.setattr(maps, "MOST_STEPS", 150)
    by_minibatches = NeighborClassifier(trees=False).fit(X[:500], y[:500]).score(X[500:], y[500:])
    assert by_minibatches > exact - 0.05
    assert NeighborRegressor(trees=False).fit(X[:500], y[:500] * 2.0).score(X[500:], y[500:] * 2.0) > 0.3


def test_minibatches_end_with_the_time(wine, monkeypatch):
    steps, drawn_gradient = [], maps.MapFit._drawn_gradient
    monkeypatch.setattr(maps, "MOST_EXACT", 50)
    monkeypatch.setattr(maps, "BATCH", 20)
    monkeypatch.setattr(maps.MapFit, "_drawn_gradient", lambda *args: steps.append(1) or drawn_gradient(*args))
    NeighborClassifier(trees=False, max_seconds=1e-9).fit(*wine)
    assert len(steps) == 4  # one for each fold


def test_time_and_ctrl_c_keep_the_best_so_far(wine, monkeypatch):
    X, y = wine
    assert NeighborClassifier(max_seconds=1e-9).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.6
    calls = []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return judge(*arguments)

    judge = maps.MapFit.judge
    monkeypatch.setattr(maps.MapFit, "judge", interrupted)
    model = NeighborClassifier()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.6


def test_plots_are_drawn(model, regressor, wine):
    plt = pytest.importorskip("matplotlib.pyplot")
    for axes in (
        model.plot_map(), model.plot_weights(), model.plot_predictions(), model.explain(wine[0][1:2]).plot(),
        regressor.plot_map(), regressor.plot_weights(), regressor.plot_predictions(),
    ):  # fmt: skip
        axes.figure.canvas.draw()
        assert axes.get_title()
    own = plt.subplots()[1]
    assert model.plot_weights(own) is own
    plt.close("all")


@pytest.mark.usefixtures("few_rounds")
def test_rows_of_dask_are_drawn_and_predicted_in_chunks(monkeypatch):
    da = pytest.importorskip("dask.array")
    X, y = load_iris(return_X_y=True)
    chunks = da.from_array(X, chunks=(40, 2))
    whole = NeighborClassifier(trees=False).fit(chunks, y)
    np.testing.assert_array_equal(whole.predict(chunks).compute(), NeighborClassifier(trees=False).fit(X, y).predict(X))
    monkeypatch.setattr("mahala.neighbors.model.MOST_LEARNED", 60)
    drawn = NeighborClassifier(trees=False).fit(chunks, da.from_array(y, chunks=50))
    rows, _ = drawn.neighbors(X, k=60)
    assert len(np.unique(rows)) == 60
    assert rows.max() > 60  # numbers among all rows
    np.testing.assert_allclose(drawn.predict_proba(chunks).compute(), drawn.predict_proba(X), atol=1e-6)


@pytest.mark.usefixtures("few_rounds")
def test_data_frames_of_dask_keep_their_text(wine):
    dd = pytest.importorskip("dask.dataframe")
    X, y = wine
    table = dd.from_pandas(X.reset_index(drop=True), npartitions=3)
    model = NeighborClassifier(trees=False).fit(table, y)
    np.testing.assert_array_equal(model.predict(table).compute(), model.predict(X))


@pytest.mark.usefixtures("few_rounds")
def test_weights_and_groups_are_routed_through_pipelines():
    from sklearn import config_context
    from sklearn.metrics import accuracy_score, make_scorer
    from sklearn.model_selection import GroupKFold, cross_validate

    X, y = load_iris(return_X_y=True)
    groups = np.arange(150) % 12
    with config_context(enable_metadata_routing=True):
        model = NeighborClassifier(linear=False, trees=False).set_fit_request(groups=True, sample_weight=True)
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        routed = {"groups": groups, "sample_weight": np.ones(150)}
        scores = cross_validate(pipeline, X, y, scoring=scorer, cv=GroupKFold(3), params=routed)["test_score"]
    assert scores.mean() > 0.9


def test_a_model_that_is_learned_again_has_not_seen_what_it_leaves_out():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 10)), rng.integers(2, size=200)  # nothing can be learned
    model = NeighborClassifier(linear=False, trees=False).fit(X[:150], y[:150])
    folds = model.folds_.copy()
    for _ in range(3):
        model.refit()
    assert model.score_ < 0.6
    np.testing.assert_array_equal(model.folds_, folds)
    model.add(X[150:], y[150:]).refit()
    assert (model.folds_ >= 0).all()
    np.testing.assert_array_equal(model.folds_[:150], folds)


@pytest.mark.usefixtures("few_rounds")
def test_rows_of_a_table_without_weight_leave_no_trace(wine):
    X, y = wine
    there = np.arange(len(X)) % 3 > 0
    weighted = NeighborClassifier(trees=False).fit(X, y, sample_weight=there.astype(float))
    absent = NeighborClassifier(trees=False).fit(X[there], y[there])
    np.testing.assert_array_equal(weighted.predict_proba(X), absent.predict_proba(X))

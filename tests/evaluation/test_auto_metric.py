"""AutoMetric: what the judge chooses, in scikit-learn's pipelines, from tables, groups, numbers and comparisons."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from mahala import LDA, OASIS, AutoMetric, LogisticMetric, Pairs, Triplets
from mahala.evaluation import auto_metric
from mahala.evaluation.cross_validation.fitting import refit
from mahala.evaluation.cross_validation.splits import possible_folds
from sklearn_checks import each_with_checks, run


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """A panel of one learner, and one cross-validation."""
    for name in ("cross_validation.planning", "auto_metric"):
        monkeypatch.setattr(f"mahala.evaluation.{name}.default_panel", lambda *_, **__: {"LDA": LDA(shrinkage="auto")})
    monkeypatch.setattr("mahala.evaluation.cross_validation.planning.auto_repeats", lambda *_: 1)


@pytest.mark.usefixtures("stored")
@each_with_checks([AutoMetric()])
def test_scikit_learns_checks(estimator, checks, monkeypatch):
    monkeypatch.setattr(
        "mahala.evaluation.cross_validation.planning.possible_folds",
        lambda codes, classes, _, notes: possible_folds(codes, classes, 2, notes),
    )
    run(checks, estimator)


def helpful(n=160, seed=0):
    """The class is in the difference of two features that are nearly the same."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = np.column_stack([rng.normal(size=n) + 4.0 * y, rng.normal(size=n)])
    X = np.column_stack([X[:, 0] + 10.0 * X[:, 1], X[:, 1], rng.normal(size=n)])
    return X, y


def test_a_learner_that_helps_is_chosen_and_fitted_to_all_rows():
    X, y = helpful()
    metric = AutoMetric().fit(X, y)
    assert (metric.chosen_, metric.verdict_.kind) == ("LDA", "shown to help")
    scaling = next(entry.scaling for entry in metric.leaderboard_.entries if entry.name == "LDA")
    expected = refit(X, y, LDA(shrinkage="auto"), scaling)
    np.testing.assert_allclose(metric.metric_.matrix, expected.matrix, atol=1e-12)
    np.testing.assert_allclose(metric.transform(X), expected.transform(X))
    assert list(metric.get_feature_names_out()) == ["autometric0"]


def test_noise_gives_the_plain_distance():
    X = np.random.default_rng(0).normal(size=(100, 3))
    metric = AutoMetric().fit(X, np.arange(100) % 2)
    assert metric.chosen_.startswith("Euclidean")
    assert not metric.verdict_.helps
    scales = metric.metric_.steps[0].scales if metric.metric_.steps else np.ones(3)
    distances = np.linalg.norm(metric.transform(X)[0] - metric.transform(X)[1])
    assert distances == pytest.approx(np.linalg.norm((X[0] - X[1]) / scales))


def test_a_cosine_that_is_clearly_better_is_chosen():
    """The class is in the direction of a row, and lengths differ; LDA does not see it."""
    rng = np.random.default_rng(0)
    angles = rng.uniform(0.0, 2.0 * np.pi, 300)
    X = rng.uniform(1.0, 30.0, 300)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    metric = AutoMetric().fit(X, (angles // (np.pi / 6.0)).astype(int) % 2)
    assert (metric.chosen_, metric.leaderboard_.reference) == ("cosine", "cosine")
    np.testing.assert_allclose(np.linalg.norm(metric.transform(X), axis=1), 1.0)
    assert metric.leaderboard_.models == ()


def test_in_a_pipeline_clone_and_sparse_rows():
    X, y = helpful()
    model = make_pipeline(AutoMetric(budget=None), KNeighborsClassifier(3))
    plain = cross_val_score(KNeighborsClassifier(3), X, y, cv=3).mean()
    assert cross_val_score(model, X, y, cv=3).mean() > plain + 0.02
    assert clone(AutoMetric(budget=5.0, groups="g")).get_params() == {"budget": 5.0, "groups": "g", "random_state": 0}
    rows = sp.csr_array(np.abs(X))
    assert AutoMetric().fit(rows, y).transform(rows).shape[0] == len(y)


@pytest.mark.usefixtures("stored")
def test_groups_are_a_column_or_an_argument():
    X, y = helpful()
    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(3)])
    house = np.arange(len(y)) // 4
    given = AutoMetric().fit(frame, y, groups=house)
    named = AutoMetric(groups="house").fit(frame.assign(house=house), y)
    assert given.verdict_ == named.verdict_
    assert given.verdict_.units == "groups"
    assert list(named.feature_names_in_) == list(frame.columns)
    np.testing.assert_array_equal(given.transform(frame), named.transform(frame.assign(house=house)))
    with pytest.raises(ValueError, match="groups must name a column of X, a data frame, got 'home'"):
        AutoMetric(groups="home").fit(frame, y)


def test_numbers_are_predicted():
    X, _ = helpful()
    metric = AutoMetric().fit(X, X[:, 0] - 10.0 * X[:, 1])
    assert metric.leaderboard_.metric == "r2"
    assert metric.chosen_ == "LDA"


@pytest.mark.parametrize("kind", [Pairs, Triplets])
def test_comparisons(kind, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    X[:, 0] *= 0.5
    y = (X[:, 0] > 0).astype(int)
    learners = {"LogisticMetric": LogisticMetric(lam=0.001), "OASIS": OASIS()}  # one learns a distance
    monkeypatch.setattr(auto_metric, "panel_for", lambda data, seed: learners)
    data = kind.from_labels(X, y, 400, random_state=0)
    metric = AutoMetric(budget=30.0).fit(data)
    assert metric.verdict_.kind == "shown to help"
    assert metric.verdict_.units == "items"
    assert metric.chosen_ == "LogisticMetric"
    board = metric.leaderboard_
    assert {entry.name for entry in board.entries if entry.name in learners} == {"LogisticMetric"}
    assert board[metric.chosen_].error < board["Euclidean"].error - 0.1
    assert metric.transform(X).shape[0] == 60
    nothing = kind.from_labels(X, rng.integers(0, 2, 60), 200, random_state=1)
    assert AutoMetric(budget=30.0).fit(nothing).verdict_.kind != "shown to help"


def test_refusals():
    X, y = helpful(20)
    with pytest.raises(ValueError, match="requires y to be passed"):
        AutoMetric().fit(X)
    with pytest.raises(ValueError, match="budget must be"):
        AutoMetric(budget=-1.0).fit(X, y)
    with pytest.raises(NotFittedError):
        AutoMetric().transform(X)
    with pytest.raises(ValueError, match="3 features"):
        AutoMetric().fit(X, y).transform(X[:, :2])


@pytest.mark.parametrize("as_frame", [False, True])
def test_of_a_large_table_a_sample_is_compared_and_learned_from(as_frame, monkeypatch):
    X, y = np.random.default_rng(0).normal(size=(160, 3)), np.arange(160) % 2
    monkeypatch.setattr("mahala.evaluation.cross_validation.planning.most_rows", lambda n_features: 80)
    rows = pandas.DataFrame(X, columns=["a", "b", "c"]) if as_frame else X
    metric = AutoMetric().fit(rows, y)
    assert 80 <= len(metric.leaderboard_.rows) < len(y)
    np.testing.assert_allclose(metric.metric_.center, X[metric.leaderboard_.rows].mean(axis=0))


def test_triplets_with_items_of_their_own_are_refused():
    X = np.random.default_rng(0).normal(size=(6, 2))
    with pytest.raises(ValueError, match="triplets must be over one X"):
        AutoMetric().fit(Triplets(X, [0, 1], [0, 1], [1, 2], items=X))

"""Baselines are what their names say."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist, pdist
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances, r2_score

from mahala import LDA, MLKR, Metric
from mahala.data.scaling import feature_scales
from mahala.evaluation.cross_validation import fitting
from mahala.evaluation.cross_validation.fitting import baseline_scores, embedded, refit
from mahala.evaluation.cross_validation.panel import default_panel
from mahala.evaluation.cross_validation.plan import target_of
from mahala.support.limits import out_of_time, time_limit


def rows(n=120, d=6):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return rng.normal(size=(n, d)) @ np.diag(2.0 ** -np.arange(d)) + 1.5 * np.eye(3, d)[y] + 1.0, y


def test_cosine_distances_are_those_of_unit_rows():
    X, y = rows()
    train, test = embedded("cosine", X[:80], y[:80], X[80:])
    np.testing.assert_allclose(
        pairwise_distances(test, train) ** 2 / 2.0, pairwise_distances(X[80:], X[:80], "cosine"), atol=1e-12
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_pca_keeps_95_percent_of_the_variance(sparse):
    X, y = rows()
    expected = PCA(0.95, svd_solver="full").fit(X[:80])
    given = sp.csr_array(X) if sparse else X
    train, test = embedded("PCA", given[:80], y[:80], given[80:])
    assert train.shape[1] == test.shape[1] == expected.n_components_ < 6
    ours, theirs = pairwise_distances(test, train), pairwise_distances(*map(expected.transform, (X[80:], X[:80])))
    np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("name", ["cosine", "PCA"])
@pytest.mark.parametrize("scaling", ["standard", "none"])
@pytest.mark.parametrize("sparse", [False, True])
def test_plain_distances_are_saved_as_they_were_measured(tmp_path, name, scaling, sparse):
    X, y = rows()
    given = sp.csr_array(X) if sparse else X
    refit(given[:80], y[:80], name, scaling).save(tmp_path / "model.safetensors")
    metric = Metric.load(tmp_path / "model.safetensors")
    scales = feature_scales(X[:80], scaling)
    train, test = embedded(name, X[:80] / scales, y[:80], X[80:] / scales)
    measured, ours = pairwise_distances(test, train), metric.pairwise(X[80:], X[:80])
    np.testing.assert_allclose(ours / ours.mean(), measured / measured.mean(), atol=1e-9)  # a factor does not matter
    assert metric.origin["learner"] == name


@pytest.mark.parametrize("name", ["logistic regression", "gradient boosting"])
def test_classifiers_give_probabilities_of_all_classes(name):
    X, y = rows()
    target = target_of(y, 120, False).select(np.arange(80))
    scores = baseline_scores(name, X[:80], target, X[80:], 0)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    assert np.mean(scores.argmax(axis=1) == y[80:]) > 0.6
    sparse = baseline_scores(name, sp.csr_array(X[:80]), target, sp.csr_array(X[80:]), 0)
    assert np.mean(sparse.argmax(axis=1) == scores.argmax(axis=1)) > 0.9
    some = np.flatnonzero(y[:80] != 1)  # a class that the training part does not have
    scores = baseline_scores(name, X[some], target.select(some), X[80:], 0)
    assert scores.shape == (40, 3)
    assert (scores[:, 1] == 0.0).all()


@pytest.mark.parametrize("name", ["ridge regression", "gradient boosting"])
def test_regressions_predict_numbers(name):
    X, _ = rows()
    numbers = X @ np.arange(1.0, 7.0)
    target = target_of(numbers, 120, True)
    assert target.is_number
    predicted = baseline_scores(name, X[:80], target.select(np.arange(80)), X[80:], 0)
    assert predicted.shape == (40, 1)
    assert r2_score(target.values[80:], predicted[:, 0]) > 0.4
    sparse = baseline_scores(name, sp.csr_array(X[:80]), target.select(np.arange(80)), sp.csr_array(X[80:]), 0)
    assert r2_score(target.values[80:], sparse[:, 0]) > 0.4


def test_classes_are_weighted_under_the_balanced_error():
    rng = np.random.default_rng(0)
    y = (np.arange(400) < 30).astype(int)
    X = rng.normal(size=(400, 3)) + y[:, None]
    target = target_of(y, 400, False)
    centred = X - X.mean(axis=0)
    for balanced in (False, True):
        model = LogisticRegression(max_iter=200, class_weight="balanced" if balanced else None).fit(centred, y)
        scores = baseline_scores("logistic regression", X, target, X, 0, balanced)
        np.testing.assert_allclose(scores, model.predict_proba(centred), atol=1e-6)
    for name in ("logistic regression", "gradient boosting"):
        plain, weighted = (baseline_scores(name, X, target, X, 0, balanced)[:, 1] for balanced in (False, True))
        assert np.mean(weighted > 0.5) > 1.5 * np.mean(plain > 0.5)


def test_boosting_stops_at_its_time_limit(monkeypatch):
    monkeypatch.setattr(fitting, "_MANY", 0)
    X, y = rows()
    with time_limit(0.0) as limit:
        assert fitting._boosted(HistGradientBoostingClassifier(), X, y, 3).n_iter_ == 10
    assert limit.stopped
    with time_limit(None) as limit:
        assert fitting._boosted(HistGradientBoostingClassifier(), X, y, 3).n_iter_ > 10
    assert not limit.stopped


@dataclass(eq=False, repr=False)
class Early(LDA):
    """Is stopped by the time limit, perhaps when it has seen labels at random only."""

    _: KW_ONLY
    max_iter: int = 1
    ruined: bool = True

    def fit(self, X, y=None):
        out_of_time()
        return super().fit(X, np.random.default_rng(0).permutation(y) if self.ruined else y)


def test_a_learner_that_was_stopped_is_not_worse_than_its_start():
    X, y = rows()
    ruined, stopped = refit(X, y, Early()), refit(X, y, Early(), seconds=0.0)
    assert ruined.origin["learner"] == "Early"
    assert (stopped.origin["learner"], stopped.origin["stopped"]) == ("Euclidean", "time")
    np.testing.assert_array_equal(stopped.matrix, refit(X, y, None).matrix)
    noise = np.random.default_rng(1).normal(size=(120, 40))
    wide = np.hstack([np.eye(3)[y] + 0.3 * noise[:, :3], noise])
    assert refit(wide, y, Early(ruined=False), seconds=0.0).origin["learner"] == "Early"
    numbers = wide[:, 0].copy()
    assert refit(wide, numbers, MLKR(max_iter=1000, tol=0.0), seconds=0.0).origin["stopped"] == "time"


def test_learners_of_numbers_are_refitted_to_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) * [1.0, 10.0, 100.0]
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    metric = refit(X, y, MLKR(max_iter=20, random_state=0))
    values = (y - y.mean()) / y.std()
    expected = MLKR(max_iter=20, random_state=0).fit(X / X.std(axis=0), values).metric_
    np.testing.assert_allclose(metric.matrix, expected.matrix, rtol=1e-6, atol=1e-9)
    assert metric.steps[0].scales == pytest.approx(X.std(axis=0))
    by_class = refit(X, y, LDA())  # a learner of classes learns from quarters of the range
    quarters = np.searchsorted(np.quantile(y, [0.25, 0.5, 0.75]), y)
    np.testing.assert_allclose(by_class.matrix, LDA().fit(X / X.std(axis=0), quarters).metric_.matrix, rtol=1e-9)


def penguins_like(n=120, seed=0):
    """Numbers, categories and cells that are missing, as tables have them."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    frame = pandas.DataFrame(
        {
            "bill": rng.normal(40 + 5 * y, 2.0),
            "mass": rng.normal(4000 + 300 * (y == 2), 200.0),
            "island": np.array(["Biscoe", "Dream", "Torgersen"])[np.where(rng.random(n) < 0.8, y, y[::-1])],
            "sex": rng.choice(["male", "female"], n),
        }
    )
    frame.loc[[3, 50], "bill"] = np.nan
    frame.loc[[5, 9, 70], "sex"] = None
    return frame, y


@pytest.mark.parametrize(
    "name", ["LDA", "RCA", "KISSME", "XQDA", "DMLMJ", "GMML", "ITML", "GML", "GML weights", "LMNN", "BoostMetric"]
)
def test_a_blanked_cell_does_not_move_a_row_out_of_the_table(name):
    frame, y = penguins_like()
    metric = refit(frame, y, default_panel(*frame.shape)[name], "numbers")
    Z = metric.transform(frame)
    for column in frame.columns:
        blank = frame.assign(**{column: None if frame[column].dtype == object else np.nan})
        assert cdist(metric.transform(blank), Z).max() < 3.0 * pdist(Z).max()


def test_rows_far_outside_are_named(tmp_path):
    frame, y = penguins_like()
    metric = refit(frame, y, LDA(), "numbers")
    metric.save(tmp_path / "m")
    frame.loc[7, "bill"] = 4000.0
    with pytest.warns(UserWarning, match="1 of 120 rows are far outside.*row 7 is .* mostly because of 'bill'"):
        Metric.load(tmp_path / "m").transform(frame)
    rows = metric.preprocessor.transform(frame)
    with pytest.warns(UserWarning, match="1 of 1 rows are far outside"):
        metric.rank(rows[7], rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.transform(penguins_like(seed=1)[0])

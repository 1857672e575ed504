"""Warnings where a fit has learned nothing, or has lost what tells rows apart."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning

from mahala import GML, ITML, MMC, NCA, PCA, MahalanobisMetric, Pairs, Triplets
from mahala.batch import LSML, Simba
from mahala.batch.cautions import caution, effective_directions
from mahala.batch.run import Run

PLAIN = MahalanobisMetric.euclidean(13)


@pytest.fixture(scope="module")
def wines():
    X, y = load_wine(return_X_y=True)
    return X / X.std(axis=0), y


@pytest.mark.parametrize(("learner", "unit"), [(NCA(init=PLAIN), 1e3), (LSML(random_state=0), 1e-6)], ids=repr)
def test_a_metric_that_stays_at_its_start_is_named(wines, learner, unit):
    X, y = wines
    remedy = "divide the features by their standard deviations, or give another (init|prior)"
    with pytest.warns(ConvergenceWarning, match=f"learned nothing: the metric is the one at the start.*{remedy}"):
        learner.fit(unit * X, y)
    assert learner.metric_.matrix == pytest.approx(np.eye(13), abs=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.fit(X, y)


@pytest.mark.parametrize("learner", [NCA(), GML(), LSML(), Simba()], ids=repr)
def test_rows_that_are_all_equal_are_named(learner):
    with pytest.warns(ConvergenceWarning, match="learned nothing: all rows are equal; check the features"):
        learner.fit(np.ones((60, 4)), np.arange(60) % 2)


def test_there_is_no_warning_where_nothing_was_to_be_learned(wines):
    X, y = wines
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = NCA().fit(X, y)
        first.set_params(warm_start=True).fit(X, y)
        apart = X[:, :2] + 100.0 * y[:, None]  # each class is far from the others
        assert NCA(init=MahalanobisMetric.euclidean(2)).fit(apart, y).objective_ < 1e-9
        GML(init=GML().fit(X, y).metric_).fit(X, y)
        ITML(random_state=0).fit(X, y)


def test_one_direction_with_more_errors_is_named():
    X, y = load_digits(return_X_y=True)
    X, y = X[::3], y[::3]
    with pytest.warns(
        ConvergenceWarning, match="MMC found a metric mostly along one direction of 64 features, and its"
    ):
        learner = MMC(max_iter=50).fit(X, y)
    assert effective_directions(learner._model, X) < 2.0
    # Comparisons whose answers are those of the Euclidean distance.
    a, b, c = np.random.default_rng(0).permutation(len(X))[:594].reshape(3, -1)
    near, far = (np.linalg.norm(X[a] - X[rows], axis=1) for rows in (b, c))
    triplets = Triplets(X, a, np.where(near < far, b, c), np.where(near < far, c, b))
    for data in (triplets, Pairs(X, a, b, near < np.median(near))):
        assert "that of the Euclidean distance 0.0%" in caution(learner, data, Run(objectives=[1.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PCA(n_components=1).fit(X, y)  # which was asked for
        NCA(n_components=2, max_iter=2).fit(X, y)
        MMC(max_iter=50).fit(X[:, :10], y)


@pytest.mark.parametrize(("model", "expected"), [("w", 3.0), ("M", 3.0), ("L", 3.0), ("weights", 3.0), ("one", 1.0)])
def test_effective_directions(model, expected):
    X = np.random.default_rng(0).permutation(np.vstack([np.eye(3), -np.eye(3)]))
    models = {
        "w": {"w": np.ones(3)},
        "M": {"M": np.eye(3)},
        "L": {"L": np.eye(3)},
        "weights": {"M": np.zeros((3, 3)), "weights": np.array([1.0, 0.5])},
        "one": {"L": np.eye(1, 3)},
    }
    assert effective_directions(models[model], X) == pytest.approx(expected)

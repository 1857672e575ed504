"""NCA against its definition, other minimisers and scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import approx_fprime, minimize
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from mahala import NCA, MahalanobisMetric
from reference.pair_objectives import nca
from strategies import labelled_rows


@pytest.mark.filterwarnings("ignore:.* under which all rows are at distance zero")
@given(case=labelled_rows())
def test_the_objective_is_the_papers(case):
    X, codes = case
    learner = NCA(max_iter=5).fit(X, codes)
    assert learner.objective_ == pytest.approx(nca(learner.components_, X, codes), abs=1e-6)
    variances = X.var(axis=0)
    start = np.eye(X.shape[1]) / np.sqrt(variances[variances > 0.0].mean() if variances.any() else 1.0)
    assert learner.objective_ <= nca(start, X, codes) + 1e-9
    assert np.isfinite(learner.metric_.matrix).all()


def test_no_other_minimiser_goes_lower_from_there(labelled):
    X, y = labelled
    learner = NCA(n_components=2, tol=1e-12, max_iter=1000, random_state=0).fit(X, y)
    L = learner.components_

    def objective(vector):
        return nca(vector.reshape(L.shape), X, y)

    assert np.abs(approx_fprime(L.ravel(), objective, 1e-6)).max() < 1e-3
    # Another descent, from nearby: the objective has many minima, but this is one.
    nearby = L.ravel() * (1.0 + 1e-3 * np.random.default_rng(0).normal(size=L.size))
    assert minimize(objective, nearby, method="CG", options={"maxiter": 30}).fun > learner.objective_ - 1e-3


def test_a_sample_of_the_rows_is_learned_from(labelled):
    X, y = labelled
    learner = NCA(n_samples=30, max_iter=20, random_state=0).fit(X, y)
    rows = np.sort(np.random.default_rng(learner._seed).choice(len(X), 30, replace=False))
    alone = NCA(max_iter=20, random_state=0).fit(X[rows], y[rows])
    np.testing.assert_allclose(learner.components_, alone.components_, rtol=1e-4, atol=1e-6)
    whole = NCA(n_samples=len(X), random_state=0).fit(X, y).components_
    np.testing.assert_array_equal(whole, NCA(random_state=0).fit(X, y).components_)


@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
def test_as_low_as_scikit_learns(load):
    X, y = load(return_X_y=True)
    step = 9 if load is load_digits else 3
    X, y = X[::step], y[::step]
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    ours = NCA(max_iter=30).fit(X, y)
    theirs = NeighborhoodComponentsAnalysis(max_iter=30, init="identity", random_state=0).fit(X, y)
    assert ours.objective_ <= nca(theirs.components_, X, y) + 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_learns_from_rows_in_any_unit(dtype):
    """Of such pixels every p_ij is 0 or 1 under L = I, where the objective has no slope."""
    X, y = load_digits(return_X_y=True)
    X, y = 1e4 * X[:200], y[:200]
    learner = NCA(max_iter=20).fit(X.astype(dtype), y)
    assert learner.objective_ < nca(np.eye(64), X, y) - 1.0
    assert learner.objective_ == pytest.approx(nca(learner.components_, X, y), abs=1e-3)


@pytest.mark.parametrize("init", ["identity", "pca", "lda", "random"])
def test_starts(labelled, init):
    X, y = labelled
    learner = NCA(n_components=3, init=init, random_state=0).fit(X, y)
    assert learner.components_.shape == (3, 5)
    assert learner.objective_ < nca(np.eye(5), X, y)
    assert learner.score(X, y) > 0.75


def test_a_metric_is_a_start(labelled):
    X, y = labelled
    first = NCA(tol=1e-12, max_iter=2000).fit(X, y)
    again = NCA(init=first.metric_).fit(X, y)
    assert again.n_iter_ <= 3
    assert again.objective_ == pytest.approx(first.objective_, abs=1e-3)
    # Of fewer directions than are wanted: the others start small, not at zero, where they would stay.
    flat = NCA(init=MahalanobisMetric(np.diag([1.0, 0, 0, 0, 0])), random_state=0).fit(X, y)
    assert flat.metric_.n_components == 5
    assert flat.objective_ < nca(np.eye(1, 5), X, y) - 1.0
    with pytest.raises(ValueError, match="init must be a MahalanobisMetric of 5 features"):
        NCA(init=MahalanobisMetric.euclidean(4)).fit(X, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_components": 0}, "n_components must be an integer of at least 1 or None"),
        ({"n_components": 6}, "n_components must be at most 5"),
        ({"init": "zero"}, "init must be 'auto', .* or a"),
        ({"init": np.eye(5)}, "init must be 'auto', .* or a"),
    ],
)
def test_bad_parameters(labelled, params, message):
    with pytest.raises(ValueError, match=message):
        NCA(**params).fit(*labelled)

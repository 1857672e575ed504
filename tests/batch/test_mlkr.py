"""MLKR against its definition and other minimisers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from mahala import MLKR, MahalanobisMetric, Pairs
from mahala.batch import mlkr as module
from reference.mlkr import mlkr


@pytest.fixture
def curve():
    """Targets that depend on one direction of four."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4))
    return X, np.sin(X @ [1.0, 1.0, 0.0, 0.0]) + 0.05 * rng.normal(size=60)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_objective_is_the_papers(curve, dtype):
    X, y = curve
    y = 1000.0 + 50.0 * y
    learner = MLKR(n_components=2, max_iter=5, random_state=0).fit(X.astype(dtype), y)
    assert learner.objective_ == pytest.approx(
        mlkr(learner.components_, X, y), rel=1e-9 if dtype == np.float64 else 1e-3
    )
    assert (np.diff(learner.objectives_) <= 0).all()


def test_the_gradient_is_that_of_the_objective(curve, monkeypatch):
    X, y = curve
    monkeypatch.setattr(module, "_BLOCK", 25)
    L = np.random.default_rng(0).normal(size=(2, 4))
    error, pull = module.leave_one_out(X @ L.T, y)
    assert error == pytest.approx(mlkr(L, X, y))
    expected = approx_fprime(L.ravel(), lambda vector: mlkr(vector.reshape(2, 4), X, y), 1e-6).reshape(2, 4)
    np.testing.assert_allclose(2.0 * pull.T @ X, expected, atol=1e-4 * np.abs(expected).max())


def test_a_sample_of_the_rows_is_learned_from(curve):
    X, y = curve
    learner = MLKR(n_samples=30, max_iter=20, random_state=0).fit(X, y)
    rows = np.sort(np.random.default_rng(learner._seed).choice(60, 30, replace=False))
    alone = MLKR(max_iter=20, random_state=0).fit(X[rows], y[rows])
    np.testing.assert_allclose(learner.components_, alone.components_, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(
        MLKR(n_samples=60, random_state=0).fit(X, y).components_, MLKR(random_state=0).fit(X, y).components_
    )


def test_no_other_minimiser_goes_lower_from_there(curve):
    X, y = curve
    L = MLKR(n_components=1, tol=1e-13, max_iter=1000, random_state=0).fit(X, y).components_

    def objective(vector):
        return mlkr(vector.reshape(L.shape), X, y)

    assert np.abs(approx_fprime(L.ravel(), objective, 1e-7)).max() < 1e-3
    nearby = L.ravel() * (1.0 + 1e-3 * np.random.default_rng(0).normal(size=L.size))
    assert minimize(objective, nearby, method="CG", options={"maxiter": 10}).fun > objective(L.ravel()) - 1e-6


@pytest.mark.parametrize("scale", [1.0, 10.0])
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_float32_end_where_the_same_rows_of_float64_do(seed, scale):
    rng = np.random.default_rng(seed)
    X = (scale * rng.normal(size=(100, 20))).astype(np.float32)
    y = np.sin(X @ rng.normal(size=20) / scale)
    one, other = (MLKR(n_components=2, random_state=0).fit(X.astype(kind), y) for kind in (np.float32, np.float64))
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-6)


def test_it_finds_the_direction():
    X = np.random.default_rng(0).normal(size=(300, 4))
    y = np.sin(X @ [1.0, 1.0, 0.0, 0.0])
    learner = MLKR(n_components=1, random_state=0).fit(X[:200], y[:200])
    direction = learner.components_[0] / np.linalg.norm(learner.components_)
    assert abs(direction @ [2**-0.5, 2**-0.5, 0.0, 0.0]) > 0.98
    raw = MLKR(init="identity", max_iter=1).fit(X[:200], y[:200])
    assert learner.score(X[200:], y[200:]) > raw.score(X[200:], y[200:])


def test_score_is_the_explained_share(curve):
    X, y = curve
    learner = MLKR(max_iter=3).fit(X, y)
    expected = 1.0 - learner.objective_ / np.sum((y - y.mean()) ** 2)
    assert learner.score(X, y) == pytest.approx(expected)
    assert 0.0 <= learner.score(Pairs.from_labels(X, y > 0, 50, random_state=0)) <= 1.0


def test_starts(curve):
    X, y = curve
    for init in ("auto", "identity", "pca", "random", MahalanobisMetric(np.diag([4.0, 1.0, 1.0, 0.1]))):
        assert MLKR(n_components=2, init=init, max_iter=3, random_state=0).fit(X, y).components_.shape == (2, 4)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y"),
        (["a"] * 60, "y must hold real numbers"),
        (np.full(60, np.nan), "y must hold finite numbers"),
        (np.full(60, 1e200), "y must hold finite numbers"),
        (np.ones(60), "y has one value"),
        (np.ones(59), "each of the 60 rows"),
    ],
)
def test_what_is_refused(curve, y, message):
    with pytest.raises(ValueError, match=message):
        MLKR().fit(curve[0], y)
    if message == "y has one value":
        with pytest.raises(ValueError, match="y has one value"):
            MLKR(max_iter=1).fit(*curve).score(curve[0], y)

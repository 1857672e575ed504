"""The parts of a fit: folds, the line, the mixture, maps joined to one metric."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.metrics import log_loss

from mahala.neighbors.folds import deal, row_order
from mahala.neighbors.line import RIDGES, SoftmaxPath, ridge, softmax
from mahala.neighbors.maps import Target, first_map, joined
from mahala.neighbors.mixture import best_weights, gain, mixed


def classes(y, weights=None):
    return Target(y, np.ones(len(y), dtype=np.float32) if weights is None else weights, int(y.max()) + 1)


def numbers(y, weights=None):
    return Target(y, np.ones(len(y), dtype=np.float32) if weights is None else weights, 0)


@given(seed=st.integers(0, 999), n=st.integers(1, 60))
def test_the_order_of_rows_depends_on_their_content_alone(seed, n):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 3, size=(n, 2)).astype(np.float32), rng.integers(0, 2, size=n)
    shuffled = rng.permutation(n)
    ordered, again = row_order(X, y), shuffled[row_order(X[shuffled], y[shuffled])]
    np.testing.assert_array_equal(X[ordered], X[again])
    np.testing.assert_array_equal(y[ordered], np.sort(y))


def test_folds_have_like_shares_of_each_class_and_keep_groups_whole():
    y = np.sort(np.random.default_rng(0).integers(0, 3, size=200))
    folds = deal(200, None, np.random.default_rng(1))
    counts = np.stack([np.bincount(y[folds == fold], minlength=3) for fold in range(4)])
    assert (counts.max(axis=0) - counts.min(axis=0) <= 2).all()
    groups = np.random.default_rng(0).integers(0, 17, size=200)
    folds = deal(200, groups, np.random.default_rng(1))
    assert all(len(np.unique(folds[groups == group])) == 1 for group in range(17))
    assert set(folds.tolist()) == {0, 1, 2, 3}
    with pytest.raises(ValueError, match="groups must hold at least two groups"):
        deal(5, np.zeros(5), np.random.default_rng(0))


@pytest.mark.parametrize("columns", [4, 200], ids=["few columns", "more columns than rows"])
def test_the_softmax_regression_is_the_optimum(columns):
    X, y = load_iris(return_X_y=True)
    X = np.hstack([X, np.random.default_rng(0).normal(size=(150, 200))])[:, :columns].astype(np.float32)
    path = SoftmaxPath(X, classes(y))
    for penalty in (0.1, 0.01):
        line = path.fit(penalty)
    peer = LogisticRegression(C=1.0 / (150 * 0.01), tol=1e-8, max_iter=5000).fit(X, y)

    def objective(scores, slopes):
        return log_loss(y, softmax(scores)) + 0.005 * np.square(slopes).sum()

    ours = objective(X @ line.slopes.astype(float) + line.constants, line.slopes.astype(float))
    best = objective(peer.decision_function(X), peer.coef_)
    assert ours == pytest.approx(best, abs=2e-5)


@pytest.mark.parametrize("wide", [False, True])
def test_ridge_is_scikit_learns(wide):
    X, y = load_diabetes(return_X_y=True)
    X = np.hstack([X * 20.0, np.random.default_rng(0).normal(size=(442, 600))])[:, : 610 if wide else 10]
    X, y = X.astype(np.float32), (y - y.mean()) / y.std()
    line = ridge(X, numbers(y), penalty=0.05)
    peer = Ridge(alpha=0.05 * 442).fit(X.astype(float), y)
    np.testing.assert_allclose(line.predict(X, 0)[:, 0], peer.predict(X.astype(float)), atol=2e-3)


def test_the_penalty_of_ridge_is_that_of_cross_validation():
    X, y = load_diabetes(return_X_y=True)
    X, y = (X * 20.0).astype(np.float32), (y - y.mean()) / y.std()
    line = ridge(X, numbers(y))
    unit = np.linalg.eigvalsh(np.cov(X.T, bias=True)).mean()
    peer = RidgeCV(alphas=RIDGES * unit * len(y)).fit(X, y)  # leave-one-out, which the generalised one is near
    assert line.penalty * len(y) == pytest.approx(peer.alpha_, rel=4.0)


@pytest.mark.parametrize("n_classes", [0, 3])
def test_weights_of_experts_are_the_best(n_classes):
    rng = np.random.default_rng(0)
    if n_classes:
        y = rng.integers(3, size=300)
        target = classes(y)
        good, bad = (softmax(scale * np.eye(3)[y] + rng.normal(size=(300, 3))) for scale in (2.0, 1.0))
    else:
        y = rng.normal(size=300)
        target = numbers(y)
        good, bad = (y[:, None] + scale * rng.normal(size=(300, 1)) for scale in (0.5, 1.0))
    weights = best_weights(good, bad, target)
    loss = target.losses(mixed([good, bad], weights, target)).mean()
    for other in np.ndindex(9, 9):
        pair = np.array(other) / 4.0
        if n_classes or pair.sum() == 1.0:
            assert loss <= target.losses(mixed([good, bad], pair, target)).mean() + 1e-3
    assert weights[0] > weights[1] > 0.0
    mean, error = gain(bad, good, target)
    assert mean > 2.0 * error > 0.0


def test_maps_are_joined_to_the_leading_part_of_their_mean():
    rng = np.random.default_rng(0)
    maps = [rng.normal(size=(5, 6)).astype(np.float32) for _ in range(4)]
    mean = np.mean([L.T @ L for L in maps], axis=0)
    L = joined(maps, 6)
    np.testing.assert_allclose(L.T @ L, mean, rtol=1e-4, atol=1e-4)
    values, vectors = np.linalg.eigh(mean)
    leading = (vectors[:, -2:] * values[-2:]) @ vectors[:, -2:].T
    L = joined(maps, 2)
    np.testing.assert_allclose(L.T @ L, leading, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("d", [3, 100])
def test_the_first_map_keeps_the_median_distance(d):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(400, d)) * np.arange(1, d + 1)).astype(np.float32)
    L = first_map(X, 2, rng)
    assert L.shape == (min(d, 64), d)
    Z = X @ L.T
    distances = np.linalg.norm(Z[:200] - Z[200:], axis=1)
    assert np.median(distances) == pytest.approx(8.0, rel=0.1)

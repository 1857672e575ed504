"""NCMML, NCMC and MCML against their objectives in loops, and against other minimisers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize
from sklearn.cluster import KMeans

from mahala.batch import MCML, NCMML
from mahala.batch import mcml as mcml_module
from mahala.batch.mcml import _divergence
from mahala.batch.ncmml import _centroids, _loss
from mahala.support import arrays
from mahala.support.tags import read_tags
from reference.class_objectives import collapse_divergence, nearest_centroid_loss


def table(seed=0, n=30, d=3):
    """Overlapping classes, one of which has two clusters; some rows are equal."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 4, size=n)
    X = rng.normal(size=(n, d)) + 2.0 * np.eye(4, d)[kind]
    X[-3:] = X[0]
    return X, np.minimum(kind, 2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_ncmml_minimises_its_objective(m, dtype):
    X, y = table()
    X = X.astype(dtype)
    learner = NCMML(m, tol=1e-12, max_iter=1000).fit(X, y)
    X = X.astype(np.float64)
    means = np.array([X[y == label].mean(axis=0) for label in range(3)])

    def loss(entries):
        return nearest_centroid_loss(entries.reshape(m, 3), X, y, means, np.arange(3))

    assert learner.objective_ == pytest.approx(loss(learner.components_.ravel()), rel=1e-9)
    assert learner.objectives_[0] >= learner.objective_
    for seed in range(2):
        found = minimize(loss, learner.components_.ravel() + 0.1 * np.random.default_rng(seed).normal(size=3 * m))
        assert found.fun > learner.objective_ * (1.0 - 1e-6)


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 4))
def test_loss_and_gradient_of_centroids(seed, k):
    X, y = table(seed, 20)
    centroids, of_class = _centroids(X, y, k, 0)
    L = np.random.default_rng(seed).normal(size=(2, 3))

    def loss(entries):
        return nearest_centroid_loss(entries.reshape(2, 3), X, y, centroids, of_class)

    value, gradient = _loss(L, X, centroids, y[:, None] == of_class)
    assert value == pytest.approx(loss(L.ravel()), rel=1e-9)
    np.testing.assert_allclose(gradient.ravel(), approx_fprime(L.ravel(), loss), rtol=1e-4, atol=1e-4)


def test_centroids_are_those_of_k_means_in_each_class():
    X, y = table()
    for k in (2, 3):
        centroids, of_class = _centroids(X, y, k, 5)
        for label in range(3):
            rows, own = X[y == label], centroids[of_class == label]
            inertia = np.square(rows[:, None] - own).sum(axis=2).min(axis=1).sum()
            assert inertia == pytest.approx(KMeans(k, n_init=4, random_state=5).fit(rows).inertia_)
    few = np.repeat(X[:4], 3, axis=0)
    centroids, of_class = _centroids(few, np.repeat([0, 1], 6), 3, 0)
    assert len(centroids) == len(of_class) == 4  # classes of two different rows have two centroids


def test_several_centroids_tell_a_class_of_two_clusters_from_the_one_between_them():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, size=300)
    X = np.column_stack([8.0 * kind, np.zeros(300)]) + rng.normal(size=(300, 2)) * [1.0, 2.0]
    y = (kind == 1).astype(int)
    one, two = (NCMML(1, n_centroids=k, random_state=0).fit(X, y).score(X, y) for k in (1, 2))
    assert two > 0.99 > 0.96 > one


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(8, 16))
def test_divergence_and_its_pull(seed, n):
    X, y = table(seed, n)
    y[-1] = 3  # alone in its class
    L = np.random.default_rng(seed).normal(size=(3, 3)) / 2.0
    rows = np.flatnonzero(np.bincount(y)[y] > 1)

    def value(entries):
        return collapse_divergence(entries.reshape(3, 3), X, y)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mcml_module, "row_blocks", lambda n, width: arrays.slices(n, 7))
        divergence, pull = _divergence(X @ L.T, y, rows)
    assert divergence == pytest.approx(value(L.ravel()), rel=1e-9)
    np.testing.assert_allclose(2.0 * pull.T @ X, approx_fprime(L.ravel(), value).reshape(3, 3), rtol=1e-4, atol=1e-4)
    of_tags, its_pull = _divergence(X @ L.T, read_tags([{int(label)} for label in y], n), rows)
    assert of_tags == pytest.approx(divergence)
    np.testing.assert_allclose(its_pull, pull, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_mcml_finds_the_minimum_of_a_convex_problem(dtype):
    X, y = table()
    learner = MCML(tol=1e-12, max_iter=1000).fit(X.astype(dtype), y)
    X = X.astype(dtype).astype(np.float64)
    assert learner.objective_ == pytest.approx(collapse_divergence(learner.components_, X, y), rel=1e-9)
    M = learner.get_mahalanobis_matrix()
    rng = np.random.default_rng(0)
    for seed in range(2):  # from other starts, and by steps between matrices
        other = MCML(init="random", tol=1e-12, max_iter=1000, random_state=seed).fit(X, y)
        np.testing.assert_allclose(other.get_mahalanobis_matrix(), M, rtol=0, atol=1e-3 * np.abs(M).max())
        L = rng.normal(size=(3, 3))
        for share in (1e-3, 0.1, 1.0):
            mixed = np.linalg.cholesky((1.0 - share) * M + share * L.T @ L + 1e-12 * np.eye(3)).T
            assert collapse_divergence(mixed, X, y) > learner.objective_ - 1e-6


@pytest.mark.parametrize("learner", [NCMML(), NCMML(n_centroids=2), MCML()], ids=repr)
def test_what_they_refuse(learner):
    X, y = table()
    with pytest.raises(ValueError, match="one class"):
        learner.fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="max_iter"):
        learner.__class__(max_iter=0).fit(X, y)
    if isinstance(learner, NCMML):
        with pytest.raises(ValueError, match="n_centroids"):
            NCMML(n_centroids=0).fit(X, y)
        with pytest.raises(ValueError, match="n_components must be at most 3"):
            NCMML(4).fit(X, y)

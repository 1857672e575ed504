"""LFDA against its definition in loops, another solver, and what its embeddings promise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.optimize import minimize

from mahala import LDA, config_context
from mahala.batch import LFDA
from mahala.batch import lfda as module
from reference.lfda import criterion, scatters


def clusters(n=60, d=4, seed=0):
    """Two classes, one of which has two clusters; scales differ, and some rows are the same."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, size=n)
    X = rng.normal(size=(n, d)) + 6.0 * np.eye(3, d)[kind]
    X[-3:] = X[0]
    return X * np.arange(1, d + 1), (kind == 1).astype(int)


@pytest.mark.parametrize("k", [1, 7, 100])
def test_it_solves_the_eigenproblem_of_the_definition(k, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_ROWS", 7)  # blocks of all kinds
    X, y = clusters()
    within, between = scatters(X, y, k)
    values, vectors = eigh(between, within)
    with config_context(n_threads=2):
        learner = LFDA(n_neighbors=k, embedding="plain").fit(X, y)
    assert learner.objective_ == pytest.approx(-values.sum(), rel=1e-9)
    np.testing.assert_allclose(learner.components_ @ within @ learner.components_.T, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(np.abs(learner.components_ @ within @ vectors[:, ::-1]), np.eye(4), atol=1e-6)
    weighted = LFDA(2, n_neighbors=k).fit(X, y)
    expected = vectors[:, :-3:-1] * np.sqrt(values[:-3:-1])
    np.testing.assert_allclose(weighted.get_mahalanobis_matrix(), expected @ expected.T, atol=1e-9)
    L = LFDA(2, n_neighbors=k, embedding="orthonormalized").fit(X, y).components_
    np.testing.assert_allclose(L @ L.T, np.eye(2), atol=1e-12)
    assert criterion(L, within, between) == pytest.approx(-weighted.objective_)


def test_no_other_map_is_better():
    X, y = clusters(seed=1)
    within, between = scatters(X, y, 7)

    def value(entries):
        return -criterion(entries.reshape(2, 4), within, between)

    learner = LFDA(2).fit(X, y)
    best = min(minimize(value, np.random.default_rng(seed).normal(size=8)).fun for seed in range(3))
    assert learner.objective_ == pytest.approx(best, rel=1e-6)


def test_a_class_of_two_clusters_stays_apart_from_the_one_between_them():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, size=300)
    X = np.column_stack([8.0 * kind, np.zeros(300)]) + rng.normal(size=(300, 2)) * [1.0, 2.0]
    y = kind == 1
    assert LFDA(1).fit(X, y).score(X, y) > 0.95 > LDA(1).fit(X, y).score(X, y)


def test_what_it_refuses():
    X, y = clusters()
    with pytest.raises(ValueError, match="n_components must be at most 4"):
        LFDA(5).fit(X, y)
    with pytest.raises(ValueError, match="embedding must be 'weighted', 'orthonormalized' or 'plain'"):
        LFDA(embedding="none").fit(X, y)
    for rows in (np.repeat(X[:3], 2, axis=0), X[:3]):
        with pytest.raises(ValueError, match="does not vary within any class"):
            LFDA().fit(rows, np.arange(len(rows)) // (len(rows) // 3))

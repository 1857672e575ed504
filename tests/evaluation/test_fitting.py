"""Baselines are what their names say."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances

from mahala.evaluation import fitting
from mahala.evaluation.fitting import CLASSIFIERS, class_scores, embedded
from mahala.support.contexts import time_limit


def rows(n=120, d=6):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return rng.normal(size=(n, d)) @ np.diag(2.0 ** -np.arange(d)) + 1.5 * np.eye(3, d)[y] + 1.0, y


def test_cosine_distances_are_those_of_unit_rows():
    X, y = rows()
    train, test = embedded("k-NN with cosine", X[:80], y[:80], X[80:])
    np.testing.assert_allclose(
        pairwise_distances(test, train) ** 2 / 2.0, pairwise_distances(X[80:], X[:80], "cosine"), atol=1e-12
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_pca_keeps_95_percent_of_the_variance(sparse):
    X, y = rows()
    expected = PCA(0.95, svd_solver="full").fit(X[:80])
    given = sp.csr_array(X) if sparse else X
    train, test = embedded("k-NN with PCA", given[:80], y[:80], given[80:])
    assert train.shape[1] == test.shape[1] == expected.n_components_ < 6
    ours, theirs = pairwise_distances(test, train), pairwise_distances(*map(expected.transform, (X[80:], X[:80])))
    np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_give_probabilities_of_all_classes(name):
    X, y = rows()
    scores = class_scores(name, X[:80], y[:80], X[80:], 0)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    assert np.mean(scores.argmax(axis=1) == y[80:]) > 0.6
    sparse = class_scores(name, sp.csr_array(X[:80]), y[:80], sp.csr_array(X[80:]), 0)
    assert np.mean(sparse.argmax(axis=1) == scores.argmax(axis=1)) > 0.9


def test_boosting_stops_at_its_time_limit(monkeypatch):
    monkeypatch.setattr(fitting, "_MANY", 0)
    X, y = rows()
    with time_limit(0.0) as limit:
        assert fitting._boosted(X, y, 0).n_iter_ == 10
    assert limit.stopped
    with time_limit(None) as limit:
        assert fitting._boosted(X, y, 0).n_iter_ > 10
    assert not limit.stopped

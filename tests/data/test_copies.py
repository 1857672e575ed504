"""Copies of rows, against equal rows by chance."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from mahala.data.copies import Copies


def slow_sets(X):
    return np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)


def same_sets(one, two):
    pairs = set(zip(one.tolist(), two.tolist(), strict=True))
    return len(pairs) == len(set(one.tolist())) == len(set(two.tolist()))


@pytest.mark.parametrize("d", [3, 32, 100])
@pytest.mark.parametrize("kind", ["dense", "float32", "sparse"])
def test_copies_are_counted(kind, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, d)) * (rng.random((40, d)) < 0.9)
    X = np.vstack([X, X, X[:10], -0.0 * X[:1]])[rng.permutation(91)]
    X = X.astype(np.float32) if kind == "float32" else X
    y = rng.integers(0, 2, 91)
    copies = Copies.of(sp.csr_matrix(X) if kind == "sparse" else X, y)
    assert same_sets(copies.sets, slow_sets(X))
    assert copies.n_different == len(np.unique(X, axis=0))
    assert copies.n_labelled == len(np.unique(np.column_stack([X, y]), axis=0))


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_few_values_are_equal_by_chance(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 500)
    passengers = np.column_stack([rng.integers(0, 4, 500), rng.random(500) < 0.2, rng.random(500) < 0.1])
    votes = (rng.random((500, 16)) < np.where(rng.random(500) < 0.5, 0.05, 0.95)[:, None]).astype(float)
    measured = rng.normal(size=(500, 2)).round(1)
    for X in (passengers.astype(float), votes, measured, rng.normal(size=(500, 2))):
        assert Copies.of(X, y) is None
    one_hot = np.eye(4)[passengers[:, 0].astype(int)]
    assert Copies.of(np.hstack([one_hot, passengers[:, 1:]]), y, [[0, 1, 2, 3], [4], [5]]) is None
    copied = rng.normal(size=(500, 4)).round(1)[rng.integers(0, 500, 500)]  # drawn with replacement
    assert Copies.of(copied, y).n_different == len(np.unique(copied, axis=0))

from __future__ import annotations

import numpy as np
import pytest

from compiled.kernel_inputs import csr, sparse_rows
from papers.pola2004.filters.kernels import (
    INTERCEPT,
    RADIUS2,
    closest_under,
    distances_under,
    largest_entry,
    nearest_margins,
    quadratic_forms,
    scores,
    squared_norms,
    stream_nearest,
    stream_perceptron,
)
from reference import filtering as reference


@pytest.fixture
def documents():
    X = sparse_rows(40, 20)
    norms2 = np.empty(40)
    squared_norms(csr(X), 0, 40, norms2)
    np.testing.assert_allclose(norms2, np.sum(X**2, axis=1))
    return X, norms2, np.random.default_rng(1).random(40) < 0.4


def test_perceptrons(documents):
    X, norms2, relevant = documents
    w, state, predicted, f = np.zeros(20), np.zeros(2), np.empty(40, dtype=bool), np.empty(40)
    stream_perceptron(csr(X), relevant, w, state, (0.1, 1.0), 0.5, 1.0, True, predicted)
    expected = reference.paum(X, relevant, 1.0, 0.1, 0.5)
    np.testing.assert_allclose(w, expected[0])
    assert state[INTERCEPT] == pytest.approx(expected[1])
    assert state[RADIUS2] == pytest.approx(norms2.max())
    np.testing.assert_array_equal(predicted, expected[2])
    scores(csr(X), w, 0.25, f)
    np.testing.assert_allclose(f, X @ w + 0.25)


def test_the_nearest_document(documents):
    X, norms2, relevant = documents
    predicted, margins = np.empty(40, dtype=bool), np.empty(10)
    stream_nearest(csr(X), norms2, relevant, 0, 20, predicted)
    np.testing.assert_array_equal(predicted, reference.nearest(X, relevant))
    nearest_margins(csr(X), norms2, relevant, 30, 20, margins)
    squared = np.sum((X[30:, None] - X[:30]) ** 2, axis=2)
    expected = squared[:, ~relevant[:30]].min(axis=1) - squared[:, relevant[:30]].min(axis=1)
    np.testing.assert_allclose(margins, expected, atol=1e-12)


def test_the_nearest_document_under_a_matrix(documents):
    X, norms2, _ = documents
    M = np.random.default_rng(2).normal(size=(20, 20))
    M = M @ M.T
    forms, distances = np.empty(40), np.empty(10)
    quadratic_forms(csr(X), 0, 40, M, forms)
    np.testing.assert_allclose(forms, np.einsum("ij,ij->i", X @ M, X))
    largest = largest_entry(M)
    assert largest >= np.abs(M).max()
    V = X[30:, None] - X[:30]
    expected = np.einsum("qri,ij,qrj->qr", V, M, V)
    distances_under(csr(X), norms2, forms, 30, M, largest, distances)
    np.testing.assert_allclose(distances, expected.min(axis=1), atol=1e-12)
    closest, distance = closest_under(csr(X), norms2, forms, 33, 30, M, largest)
    assert expected[3, closest] == pytest.approx(distance)
    assert closest_under(csr(X), norms2, forms, 0, 0, M, largest) == (-1, np.inf)

"""Sums over triplets against those with every matrix formed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala import Triplets
from mahala.batch.triplets import TripletEdges, label_triplets, target_neighbors
from mahala.compiled.sums.edges import weights
from mahala.engine import edges as edge_graph
from reference.boosting import matrices, scale, triplets_of_labels
from strategies import labelled_rows, triplet_sets


def columns(triplets):
    return triplets.anchor, triplets.positive, triplets.negative


def tolerance(X):
    return 1e-9 if X.dtype == np.float64 else 1e-4


@given(triplet_sets(), st.integers(0, 2**32 - 1))
def test_gains_and_leading_direction(triplets, seed):
    rng = np.random.default_rng(seed)
    edges, A = TripletEdges(triplets), matrices(triplets.X, *columns(triplets))
    expected = scale(triplets.X, *columns(triplets))
    assert edges.scale == pytest.approx(expected, rel=1e-4) or (expected == 0.0 < edges.scale)
    A = A / edges.scale
    # The terms of A, which may cancel: the positive and the negative may be equal rows.
    X, (anchor, *others) = triplets.X.astype(float), columns(triplets)
    size = max(np.square(X[anchor] - X[rows]).max() for rows in others) / edges.scale + 1e-300
    u = weights(rng.normal(scale=3.0, size=len(A)))
    direction = rng.normal(size=A.shape[1])
    expected = np.einsum("i,rij,j->r", direction, A, direction)
    assert np.abs(edges.gains(direction) - expected).max() <= tolerance(edges.X) * size * np.sum(direction**2)
    vector, gains = edges.leading_direction(u)
    value = u @ gains
    scatter = np.einsum("r,rij->ij", u, A)
    assert value == pytest.approx(np.linalg.eigvalsh(scatter)[-1], abs=tolerance(edges.X) * size)
    assert vector @ scatter @ vector == pytest.approx(value, abs=tolerance(edges.X) * size)
    assert np.linalg.norm(vector) == pytest.approx(1.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("how", ["lapack", "formed", "implicit"])
def test_each_way_to_the_leading_direction(how, dtype, monkeypatch):
    monkeypatch.setattr(edge_graph, "LAPACK_DIMENSION", 100 if how == "lapack" else 10)
    monkeypatch.setattr(edge_graph, "FORM_COST", 1e9 if how == "implicit" else 0.0)
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(80, 40)) * np.linspace(0.3, 2.0, 40) + 100.0).astype(dtype)
    triplets = label_triplets(X, rng.integers(0, 4, size=80), 3)
    u = weights(rng.normal(size=len(triplets)))
    edges = TripletEdges(triplets)
    A = matrices(X, *columns(triplets)) / edges.scale
    values, vectors = np.linalg.eigh(np.einsum("r,rij->ij", u, A))
    assert edges._graph._products == edge_graph.FIRST_PRODUCTS
    vector, gains = edges.leading_direction(u)
    assert (edges._graph._products == edge_graph.FIRST_PRODUCTS) == (how == "lapack")
    assert u @ gains == pytest.approx(values[-1], rel=1e-9 if dtype == np.float64 else 1e-5)
    assert abs(vector @ vectors[:, -1]) == pytest.approx(1.0, rel=1e-9 if dtype == np.float64 else 1e-5)


@pytest.mark.parametrize("equal_rows", [True, False])
def test_lanczos_on_a_zero_matrix(equal_rows, monkeypatch):
    monkeypatch.setattr(edge_graph, "LAPACK_DIMENSION", 10)
    rows = np.arange(50)
    X = np.zeros((50, 40)) if equal_rows else np.random.default_rng(0).normal(size=(50, 40))
    u = np.full(50, 0.02 if equal_rows else 0.0)
    vector, gains = TripletEdges(Triplets(X, rows, rows[::-1], np.roll(rows, 1))).leading_direction(u)
    assert u @ gains == 0.0
    assert np.linalg.norm(vector) == pytest.approx(1.0)


@given(labelled_rows(), st.integers(1, 4), st.sampled_from([np.float64, np.float32]))
def test_labels_give_nearest_targets_and_impostors(data, k, dtype):
    X, codes = data[0].astype(dtype), data[1]
    expected = triplets_of_labels(X, codes, k)
    if not expected:
        with pytest.raises(ValueError, match="every row is alone in its class"):
            label_triplets(X, codes, k)
        return
    found = list(zip(*columns(label_triplets(X, codes, k)), strict=True))
    # Of equally near rows any may be chosen: what counts is how far they are.
    squared = np.square(X[:, None].astype(float) - X[None]).sum(axis=2)

    def key(rows):
        return sorted((i, codes[j] == codes[i], codes[m] != codes[i], squared[i, j], squared[i, m]) for i, j, m in rows)

    assert np.allclose(key(found), key(expected), rtol=1e-12)
    assert len(set(found)) == len(found)
    assert all(i != j for i, j, _ in found)


def test_small_classes():
    """In a small class all others are targets, and a row alone in its class has none."""
    X = np.array([[0.0], [1.0], [3.0], [1.5], [9.0], [9.5]])
    edges, ends = target_neighbors(X, np.array([0, 0, 0, 1, 2, 2]), 3)
    assert edges.T.tolist() == [[0, 1], [0, 2], [1, 0], [1, 2], [2, 1], [2, 0], [4, 5], [5, 4]]
    assert ends.tolist() == [0, 2, 4, 6, 6, 7, 8]
    with pytest.raises(ValueError, match="every row is alone in its class"):
        target_neighbors(X[:3], np.arange(3), 1)

"""Whitening maps and coordinates against what defines them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mahala.batch.whitening import (
    covariances,
    divided_by_largest,
    pair_coordinates,
    row_coordinates,
    standardised,
    whiten_varying,
    whiten_within,
)
from mahala.engine.cores import Cores
from reference.rca import within_covariance
from strategies import labelled_rows


def covariance(rng, d, rank=None):
    A = rng.normal(size=(rank or d, d))
    return A.T @ A


@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_whiten_within_diagonalises_both(seed, d):
    rng = np.random.default_rng(seed)
    within = covariance(rng, d) + 0.1 * np.eye(d)
    total = within + covariance(rng, d)
    L, variances = whiten_within(within, total, 0.0)
    np.testing.assert_allclose(L @ within @ L.T, np.eye(d), atol=1e-8)
    np.testing.assert_allclose(L @ total @ L.T, np.diag(variances), atol=1e-8 * variances[0])
    assert (np.diff(variances) <= 0.0).all()
    np.testing.assert_allclose(
        whiten_varying(within, 1e-12) @ within @ whiten_varying(within, 1e-12).T, np.eye(d), atol=1e-8
    )


def test_what_does_not_vary_is_left_out_or_raised():
    rng = np.random.default_rng(0)
    total = covariance(rng, 5, rank=4)
    assert whiten_within(total, total, 1e-6)[0].shape == (4, 5)
    within = np.diag([4.0, 1.0, 0.0])
    L = whiten_varying(within, 1e-8)
    assert L.shape == (2, 3)
    np.testing.assert_allclose(L.T @ L, np.diag([0.25, 1.0, 0.0]))
    L, _ = whiten_within(within, np.diag([4.0, 2.0, 3.0]), 0.01)
    np.testing.assert_allclose(L.T @ L, np.diag([0.25, 1.0, 25.0]), atol=1e-12)


@given(labelled_rows(), st.sampled_from([np.float64, np.float32]), st.booleans())
def test_coordinates_change_no_distance(case, dtype, diagonal):
    """What L' makes of the coordinates is what its model makes of the rows."""
    X = case[0].astype(dtype)
    if not np.ptp(X, axis=0).any():
        return
    rng = np.random.default_rng(0)
    scaled, factors = standardised(X)
    within = np.cov(scaled.T.astype(float), bias=True).reshape(X.shape[1], X.shape[1])
    for coordinates in (
        pair_coordinates(scaled, factors, within, 1e-3, Cores(), diagonal=diagonal),
        row_coordinates(X, Cores()),
    ):
        assert coordinates.X.dtype == dtype
        d = coordinates.X.shape[1]
        variables = rng.normal(size=d if coordinates.diagonal else (2, d)).astype(dtype)
        model = coordinates.to_model(variables)
        L = np.diag(np.sqrt(model["w"])) if coordinates.diagonal else model["L"]
        expected = (X - X.mean(axis=0, dtype=float)) @ L.T
        found = coordinates.map(np.abs(variables) if coordinates.diagonal else variables)
        np.testing.assert_allclose(
            found, expected, atol=(1e-8 if dtype == np.float64 else 1e-3) * np.abs(expected).max()
        )


def test_gradient_is_that_of_the_variables(labelled):
    X, _ = labelled
    scaled, factors = standardised(X)
    for diagonal in (False, True):
        coordinates = pair_coordinates(scaled, factors, np.cov(scaled.T), 1e-3, Cores(), diagonal=diagonal)
        variables = np.ones(5) if diagonal else np.eye(2, 5)

        def objective(v, coordinates=coordinates):
            return np.square(coordinates.map(v)).sum()

        gradient = coordinates.gradient(coordinates.map(variables))
        moved = np.zeros_like(variables)
        moved.flat[1] = 1e-6
        slope = (objective(variables + moved) - objective(variables - moved)) / 2e-6
        assert gradient.flat[1] == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_the_scatter_of_similar_pairs_is_isotropic(labelled):
    X, _ = labelled
    scaled, factors = standardised(X)
    within = np.cov(scaled.T, bias=True)
    coordinates = pair_coordinates(scaled, factors, within, 0.0, Cores(), diagonal=False)
    np.testing.assert_allclose(np.cov(coordinates.X.T, bias=True), coordinates.unit * np.eye(5), atol=1e-9)
    np.testing.assert_allclose(coordinates.P.T @ coordinates.inverse, np.eye(5), atol=1e-9)


def test_rows_are_nearly_white_and_have_no_directions_without_variance(labelled):
    X = np.c_[labelled[0], labelled[0][:, 0], np.ones(90)] * 10.0 ** np.arange(-3, 4)
    coordinates = row_coordinates(X, Cores())
    assert coordinates.X.shape == (90, 5)
    assert 0.9 < np.cov(coordinates.X.T, bias=True).diagonal().min() <= 1.0
    np.testing.assert_allclose(coordinates.P.T @ coordinates.inverse, np.eye(5), atol=1e-9)
    with pytest.raises(ValueError, match="X must have rows that differ"):
        row_coordinates(np.ones((3, 2)), Cores())


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_standardised_at_any_scale(labelled, scale):
    X = np.c_[labelled[0], np.full(90, 0.1)] * scale
    scaled, factors = standardised(X)
    np.testing.assert_allclose(scaled.std(axis=0), [1, 1, 1, 1, 1, 0], atol=1e-12)
    assert factors[5] == 0.0  # although the mean of 0.1 is not 0.1
    shifted, largest = divided_by_largest(X)
    assert np.abs(shifted).max() == 1.0
    np.testing.assert_allclose(shifted * largest, X - X[0], rtol=1e-14)
    assert divided_by_largest(np.ones((2, 2)))[1] == 0.0


@given(labelled_rows(), st.sampled_from([np.float64, np.float32]), st.sampled_from([0.0, 100.0]))
def test_equal_those_of_the_definition(case, dtype, shift):
    X, codes = (case[0] + shift).astype(dtype), case[1]
    assume(np.bincount(codes).max() > 1)
    assume((X[0] != X).any())
    found = covariances(X, codes)
    X = X.astype(np.float64)
    varies = (X[0] != X).any(axis=0)
    np.testing.assert_array_equal(found.varies, varies)
    X = X[:, varies]
    np.testing.assert_allclose(found.spread, X.std(axis=0), rtol=1e-9)
    X = (X - X.mean(axis=0)) / found.spread
    np.testing.assert_allclose(found.total, np.cov(X.T, bias=True).reshape(found.total.shape), atol=1e-9)
    np.testing.assert_allclose(found.within, within_covariance(X, codes), atol=1e-9)
    expected = [np.sqrt((codes == g).sum()) * X[codes == g].mean(axis=0) for g in range(codes.max() + 1)]
    np.testing.assert_allclose(found.offsets, expected, atol=1e-9)


def test_a_map_in_units_of_the_spread_becomes_one_of_the_features(labelled):
    X, y = labelled
    found = covariances(np.c_[X[:, :2], np.ones(len(X)), 1e20 * X[:, 2:]], y)
    L = found.in_features(np.eye(5))
    assert L.shape == (5, 6)
    assert not L[:, 2].any()
    assert L[4, 5] == pytest.approx(1e-20 / X[:, 4].std())

"""Covariances against NumPy's, one group at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mahala.batch.covariance import covariances, deviations_within
from reference.rca import within_covariance
from strategies import labelled_rows


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
    deviations = [X[codes == g] - X[codes == g].mean(axis=0) for g in range(codes.max() + 1)]
    Z, _, sizes, width = deviations_within(case[0] + shift, codes)
    if dtype is np.float64:
        np.testing.assert_allclose(Z * (width[varies] / found.spread), np.vstack(deviations), atol=1e-9)
    assert sizes.tolist() == np.bincount(codes).tolist()


def test_a_map_in_units_of_the_spread_becomes_one_of_the_features(labelled):
    X, y = labelled
    found = covariances(np.c_[X[:, :2], np.ones(len(X)), 1e20 * X[:, 2:]], y)
    L = found.in_features(np.eye(5))
    assert L.shape == (5, 6)
    assert not L[:, 2].any()
    assert L[4, 5] == pytest.approx(1e-20 / X[:, 4].std())

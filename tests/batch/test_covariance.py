"""Covariance against the inverse that it stands for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.linalg import pinvh

from mahala.batch import Covariance
from strategies import labelled_rows


@given(labelled_rows())
def test_the_pseudo_inverse_of_the_covariance(case):
    X, _ = case
    C = np.atleast_2d(np.cov(X.T))
    if not C.any():
        with pytest.raises(ValueError, match="X must have rows that differ"):
            Covariance().fit(X)
        return
    learner, expected = Covariance().fit(X), pinvh(C)
    M = learner.get_mahalanobis_matrix()
    np.testing.assert_allclose(M, expected, atol=1e-8 * np.abs(expected).max())
    values = np.linalg.eigvalsh(M)
    values = values[values > 1e-10 * values[-1]]
    assert learner.objective_ == pytest.approx(np.sum(M * C) - np.log(values).sum(), rel=1e-6, abs=1e-6)


def test_features_of_any_scale_and_dependent_ones():
    X = np.random.default_rng(0).normal(size=(50, 3)) * [1e-30, 1.0, 1e30]
    expected = np.linalg.inv(np.corrcoef(X.T)) / np.outer(X.std(axis=0, ddof=1), X.std(axis=0, ddof=1))
    np.testing.assert_allclose(Covariance().fit(X).get_mahalanobis_matrix(), expected, rtol=1e-9)
    doubled = np.hstack([X[:, 1:2], 2.0 * X[:, 1:2], np.full((50, 1), 7.0)])
    M = Covariance().fit(doubled).get_mahalanobis_matrix()
    np.testing.assert_allclose(M, np.outer([1, 2, 0], [1, 2, 0]) / (25.0 * X[:, 1].var(ddof=1)), rtol=1e-9)

"""Descent on objectives whose minimum is known."""

from __future__ import annotations

import numpy as np
import pytest

from mahala import LDA, NCA, PCA, MahalanobisMetric
from mahala.batch.descent import descend, first_components, first_variables
from mahala.batch.run import Run
from mahala.batch.whitening import pair_coordinates, standardised
from mahala.engine.cores import Cores

CENTRE = np.arange(6.0).reshape(2, 3)


def bowl(L):
    """A quadratic of different curvatures whose minimum 1 is at CENTRE."""
    weights = np.array([1.0, 10.0, 100.0])
    return 1.0 + float(np.sum(weights * np.square(L - CENTRE))), 2.0 * weights * (L - CENTRE)


def run(max_iter, tol, callback=None):
    return Run(callback, max_iter=max_iter, tol=tol)


def to_model(L):
    return {"L": L}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_reaches_the_minimum_in_the_dtype_of_the_start(dtype):
    seen, record = [], run(100, 1e-12)

    def objective(L):
        seen.append((L.dtype, L.shape))
        return bowl(L)

    start = np.zeros((2, 3), dtype=dtype)
    reason = descend(objective, start, record, to_model=to_model)
    assert reason in ("converged", "precision")
    assert set(seen) == {(np.dtype(dtype), (2, 3))}
    np.testing.assert_allclose(record.model["L"], CENTRE, atol=1e-3)
    assert record.objectives[-1] == pytest.approx(1.0, abs=1e-5)
    assert (np.diff(record.objectives) <= 0.0).all()


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_the_scale_of_the_objective_does_not_matter(scale):
    def objective(L):
        value, gradient = bowl(L)
        return scale * value, scale * gradient

    record = run(100, 1e-9)
    descend(objective, np.zeros((2, 3)), record, to_model=to_model)
    assert record.objectives[-1] == pytest.approx(scale, rel=1e-6)


def test_stop_reasons():
    start = np.zeros((2, 3))
    record = run(2, 0.0)
    assert descend(bowl, start, record, to_model=to_model) == "max_iter"
    assert len(record.objectives) == 2
    record = run(99, 0.0, lambda iteration: iteration.number == 3)
    assert descend(bowl, start, record, to_model=to_model) == "callback"
    assert len(record.objectives) == 3
    record = run(99, 1e-6)
    reason = descend(bowl, CENTRE, record, to_model=to_model, report=np.log)
    assert (reason, record.objectives) == ("converged", [0.0])
    np.testing.assert_array_equal(record.model["L"], CENTRE)


@pytest.mark.parametrize("tol", [1e300, np.float32(0.9)])
def test_any_tolerance_is_taken(tol):
    X = np.random.default_rng(0).normal(size=(12, 3))
    assert NCA(tol=tol).fit(X, np.arange(12) % 2).stop_reason_ == "converged"


def rng():
    return np.random.default_rng(0)


def from_model(warm):
    return Run(rng=rng(), warm=warm)


def unit(L):
    return L / np.linalg.norm(L, axis=1, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_named_starts(labelled, dtype):
    X, y = labelled[0].astype(dtype), labelled[1]
    lda, pca = unit(LDA().fit(X, y).components_), unit(PCA(3).fit(X).components_)
    expected = {"identity": np.eye(3, 5), "pca": pca, "lda": np.vstack([lda, pca[:1]]), "auto": pca}
    for init, want in expected.items():
        found = first_components(init, 3, X, y, from_model(None))
        assert found.dtype == dtype
        np.testing.assert_allclose(np.abs(found), np.abs(want), atol=1e-6)
    np.testing.assert_array_equal(first_components("auto", None, X, y, from_model(None)), np.eye(5))
    np.testing.assert_allclose(first_components("auto", 2, X, y, from_model(None)), lda, atol=1e-6)
    assert first_components("random", 4, X, y, from_model(None)).shape == (4, 5)


def test_rows_that_have_too_few_directions():
    X = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    L = first_components("lda", 3, X, np.array([0, 1]), from_model(None))
    assert L.shape == (3, 3)
    assert np.linalg.matrix_rank(L) == 3


def test_metrics_and_warm_models(labelled):
    X, y = labelled
    metric = MahalanobisMetric(np.diag([4.0, 1.0, 0.0, 0.0, 0.0]))
    L = first_components(metric, 3, X, y, from_model(None))
    np.testing.assert_allclose(L[:2].T @ L[:2], metric.matrix)
    assert 0.0 < np.abs(L[2]).max() < 0.01
    warm = {"L": np.arange(10.0).reshape(2, 5)}
    np.testing.assert_array_equal(first_components("auto", 2, X, y, from_model(warm)), warm["L"])
    with pytest.raises(ValueError, match="n_components must be 2, as in the last fit, because warm_start=True, got 3"):
        first_components("auto", 3, X, y, from_model(warm))
    with pytest.raises(ValueError, match="n_components must be at most 5"):
        first_components("auto", 6, X, y, from_model(None))
    with pytest.raises(ValueError, match="init must be a MahalanobisMetric of 5 features"):
        first_components(MahalanobisMetric.euclidean(4), None, X, y, from_model(None))


@pytest.mark.parametrize("diagonal", [False, True])
def test_variables_of_a_model_give_it_back(labelled, diagonal):
    X, y = labelled
    scaled, factors = standardised(X)
    coordinates = pair_coordinates(scaled, factors, np.cov(scaled.T), 1e-3, Cores(), diagonal=diagonal)
    key, array = ("w", np.arange(1.0, 6.0)) if diagonal else ("L", rng().normal(size=(5, 5)))
    variables, has_scale = first_variables(coordinates, "auto", None, y, from_model({key: array}))
    np.testing.assert_allclose(coordinates.to_model(variables)[key], array, atol=1e-9)
    assert has_scale
    M = np.diag(np.arange(1.0, 6.0))
    variables, has_scale = first_variables(coordinates, MahalanobisMetric(M), None, y, from_model(None))
    model = coordinates.to_model(variables)
    np.testing.assert_allclose(np.diag(model["w"]) if diagonal else model["L"].T @ model["L"], M, atol=1e-9)
    assert has_scale
    for init in ("identity", "random"):
        variables, has_scale = first_variables(coordinates, init, None, y, from_model(None))
        assert variables.shape == ((5,) if diagonal else (5, 5))
        assert not has_scale

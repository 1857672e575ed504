"""Descent on objectives whose minimum is known."""

from __future__ import annotations

import numpy as np
import pytest

from mahala import NCA
from mahala.batch.descent import descend
from mahala.batch.run import Run

CENTRE = np.arange(6.0).reshape(2, 3)


def bowl(L):
    """A quadratic of different curvatures whose minimum 1 is at CENTRE."""
    weights = np.array([1.0, 10.0, 100.0])
    return 1.0 + float(np.sum(weights * np.square(L - CENTRE))), 2.0 * weights * (L - CENTRE)


def run(callback=None):
    return Run(callback, lambda number, objective: None)


def to_model(L):
    return {"L": L}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_reaches_the_minimum_in_the_dtype_of_the_start(dtype):
    seen, record = [], run()

    def objective(L):
        seen.append((L.dtype, L.shape))
        return bowl(L)

    start = np.zeros((2, 3), dtype=dtype)
    reason = descend(objective, start, record, max_iter=100, tol=1e-12, to_model=to_model)
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

    record = run()
    descend(objective, np.zeros((2, 3)), record, max_iter=100, tol=1e-9, to_model=to_model)
    assert record.objectives[-1] == pytest.approx(scale, rel=1e-6)


def test_stop_reasons():
    start = np.zeros((2, 3))
    record = run()
    assert descend(bowl, start, record, max_iter=2, tol=0.0, to_model=to_model) == "max_iter"
    assert len(record.objectives) == 2
    record = run(lambda iteration: iteration.number == 3)
    assert descend(bowl, start, record, max_iter=99, tol=0.0, to_model=to_model) == "callback"
    assert len(record.objectives) == 3
    record = run()
    reason = descend(bowl, CENTRE, record, max_iter=99, tol=1e-6, to_model=to_model, report=np.log)
    assert (reason, record.objectives) == ("converged", [0.0])
    np.testing.assert_array_equal(record.model["L"], CENTRE)


@pytest.mark.parametrize("tol", [1e300, np.float32(0.9)])
def test_any_tolerance_is_taken(tol):
    X = np.random.default_rng(0).normal(size=(12, 3))
    assert NCA(tol=tol).fit(X, np.arange(12) % 2).stop_reason_ == "converged"

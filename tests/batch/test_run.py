"""The record of a fit's iterations."""

from __future__ import annotations

import numpy as np
import pytest

from mahala.batch.run import Run, matrix_of


def test_records_and_shows_every_iteration():
    seen, shown = [], []
    run = Run(lambda iteration: seen.append(iteration) or iteration.number == 2, lambda *args: shown.append(args))
    first, second = {"w": np.array([1.0, 4.0])}, {"M": np.eye(2)}
    assert run.model == {}
    assert not run.step(3.0, first)
    assert run.step(2.0, second)
    assert run.objectives == [3.0, 2.0]
    assert run.model is second
    assert shown == [(1, 3.0), (2, 2.0)]
    assert [(iteration.number, iteration.objective) for iteration in seen] == [(1, 3.0), (2, 2.0)]
    np.testing.assert_array_equal(seen[0].metric.matrix, np.diag([1.0, 4.0]))
    run.back_to(1, first)
    assert (run.objectives, run.model) == ([3.0], first)
    run.back_to(0, first)
    assert (run.objectives, run.model) == ([], {})


def test_without_a_callback_nothing_stops():
    assert not Run().step(1.0, {"w": np.ones(2)})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_matrix_of_each_form(dtype):
    L = np.array([[1.0, 2.0, 3.0]], dtype=dtype)
    for model, expected in (
        ({"L": L}, L.T @ L),
        ({"M": np.eye(3, dtype=dtype)}, np.eye(3)),
        ({"w": L[0]}, np.diag(L[0])),
    ):
        M = matrix_of(model)
        assert M.dtype == np.float64
        np.testing.assert_array_equal(M, expected)

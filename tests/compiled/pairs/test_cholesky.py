from __future__ import annotations

import numpy as np
import pytest

from compiled.kernel_inputs import pairs, record
from mahala.compiled.pairs.cholesky import stream_few
from mahala.compiled.pairs.psd import DONE, PROJECT, SIGMA, STATE_SIZE
from reference.online_pairs import passive_aggressive, project

RULE = (0.0, 0.0, np.inf)


@pytest.mark.parametrize("size", [1, 7, 200])
@pytest.mark.parametrize("d", [1, 3, 8, 20])
def test_steps_are_the_papers(d, size):
    V, y = pairs(200, d)
    V /= 2.0
    M, b, state, steps = np.zeros((d, d)), 0.0, np.zeros(STATE_SIZE), record(200)
    done = 0
    while done < 200:
        part = slice(done, min(done + size, 200))
        taken = tuple(column[part] for column in steps)
        b, n_taken, why = stream_few(V[part], y[part], M, state, b, (*RULE, 0.0), taken)
        done += n_taken
        assert why == DONE
    expected_M, expected_b, expected = passive_aggressive(V, y, RULE, psd=1)
    np.testing.assert_allclose(M, expected_M, atol=1e-8)
    np.testing.assert_array_equal(M, M.T)
    assert b == pytest.approx(expected_b)
    np.testing.assert_allclose(steps[1], np.array(expected)[:, 2], atol=1e-8)
    assert 0.0 < state[SIGMA] <= 1.0


def test_a_matrix_that_is_not_positive_is_left_to_lapack():
    M, steps = np.diag([1.0, 1.0, -1e-3]), record(2)
    V, y = np.array([[1.0, 2.0, 0.0], [1.0, 1.0, 1.0]]), np.array([1, 1], dtype=np.int8)
    b, done, why = stream_few(V, y, M, np.zeros(STATE_SIZE), 2.0, (*RULE, 0.0), steps)
    assert (done, why) == (1, PROJECT)
    updated = np.diag([1.0, 1.0, -1e-3]) - steps[1][0] * np.outer(V[0], V[0])
    np.testing.assert_allclose(M, updated, atol=1e-12)
    assert project(M).min() > -1.0
    assert b == pytest.approx(2.0 + steps[1][0])

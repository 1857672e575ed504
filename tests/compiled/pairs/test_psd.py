from __future__ import annotations

import numpy as np
import pytest

from compiled.kernel_inputs import pairs, record
from mahala.compiled.pairs.psd import DONE, LOG_MU, NORM, PROJECT, SIGMA, STATE_SIZE, stream_psd
from reference.online_pairs import passive_aggressive, project

RULE = (0.0, 0.0, np.inf)


@pytest.mark.parametrize("size", [1, 200])
@pytest.mark.parametrize("d", [1, 3, 8])
def test_steps_are_the_papers_and_the_inverse_follows(d, size):
    V, y = pairs(200, d)
    V /= 2.0
    M, b, state, steps = np.zeros((d, d)), 0.0, np.zeros(STATE_SIZE), record(200)
    state[SIGMA] = 0.1
    state[LOG_MU] = np.log(0.1)
    R, done = np.eye(d) / 0.1, 0
    while done < 200:
        part = slice(done, min(done + size, 200))
        arguments = V[part], y[part], (M, R), True if size == 1 else None, state, b, (*RULE, 0.0)
        b, taken, why = stream_psd(*arguments, tuple(column[part] for column in steps))
        done += taken
        if size == 1:
            M = np.tril(M) + np.tril(M, -1).T
        if why == PROJECT:
            M, b = project(M), max(b, 1.0)
        if why != DONE:
            R = np.linalg.inv(M + state[SIGMA] * np.eye(d))
            state[NORM] = np.linalg.norm(M)
    expected_M, expected_b, expected = passive_aggressive(V, y, RULE, psd=1)
    np.testing.assert_allclose(M, expected_M, atol=1e-8)
    assert b == pytest.approx(expected_b)
    np.testing.assert_allclose(steps[1], np.array(expected)[:, 2], atol=1e-8)
    inverse = np.linalg.inv(M + state[SIGMA] * np.eye(d))
    np.testing.assert_allclose(np.tril(R), np.tril(inverse), atol=1e-6 * np.abs(inverse).max())

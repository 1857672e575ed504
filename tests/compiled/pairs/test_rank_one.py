from __future__ import annotations

import numpy as np
import pytest

from compiled.kernel_inputs import pairs, record
from mahala.compiled.pairs.rank_one import BORDER, DONE, FLOOR, LEAST_SHARE, SHARE, stream_lego, stream_rdml
from reference.lego_rdml import lego, rdml


@pytest.mark.parametrize("size", [1, 70])
def test_lego_takes_the_papers_steps(size):
    V, y = pairs(70)
    M, inverse_trace, steps = np.eye(5), 5.0, record(70)
    for first in range(0, 70, size):
        part = slice(first, first + size)
        inverse_trace = stream_lego(
            V[part], y[part], M, 0, inverse_trace, (0.1, 0.5, 8.0), tuple(column[part] for column in steps)
        )
    expected, expected_steps = lego(V, y, 0.1, (0.5, 8.0), LEAST_SHARE)
    np.testing.assert_allclose(M, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(M, M.T)
    assert inverse_trace == pytest.approx(np.trace(np.linalg.inv(M)))
    np.testing.assert_allclose(steps[1], np.array(expected_steps)[:, 2], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [1, 70])
def test_rdml_takes_the_papers_steps_and_the_inverse_follows(size):
    V, y = pairs(70)
    V /= 3.0
    M, R, corrections, steps, done = np.eye(5), np.eye(5), 0, record(70), 0
    while done < 70:
        part = slice(done, min(done + size, 70))
        taken, corrections, why = stream_rdml(
            V[part], y[part], (M, R), 0, 0.1, corrections, tuple(column[part] for column in steps)
        )
        done += taken
        if why != DONE:
            R, corrections = np.linalg.inv(M), 0
    expected, expected_steps = rdml(V, y, 0.1, SHARE, FLOOR, BORDER)
    np.testing.assert_allclose(M, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(R, np.linalg.inv(M), rtol=1e-8)
    np.testing.assert_allclose(steps[0], np.array(expected_steps)[:, 1], rtol=1e-9, atol=1e-12)

from __future__ import annotations

import numpy as np
import pytest

from compiled.kernel_inputs import record, triplets
from mahala.compiled.triplets.aroma import stream_full
from reference.online_triplets import aroma


@pytest.mark.parametrize("size", [1, 100])
def test_blocks_of_steps_are_the_papers_steps(size):
    X = np.random.default_rng(0).normal(size=(30, 4))
    numbers, rows = triplets(X, 100)
    M, late, Lambda, Gamma, steps = np.eye(4), np.zeros((4, 4)), np.eye(4), np.eye(4), record(100)
    x, q = X[numbers[0]], X[numbers[1]] - X[numbers[2]]
    for first in range(0, 100, size):
        part = slice(first, first + size)
        taken = tuple(column[part] for column in steps)
        stream_full(x[part], q[part], (M, late), (Lambda, Gamma), (1.0, 1.0), first, taken)
    expected, mean, losses = aroma(rows, np.eye(4), 1.0, diagonal=False)
    np.testing.assert_allclose(M, expected, atol=1e-10)
    np.testing.assert_allclose(M - late / 100, mean, atol=1e-10)
    np.testing.assert_allclose(np.maximum(steps[0], 0.0), losses, atol=1e-10)

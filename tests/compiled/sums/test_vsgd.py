from __future__ import annotations

import numpy as np
import pytest

from mahala.compiled.sums.vsgd import N_MEANS, vsgd
from reference.pair_objectives import gml_pair_gradient


@pytest.mark.parametrize("diagonal", [False, True])
def test_the_first_batch_starts_the_memory(diagonal):
    rng = np.random.default_rng(0)
    X, (left, right), similar = rng.normal(size=(10, 3)), rng.integers(0, 10, size=(2, 8)), rng.random(8) < 0.5
    start = np.full((1, 3), 0.2) if diagonal else 0.2 * rng.normal(size=(2, 3))
    variables, memory = start.copy(), np.zeros((N_MEANS, *start.shape))
    vsgd(X, left, right, similar, 0.7, 8, diagonal, variables, memory)
    L = np.diag(start[0]) if diagonal else start
    gradients = np.array(
        [gml_pair_gradient(L, X[i] - X[j], s, 0.7) for i, j, s in zip(left, right, similar, strict=True)]
    )
    gradients = np.einsum("nii->ni", gradients)[:, None] if diagonal else gradients
    np.testing.assert_allclose(memory[0], gradients.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(memory[1], 10.0 * np.square(gradients).mean(axis=0), atol=1e-12)
    np.testing.assert_array_equal(memory[4], 10.0)
    np.testing.assert_array_equal(variables, start)
    # A memory that is full moves the variables; whole batches only count.
    vsgd(X, left[:7], right[:7], similar[:7], 0.7, 8, diagonal, variables, memory)
    np.testing.assert_array_equal(variables, start)
    vsgd(X, left, right, similar, 0.7, 8, diagonal, variables, memory)
    assert (variables != start).any()

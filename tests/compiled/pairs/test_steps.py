"""The streams over pairs against the papers' pseudo-code, one step at a time."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from compiled.kernel_inputs import pairs, record
from mahala.compiled.pairs.steps import stream_dual, stream_indefinite, stream_sparse
from reference.online_pairs import RULES, passive_aggressive


def agrees(M, b, steps, expected):
    expected_M, expected_b, expected_steps = expected
    np.testing.assert_allclose(M, expected_M, atol=1e-12)
    assert b == pytest.approx(expected_b)
    predicted, p, tau = np.array(expected_steps).T
    np.testing.assert_allclose(steps[0], p, atol=1e-12)
    np.testing.assert_allclose(steps[1], tau, atol=1e-12)
    np.testing.assert_array_equal(steps[2], predicted)


@pytest.mark.parametrize("rule", [make(0.1) for make in RULES.values()])
@pytest.mark.parametrize("n", [1, 64, 150])
def test_every_form_takes_the_papers_steps(rule, n):
    V, y = pairs(n)
    expected = passive_aggressive(V, y, rule, psd=0)
    rule = (*rule, 0.0)
    M, steps = np.zeros((5, 5)), record(n)
    b = stream_indefinite(V, y, M, 0.0, rule, steps)
    agrees(M, b, steps, expected)

    rows, M, steps = sp.csr_array(V), np.zeros((5, 5)), record(n)
    arrays = rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    agrees(M, stream_sparse(arrays, y, M, 0.0, rule, steps), steps, expected)

    weights, steps = np.zeros(n), record(n)
    b = stream_dual((V @ V.T) ** 2, np.zeros(n), weights, y, 0.0, rule, steps)
    M = (V.T * weights) @ V
    agrees(M, b, steps, expected)

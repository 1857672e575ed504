"""The streams over pairs against the papers' pseudo-code, one step at a time."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from compiled.kernel_inputs import pairs, record
from mahala.compiled.pairs.steps import add_terms, stream_dual, stream_indefinite, stream_sparse
from mahala.compiled.pairs.symmetric import settle
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
    M, pending, steps = np.zeros((5, 5)), np.zeros((2, 2, 5)), record(n)
    b = stream_indefinite(V, y, M, pending, 0.0, rule, 0.0, *steps)
    settle(M, pending)
    agrees(M, b, steps, expected)

    rows, M, steps = sp.csr_array(V), np.zeros((5, 5)), record(n)
    arrays = rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    agrees(M, stream_sparse(*arrays, y, M, 0.0, rule, 0.0, *steps), steps, expected)

    weights, M, steps = np.zeros(n), np.zeros((5, 5)), record(n)
    b = stream_dual((V @ V.T) ** 2, np.zeros(n), weights, np.arange(n), y, 0.0, rule, 0.0, *steps)
    add_terms(M, V, weights, n)
    agrees(M, b, steps, expected)


@pytest.mark.parametrize("d", [1, 5, 64, 130])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
def test_terms_are_added_in_loops_and_by_matrix_products(n, d):
    rng = np.random.default_rng(n)
    terms, weights, start = rng.normal(size=(8, d)), rng.normal(size=8), rng.normal(size=(d, d))
    M = start.copy()
    add_terms(M, terms, weights, n)
    np.testing.assert_allclose(M, start + (terms[:n].T * weights[:n]) @ terms[:n], atol=1e-12)
    if n == 1:
        alone = np.zeros((d, d))
        add_terms(alone, terms, np.array([1.0]), 1)
        np.testing.assert_array_equal(alone, alone.T)

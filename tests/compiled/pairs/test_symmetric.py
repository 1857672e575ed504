from __future__ import annotations

import numpy as np
import pytest

from mahala.compiled.jit import kernel
from mahala.compiled.pairs.symmetric import largest_diagonal, settle, subtract_terms, symmetrise
from mahala.compiled.pairs.symmetric import multiply as multiply_compiled


@kernel
def subtract(A, pending, space, terms, weights, n):
    """`subtract_terms`, which compiled code alone can call."""
    subtract_terms(A, pending, space, terms, weights, n)


@kernel
def multiply(A, pending, x, out):
    """`multiply`, which compiled code alone can call."""
    multiply_compiled(A, pending, x, out)


def postpone(pending, terms, weights, n):
    """Leave A += Σ weights_l terms_l terms_lᵀ pending."""
    pending[1, :n] = terms[:n]
    subtract(np.empty((terms.shape[1],) * 2), pending, pending[0], pending[1], -weights, n)


@pytest.mark.parametrize("n_terms", [0, 1, 2])
@pytest.mark.parametrize("d", [1, 3, 4, 64, 131])
def test_a_sweep_adds_what_is_pending_and_multiplies(d, n_terms):
    rng = np.random.default_rng(d)
    A, terms, x = rng.normal(size=(d, d)), rng.normal(size=(2, d)), rng.normal(size=d)
    A += A.T
    weights = np.array([-0.7, 1.3])
    expected = A + (terms[:n_terms].T * weights[:n_terms]) @ terms[:n_terms]

    swept, pending, product = A.copy(), np.zeros((2, 2, d)), np.empty(d)
    postpone(pending, terms, weights, n_terms)
    multiply(swept, pending, x, product)
    np.testing.assert_allclose(np.tril(swept), np.tril(expected), rtol=0, atol=1e-13)
    np.testing.assert_allclose(product, expected @ x, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(np.triu(swept, 1), np.triu(A, 1))  # not read again, so not written

    # The same bits if it is added before, and the upper triangle too.
    settled, again = A.copy(), np.empty(d)
    postpone(pending, terms, weights, n_terms)
    settle(settled, pending)
    np.testing.assert_array_equal(settled, settled.T)
    np.testing.assert_array_equal(np.tril(settled), np.tril(swept))
    multiply(settled, pending, x, again)
    np.testing.assert_array_equal(again, product)
    assert largest_diagonal(settled) == np.abs(settled.diagonal()).max()


def test_terms_of_any_scale_are_added():
    pending, A = np.zeros((2, 2, 2)), np.zeros((2, 2))
    postpone(pending, np.array([[1e-160, 2e-160]]), np.array([1e300]), 1)
    settle(A, pending)
    np.testing.assert_allclose(A, [[1e-20, 2e-20], [2e-20, 4e-20]], rtol=1e-12)


@pytest.mark.parametrize("d", [1, 5, 64, 130])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
def test_terms_are_subtracted(n, d):
    rng = np.random.default_rng(n)
    terms, weights, start = rng.normal(size=(8, d)), rng.normal(size=8), rng.normal(size=(d, d))
    A = start.copy()
    subtract(A, None, np.empty((8, d)), terms.copy(), weights, n)
    np.testing.assert_allclose(A, start - (terms[:n].T * weights[:n]) @ terms[:n], atol=1e-12)
    if n == 1:
        alone = np.zeros((d, d))
        subtract(alone, None, np.empty((8, d)), terms, weights, 1)
        np.testing.assert_array_equal(alone, alone.T)


@pytest.mark.parametrize("d", [1, 63, 64, 130])
def test_the_symmetric_part(d):
    A = np.random.default_rng(d).normal(size=(d, d))
    expected = 0.5 * (A + A.T)
    symmetrise(A)
    np.testing.assert_array_equal(A, expected)

from __future__ import annotations

import numpy as np
import pytest

from mahala.compiled.jit import kernel
from mahala.compiled.pairs.symmetric import largest_diagonal, mirror, subtract_terms, symmetrise
from mahala.compiled.pairs.symmetric import multiply as multiply_compiled


@kernel
def subtract(A, single, space, terms, weights, n):
    """`subtract_terms`, which compiled code alone can call."""
    subtract_terms(A, single, space, terms, weights, n)


@kernel
def multiply(A, x, out):
    """`multiply`, which compiled code alone can call."""
    multiply_compiled(A, x, out)


@pytest.mark.parametrize("n_terms", [0, 1, 2])
@pytest.mark.parametrize("d", [1, 3, 4, 64, 131])
def test_a_single_step_has_the_lower_triangle(d, n_terms):
    rng = np.random.default_rng(d)
    A, terms, x = rng.normal(size=(d, d)), rng.normal(size=(2, d)), rng.normal(size=d)
    A += A.T
    weights = np.array([-0.7, 1.3])
    expected = A - (terms[:n_terms].T * weights[:n_terms]) @ terms[:n_terms]

    stepped, product = A.copy(), np.empty(d)
    subtract(stepped, True, np.empty((2, d)), terms, weights, n_terms)
    multiply(stepped, x, product)
    np.testing.assert_allclose(np.tril(stepped), np.tril(expected), rtol=0, atol=1e-13)
    np.testing.assert_allclose(product, expected @ x, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(np.triu(stepped, 1), np.triu(A, 1))  # not read again, so not written
    below = np.tril(stepped)
    mirror(stepped)
    np.testing.assert_array_equal(stepped, below + np.tril(below, -1).T)
    assert largest_diagonal(stepped) == np.abs(stepped.diagonal()).max()


@pytest.mark.parametrize("single", [True, None])
def test_terms_of_any_scale_are_subtracted(single):
    A = np.zeros((2, 2))
    subtract(A, single, np.empty((1, 2)), np.array([[1e-160, 2e-160]]), np.array([-1e300]), 1)
    np.testing.assert_allclose(np.tril(A), [[1e-20, 0.0], [2e-20, 4e-20]], rtol=1e-12)


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

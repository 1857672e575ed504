from __future__ import annotations

import numpy as np
import pytest

from mahala.compiled.jit import kernel
from mahala.compiled.pairs.symmetric import multiply as multiply_compiled
from mahala.compiled.pairs.symmetric import subtract_below, subtract_terms, symmetrise


@kernel
def subtract(A, space, terms, weights, n):
    """`subtract_terms`, which compiled code alone can call."""
    subtract_terms(A, space, terms, weights, n)


@kernel
def multiply(A, x, out):
    """`multiply`, which compiled code alone can call."""
    multiply_compiled(A, x, out)


@kernel
def subtract_lower(A, left, right, n):
    """`subtract_below`, which compiled code alone can call."""
    subtract_below(A, left, right, n)


@pytest.mark.parametrize("n_terms", [0, 1, 2])
@pytest.mark.parametrize("d", [1, 3, 4, 64, 131])
def test_products_and_terms_of_the_lower_triangle(d, n_terms):
    rng = np.random.default_rng(d)
    A, left, right, x = rng.normal(size=(d, d)), rng.normal(size=(2, d)), rng.normal(size=(2, d)), rng.normal(size=d)
    A += A.T
    expected, product = A - left[:n_terms].T @ right[:n_terms], np.empty(d)
    multiply(A, x, product)
    np.testing.assert_allclose(product, A @ x, rtol=0, atol=1e-11)
    stepped = A.copy()
    subtract_lower(stepped, left, right, n_terms)
    np.testing.assert_allclose(np.tril(stepped), np.tril(expected), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(np.triu(stepped, 1), np.triu(A, 1))  # not read again, so not written


def test_terms_of_any_scale_are_subtracted():
    A = np.zeros((2, 2))
    subtract(A, np.empty((1, 2)), np.array([[1e-160, 2e-160]]), np.array([-1e300]), 1)
    np.testing.assert_allclose(A, [[1e-20, 2e-20], [2e-20, 4e-20]], rtol=1e-12)


@pytest.mark.parametrize("d", [1, 5, 64, 130])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
def test_terms_are_subtracted(n, d):
    rng = np.random.default_rng(n)
    terms, weights, start = rng.normal(size=(8, d)), rng.normal(size=8), rng.normal(size=(d, d))
    A = start.copy()
    subtract(A, np.empty((8, d)), terms.copy(), weights, n)
    np.testing.assert_allclose(A, start - (terms[:n].T * weights[:n]) @ terms[:n], atol=1e-12)
    if n == 1:
        alone = np.zeros((d, d))
        subtract(alone, np.empty((8, d)), terms, weights, 1)
        np.testing.assert_array_equal(alone, alone.T)


@pytest.mark.parametrize("d", [1, 63, 64, 130])
def test_the_symmetric_part(d):
    A = np.random.default_rng(d).normal(size=(d, d))
    expected = 0.5 * (A + A.T)
    symmetrise(A)
    np.testing.assert_array_equal(A, expected)

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from mahala import BilinearMetric, Pairs, Triplets

SEEDS = st.integers(0, 2**32 - 1)


@given(seed=SEEDS, shape=st.tuples(st.integers(1, 6), st.integers(1, 6)), k=st.integers(0, 7))
def test_bilinear_similarities_are_those_of_the_definition(seed, shape, k):
    rng = np.random.default_rng(seed)
    M, X, Y = rng.normal(size=shape), rng.normal(size=(4, shape[0])), rng.normal(size=(5, shape[1]))
    metric = BilinearMetric(M)
    expected = np.array([[x @ M @ y for y in Y] for x in X])
    np.testing.assert_allclose(metric.pairwise(X, Y), expected, atol=1e-12)
    np.testing.assert_allclose(metric.similarity(X, Y[:4]), np.diag(expected), atol=1e-12)
    np.testing.assert_allclose(metric.similarity(X[1], Y), expected[1], atol=1e-12)
    np.testing.assert_allclose(metric.similarity(X, Y[2]), expected[:, 2], atol=1e-12)
    assert type(metric.similarity(X[0], Y[0])) is float
    np.testing.assert_allclose(metric.embed(X, "query") @ metric.embed(Y, "item").T, expected, atol=1e-12)
    assert metric.embed(Y, side="item") is Y
    U, s, Vt = np.linalg.svd(M)
    np.testing.assert_allclose(metric.spectrum, s)
    assert metric.n_components == np.linalg.matrix_rank(M)
    np.testing.assert_allclose(metric.truncate(k).matrix, (U[:, :k] * s[:k]) @ Vt[:k] if k < len(s) else M, atol=1e-12)
    explanation = metric.explain(X[0], Y[0])
    assert explanation.features.shape == (shape[0],)
    for total in (explanation.distance, explanation.features.sum(), explanation.directions.sum()):
        np.testing.assert_allclose(total, expected[0, 0], atol=1e-12)


def test_bilinear_without_y_compares_the_rows_with_each_other():
    X = np.arange(6.0).reshape(3, 2)
    M = np.array([[0.0, 1.0], [2.0, 0.0]])
    np.testing.assert_allclose(BilinearMetric(M).pairwise(X), X @ M @ X.T)
    with pytest.raises(ValueError, match="Y must be given"):
        BilinearMetric(np.ones((2, 3))).pairwise(X)


@pytest.mark.parametrize("shape", [(30, 30), (20, 35), (35, 20)])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_first_items_by_inner_products_with_embedded_queries(shape, sparse):
    # What an index over the items computes.
    rng = np.random.default_rng(0)
    M = rng.normal(size=shape) * (rng.random(shape) < 0.3)
    X, Y = rng.normal(size=(50, shape[0])), rng.normal(size=(200, shape[1]))
    X, Y = X * (rng.random(X.shape) < 0.5), Y * (rng.random(Y.shape) < 0.5)
    metric = BilinearMetric(sp.csr_array(M) if sparse else M)
    for queries, items in ((X, Y), (sp.csr_array(X), Y), (sp.csr_array(X), sp.csr_array(Y)), (X, sp.csr_array(Y))):
        embedded = metric.embed(queries, side="query")
        assert sp.issparse(embedded) == (sparse and sp.issparse(queries))
        products = metric.embed(items, side="item") @ embedded.T
        products = products.toarray() if sp.issparse(products) else products
        expected = np.argsort(-metric.pairwise(X, Y), axis=1)[:, :10]
        np.testing.assert_array_equal(np.argsort(-products.T, axis=1)[:, :10], expected)
        np.testing.assert_array_equal(metric.rank(queries, items, k=10), expected)


def test_a_similarity_has_no_methods_of_a_distance():
    metric = BilinearMetric(np.eye(2))
    for name in ("distance", "transform", "components", "is_psd", "projected", "threshold", "steps", "kernel"):
        assert not hasattr(metric, name)
    for argument in ("threshold", "steps", "center", "kind"):
        with pytest.raises(TypeError, match=argument):
            BilinearMetric(np.eye(2), **{argument: None})
    with pytest.raises(TypeError, match="squared"):
        metric.pairwise(np.eye(2), squared=True)


def test_bad_matrices_are_named():
    with pytest.raises(ValueError, match=r"matrix must be 2-D, got shape \(3,\)"):
        BilinearMetric(np.ones(3))
    with pytest.raises(ValueError, match="at least one row"):
        BilinearMetric(np.ones((0, 2)))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, np.float32])
def test_margins_are_differences_of_similarities(sparse, form):
    rng = np.random.default_rng(0)
    for shape in ((5, 5), (3, 6)):
        M, X, Y = rng.normal(size=shape), form(rng.normal(size=(9, shape[0]))), form(rng.normal(size=(8, shape[1])))
        metric = BilinearMetric(sp.csr_array(M) if sparse else M)
        anchor, (near, far) = rng.integers(0, 9, size=20), rng.integers(0, 8, size=(2, 20))
        expected = metric.similarity(X[anchor], Y[near]) - metric.similarity(X[anchor], Y[far])
        np.testing.assert_array_equal(metric.margins(Triplets(X, anchor, near, far, items=Y)), expected)
        assert metric.margins(Triplets(X, anchor, near, far, items=Y)[:0]).shape == (0,)
        one = metric.margins(Triplets(X, anchor, near, far, items=Y)[3])
        assert (one.shape, one.dtype) == ((1,), np.float64)
        np.testing.assert_allclose(one, expected[3:4], atol=1e-12)
    X, metric = form(rng.normal(size=(9, 4))), BilinearMetric(rng.normal(size=(4, 4)))
    expected = metric.similarity(X[anchor], X[near]) - metric.similarity(X[anchor], X[far])
    np.testing.assert_array_equal(metric.margins(Triplets(X, anchor, near, far)), expected)


def test_bad_comparisons_are_named():
    metric = BilinearMetric(np.ones((2, 3)))
    with pytest.raises(TypeError, match=r"comparisons must be Triplets, got Pairs; .* threshold of your own"):
        metric.margins(Pairs(np.eye(2), [0], [1]))
    with pytest.raises(ValueError, match="items has 2 features, but this metric compares points of 3"):
        metric.margins(Triplets(np.eye(2), [0], [1], [0]))
    with pytest.raises(ValueError, match="X has 3 features, but this metric compares points of 2"):
        metric.margins(Triplets(np.eye(3), [0], [1], [0]))

from __future__ import annotations

import copy
import dataclasses
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import pairwise_kernels

import mahala.metric.matrices
from mahala import Metric
from mahala.metric import Explanation
from mahala.metric.kernel_map import KernelMap
from mahala.support.model_files import ModelFileError, read_model, write_model

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def mahalanobis(draw, indefinite=False):
    """A matrix of some rank and scale, and rows X, Y to compare."""
    rng = np.random.default_rng(draw(SEEDS))
    d, rank = draw(st.integers(1, 8)), draw(st.integers(0, 8))
    A = rng.normal(size=(rank, d))
    signs = rng.choice([-1.0, 1.0], size=rank) if indefinite else np.ones(rank)
    M = (A.T * signs) @ A * draw(st.sampled_from([1e-300, 1e-10, 1.0, 1e100]))
    M = (M + M.T) / 2
    X, Y = rng.normal(size=(draw(st.integers(1, 6)), d)), rng.normal(size=(draw(st.integers(1, 6)), d))
    return M, X, Y


def brute_force(M, X, Y):
    """Squared distances by the definition."""
    return np.array([[(x - y) @ M @ (x - y) for y in Y] for x in X])


@given(case=mahalanobis())
@settings(deadline=None, max_examples=150)
def test_distances_are_those_of_the_definition(case):
    M, X, Y = case
    metric = Metric(M)
    scale = np.abs(M).max()
    unit = metric.pairwise(X, Y, squared=True) / (scale or 1.0)
    np.testing.assert_allclose(unit, brute_force(M / (scale or 1.0), X, Y), atol=1e-12 * 100)
    roots = metric.pairwise(X, Y)
    np.testing.assert_allclose(roots, np.sqrt(metric.pairwise(X, Y, squared=True)), rtol=1e-9)
    assert not np.diag(metric.pairwise(X)).any()

    def same(actual, expected):
        np.testing.assert_allclose(actual, expected, rtol=1e-7, atol=1e-7 * np.sqrt(scale))

    for i, x in enumerate(X):
        same(metric.distance(x, Y), roots[i])
        same(metric.distance(Y, x), roots[i])
        assert type(metric.distance(x, Y[0])) is float
        same(metric.distance(x, Y[0]), roots[i, 0])
    same(metric.distance(X[:1].repeat(len(Y), axis=0), Y), roots[0])
    same(np.linalg.norm(metric.transform(X)[:, None] - metric.transform(Y), axis=-1), roots)
    np.testing.assert_allclose(
        metric.embed(X, "query") @ metric.embed(Y, "item").T / (scale or 1.0),
        X @ (M / (scale or 1.0)) @ Y.T,
        atol=1e-10,
    )


@given(case=mahalanobis(indefinite=True))
@settings(deadline=None, max_examples=100)
def test_squared_distances_under_an_indefinite_matrix(case):
    M, X, Y = case
    metric = Metric(M)
    unit = np.abs(M).max() or 1.0
    expected = brute_force(M / unit, X, Y)
    np.testing.assert_allclose(metric.pairwise(X, Y, squared=True) / unit, expected, atol=1e-10)
    for i, x in enumerate(X):
        np.testing.assert_allclose(metric.distance(x, Y, squared=True) / unit, expected[i], atol=1e-10)
    values = np.linalg.eigvalsh(M / unit)
    assert metric.is_psd == (values.min() > -1e-10 * np.abs(values).max() or not M.any())
    assert metric.n_components == (values > 1e-12).sum()
    projected = metric.projected()
    assert projected.is_psd
    vectors = np.linalg.eigh(M / unit)[1]
    np.testing.assert_allclose(projected.matrix / unit, (vectors * np.maximum(values, 0)) @ vectors.T, atol=1e-10)
    assert projected.projected() is projected


@given(case=mahalanobis(), k=st.integers(0, 9))
@settings(deadline=None, max_examples=100)
def test_components_spectrum_and_truncation_are_those_of_eigh(case, k):
    M = case[0]
    metric = Metric(M)
    unit = np.abs(M).max() or 1.0
    values, vectors = np.linalg.eigh(M / unit)
    values, vectors = values[::-1], vectors[:, ::-1]
    np.testing.assert_allclose(metric.spectrum / unit, values, atol=1e-12)
    assert metric.n_components == (values > 1e-12).sum()
    L = metric.components
    assert L.shape == (metric.n_components, len(M))
    np.testing.assert_allclose(L.T @ L / unit, M / unit, atol=1e-11)
    np.testing.assert_allclose((L @ L.T) / unit, np.diag(values[: metric.n_components]), atol=1e-11)
    assert (L[np.arange(len(L)), np.abs(L).argmax(axis=1)] > 0).all()
    truncated = metric.truncate(k)
    assert truncated.n_components == min(k, metric.n_components)
    np.testing.assert_allclose(truncated.matrix / unit, (vectors[:, :k] * values[:k]) @ vectors[:, :k].T, atol=1e-11)


@given(seed=SEEDS, shape=st.tuples(st.integers(1, 6), st.integers(1, 6)), k=st.integers(0, 7))
@settings(deadline=None, max_examples=100)
def test_bilinear_similarities_are_those_of_the_definition(seed, shape, k):
    rng = np.random.default_rng(seed)
    M, X, Y = rng.normal(size=shape), rng.normal(size=(4, shape[0])), rng.normal(size=(5, shape[1]))
    metric = Metric(M, kind="bilinear")
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
    np.testing.assert_allclose(Metric(M, kind="bilinear").pairwise(X), X @ M @ X.T)
    with pytest.raises(ValueError, match="Y must be given"):
        Metric(np.ones((2, 3)), kind="bilinear").pairwise(X)


def test_similarity_of_a_mahalanobis_metric_is_its_inner_product():
    metric = Metric(np.diag([2.0, 3.0]))
    assert metric.similarity([1.0, 2.0], [3.0, 4.0]) == 2 * 3 + 3 * 8


@st.composite
def whole_numbers(draw):
    """A metric of either kind, queries and items, in whole numbers: every score is exact, and there are many ties."""
    rng = np.random.default_rng(draw(SEEDS))
    kind = draw(st.sampled_from(["mahalanobis", "bilinear"]))
    d = draw(st.integers(1, 3))
    e = d if kind == "mahalanobis" else draw(st.integers(1, 3))
    M = rng.integers(-2, 3, size=(d, e)).astype(float)
    M = M + M.T if kind == "mahalanobis" else M
    X, Y = (
        rng.integers(-1, 2, size=(draw(st.integers(1, 5)), d)),
        rng.integers(-1, 2, size=(draw(st.integers(1, 9)), e)),
    )
    costs = brute_force(M, X, Y) if kind == "mahalanobis" else np.array([[-(x @ M @ y) for y in Y] for x in X])
    sparse = kind == "bilinear" and draw(st.booleans())
    return Metric(sp.csr_array(M) if sparse else M, kind=kind), X, Y, costs.tolist()


@given(case=whole_numbers(), data=st.data())
@settings(deadline=None, max_examples=150)
def test_rankings_are_those_of_a_sorted_list(case, data):
    metric, X, Y, costs = case
    k = data.draw(st.none() | st.integers(1, len(Y)))
    expected = [sorted(range(len(Y)), key=lambda j: (row[j], j))[:k] for row in costs]
    items = data.draw(st.sampled_from([Y, sp.csr_array(Y), Y.tolist()]))
    queries = data.draw(st.sampled_from([X, sp.csr_matrix(X), X.tolist()]))
    result = metric.rank(queries, items, k)
    assert result.dtype == np.intp
    np.testing.assert_array_equal(result, expected)
    for x, row in zip(X, expected, strict=True):
        np.testing.assert_array_equal(metric.rank(x, items, k=k), row)
        np.testing.assert_array_equal(metric.rank(sp.csr_array(x[None]), items, k=k), [row])


@pytest.mark.parametrize("shape", [(30, 30), (20, 35), (35, 20)])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_first_items_by_inner_products_with_embedded_queries(shape, sparse):
    # What an index over the items computes.
    rng = np.random.default_rng(0)
    M = rng.normal(size=shape) * (rng.random(shape) < 0.3)
    X, Y = rng.normal(size=(50, shape[0])), rng.normal(size=(200, shape[1]))
    X, Y = X * (rng.random(X.shape) < 0.5), Y * (rng.random(Y.shape) < 0.5)
    metric = Metric(sp.csr_array(M) if sparse else M, kind="bilinear")
    for queries, items in ((X, Y), (sp.csr_array(X), Y), (sp.csr_array(X), sp.csr_array(Y)), (X, sp.csr_array(Y))):
        embedded = metric.embed(queries, side="query")
        assert sp.issparse(embedded) == (sparse and sp.issparse(queries))
        products = metric.embed(items, side="item") @ embedded.T
        products = products.toarray() if sp.issparse(products) else products
        expected = np.argsort(-metric.pairwise(X, Y), axis=1)[:, :10]
        np.testing.assert_array_equal(np.argsort(-products.T, axis=1)[:, :10], expected)
        np.testing.assert_array_equal(metric.rank(queries, items, k=10), expected)


@given(case=mahalanobis(indefinite=True))
@settings(deadline=None, max_examples=100)
def test_rankings_follow_the_squared_distances(case):
    M, X, Y = case
    unit = np.abs(M).max() or 1.0
    metric = Metric(M / unit)
    ranked = np.take_along_axis(brute_force(M / unit, X, Y), metric.rank(X, Y), axis=1)
    assert (np.diff(ranked, axis=1) >= -1e-11).all()
    assert (np.sort(metric.rank(X, Y), axis=1) == np.arange(len(Y))).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_items_that_are_equal_stay_in_their_order(sparse):
    # In floats, and beyond the borders of whatever blocks a matrix product works in.
    rng = np.random.default_rng(1)
    A = rng.normal(size=(40, 40))
    for metric in (Metric(A @ A.T), Metric(A, kind="bilinear"), Metric(sp.csr_array(A), kind="bilinear")):
        for n in (2, 7, 33, 1001):
            numbers = rng.integers(0, max(1, n // 4), size=n)
            items, queries = rng.normal(size=(n, 40))[numbers], rng.normal(size=(5, 40))
            ranked = metric.rank(queries, sp.csr_array(items) if sparse else items)
            for row in ranked:
                for number in np.unique(numbers):
                    places = np.flatnonzero(numbers[row] == number)
                    assert (np.diff(places) == 1).all()
                    assert (np.diff(row[places]) > 0).all()
            np.testing.assert_array_equal(
                metric.rank(queries, sp.csr_array(items) if sparse else items, k=1), ranked[:, :1]
            )


def test_far_from_zero_near_items_come_first():
    items = np.array([[1e8 + 3], [1e8 + 1], [1e8 + 2], [1e8]])
    np.testing.assert_array_equal(Metric.euclidean(1).rank([1e8], items), [3, 1, 2, 0])
    np.testing.assert_array_equal(Metric([[-1.0]]).rank([1e8], items), [0, 2, 1, 3])


def test_rankings_need_no_decomposition(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a decomposition was computed")

    monkeypatch.setattr(np.linalg, "eigh", refuse)
    monkeypatch.setattr(np.linalg, "svd", refuse)
    X = np.random.default_rng(2).normal(size=(9, 2))
    M = np.array([[2.0, 1.0], [1.0, 2.0]])
    np.testing.assert_array_equal(Metric(M).rank(X, X), np.argsort(brute_force(M, X, X), axis=1))
    np.testing.assert_array_equal(Metric(M, kind="bilinear").rank(X, X), np.argsort(-X @ M @ X.T, axis=1))


def test_rankings_hold_few_scores_at_a_time(monkeypatch):
    rng = np.random.default_rng(3)
    X, different = rng.normal(size=(300, 2)), rng.normal(size=(2000, 2))
    metric = Metric([[2.0, 1.0], [1.0, 2.0]])
    for Y in (different, different[:1].repeat(2000, axis=0), sp.csr_array(different)):
        expected = metric.rank(X, Y, k=7)
        monkeypatch.setattr(mahala.metric.matrices, "BLOCK_BYTES", 100_000)  # all scores are 4.8 MB
        tracemalloc.start()
        result = metric.rank(X, Y, k=7)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        np.testing.assert_array_equal(result, expected)
        assert peak < 1_500_000
        monkeypatch.undo()


def test_bad_rankings_are_named():
    metric = Metric(np.ones((3, 2)), kind="bilinear")
    items = np.ones((4, 2))
    for k in (0, 5, -1, True, 1.0, "all"):
        with pytest.raises(ValueError, match=f"k must be None or from 1 to 4, the number of items, got {k!r}"):
            metric.rank(np.ones(3), items, k)
    with pytest.raises(ValueError, match="query has 2 features, but this metric compares points of 3"):
        metric.rank(np.ones(2), items)
    with pytest.raises(ValueError, match="items has 3 features, but this metric compares points of 2"):
        metric.rank(np.ones(3), np.ones((4, 3)))
    with pytest.raises(ValueError, match="query contains NaN"):
        metric.rank([np.nan, 1.0, 2.0], items)
    with pytest.raises(ValueError, match="items contains NaN"):
        metric.rank(np.ones(3), items * np.nan)


@given(case=mahalanobis(indefinite=True))
@settings(deadline=None, max_examples=100)
def test_explanations_sum_to_the_squared_distance(case):
    M, X, Y = case
    unit = np.abs(M).max() or 1.0
    explanation = Metric(M).explain(X[0], Y[0])
    expected = brute_force(M / unit, X[:1], Y[:1])[0, 0]
    v = X[0] - Y[0]
    np.testing.assert_allclose(explanation.features / unit, v * (M / unit @ v), atol=1e-11)
    for total in (explanation.distance, explanation.features.sum(), explanation.directions.sum()):
        np.testing.assert_allclose(total / unit, expected, atol=1e-11)


def test_explanations_name_the_largest_contributions():
    metric = Metric([[1.0, -3.0], [-3.0, 10.0]], feature_names=["age", "dose"])
    explanation = metric.explain([2.0, 1.0], [0.0, 0.0])
    assert explanation.distance == 2.0
    assert explanation.top() == [("dose", 4.0), ("age", -2.0)]
    assert explanation.top(1) == [("dose", 4.0)]
    with pytest.raises(dataclasses.FrozenInstanceError):
        explanation.distance = 3.0
    assert [name for name, _ in Metric.euclidean(3).explain([1, 2, 3], [0, 0, 0]).top(2)] == ["x2", "x1"]
    with pytest.raises(ValueError, match="single points"):
        metric.explain(np.eye(2), [0.0, 0.0])
    mixed = Explanation(-2.0, np.array([1.0, -5.0, 2.0]), np.array([-2.0]), ("a", "b", "c"))
    assert mixed.top() == [("b", -5.0), ("c", 2.0), ("a", 1.0)]
    assert Explanation(3.0, None, np.array([1.0, 2.0]), None).top() == [("direction 1", 2.0), ("direction 0", 1.0)]


@pytest.mark.parametrize("kind", ["mahalanobis", "bilinear"])
def test_every_container_of_points_gives_the_same(kind):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(8, 5)) * 3) * (rng.random((8, 5)) < 0.5)
    A = rng.normal(size=(5, 5))
    metric = Metric(A.T @ A if kind == "mahalanobis" else A, kind=kind)
    columns = list("abcde")
    forms = [
        X.tolist(),
        X.astype(np.float32),
        X.astype(np.int8),
        sp.csr_matrix(X),
        sp.csr_array(X.astype(np.float32)),
        pd.DataFrame(X, columns=columns),
        pl.DataFrame(X, schema=columns),
    ]
    Y = X[::-1].copy()
    for form in forms:
        np.testing.assert_allclose(metric.similarity(form, form), metric.similarity(X, X), atol=1e-10)
        np.testing.assert_allclose(metric.similarity(form, Y), metric.similarity(X, Y), atol=1e-10)
        np.testing.assert_allclose(metric.similarity(Y, form), metric.similarity(Y, X), atol=1e-10)
        np.testing.assert_allclose(metric.similarity(form, Y[0]), metric.similarity(X, Y[0]), atol=1e-10)
        np.testing.assert_allclose(metric.similarity(Y[0], form), metric.similarity(Y[0], X), atol=1e-10)
        np.testing.assert_allclose(metric.pairwise(form), metric.pairwise(X), atol=1e-10)
        np.testing.assert_allclose(metric.pairwise(form, Y), metric.pairwise(X, Y), atol=1e-10)
        np.testing.assert_allclose(metric.embed(form), metric.embed(X), atol=1e-10)
        if kind == "mahalanobis":
            assert type(metric.transform(form)) is np.ndarray
            np.testing.assert_allclose(metric.transform(form), metric.transform(X), atol=1e-10)
            for a, b in ((form, Y), (Y, form), (form, Y[0]), (Y[0], form), (form, form)):
                dense = [X if z is form else z for z in (a, b)]
                np.testing.assert_allclose(metric.distance(a, b), metric.distance(*dense), atol=1e-10)
    assert sp.issparse(Metric(A, kind="bilinear").embed(sp.csr_matrix(X), "item"))


def test_unsigned_differences_do_not_wrap():
    assert Metric.euclidean(1).distance(np.array([0], dtype=np.uint8), np.array([3], dtype=np.uint8)) == 3.0


def test_sparse_rows_are_never_made_dense(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("sparse rows were made dense")

    X = sp.random(50, 30, density=0.1, format="csr", random_state=0)
    expected = X.toarray()
    monkeypatch.setattr(sp.csr_matrix, "toarray", refuse)
    monkeypatch.setattr(sp.csr_matrix, "todense", refuse)
    A = np.random.default_rng(0).normal(size=(3, 30))
    metric = Metric(A.T @ A)
    np.testing.assert_allclose(metric.transform(X), metric.transform(expected), atol=1e-12)
    np.testing.assert_allclose(metric.distance(X, X[::-1]), metric.distance(expected, expected[::-1]), atol=1e-12)
    np.testing.assert_allclose(metric.similarity(X, X), metric.similarity(expected, expected), atol=1e-12)
    np.testing.assert_allclose(Metric(A, kind="bilinear").pairwise(np.eye(3), X), A @ expected.T, atol=1e-12)


def test_the_zero_matrix_puts_every_point_at_one_place():
    for metric in (Metric(np.zeros((3, 3))), Metric(np.eye(3)).truncate(0), Metric(-np.eye(3)).projected()):
        X = np.random.default_rng(0).normal(size=(4, 3))
        assert metric.n_components == 0
        assert metric.is_psd
        assert metric.components.shape == (0, 3)
        assert metric.transform(X).shape == (4, 0)
        assert metric.distance(X[0], X[1]) == 0.0
        for squared in (False, True):
            np.testing.assert_array_equal(metric.pairwise(X, squared=squared), np.zeros((4, 4)))
            np.testing.assert_array_equal(metric.distance(X, X[::-1], squared=squared), np.zeros(4))
        assert metric.explain(X[0], X[1]).distance == 0.0
        assert metric.projected() is metric
        assert metric.truncate(2) is metric


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-300, 1e100, 1e179])
def test_tiny_and_large_matrices_give_no_nan(scale):
    rng = np.random.default_rng(1)
    A = rng.uniform(-1, 1, size=(6, 4))
    X = rng.normal(size=(5, 4)) * 1e50
    for M in (A.T @ A / 6, np.diag([1.0, 0.5, 0.1, 0.0])):
        metric = Metric(M * scale)
        results = [
            metric.pairwise(X),
            metric.transform(X),
            metric.spectrum,
            metric.truncate(2).matrix,
            metric.components,
        ]
        results += [metric.pairwise(X, squared=True), metric.explain(X[0], X[1]).directions, metric.distance(X, X[0])]
        for result in results:
            assert np.isfinite(result).all()
    for kind in ("mahalanobis", "bilinear"):
        with pytest.raises(ValueError, match="distances overflow"):
            Metric(np.eye(2) * 1e200, kind=kind)


def test_weights_of_features_may_be_far_apart():
    # Inverse variances of unscaled features: the small weight matters as much as the large one.
    metric = Metric(np.diag([1e-20, 1e10]))
    assert metric.n_components == 2
    np.testing.assert_allclose(metric.distance([1e10, 0.0], [0.0, 1e-5]), np.sqrt(2.0))
    np.testing.assert_array_equal(metric.components, [[0.0, 1e5], [1e-10, 0.0]])


def test_close_points_keep_their_distance():
    X = np.array([[1e6, 1e6], [1e6 + 1e-6, 1e6]])
    expected = X[1, 0] - X[0, 0]
    assert Metric.euclidean(2).distance(X[0], X[1]) == expected
    assert Metric.euclidean(2).pairwise(X)[0, 1] == expected
    skew = Metric([[2.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(skew.distance(X[0], X[1]), np.sqrt(2.0) * expected, rtol=1e-12)


def test_a_matrix_that_is_psd_up_to_rounding_has_no_negative_distances():
    u, v = np.array([0.6, 0.8]), np.array([0.8, -0.6])
    metric = Metric(np.outer(u, u) - 1e-12 * np.outer(v, v))
    assert metric.is_psd
    assert 0.0 <= metric.distance(v, np.zeros(2), squared=True) < 1e-20
    assert (metric.pairwise([v], [np.zeros(2)], squared=True) >= 0).all()
    assert not Metric(np.outer(u, u) - 1e-9 * np.outer(v, v)).is_psd


def test_rounding_of_a_low_rank_matrix_does_not_count_as_rank():
    rng = np.random.default_rng(2)
    A = rng.normal(size=(3, 60))
    metric = Metric(A.T @ A)
    assert metric.n_components == 3
    assert metric.is_psd
    null = np.linalg.svd(A)[2][-1]
    assert metric.distance(null * 1e3, np.zeros(60)) < 1e-10


def test_a_metric_never_changes():
    M = np.eye(2)
    names = ["a", "b"]
    metric = Metric(M, threshold=np.float32(0.5), feature_names=names)
    M[0, 0] = 7.0
    names[0] = "z"
    assert metric.matrix[0, 0] == 1.0
    assert metric.feature_names == ("a", "b")
    assert type(metric.threshold) is float
    with pytest.raises(dataclasses.FrozenInstanceError):
        metric.threshold = 2.0
    for other in (metric, copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), Metric(metric.matrix)):
        for array in (other.matrix, other.components, other.spectrum):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0.0
    assert metric != Metric(np.eye(2))
    assert len({metric, metric}) == 1


def test_small_asymmetry_is_rounding_and_large_is_an_error():
    M = np.array([[1.0, 0.5], [0.5 + 1e-12, 1.0]])
    np.testing.assert_array_equal(Metric(M).matrix, (M + M.T) / 2)
    for factor in (1e-300, 1.0, 1e100):
        with pytest.raises(ValueError, match=r"matrix must be symmetric .* kind='bilinear'"):
            Metric(np.array([[1.0, 0.5], [0.6, 1.0]]) * factor)
    exact = np.array([[5e-324, 1 / 3], [1 / 3, 1e-310]])
    np.testing.assert_array_equal(Metric(exact).matrix, exact)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"matrix": np.ones((2, 3))}, ValueError, r"matrix must be square .* got shape \(2, 3\)"),
        ({"matrix": np.ones(3)}, ValueError, "matrix must be square"),
        ({"matrix": np.ones(3), "kind": "bilinear"}, ValueError, "matrix must be 2-D"),
        ({"matrix": np.ones((0, 0))}, ValueError, "at least one row"),
        ({"matrix": [[np.nan]]}, ValueError, "matrix must be finite"),
        ({"matrix": [[np.inf]]}, ValueError, "matrix must be finite"),
        ({"matrix": [["a"]]}, TypeError, "matrix must hold real numbers"),
        ({"matrix": [[1j]]}, TypeError, "matrix must hold real numbers"),
        ({"matrix": np.eye(2), "kind": "cosine"}, ValueError, "kind must be 'mahalanobis' or 'bilinear', got 'cosine'"),
        ({"matrix": np.eye(2), "threshold": np.nan}, ValueError, "threshold must be finite"),
        ({"matrix": np.eye(2), "feature_names": ["a"]}, ValueError, "feature_names must have 2 names"),
        ({"matrix": np.eye(2), "feature_names": "ab"}, TypeError, "sequence of strings"),
        ({"matrix": np.eye(2), "feature_names": [1, 2]}, TypeError, "sequence of strings"),
        ({"matrix": np.eye(2), "kernel_map": "rbf"}, TypeError, "kernel_map must be a KernelMap, got str"),
        ({"matrix": np.eye(2), "kernel_map": KernelMap("rbf")}, ValueError, "kernel_map must have grown"),
    ],
)
def test_bad_arguments_are_named(arguments, error, match):
    with pytest.raises(error, match=match):
        Metric(**arguments)


def test_senseless_uses_say_what_to_do_instead():
    x, X = [1.0, 2.0], np.eye(2)
    bilinear, indefinite = Metric(X, kind="bilinear"), Metric(np.diag([1.0, -1.0]))
    uses = [
        lambda metric: metric.distance(x, x),
        lambda metric: metric.transform(X),
        lambda metric: metric.components,
        lambda metric: metric.projected() if metric.kind == "bilinear" else metric.pairwise(X),
        lambda metric: metric.is_psd if metric.kind == "bilinear" else metric.truncate(1),
        lambda metric: metric.distance(x, x, squared=True) if metric.kind == "bilinear" else metric.embed(X),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="bilinear: use similarity or embed"):
            use(bilinear)
        with pytest.raises(ValueError, match=r"smallest eigenvalue is -1: call \.projected\(\)"):
            use(indefinite)
    with pytest.raises(ValueError, match="squared has no meaning"):
        bilinear.pairwise(X, squared=True)
    with pytest.raises(ValueError, match="side must be 'query' or 'item', got 'left'"):
        bilinear.embed(X, side="left")
    with pytest.raises(ValueError, match="k must not be negative"):
        bilinear.truncate(-1)
    with pytest.raises(TypeError):
        bilinear.truncate(1.5)


def test_bad_points_are_named():
    metric = Metric.euclidean(3)
    rectangular = Metric(np.ones((3, 2)), kind="bilinear")
    with pytest.raises(ValueError, match="X has 2 features, but this metric compares points of 3"):
        metric.transform(np.eye(2))
    with pytest.raises(ValueError, match="Y has 2 features, but this metric compares points of 3"):
        metric.pairwise(np.eye(3), np.eye(2))
    with pytest.raises(ValueError, match="x2 has 3 features, but this metric compares points of 2"):
        rectangular.similarity(np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match="x has 2 features"):
        metric.distance([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"got 2 and 3; .* use pairwise"):
        metric.distance(np.ones((2, 3)), np.ones((3, 3)))
    with pytest.raises(ValueError, match="x2 contains NaN"):
        metric.distance([1.0, 2.0, 3.0], [1.0, np.nan, 3.0])
    with pytest.raises(ValueError, match="2D"):
        metric.transform([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="overflows"):
        metric.transform(np.full((1, 3), 1e70))


def test_a_decomposition_that_fails_is_a_clear_error(monkeypatch):
    def fail(*_, **__):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(np.linalg, "eigh", fail)
    monkeypatch.setattr(np.linalg, "svd", fail)
    for metric in (Metric(np.ones((2, 2))), Metric(np.ones((2, 2)), kind="bilinear")):
        with pytest.raises(ValueError, match="decomposition of matrix does not converge") as caught:
            _ = metric.n_components
        assert not isinstance(caught.value, np.linalg.LinAlgError)


def test_the_decomposition_is_computed_once(monkeypatch):
    calls = []
    eigh = np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda M: calls.append(1) or eigh(M))
    metric = Metric([[2.0, 1.0], [1.0, 2.0]])
    assert repr(metric) == "Metric('mahalanobis', 2×2)"
    assert calls == []
    assert (metric.n_components, metric.is_psd, metric.distance([1, 0], [0, 0]) ** 2) == (2, True, pytest.approx(2.0))
    metric.transform(np.eye(2))
    assert calls == [1]


@pytest.mark.parametrize(
    "metric",
    [
        Metric(np.array([[1 / 3, 5e-324], [5e-324, 1e-310]]), threshold=0.1, feature_names=["a", "ß"]),
        Metric(np.diag([1.0, -2.0])),
        Metric(np.arange(6.0).reshape(2, 3), kind="bilinear", threshold=-1.5),
        Metric(np.zeros((1, 1)), threshold=0.0),
    ],
)
def test_files_keep_a_metric_exactly(tmp_path, metric):
    metric.save(tmp_path / "m")
    read = Metric.load(tmp_path / "m")
    np.testing.assert_array_equal(read.matrix, metric.matrix)
    assert (read.kind, read.threshold, read.feature_names) == (metric.kind, metric.threshold, metric.feature_names)
    assert repr(read) == repr(metric)
    with pytest.raises(ValueError, match="read-only"):
        read.matrix[0, 0] = 1.0


@pytest.mark.parametrize(
    ("header_change", "array_change", "match"),
    [
        ({"kind": "cosine"}, {}, "kind must be"),
        ({"kind": None}, {}, "'kind' should be str"),
        ({"threshold": "1"}, {}, "'threshold' should be float"),
        ({"threshold": np.inf}, {}, "threshold must be finite"),
        ({"feature_names": [1, 2]}, {}, "sequence of strings"),
        ({"feature_names": ["a"]}, {}, "must have 2 names"),
        ({"kernel_map": {}}, {}, "'kernel' should be str, found nothing"),
        ({}, {"matrix": np.ones((2, 3))}, "matrix must be square"),
        ({}, {"matrix": np.ones(2)}, "'matrix' should be float64"),
        ({}, {"matrix": np.eye(2, dtype=np.int64)}, "'matrix' should be float64"),
        ({}, {"matrix": np.full((2, 2), np.nan)}, "finite"),
    ],
)
def test_damaged_files_are_named(tmp_path, header_change, array_change, match):
    header, arrays = Metric(np.eye(2), threshold=1.0).to_parts()
    write_model(tmp_path / "m", "metric", arrays | array_change, header | header_change)
    with pytest.raises(ModelFileError, match=match) as caught:
        Metric.load(tmp_path / "m")
    assert str(tmp_path / "m") in str(caught.value)


def test_files_of_nothing_usable_are_refused(tmp_path):
    write_model(tmp_path / "learner", "learner", {}, {})
    with pytest.raises(ModelFileError, match=r"holds a learner, not a metric: read it with mahala\.load_learner"):
        Metric.load(tmp_path / "learner")
    write_model(tmp_path / "bare", "metric", {}, {})
    with pytest.raises(ModelFileError, match="found nothing"):
        Metric.load(tmp_path / "bare")
    with pytest.raises(FileNotFoundError):
        Metric.load(tmp_path / "none")


@pytest.fixture
def kernel_case():
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(12, 3)), rng.normal(size=(4, 3))
    points = KernelMap("rbf", {"gamma": 0.5})
    points.grow(X)
    A = rng.normal(size=(5, points.dimension))
    return Metric(A.T @ A, threshold=1.0, feature_names=["a", "b", "c"], kernel_map=points), points, X, Y


def test_a_kernel_metric_measures_in_kernel_coordinates(kernel_case, tmp_path):
    metric, points, X, Y = kernel_case
    linear = Metric(metric.matrix)
    assert metric.n_features_in == 3
    assert metric.n_components == 5
    for method in ("pairwise", "distance", "similarity"):
        expected = getattr(linear, method)(points.coordinates(X[:4]), points.coordinates(Y))
        np.testing.assert_allclose(getattr(metric, method)(X[:4], Y), expected, atol=1e-12)
    np.testing.assert_allclose(metric.transform(Y), linear.transform(points.coordinates(Y)))
    np.testing.assert_array_equal(metric.rank(Y, X), np.argsort(metric.pairwise(Y, X), axis=1))
    explanation = metric.explain(X[0], Y[0])
    assert explanation.features is None
    np.testing.assert_allclose(explanation.directions.sum(), metric.distance(X[0], Y[0], squared=True))
    assert explanation.top(1)[0][0].startswith("direction")
    np.testing.assert_allclose(metric.truncate(5).pairwise(Y), metric.pairwise(Y))
    assert metric.truncate(2).kernel_map is metric.kernel_map
    assert "kernel='rbf'" in repr(metric)
    metric.save(tmp_path / "m")
    np.testing.assert_array_equal(Metric.load(tmp_path / "m").pairwise(X, Y), metric.pairwise(X, Y))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(metric)).pairwise(X, Y), metric.pairwise(X, Y))


def test_the_identity_in_kernel_coordinates_is_the_distance_in_feature_space():
    X = np.random.default_rng(4).normal(size=(15, 3))
    points = KernelMap("poly", {"degree": 2})
    points.grow(X)
    K = pairwise_kernels(X, metric="poly", degree=2)
    expected = np.add.outer(np.diag(K), np.diag(K)) - 2 * K
    np.testing.assert_allclose(
        Metric(np.eye(points.dimension), kernel_map=points).pairwise(X, squared=True), expected, atol=1e-9
    )


def test_a_kernel_metric_is_a_snapshot(kernel_case):
    metric, points, X, Y = kernel_case
    before = metric.pairwise(X, Y)
    points.grow(Y)
    np.testing.assert_array_equal(metric.pairwise(X, Y), before)
    with pytest.raises(ValueError, match=f"matrix must have a row for each of the {points.dimension} coordinates"):
        Metric(metric.matrix, kernel_map=points)
    with pytest.raises(ValueError, match="kind='mahalanobis' only"):
        Metric(np.eye(points.dimension), kind="bilinear", kernel_map=points)
    with pytest.raises(ValueError, match="x has 2 features, but this metric compares points of 3"):
        metric.distance([1.0, 2.0], [1.0, 2.0])


def test_a_kernel_metric_without_landmarks_is_zero():
    points = KernelMap("linear")
    points.grow(np.zeros((2, 3)))
    metric = Metric(np.zeros((0, 0)), kernel_map=points)
    assert (metric.n_components, metric.is_psd, metric.n_features_in) == (0, True, 3)
    np.testing.assert_array_equal(metric.pairwise(np.eye(3)), np.zeros((3, 3)))
    assert metric.distance([1, 2, 3], [0, 0, 0]) == 0.0
    assert metric.transform(np.eye(3)).shape == (3, 0)
    assert metric.sparsity == 0.0
    np.testing.assert_array_equal(metric.rank(np.eye(3), np.eye(3)), [[0, 1, 2]] * 3)


def test_a_metric_with_a_callable_kernel_cannot_be_saved(tmp_path):
    points = KernelMap(lambda A, B: A @ B.T)
    points.grow(np.eye(2))
    with pytest.raises(ValueError, match="use one of the named"):
        Metric(np.eye(points.dimension), kernel_map=points).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_parts_fit_inside_another_file(tmp_path, kernel_case):
    metric, _, X, Y = kernel_case
    header, arrays = metric.to_parts()
    write_model(tmp_path / "m", "learner", arrays | {"own": np.ones(3)}, {"metric": header})
    header, arrays = read_model(tmp_path / "m", "learner")
    np.testing.assert_array_equal(Metric.from_parts(header["metric"], arrays).pairwise(X, Y), metric.pairwise(X, Y))

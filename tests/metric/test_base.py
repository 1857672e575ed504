from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import mahala.metric.matrices
from mahala import BilinearMetric, MahalanobisMetric, Metric
from mahala.support.model_files import ModelFileError, write_model
from metric.cases import brute_force

SEEDS = st.integers(0, 2**32 - 1)


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
    return (
        (MahalanobisMetric(M) if kind == "mahalanobis" else BilinearMetric(sp.csr_array(M) if sparse else M)),
        X,
        Y,
        costs.tolist(),
    )


@given(case=whole_numbers(), data=st.data())
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


@pytest.mark.parametrize("sparse", [False, True])
def test_items_that_are_equal_stay_in_their_order(sparse):
    # In floats, and beyond the borders of whatever blocks a matrix product works in.
    rng = np.random.default_rng(1)
    A = rng.normal(size=(40, 40))
    for metric in (MahalanobisMetric(A @ A.T), BilinearMetric(A), BilinearMetric(sp.csr_array(A))):
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


def test_rankings_need_no_decomposition(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a decomposition was computed")

    monkeypatch.setattr(np.linalg, "eigh", refuse)
    monkeypatch.setattr(np.linalg, "svd", refuse)
    X = np.random.default_rng(2).normal(size=(9, 2))
    M = np.array([[2.0, 1.0], [1.0, 2.0]])
    np.testing.assert_array_equal(MahalanobisMetric(M).rank(X, X), np.argsort(brute_force(M, X, X), axis=1))
    np.testing.assert_array_equal(BilinearMetric(M).rank(X, X), np.argsort(-X @ M @ X.T, axis=1))


def test_rankings_hold_few_scores_at_a_time(monkeypatch):
    rng = np.random.default_rng(3)
    X, different = rng.normal(size=(300, 2)), rng.normal(size=(2000, 2))
    metric = MahalanobisMetric([[2.0, 1.0], [1.0, 2.0]])
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
    metric = BilinearMetric(np.ones((3, 2)))
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


@pytest.mark.parametrize("kind", [MahalanobisMetric, BilinearMetric])
def test_every_container_of_points_gives_the_same(kind):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(8, 5)) * 3) * (rng.random((8, 5)) < 0.5)
    A = rng.normal(size=(5, 5))
    metric = kind(A.T @ A if kind is MahalanobisMetric else A)
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
        if kind is MahalanobisMetric:
            assert type(metric.transform(form)) is np.ndarray
            np.testing.assert_allclose(metric.transform(form), metric.transform(X), atol=1e-10)
            for a, b in ((form, Y), (Y, form), (form, Y[0]), (Y[0], form), (form, form)):
                dense = [X if z is form else z for z in (a, b)]
                np.testing.assert_allclose(metric.distance(a, b), metric.distance(*dense), atol=1e-10)
    assert sp.issparse(BilinearMetric(A).embed(sp.csr_matrix(X), "item"))


def test_bad_sides_and_ranks_are_named():
    for metric in (MahalanobisMetric.euclidean(2), BilinearMetric(np.eye(2))):
        with pytest.raises(ValueError, match="side must be 'query' or 'item', got 'left'"):
            metric.embed(np.eye(2), side="left")
        with pytest.raises(ValueError, match="k must be an integer of at least 0, got -1"):
            metric.truncate(-1)
        with pytest.raises(ValueError, match=r"k must be an integer of at least 0, got 1\.5"):
            metric.truncate(1.5)


def test_a_decomposition_that_fails_is_a_clear_error(monkeypatch):
    def fail(*_, **__):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(np.linalg, "eigh", fail)
    monkeypatch.setattr(np.linalg, "svd", fail)
    for metric in (MahalanobisMetric(np.ones((2, 2))), BilinearMetric(np.ones((2, 2)))):
        with pytest.raises(ValueError, match="decomposition of matrix does not converge") as caught:
            _ = metric.n_components
        assert not isinstance(caught.value, np.linalg.LinAlgError)


@pytest.mark.parametrize(
    "metric",
    [
        MahalanobisMetric(np.array([[1 / 3, 5e-324], [5e-324, 1e-310]]), threshold=0.1, feature_names=["a", "ß"]),
        MahalanobisMetric(np.diag([1.0, -2.0])),
        BilinearMetric(np.arange(6.0).reshape(2, 3)),
        MahalanobisMetric(np.zeros((1, 1)), threshold=0.0),
    ],
)
def test_files_keep_a_metric_exactly(tmp_path, metric):
    metric.save(tmp_path / "m")
    read = Metric.load(tmp_path / "m")
    np.testing.assert_array_equal(read.matrix, metric.matrix)
    assert type(read) is type(metric)
    assert (repr(read), read.feature_names) == (repr(metric), metric.feature_names)
    assert getattr(read, "threshold", None) == getattr(metric, "threshold", None)
    with pytest.raises(ValueError, match="read-only"):
        read.matrix[0, 0] = 1.0


def test_a_class_loads_its_own_files_only(tmp_path):
    MahalanobisMetric.euclidean(2).save(tmp_path / "m")
    BilinearMetric(np.eye(2)).save(tmp_path / "b")
    assert type(MahalanobisMetric.load(tmp_path / "m")) is type(Metric.load(tmp_path / "m")) is MahalanobisMetric
    assert type(BilinearMetric.load(tmp_path / "b")) is type(Metric.load(tmp_path / "b")) is BilinearMetric
    with pytest.raises(ModelFileError, match=r"b cannot be read: it holds a BilinearMetric, not a MahalanobisMetric"):
        MahalanobisMetric.load(tmp_path / "b")
    with pytest.raises(ModelFileError, match=r"use MahalanobisMetric\.load or Metric\.load"):
        BilinearMetric.load(tmp_path / "m")
    with pytest.raises(TypeError, match="abstract"):
        Metric(np.eye(2))


@pytest.mark.parametrize(
    ("header_change", "array_change", "match"),
    [
        ({"kind": "cosine"}, {}, "'kind' should be 'bilinear' or 'mahalanobis', found 'cosine'"),
        ({"kind": None}, {}, "'kind' should be str"),
        ({"threshold": "1"}, {}, "'threshold' should be int or float"),
        ({"threshold": np.inf}, {}, "'threshold' should be a finite number"),
        ({"feature_names": [1, 2]}, {}, "sequence of strings"),
        ({"feature_names": ["a"]}, {}, "must have 2 names"),
        ({"steps": None}, {}, "'steps' should be list"),
        ({"steps": ["scales"]}, {}, "'steps.0' should be dict"),
        ({"steps": [{"kind": "log"}]}, {}, "'kind' should be 'kernel_map' or 'scales' or 'unit_rows', found 'log'"),
        ({"steps": [{"kind": "scales"}]}, {}, "array 'scales' is missing"),
        ({"steps": [{"kind": "scales"}]}, {"steps.0.scales": np.array([0.0, 1.0])}, "positive"),
        ({"steps": [{"kind": "scales"}]}, {"steps.0.scales": np.ones(3)}, "scales must be 2 numbers"),
        ({"steps": [{"kind": "kernel_map"}]}, {}, "'kernel' should be str, found nothing"),
        ({}, {"matrix": np.ones((2, 3))}, "matrix must be square"),
        ({}, {"matrix": np.ones(2)}, "'matrix' should be float64"),
        ({}, {"matrix": np.eye(2, dtype=np.int64)}, "'matrix' should be float64"),
        ({}, {"matrix": np.full((2, 2), np.nan)}, "NaN or infinity"),
    ],
)
def test_damaged_files_are_named(tmp_path, header_change, array_change, match):
    header, arrays = MahalanobisMetric(np.eye(2), threshold=1.0).to_parts()
    write_model(tmp_path / "m", "metric", arrays | array_change, header | header_change)
    with pytest.raises(ModelFileError, match=match) as caught:
        Metric.load(tmp_path / "m")
    assert str(tmp_path / "m") in str(caught.value)


def test_files_of_nothing_usable_are_refused(tmp_path):
    write_model(tmp_path / "learner", "learner", {}, {})
    with pytest.raises(ModelFileError, match=r"holds a learner, not a metric: read it with mahala\.load"):
        Metric.load(tmp_path / "learner")
    write_model(tmp_path / "bare", "metric", {}, {})
    with pytest.raises(ModelFileError, match="found nothing"):
        Metric.load(tmp_path / "bare")
    with pytest.raises(FileNotFoundError):
        Metric.load(tmp_path / "none")

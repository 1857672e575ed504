"""Retrieval measures against the definition, point by point, and against scikit-learn's."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import average_precision_score

import mahala.metric.matrices
from mahala import PA, BilinearMetric, MahalanobisMetric
from mahala.evaluation.ranking import mean_average_precision, precision_at_k


def score(metric, x, item):
    """Exact where the entries are whole numbers: a larger score is more similar."""
    if metric is None:
        return -sum((a - b) ** 2 for a, b in zip(x, item, strict=True))
    M = metric.matrix.toarray() if sp.issparse(metric.matrix) else metric.matrix
    if metric.kind == "bilinear":
        return float(x @ M @ item)
    return -float((x - item) @ M @ (x - item))


def slow(metric, X, y, X_items=None, y_items=None):
    """For each query with relevant items: its average precision, and its expected precision at 1, 2, …"""
    averages, precisions = [], []
    for i, x in enumerate(X):
        rows = range(len(X)) if X_items is None else range(len(X_items))
        rows = [j for j in rows if X_items is not None or i != j]
        items, labels = (X, y) if X_items is None else (X_items, y_items)
        scores = [score(metric, x, items[j]) for j in rows]
        relevant = [labels[j] == y[i] for j in rows]
        if not any(relevant):
            continue
        found = [score for score, is_relevant in zip(scores, relevant, strict=True) if is_relevant]
        averages.append(np.mean([sum(s >= own for s in found) / sum(s >= own for s in scores) for own in found]))
        hits = []
        for k in range(1, len(rows) + 1):
            border = sorted(scores, reverse=True)[k - 1]
            above = [r for s, r in zip(scores, relevant, strict=True) if s > border]
            tied = [r for s, r in zip(scores, relevant, strict=True) if s == border]
            hits.append((sum(above) + (k - len(above)) * sum(tied) / len(tied)) / k)
        precisions.append(hits)
    return averages, precisions


def metrics(d, e, rng):
    """One of each kind, in whole numbers so that ties are exact."""
    A = rng.integers(-2, 3, size=(d, e)).astype(float)
    yield BilinearMetric(A)
    yield BilinearMetric(sp.csr_array(A, dtype=np.float32))
    if d == e:
        yield None
        yield MahalanobisMetric.euclidean(d)
        yield MahalanobisMetric(A @ A.T)
        yield MahalanobisMetric(A + A.T)  # indefinite


@st.composite
def labelled_grids(draw):
    """Queries and items on a small integer grid, with duplicates and zero rows; some labels on one side only."""
    d, n, m = draw(st.integers(1, 3)), draw(st.integers(2, 6)), draw(st.integers(1, 8))
    points = draw(hnp.arrays(np.int64, (n + m, d), elements=st.integers(-1, 2)))
    y = draw(st.lists(st.sampled_from("abcd"), min_size=n, max_size=n))
    y_items = draw(st.lists(st.sampled_from("bcde"), min_size=m, max_size=m))
    return points[:n], y, points[n:], y_items


@given(grid=labelled_grids(), seed=st.integers(0, 2**32 - 1), sparse=st.tuples(st.booleans(), st.booleans()))
def test_tied_grids(grid, seed, sparse):
    X, y, X_items, y_items = grid
    rows, items = (sp.csr_array(A) if s else A for A, s in zip((X, X_items), sparse, strict=True))
    for metric in metrics(X.shape[1], X.shape[1], np.random.default_rng(seed)):
        for truth, arguments in (
            (slow(metric, X, y), (metric, rows, y)),
            (slow(metric, X, y, X_items, y_items), (metric, rows, y, items, y_items)),
        ):
            averages, precisions = truth
            if not averages:
                for measure in (mean_average_precision, precision_at_k):
                    with pytest.raises(ValueError, match="no item is relevant to any query"):
                        measure(*arguments)
                continue
            assert mean_average_precision(*arguments) == pytest.approx(np.mean(averages))
            result = precision_at_k(*arguments)
            np.testing.assert_array_equal(result.k, range(1, len(precisions[0]) + 1))
            np.testing.assert_allclose(result.precision, np.mean(precisions, axis=0))


def test_average_precision_is_that_of_scikit_learn():
    rng = np.random.default_rng(5)
    X, y = rng.integers(0, 4, size=(40, 2)), rng.integers(0, 3, size=40)
    expected = [
        average_precision_score(np.delete(y == y[i], i), -np.delete(np.square(X - X[i]).sum(axis=1), i))
        for i in range(40)
    ]
    assert mean_average_precision(None, X, y) == pytest.approx(np.mean(expected))


@pytest.mark.parametrize("sparse", [False, True])
def test_queries_and_items_of_different_features(sparse):
    rng = np.random.default_rng(1)
    X, X_items = rng.integers(-1, 3, size=(20, 4)), rng.integers(-1, 3, size=(30, 2))
    y, y_items = rng.integers(0, 3, size=20), rng.integers(0, 3, size=30)
    rows, items = (sp.csr_array(X), sp.csr_array(X_items)) if sparse else (X, X_items)
    for metric in metrics(4, 2, rng):
        averages, precisions = slow(metric, X, y, X_items, y_items)
        assert mean_average_precision(metric, rows, y, items, y_items) == pytest.approx(np.mean(averages))
        result = precision_at_k(metric, rows, y, items, y_items, k=[30, 7, 7])
        np.testing.assert_array_equal(result.k, [7, 30])
        np.testing.assert_allclose(result.precision, np.mean(precisions, axis=0)[[6, 29]])
        with pytest.raises(ValueError, match=r"X_items must be given, because queries have 4 features and items 2"):
            mean_average_precision(metric, rows, y)


def random_metrics():
    A = np.random.default_rng(2).normal(size=(9, 9))
    return [
        None,
        MahalanobisMetric(A @ A.T),
        MahalanobisMetric(A + A.T),
        BilinearMetric(A),
        BilinearMetric(sp.csr_array(A)),
    ]


@pytest.mark.parametrize("metric", random_metrics(), ids=repr)
@pytest.mark.parametrize("sparse", [False, True])
def test_neither_the_order_of_rows_nor_the_size_of_blocks_matters(metric, sparse, monkeypatch):
    # Duplicates of other classes, in floats: their scores must be equal to the last bit wherever they stand.
    rng = np.random.default_rng(3)
    X = rng.normal(size=(25, 9))[rng.integers(0, 25, size=101)]
    y = rng.integers(0, 4, size=101)
    form = sp.csr_array if sparse else np.asarray
    average, precision = mean_average_precision(metric, form(X), y), precision_at_k(metric, form(X), y).precision
    for size in (1, 5000, 2**25):
        monkeypatch.setattr(mahala.metric.matrices, "BLOCK_BYTES", size)
        order = rng.permutation(101)
        assert mean_average_precision(metric, form(X[order]), y[order]) == pytest.approx(average, rel=1e-12)
        np.testing.assert_allclose(precision_at_k(metric, form(X[order]), y[order]).precision, precision, rtol=1e-12)
        alone = [mean_average_precision(metric, form(X[i : i + 1]), y[i : i + 1], form(X), y) for i in range(3)]
        together = mean_average_precision(metric, form(X[:3]), y[:3], form(X), y)
        assert together == pytest.approx(np.mean(alone), rel=1e-12)


def test_points_far_from_zero_keep_their_order():
    # Around zero the squared norms of 1e16 would hide the squares of all distances.
    rng = np.random.default_rng(4)
    X = np.cumsum(rng.integers(1, 4, size=40)).reshape(-1, 1) / 2.0**20 + 1e8
    y = rng.integers(0, 3, size=40)
    assert len(np.unique(X)) == 40
    averages, _ = slow(None, X.tolist(), y)
    assert mean_average_precision(None, X, y) == pytest.approx(np.mean(averages))
    assert mean_average_precision(MahalanobisMetric.euclidean(1), X, y) == pytest.approx(np.mean(averages))


def test_small_integers_do_not_wrap():
    X = np.array([[0], [200], [250], [10]], dtype=np.uint8)
    assert mean_average_precision(None, X, [0, 1, 1, 0]) == 1.0
    assert mean_average_precision(None, sp.csr_array(X), [0, 1, 1, 0]) == 1.0


def test_a_good_metric_finds_more(labelled):
    X, y = labelled
    noise, signal = MahalanobisMetric(np.diag([0.0, 0, 0, 1, 1])), MahalanobisMetric(np.diag([1.0, 1, 1, 0, 0]))
    plain = mean_average_precision(None, X, y)
    assert mean_average_precision(noise, X, y) < plain - 0.1
    assert mean_average_precision(signal, X, y) > plain + 0.02
    assert precision_at_k(signal, X, y, k=5).at(5) > precision_at_k(noise, X, y, k=5).at(5) + 0.2


def test_containers_and_labels(labelled):
    X, y = labelled
    expected = mean_average_precision(None, X, y)
    for rows in (X.tolist(), pd.DataFrame(X), sp.csr_matrix(X), sp.coo_array(X), np.asfortranarray(X)):
        for labels in (y, y.tolist(), y.astype(str), y * 1.5, pd.Series(y).astype("category")):
            assert mean_average_precision(None, rows, labels) == pytest.approx(expected, rel=1e-12)
    together = mean_average_precision(None, X[:20], y[:20].astype(float), X, y)
    assert together == mean_average_precision(None, X[:20], y[:20], X, y)


@pytest.mark.parametrize(
    "k",
    [3, np.int64(3), [3], np.array([3]), (v for v in (3, 3))],
    ids=["int", "numpy int", "list", "array", "generator"],
)
def test_forms_of_k(labelled, k):
    result = precision_at_k(None, *labelled, k=k)
    np.testing.assert_array_equal(result.k, [3])
    assert result.at(3) == precision_at_k(None, *labelled).at(3)
    with pytest.raises(ValueError, match=r"k must be one of the evaluated \[3\], got 4"):
        result.at(4)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.k = None


def test_by_default_k_goes_to_fifty_or_as_far_as_there_are_items(labelled):
    X, y = labelled
    np.testing.assert_array_equal(precision_at_k(None, X, y).k, range(1, 51))
    np.testing.assert_array_equal(precision_at_k(None, X[:9], y[:9]).k, range(1, 9))
    np.testing.assert_array_equal(precision_at_k(None, X, y, X[:9], y[:9]).k, range(1, 10))


X, Y = np.arange(6.0).reshape(3, 2), [0, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, Y, X), "X_items and y_items must be given together"),
        ((X, Y, None, Y), "X_items and y_items must be given together"),
        ((X, Y[:2]), r"y must be 1-D with a label for each of the 3 rows, got shape \(2,\)"),
        ((X, Y, X, [Y]), r"y_items must be 1-D with a label for each of the 3 rows, got shape \(1, 3\)"),
        ((X, [0, np.nan, 1]), "y must hold a class for each row, got nan for row 1"),
        ((X, Y, X, [0, np.nan, 1]), "y_items must hold a class for each row, got nan for row 1"),
        ((X * np.nan, Y), "X contains NaN"),
        ((X, Y, X * np.nan, Y), "X_items contains NaN"),
        ((X * 1e70, Y), "X has values as large as"),
        ((X[:1], Y[:1]), "X must have at least 2 rows for leave-one-out"),
        ((X, [0, 1, 2]), "no item is relevant to any query"),
        ((X, Y, X, [3, 4, 5]), "no item is relevant to any query"),
    ],
)
def test_wrong_input(arguments, message):
    for metric in (None, MahalanobisMetric.euclidean(2), BilinearMetric(np.eye(2))):
        for measure in (mean_average_precision, precision_at_k):
            with pytest.raises(ValueError, match=message):
                measure(metric, *arguments)


def test_labels_that_cannot_be_compared():
    with pytest.raises(TypeError, match="y must hold labels of one type"):
        mean_average_precision(None, X, [0, "a", 2])
    with pytest.raises(TypeError, match="y and y_items must hold labels of one type"):
        mean_average_precision(None, X, Y, X, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (3, "k must be at most 2, the number of items of a query, got 3"),
        (0, "k must be one or several integers of at least 1"),
        (1.0, "k must be one or several integers of at least 1"),
        (True, "k must be one or several integers of at least 1"),
        ([], "k must be one or several integers of at least 1"),
    ],
)
def test_wrong_k(k, message):
    with pytest.raises(ValueError, match=message):
        precision_at_k(None, X, Y, k=k)


def test_wrong_metric():
    learner = PA().fit(X, Y)
    for measure in (mean_average_precision, precision_at_k):
        with pytest.raises(TypeError, match="metric must be a Metric or None, got PA; of a learner give its metric_"):
            measure(learner, X, Y)
        with pytest.raises(ValueError, match="X has 2 features, but this metric compares points of 3"):
            measure(MahalanobisMetric.euclidean(3), X, Y)
        with pytest.raises(ValueError, match="X_items has 1 features, but this metric compares points of 2"):
            measure(MahalanobisMetric.euclidean(2), X, Y, X[:, :1], Y)
        with pytest.raises(ValueError, match="X_items must have the 2 columns of X, got 1"):
            measure(None, X, Y, X[:, :1], Y)
    assert 0 < mean_average_precision(learner.metric_, X, Y) <= 1

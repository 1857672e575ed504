"""Scales of features, and metrics that hold them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from mahala import PA, MahalanobisMetric, Metric
from mahala.data.scaling import binary_features, divided, feature_scales, in_one_unit
from mahala.metric import Scales
from strategies import examples


@given(st.integers(1, 20), st.integers(1, 6), st.integers(0, 2**32 - 1), st.booleans())
def test_scaled_features_have_variance_one_or_are_constant(n, d, seed, sparse):
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, size=(n, d)) * 10.0 ** rng.integers(-8, 9, size=d)
    scales = feature_scales(sp.csr_array(X) if sparse else X, "standard")
    spread = divided(X, scales).std(axis=0)
    varies = np.ptp(X, axis=0) > 0
    np.testing.assert_allclose(spread, varies.astype(float), atol=1e-9)
    assert (scales[~varies] == 1.0).all()


@examples(15)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_a_metric_with_scales_is_the_metric_of_scaled_points(seed, sparse):
    rng = np.random.default_rng(seed)
    X, L = rng.normal(size=(6, 4)) * [1.0, 1e9, 1e-9, 1.0], rng.normal(size=(4, 4))
    given_rows = sp.csr_array(X) if sparse else X
    scales = feature_scales(given_rows, "standard")
    plain = MahalanobisMetric(L.T @ L, threshold=1.5)
    scaled = plain.after(Scales(scales))
    np.testing.assert_allclose(scaled.pairwise(given_rows), plain.pairwise(divided(given_rows, scales)), rtol=1e-12)
    assert scaled.distance(X[0], X[1]) == pytest.approx(plain.distance(X[0] / scales, X[1] / scales))
    assert scaled.rank(X[0], X).tolist() == plain.rank(X[0] / scales, X / scales).tolist()
    parts = scaled.explain(X[0], X[1])
    assert parts.features.sum() == pytest.approx(scaled.distance(X[0], X[1], squared=True))


def test_scales_go_into_the_file_and_the_copy(tmp_path):
    metric = MahalanobisMetric(np.eye(2), feature_names=["a", "b"], steps=[Scales([2.0, 1.0])])
    metric.save(tmp_path / "m.safetensors")
    for copy in (Metric.load(tmp_path / "m.safetensors"), pickle.loads(pickle.dumps(metric)), metric.truncate(2)):
        assert copy.distance([2.0, 0.0], [0.0, 0.0]) == 1.0
        assert not copy.steps[0].scales.flags.writeable


def test_scales_come_before_the_kernel():
    X, y = np.arange(8.0).reshape(4, 2) * [1.0, 100.0], [0, 0, 1, 1]
    scales = feature_scales(X, "standard")
    learned = PA(kernel="rbf", random_state=0).fit(X / scales, y).metric_
    np.testing.assert_allclose(learned.after(Scales(scales)).pairwise(X), learned.pairwise(X / scales))


def test_float32_stays():
    assert divided(np.ones((2, 2), dtype=np.float32), np.ones(2)).dtype == np.float32
    tiny = np.array([[5e-310, 0.0], [0.0, 2.0]])  # 1 / 5e-310 is not a number
    np.testing.assert_array_equal(divided(sp.csr_array(tiny), np.array([5e-310, 2.0])).toarray(), np.eye(2))
    assert divided(np.ones((2, 2), dtype=int), np.ones(2)).dtype == np.float64


def test_refusals():
    with pytest.raises(
        ValueError, match="scaling must be one of 'numbers', 'standard', 'none', 'minmax', 'robust', got 'huge'"
    ):
        feature_scales(np.array([[1.0]]), "huge")
    for wrong, message in (([1.0], "scales must be 2 numbers"), ([1.0, 0.0], "positive"), ([1.0, np.inf], "finite")):
        with pytest.raises(ValueError, match=message):
            MahalanobisMetric(np.eye(2), steps=[Scales(wrong)])


def test_none_changes_nothing():
    assert (feature_scales(np.array([[1.0, 2.0], [3.0, 9.0]]), "none") == 1.0).all()


@given(st.integers(1, 20), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_numbers_are_divided_and_zeros_and_ones_are_not(n, d, seed):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random(d) < 0.5, rng.integers(0, 2, size=(n, d)), rng.integers(-3, 4, size=(n, d))).astype(float)
    binary = np.array([set(column) <= {0.0, 1.0} for column in X.T.tolist()])
    np.testing.assert_array_equal(binary_features(X), binary)
    expected = np.where(binary, 1.0, feature_scales(X, "standard"))
    np.testing.assert_array_equal(feature_scales(X, "numbers"), expected)
    if n > 1:
        np.testing.assert_array_equal(feature_scales(X.astype(np.float32), "numbers")[binary], 1.0)


def test_features_of_sparse_rows_are_numbers():
    """Counts of words may happen to be 0 and 1."""
    X = sp.csr_array(np.eye(4))
    assert not binary_features(X).any()
    np.testing.assert_array_equal(feature_scales(X, "numbers"), feature_scales(X, "standard"))


@given(st.integers(2, 20), st.integers(1, 6), st.integers(0, 2**32 - 1), st.booleans())
def test_ranges_and_quartiles(n, d, seed, sparse):
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, size=(n, d)) * 10.0 ** rng.integers(-8, 9, size=d)
    rows = sp.csr_array(X) if sparse else X
    spread = np.ptp(X, axis=0)
    np.testing.assert_allclose(feature_scales(rows, "minmax"), np.where(spread > 0, spread, 1.0))
    between = np.quantile(X, 0.75, axis=0) - np.quantile(X, 0.25, axis=0)
    deviations = np.where(spread > 0, X.std(axis=0), 1.0)
    np.testing.assert_allclose(feature_scales(rows, "robust"), np.where(between > 0, between, deviations), rtol=1e-6)


def test_quartiles_of_many_sparse_columns():
    X = np.random.default_rng(0).normal(size=(30, 600)) * (np.arange(600) % 2)
    np.testing.assert_allclose(feature_scales(sp.csr_array(X), "robust"), feature_scales(X, "robust"))


def test_a_few_values_outside_of_the_quartiles_count_by_their_deviation():
    X = np.zeros((100, 1))
    X[:3] = 5.0
    np.testing.assert_allclose(feature_scales(X, "robust"), X.std())


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_one_unit_keeps_proportions(seed, sparse):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(9, 4)) * 10.0 ** rng.integers(-9, 9, size=4)
    X[:, 3] = 1.0
    scales = in_one_unit(sp.csr_array(X) if sparse else X, np.array([1.0, 2.0, 1.0, 1.0]))
    np.testing.assert_allclose(scales / scales[0], [1.0, 2.0, 1.0, 1.0])
    assert np.mean((X / scales).var(axis=0)[:3]) == pytest.approx(1.0)
    assert (in_one_unit(np.ones((3, 2)), np.ones(2)) == 1.0).all()

from __future__ import annotations

import copy
import dataclasses
import pickle
import tracemalloc
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import pairwise_kernels

from mahala import BilinearMetric, MahalanobisMetric, Metric, Pairs, Quadruplets, Triplets
from mahala.metric import Scales, UnitRows
from mahala.metric import mahalanobis as module
from mahala.metric.kernel_map import KernelMap
from mahala.support.arrays import row_blocks
from mahala.support.model_files import read_model, write_model
from metric.cases import brute_force, mahalanobis


@given(case=mahalanobis())
def test_distances_are_those_of_the_definition(case):
    M, X, Y = case
    metric = MahalanobisMetric(M)
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
def test_squared_distances_under_an_indefinite_matrix(case):
    M, X, Y = case
    metric = MahalanobisMetric(M)
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
def test_components_spectrum_and_truncation_are_those_of_eigh(case, k):
    M = case[0]
    metric = MahalanobisMetric(M)
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


def test_similarity_of_a_mahalanobis_metric_is_its_inner_product():
    metric = MahalanobisMetric(np.diag([2.0, 3.0]))
    assert metric.similarity([1.0, 2.0], [3.0, 4.0]) == 2 * 3 + 3 * 8


@given(case=mahalanobis(indefinite=True))
def test_rankings_follow_the_squared_distances(case):
    M, X, Y = case
    unit = np.abs(M).max() or 1.0
    metric = MahalanobisMetric(M / unit)
    ranked = np.take_along_axis(brute_force(M / unit, X, Y), metric.rank(X, Y), axis=1)
    assert (np.diff(ranked, axis=1) >= -1e-11).all()
    assert (np.sort(metric.rank(X, Y), axis=1) == np.arange(len(Y))).all()


def test_far_from_zero_near_items_come_first():
    items = np.array([[1e8 + 3], [1e8 + 1], [1e8 + 2], [1e8]])
    np.testing.assert_array_equal(MahalanobisMetric.euclidean(1).rank([1e8], items), [3, 1, 2, 0])
    np.testing.assert_array_equal(MahalanobisMetric([[-1.0]]).rank([1e8], items), [0, 2, 1, 3])


def test_unsigned_differences_do_not_wrap():
    assert MahalanobisMetric.euclidean(1).distance(np.array([0], dtype=np.uint8), np.array([3], dtype=np.uint8)) == 3.0


def test_sparse_rows_are_not_made_dense(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("sparse rows were made dense")

    X = sp.random(50, 30, density=0.05, format="csr", random_state=0)
    expected = X.toarray()
    monkeypatch.setattr(sp.csr_matrix, "toarray", refuse)
    monkeypatch.setattr(sp.csr_matrix, "todense", refuse)
    A = np.random.default_rng(0).normal(size=(3, 30))
    metric = MahalanobisMetric(A.T @ A)
    np.testing.assert_allclose(metric.transform(X), metric.transform(expected), atol=1e-12)
    np.testing.assert_allclose(metric.distance(X, X[::-1]), metric.distance(expected, expected[::-1]), atol=1e-12)
    np.testing.assert_allclose(metric.similarity(X, X), metric.similarity(expected, expected), atol=1e-12)
    np.testing.assert_allclose(BilinearMetric(A).pairwise(np.eye(3), X), A @ expected.T, atol=1e-12)


@pytest.mark.parametrize("density", [0.03, 0.1, 0.9])
def test_sparse_rows_have_the_scores_of_dense_ones(density):
    X = sp.random(40, 30, density=density, format="csr", random_state=0)
    X = sp.vstack([X, X[:3]], format="csr")
    A = np.random.default_rng(0).normal(size=(30, 30))
    for metric in (MahalanobisMetric(A.T @ A), BilinearMetric(A)):
        np.testing.assert_allclose(metric.pairwise(X), metric.pairwise(X.toarray()), atol=1e-10)
        order = metric.rank(X, X)
        scores = -metric.pairwise(X) if isinstance(metric, MahalanobisMetric) else metric.pairwise(X)
        assert (np.diff(np.take_along_axis(scores, order, axis=1), axis=1) <= 1e-6).all()
        places = np.argsort(order, axis=1)
        assert (places[:, 40:] > places[:, :3]).all()  # equal items are in the order in which they were given


def test_the_zero_matrix_puts_every_point_at_one_place():
    for metric in (
        MahalanobisMetric(np.zeros((3, 3))),
        MahalanobisMetric(np.eye(3)).truncate(0),
        MahalanobisMetric(-np.eye(3)).projected(),
    ):
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


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-300, 1e100, 1e209])
def test_tiny_and_large_matrices_give_no_nan(scale):
    rng = np.random.default_rng(1)
    A = rng.uniform(-1, 1, size=(6, 4))
    X = rng.normal(size=(5, 4)) * 1e44
    for M in (A.T @ A / 6, np.diag([1.0, 0.5, 0.1, 0.0])):
        metric = MahalanobisMetric(M * scale)
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
    for kind in (MahalanobisMetric, BilinearMetric):
        with pytest.raises(ValueError, match="distances overflow"):
            kind(np.eye(2) * 1e220)


def test_weights_of_features_may_be_far_apart():
    # Inverse variances of unscaled features: the small weight matters as much as the large one.
    metric = MahalanobisMetric(np.diag([1e-20, 1e10]))
    assert metric.n_components == 2
    np.testing.assert_allclose(metric.distance([1e10, 0.0], [0.0, 1e-5]), np.sqrt(2.0))
    np.testing.assert_array_equal(metric.components, [[0.0, 1e5], [1e-10, 0.0]])


def test_close_points_keep_their_distance():
    X = np.array([[1e6, 1e6], [1e6 + 1e-6, 1e6]])
    expected = X[1, 0] - X[0, 0]
    assert MahalanobisMetric.euclidean(2).distance(X[0], X[1]) == expected
    assert MahalanobisMetric.euclidean(2).pairwise(X)[0, 1] == expected
    skew = MahalanobisMetric([[2.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(skew.distance(X[0], X[1]), np.sqrt(2.0) * expected, rtol=1e-12)


def test_a_matrix_that_is_psd_up_to_rounding_has_no_negative_distances():
    u, v = np.array([0.6, 0.8]), np.array([0.8, -0.6])
    metric = MahalanobisMetric(np.outer(u, u) - 1e-12 * np.outer(v, v))
    assert metric.is_psd
    assert 0.0 <= metric.distance(v, np.zeros(2), squared=True) < 1e-20
    assert (metric.pairwise([v], [np.zeros(2)], squared=True) >= 0).all()
    assert not MahalanobisMetric(np.outer(u, u) - 1e-9 * np.outer(v, v)).is_psd


def test_rounding_of_a_low_rank_matrix_does_not_count_as_rank():
    rng = np.random.default_rng(2)
    A = rng.normal(size=(3, 60))
    metric = MahalanobisMetric(A.T @ A)
    assert metric.n_components == 3
    assert metric.is_psd
    null = np.linalg.svd(A)[2][-1]
    assert metric.distance(null * 1e3, np.zeros(60)) < 1e-10


def test_a_metric_never_changes():
    M = np.eye(2)
    names = ["a", "b"]
    metric = MahalanobisMetric(M, threshold=np.float32(0.5), feature_names=names)
    M[0, 0] = 7.0
    names[0] = "z"
    assert metric.matrix[0, 0] == 1.0
    assert metric.feature_names == ("a", "b")
    assert type(metric.threshold) is float
    with pytest.raises(dataclasses.FrozenInstanceError):
        metric.threshold = 2.0
    for other in (metric, copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), MahalanobisMetric(metric.matrix)):
        for array in (other.matrix, other.components, other.spectrum):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0.0
    assert metric != MahalanobisMetric(np.eye(2))
    assert len({metric, metric}) == 1


def test_small_asymmetry_is_rounding_and_large_is_an_error():
    M = np.array([[1.0, 0.5], [0.5 + 1e-12, 1.0]])
    np.testing.assert_array_equal(MahalanobisMetric(M).matrix, (M + M.T) / 2)
    for factor in (1e-300, 1.0, 1e100):
        with pytest.raises(ValueError, match=r"matrix must be symmetric, .* or use BilinearMetric"):
            MahalanobisMetric(np.array([[1.0, 0.5], [0.6, 1.0]]) * factor)
    exact = np.array([[5e-324, 1 / 3], [1 / 3, 1e-310]])
    np.testing.assert_array_equal(MahalanobisMetric(exact).matrix, exact)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"matrix": np.ones((2, 3))}, ValueError, r"matrix must be square, got shape \(2, 3\)"),
        ({"matrix": np.ones(3)}, ValueError, "matrix must be 2-D"),
        ({"matrix": np.ones((0, 0))}, ValueError, "at least one row"),
        ({"matrix": [[np.nan]]}, ValueError, "matrix must be finite"),
        ({"matrix": [[np.inf]]}, ValueError, "matrix must be finite"),
        ({"matrix": [["a"]]}, TypeError, "matrix must hold real numbers"),
        ({"matrix": [[1j]]}, TypeError, "matrix must hold real numbers"),
        ({"matrix": np.eye(2), "threshold": np.nan}, ValueError, "threshold must be finite"),
        ({"matrix": np.eye(2), "feature_names": ["a"]}, ValueError, "feature_names must have 2 names"),
        ({"matrix": np.eye(2), "feature_names": "ab"}, TypeError, "sequence of strings"),
        ({"matrix": np.eye(2), "feature_names": [1, 2]}, TypeError, "sequence of strings"),
        ({"matrix": np.eye(2), "steps": ["rbf"]}, TypeError, "steps must be Scales, UnitRows or KernelMap"),
        ({"matrix": np.eye(2), "steps": [KernelMap("rbf")]}, ValueError, "kernel map must have grown"),
        ({"matrix": np.eye(2), "steps": [Scales([1.0])]}, ValueError, "scales must be 2 numbers, one for each feature"),
        ({"matrix": np.eye(2), "center": [1.0]}, ValueError, "center must be 2 finite numbers"),
    ],
)
def test_bad_arguments_are_named(arguments, error, match):
    with pytest.raises(error, match=match):
        MahalanobisMetric(**arguments)


@pytest.mark.parametrize(
    "use",
    [
        lambda metric: metric.distance([1.0, 2.0], [1.0, 2.0]),
        lambda metric: metric.transform(np.eye(2)),
        lambda metric: metric.components,
        lambda metric: metric.pairwise(np.eye(2)),
        lambda metric: metric.truncate(1),
        lambda metric: metric.embed(np.eye(2)),
    ],
)
def test_what_needs_a_psd_matrix_says_how_to_get_one(use):
    metric = MahalanobisMetric(np.diag([1.0, -1.0]))
    with pytest.raises(ValueError, match=r"smallest eigenvalue is -1: call \.projected\(\)"):
        use(metric)
    use(metric.projected())


def test_bad_points_are_named():
    metric = MahalanobisMetric.euclidean(3)
    rectangular = BilinearMetric(np.ones((3, 2)))
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


def test_the_decomposition_is_computed_once(monkeypatch):
    calls = []
    eigh = np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda M: calls.append(1) or eigh(M))
    metric = MahalanobisMetric([[2.0, 1.0], [1.0, 2.0]])
    assert repr(metric) == "MahalanobisMetric(2×2)"
    assert calls == []
    assert (metric.n_components, metric.is_psd, metric.distance([1, 0], [0, 0]) ** 2) == (2, True, pytest.approx(2.0))
    metric.transform(np.eye(2))
    assert calls == [1]


@pytest.fixture
def kernel_case():
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(12, 3)), rng.normal(size=(4, 3))
    points = KernelMap("rbf", {"gamma": 0.5})
    points = points.grow(X)
    A = rng.normal(size=(5, points.dimension))
    return MahalanobisMetric(A.T @ A, threshold=1.0, feature_names=["a", "b", "c"], steps=[points]), points, X, Y


def test_a_kernel_metric_measures_in_kernel_coordinates(kernel_case, tmp_path):
    metric, points, X, Y = kernel_case
    linear = MahalanobisMetric(metric.matrix)
    assert metric.n_features_in == 3
    assert metric.n_components == 5
    for method in ("pairwise", "distance", "similarity"):
        expected = getattr(linear, method)(points.apply(X[:4]), points.apply(Y))
        np.testing.assert_allclose(getattr(metric, method)(X[:4], Y), expected, atol=1e-12)
    np.testing.assert_allclose(metric.transform(Y), linear.transform(points.apply(Y)))
    np.testing.assert_array_equal(metric.rank(Y, X), np.argsort(metric.pairwise(Y, X), axis=1))
    explanation = metric.explain(X[0], Y[0])
    assert explanation.features is None
    np.testing.assert_allclose(explanation.directions.sum(), metric.distance(X[0], Y[0], squared=True))
    assert explanation.top(1)[0][0].startswith("direction")
    np.testing.assert_allclose(metric.truncate(5).pairwise(Y), metric.pairwise(Y))
    assert metric.truncate(2).steps == metric.steps
    assert metric.kernel == "rbf"
    assert repr(metric) == f"MahalanobisMetric({points.dimension}×{points.dimension}, threshold=1, kernel_map)"
    metric.save(tmp_path / "m")
    np.testing.assert_array_equal(Metric.load(tmp_path / "m").pairwise(X, Y), metric.pairwise(X, Y))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(metric)).pairwise(X, Y), metric.pairwise(X, Y))


def test_the_identity_in_kernel_coordinates_is_the_distance_in_feature_space():
    X = np.random.default_rng(4).normal(size=(15, 3))
    points = KernelMap("poly", {"degree": 2})
    points = points.grow(X)
    K = pairwise_kernels(X, metric="poly", degree=2)
    expected = np.add.outer(np.diag(K), np.diag(K)) - 2 * K
    np.testing.assert_allclose(
        MahalanobisMetric(np.eye(points.dimension), steps=[points]).pairwise(X, squared=True), expected, atol=1e-9
    )


def test_a_kernel_metric_is_a_snapshot(kernel_case):
    metric, points, X, Y = kernel_case
    before = metric.pairwise(X, Y)
    more = points.grow(Y)
    np.testing.assert_array_equal(metric.pairwise(X, Y), before)
    with pytest.raises(ValueError, match=f"matrix must have {more.dimension} rows, the coordinates"):
        MahalanobisMetric(metric.matrix, steps=[more])
    with pytest.raises(ValueError, match="x has 2 features, but this metric compares points of 3"):
        metric.distance([1.0, 2.0], [1.0, 2.0])


def test_a_kernel_metric_without_landmarks_is_zero():
    points = KernelMap("linear")
    points = points.grow(np.zeros((2, 3)))
    metric = MahalanobisMetric(np.zeros((0, 0)), steps=[points])
    assert (metric.n_components, metric.is_psd, metric.n_features_in) == (0, True, 3)
    np.testing.assert_array_equal(metric.pairwise(np.eye(3)), np.zeros((3, 3)))
    assert metric.distance([1, 2, 3], [0, 0, 0]) == 0.0
    assert metric.transform(np.eye(3)).shape == (3, 0)
    assert metric.sparsity == 0.0
    np.testing.assert_array_equal(metric.rank(np.eye(3), np.eye(3)), [[0, 1, 2]] * 3)


def test_a_metric_with_a_callable_kernel_cannot_be_saved(tmp_path):
    points = KernelMap(lambda A, B: A @ B.T)
    points = points.grow(np.eye(2))
    with pytest.raises(TypeError, match=r"must be None, .* got function"):
        MahalanobisMetric(np.eye(points.dimension), steps=[points]).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_parts_fit_inside_another_file(tmp_path, kernel_case):
    metric, _, X, Y = kernel_case
    header, arrays = metric.to_parts()
    write_model(tmp_path / "m", "learner", arrays | {"own": np.ones(3)}, {"metric": header})
    header, arrays = read_model(tmp_path / "m", "learner")
    np.testing.assert_array_equal(Metric.from_parts(header["metric"], arrays).pairwise(X, Y), metric.pairwise(X, Y))


@given(case=mahalanobis(indefinite=True), data=st.data())
def test_margins_are_those_of_the_definition(case, data):
    M, X, Y = case
    M = M / (np.abs(M).max() or 1.0)
    threshold = data.draw(st.none() | st.floats(-2.0, 2.0))
    metric = MahalanobisMetric(M, threshold)
    n = data.draw(st.integers(0, 5))
    rng = np.random.default_rng(n)
    left, right = rng.integers(0, len(X), size=(2, n))
    squared = brute_force(M, X, X)
    form = data.draw(st.sampled_from([np.asarray, np.asfortranarray, sp.csr_array]))
    margins = metric.margins(Pairs(form(X), left, right))
    assert margins.shape == (n,)
    np.testing.assert_allclose(margins, (threshold or 0.0) - squared[left, right], atol=1e-10)
    other = rng.integers(0, len(X), size=n)
    margins = metric.margins(Triplets(form(X), left, right, other))
    np.testing.assert_allclose(margins, squared[left, other] - squared[left, right], atol=1e-10)
    near, far = rng.integers(0, len(Y), size=(2, n))
    margins = metric.margins(Triplets(form(X), left, near, far, items=Y))
    apart = brute_force(M, X, Y)
    np.testing.assert_allclose(margins, apart[left, far] - apart[left, near], atol=1e-10)


def test_margins_are_those_of_distance_to_the_last_bit():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(7, 7))
    metric = MahalanobisMetric(A.T @ A, 2.0, steps=[Scales(rng.uniform(1.0, 2.0, size=7))])
    for X in (rng.normal(size=(50, 7)), rng.normal(size=(50, 7)).astype(np.float32), rng.integers(0, 9, size=(50, 7))):
        left, right = rng.integers(0, 50, size=(2, 200))
        expected = 2.0 - metric.distance(X[left], X[right], squared=True)
        np.testing.assert_array_equal(metric.margins(Pairs(X, left, right)), expected)
        one = metric.margins(Pairs(X, left, right)[7])
        assert (one.shape, one.dtype) == ((1,), np.float64)
        np.testing.assert_allclose(one, expected[7:8], rtol=1e-12)
        triplets = Triplets(X, left, right, right[::-1])
        np.testing.assert_allclose(metric.margins(triplets[7]), metric.margins(triplets)[7:8], rtol=1e-12)


def test_margins_take_few_rows_at_a_time(monkeypatch):
    # The rows of all pairs would take 32 MB.
    monkeypatch.setattr("mahala.metric.base.row_blocks", partial(row_blocks, most_bytes=2**20))
    X = np.ones((2, 100))
    pairs = Pairs(X, np.zeros(40_000, dtype=int), np.ones(40_000, dtype=int))
    tracemalloc.start()
    assert not MahalanobisMetric.euclidean(100).margins(pairs).any()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6


def test_margins_under_a_kernel(kernel_case):
    metric, _, X, Y = kernel_case
    pairs = Pairs(np.vstack([X, Y]), np.arange(4), 12 + np.arange(4))
    np.testing.assert_allclose(metric.margins(pairs), 1.0 - metric.distance(X[:4], Y, squared=True))


def test_bad_comparisons_are_named():
    metric = MahalanobisMetric.euclidean(3)
    with pytest.raises(TypeError, match="comparisons must be Pairs, Triplets or Quadruplets, got ndarray"):
        metric.margins(np.eye(3))
    with pytest.raises(ValueError, match="X has 2 features, but this metric compares points of 3"):
        metric.margins(Pairs(np.eye(2), [0], [1]))
    with pytest.raises(ValueError, match="items has 2 features, but this metric compares points of 3"):
        metric.margins(Triplets(np.eye(3), [0], [1], [0], items=np.eye(2)))


def test_quadruplets_and_directions(tmp_path):
    rng = np.random.default_rng(0)
    X, L = rng.normal(size=(6, 3)), rng.normal(size=(3, 3))
    X[5] = 0.0
    unit = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    quadruplets = Quadruplets(X, [0, 1], [2, 5], [3, 3], [4, 0])
    for directions, rows in ((False, X), (True, unit)):
        metric = MahalanobisMetric(L.T @ L, steps=[UnitRows()] * directions)
        squared = lambda i, j, rows=rows: np.sum((L @ (rows[i] - rows[j])) ** 2)  # noqa: E731
        expected = [squared(3, 4) - squared(0, 2), squared(3, 0) - squared(1, 5)]
        np.testing.assert_allclose(metric.margins(quadruplets), expected)
        assert metric.distance(X[0], X[1], squared=True) == pytest.approx(squared(0, 1))
        np.testing.assert_allclose(metric.pairwise(sp.csr_array(X), squared=True)[0, 1], squared(0, 1))
        metric.save(tmp_path / "metric.safetensors")
        loaded = MahalanobisMetric.load(tmp_path / "metric.safetensors")
        np.testing.assert_array_equal(loaded.transform(X), metric.transform(X))
        assert [step.kind for step in loaded.steps] == ["unit_rows"] * directions


def test_steps_are_applied_in_their_order_and_kept(tmp_path):
    rng = np.random.default_rng(0)
    X, L = rng.normal(size=(6, 3)), rng.normal(size=(3, 3))
    scales = Scales([1.0, 10.0, 0.1])
    learned = MahalanobisMetric(L.T @ L, 1.0)
    metric = learned.after(UnitRows()).after(scales)
    rows = X / scales.scales
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert repr(metric) == "MahalanobisMetric(3×3, threshold=1, scales, unit_rows)"
    np.testing.assert_allclose(metric.pairwise(X), cdist(unit @ L.T, unit @ L.T))
    np.testing.assert_allclose(metric.plain().pairwise(X), cdist(unit, unit))
    swapped = learned.after(UnitRows(), scales)
    assert np.abs(swapped.pairwise(X) - metric.pairwise(X)).max() > 0.1
    for each in (metric, swapped):
        each.save(tmp_path / "m")
        for again in (Metric.load(tmp_path / "m"), pickle.loads(pickle.dumps(each))):
            assert [step.kind for step in again.steps] == [step.kind for step in each.steps]
            np.testing.assert_array_equal(again.pairwise(X), each.pairwise(X))


def test_few_comparisons_of_many_features_need_no_eigenvalues(monkeypatch):
    rng = np.random.default_rng(0)
    X, L = rng.normal(size=(5, 30)), rng.normal(size=(4, 30))
    triplets = Triplets(X, [0, 1], [2, 3], [4, 4])
    expected = MahalanobisMetric(L.T @ L).margins(triplets)
    monkeypatch.setattr(module, "_MANY_FEATURES", 20)
    metric = MahalanobisMetric(L.T @ L)
    np.testing.assert_allclose(metric.margins(triplets), expected, rtol=1e-9)
    np.testing.assert_allclose(metric.margins(triplets[:1]), expected[:1], rtol=1e-9)
    assert "_decomposition" not in vars(metric)


def test_what_float32_cannot_hold_is_refused():
    metric = MahalanobisMetric(1e6 * np.eye(2))
    X = np.full((1, 2), 1e37, dtype=np.float32)
    with pytest.raises(ValueError, match="the rows of X must be float64"):
        metric.transform(X)
    np.testing.assert_allclose(metric.transform(X.astype(np.float64)), 1e40, rtol=1e-6)


@pytest.mark.parametrize(
    "steps", [[], [Scales([1.0, 2.0, 4.0])], [UnitRows()], [KernelMap("linear").grow(np.eye(4, 3))]]
)
def test_two_vectors_are_compared_as_their_rows_are(steps):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(3, 3))
    metric, (x, x2) = MahalanobisMetric(A @ A.T, steps=steps), rng.normal(size=(2, 3))
    expected = metric.distance(x[np.newaxis], x2[np.newaxis])[0]
    assert metric.distance(x, x2) == pytest.approx(expected, rel=1e-12)
    assert metric.distance(x.tolist(), x2.astype(np.float32)) == pytest.approx(expected, rel=1e-5)
    cases = (np.full(3, np.nan), "x2 contains NaN"), (np.full(3, 1e46), "x2 has values"), (x[:2], "x2 has 2")
    for wrong, message in cases:
        with pytest.raises(ValueError, match=message):
            metric.distance(x, wrong)


@pytest.mark.parametrize("rank", [1, 20])
def test_a_matrix_of_low_rank_is_decomposed_without_its_zero_directions(rank):
    """In a fraction of the time, and like any other one."""
    rng = np.random.default_rng(0)
    L = rng.normal(size=(rank, 300)) * np.geomspace(1.0, 1e-3, rank)[:, np.newaxis]
    metric = MahalanobisMetric(L.T @ L)
    values = np.linalg.eigvalsh(L @ L.T)[::-1]
    assert metric.spectrum.shape == (300,)
    assert metric.n_components == rank
    assert metric.is_psd
    np.testing.assert_allclose(metric.spectrum[:rank], values, rtol=1e-6, atol=1e-12 * values[0])
    np.testing.assert_allclose(metric.components.T @ metric.components, metric.matrix, atol=1e-12 * values[0])
    x, y = rng.normal(size=(2, 300))
    explained = metric.explain(x, y)
    assert explained.directions.shape == (300,)
    assert explained.directions.sum() == pytest.approx(np.square(L @ (x - y)).sum())
    assert metric.distance(x, y) == pytest.approx(np.linalg.norm(L @ (x - y)))


def test_indefinite_matrices_and_those_of_full_rank_are_not_taken_for_low_rank():
    rng = np.random.default_rng(0)
    L = rng.normal(size=(3, 300))
    for M in (np.eye(300) + L.T @ L, L.T @ L - np.outer(L[0], L[0]) * 3.0, L.T @ (np.diag([1.0, 1.0, -1.0]) @ L)):
        symmetric = (M + M.T) / 2.0
        metric = MahalanobisMetric(symmetric)
        np.testing.assert_allclose(metric.spectrum, np.linalg.eigvalsh(symmetric)[::-1], atol=1e-9)
    assert not metric.is_psd

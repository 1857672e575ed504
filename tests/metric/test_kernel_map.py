from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import pairwise_kernels

from mahala.metric.kernel_map import KernelMap
from mahala.metric.steps import Step
from mahala.support.model_files import ModelFileError, read_model, write_model
from mahala.support.states import build, to_parts
from strategies import examples

NAMED = [
    ("linear", {}),
    ("rbf", {}),
    ("rbf", {"gamma": 0.3}),
    ("poly", {"degree": 2, "coef0": 1.0}),
    ("poly", {"gamma": 0.5, "degree": 3, "coef0": 0.1}),
    ("cosine", {}),
]


@st.composite
def point_sets(draw):
    """Points with duplicates, zero vectors, dependent features and features of other scales."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, 40)), draw(st.integers(1, 6))
    X = rng.normal(size=(n, d))
    if draw(st.booleans()):
        X = rng.normal(size=(n, 1)) @ rng.normal(size=(1, d))
    if draw(st.booleans()):
        X = np.round(X)
    if draw(st.booleans()):
        X = X[rng.integers(0, max(1, n // 3), size=n)]
    X[rng.random(n) < draw(st.sampled_from([0.0, 0.3]))] = 0.0
    return X * draw(st.sampled_from([1e-8, 1.0, 1e8]))


def squared_distances(kernel, params, X):
    """‖φ(x) - φ(y)‖² by the definition, in extended precision and without a kernel map."""
    X = X.astype(np.longdouble)
    if kernel == "cosine":
        lengths = np.sqrt((X**2).sum(axis=1, keepdims=True))
        X = X / np.where(lengths == 0, 1, lengths)
    if kernel in ("linear", "cosine", "rbf"):
        D = ((X[:, None] - X[None]) ** 2).sum(axis=2)
        return D if kernel != "rbf" else -2 * np.expm1(-D * params.get("gamma", 1 / X.shape[1]))
    K = (params.get("gamma", 1 / X.shape[1]) * (X @ X.T) + params["coef0"]) ** params["degree"]
    return np.diag(K)[:, None] + np.diag(K) - 2 * K


def distance_error(points, X, expected):
    """The largest error of squared distances between coordinates, as a share of the largest distance."""
    Z = points.apply(X)
    return np.abs(cdist(Z, Z, "sqeuclidean") - expected).max() / (expected.max() or 1)


def relative(K):
    """Inner products relative to the first point."""
    return K - K[:, :1] - K[:1] + K[0, 0]


def grown(kernel, params, X, pieces=1):
    result = KernelMap(kernel, params)
    for piece in np.array_split(np.arange(X.shape[0]), pieces):
        result = result.grow(X, piece)
    return result


@given(X=point_sets(), offset=st.sampled_from([0.0, 1e4, 1e6]), form=st.sampled_from([np.asarray, sp.csr_array]))
def test_linear_coordinates_keep_distances(X, offset, form):
    X = X + offset * max(1.0, np.abs(X).max())
    points = grown("linear", None, form(X))
    assert distance_error(points, form(X), squared_distances("linear", {}, X)) < 1e-9
    differences = X[1:] - X[0]
    largest = np.linalg.norm(differences, axis=1).max(initial=0.0)
    assert points.dimension >= np.linalg.matrix_rank(differences, tol=1e-4 * largest)
    # More landmarks than dimensions are taken only where the first ones lie badly, and then not many.
    assert points.dimension <= min(len(X) - 1, 2 * X.shape[1])


@pytest.mark.parametrize(("pieces", "form"), [(1, sp.csr_array), (7, np.asarray), (40, sp.csr_array)])
@pytest.mark.parametrize(("columns", "offset"), [(slice(None), 1e4), (slice(1), 1e6), (slice(None), 1e6)])
def test_an_offset_costs_the_linear_kernel_no_digits(offset, columns, form, pieces):
    X = np.random.default_rng(12).normal(size=(40, 5))
    X[:, columns] += offset
    points = grown("linear", None, form(X), pieces)
    assert points.dimension == 5
    Z = points.apply(form(X))
    np.testing.assert_allclose(cdist(Z, Z), cdist(X, X), rtol=1e-10)


@pytest.mark.parametrize(
    ("kernel", "params", "scale", "offset"),
    [
        ("rbf", {"gamma": 1e-10}, 1.0, 0.0),
        ("rbf", {}, 1e-6, 0.0),
        ("rbf", {}, 1.0, 1e6),
        ("cosine", {}, 1.0, 1e3),
        ("poly", {"degree": 2, "coef0": 1.0}, 1.0, 10.0),
    ],
)
@pytest.mark.parametrize("pieces", [1, 60])
def test_close_points_keep_their_distances(kernel, params, scale, offset, pieces):
    X = np.random.default_rng(13).normal(size=(60, 3)) * scale + offset
    Z = grown(kernel, params, X, pieces).apply(X)
    expected = squared_distances(kernel, params, X).astype(float)
    np.testing.assert_allclose(cdist(Z, Z, "sqeuclidean"), expected, rtol=1e-8)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("gamma", [1e-6, 1e-2, 1.0, 30.0])
def test_rbf_inner_products_near_and_far_from_the_origin(gamma, form):
    rng = np.random.default_rng(14)
    X = rng.normal(size=(40, 3)) * 10.0 ** rng.uniform(-5, 2, size=(40, 1))
    K = np.exp(-gamma * ((X[:, None] - X[None]).astype(np.longdouble) ** 2).sum(axis=2))
    Z = grown("rbf", {"gamma": gamma}, form(X)).apply(form(X))
    lengths = np.sqrt(np.diag(relative(K)))
    lengths[0] = 1.0
    np.testing.assert_allclose(
        Z @ Z.T / np.outer(lengths, lengths), relative(K) / np.outer(lengths, lengths), atol=1e-9
    )


@pytest.mark.parametrize(("kernel", "params"), NAMED)
@given(X=point_sets().filter(lambda X: np.abs(X).max() < 100))
@examples(12)
def test_coordinates_reproduce_the_kernel_on_the_points_grown_over(kernel, params, X):
    points = grown(kernel, params, X)
    Z = points.apply(X)
    K = pairwise_kernels(X, metric=kernel, **params)
    np.testing.assert_allclose(Z @ Z.T, relative(K), atol=1e-8 * np.abs(K).max())
    np.testing.assert_allclose(Z[0], 0.0, atol=1e-8 * np.sqrt(K[0, 0]))
    before = points.dimension
    assert before < len(X)
    points = points.grow(X[::-1])  # points of the span bring nothing new
    assert points.dimension == before


@pytest.mark.parametrize(("kernel", "params"), NAMED)
def test_splitting_the_points_over_calls_changes_nothing(kernel, params):
    X = np.random.default_rng(15).normal(size=(60, 4))
    expected = squared_distances(kernel, params, X)
    for split in (1, 6, 60):
        assert distance_error(grown(kernel, params, X, split), X, expected) < 1e-10


@given(X=point_sets(), pieces=st.integers(1, 12))
def test_splitting_adversarial_points_over_calls_changes_nothing(X, pieces):
    expected = squared_distances("rbf", {"gamma": 1.0}, X)
    for split in (1, pieces):
        points = grown("rbf", {"gamma": 1.0}, X, split)
        assert distance_error(points, X, expected) < 1e-8


def test_well_separated_points_become_landmarks_in_their_order_however_split():
    X = np.random.default_rng(0).normal(size=(700, 12))  # more than two blocks
    factor = np.linalg.cholesky(relative(pairwise_kernels(X, metric="rbf"))[1:, 1:])
    for pieces in (1, 3, 70):
        points = grown("rbf", None, X, pieces)
        assert points.dimension == 699
        Z = points.apply(X)
        np.testing.assert_array_equal(Z[0], 0.0)
        np.testing.assert_allclose(Z[1:], factor, atol=1e-9)


def test_growing_keeps_the_coordinates_of_earlier_points():
    X = np.random.default_rng(1).normal(size=(60, 8))
    points = grown("rbf", None, X[:40])
    before = points.apply(X[:40])
    points = points.grow(X[40:])
    after = points.apply(X[:40])
    np.testing.assert_allclose(after[:, : before.shape[1]], before, atol=1e-10)
    np.testing.assert_allclose(after[:, before.shape[1] :], 0.0, atol=1e-10)


def test_new_points_are_projected_on_the_span():
    rng = np.random.default_rng(2)
    X, new = rng.normal(size=(5, 9)), rng.normal(size=(20, 9))
    points = grown("linear", None, X)
    span = X[1:] - X[0]
    projection = (new - X[0]) @ np.linalg.pinv(span) @ span
    Z = points.apply(new)
    np.testing.assert_allclose(Z @ Z.T, projection @ projection.T, atol=1e-10)
    np.testing.assert_allclose(Z @ points.apply(X).T, (new - X[0]) @ (X - X[0]).T, atol=1e-10)


@pytest.mark.parametrize(
    ("kernel", "params"), [("rbf", {}), ("rbf", {"gamma": 0.01}), ("poly", {"degree": 6, "coef0": 1})]
)
def test_points_in_order_along_a_curve_do_not_pile_up_rounding(kernel, params):
    t = np.linspace(0, 5, 1000)[:, None]
    X = np.hstack([t, t**2, np.sin(t)])
    Z, K = grown(kernel, params, X).apply(X), relative(pairwise_kernels(X, metric=kernel, **params))
    lengths = np.sqrt(np.diag(K))
    lengths[0] = 1.0
    assert np.abs((Z @ Z.T - K) / np.outer(lengths, lengths)).max() < 1e-6


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_far_off_duplicates_are_duplicates(form, scale):
    X = np.random.default_rng(3).normal(size=(30, 4)) * scale + 1e7
    assert grown("rbf", None, form(np.vstack([X, X, X]))).dimension == 29


@pytest.mark.parametrize(("kernel", "params"), NAMED)
def test_sparse_and_narrow_input_give_the_same_coordinates(kernel, params):
    rng = np.random.default_rng(4)
    X = np.where(rng.random((50, 12)) < 0.3, rng.integers(-4, 5, size=(50, 12)), 0).astype(float)
    dense = grown(kernel, params, X)
    expected = dense.apply(X)
    for other in (sp.csr_matrix(X), sp.csr_array(X), X.astype(np.float32), X.astype(np.int8)):
        points = grown(kernel, params, other)
        assert ("anchors.indptr" in to_parts(points)[1]) == sp.issparse(other)
        np.testing.assert_allclose(points.apply(other), expected, atol=1e-6)
        np.testing.assert_allclose(points.apply(X), expected, atol=1e-6)
        np.testing.assert_allclose(dense.apply(other), expected, atol=1e-6)
        mixed = grown(kernel, params, X[:20])
        mixed = mixed.grow(other[20:])
        np.testing.assert_allclose(mixed.apply(other), expected, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_precomputed_kernel_equals_the_kernel_itself(dtype):
    rng = np.random.default_rng(5)
    X, new = rng.normal(size=(40, 6)), rng.normal(size=(7, 6))
    rows = rng.permutation(40)[:25]
    named, precomputed = KernelMap("rbf"), KernelMap("precomputed")
    named = named.grow(X, rows)
    K = pairwise_kernels(X, metric="rbf").astype(dtype)
    for piece in (rows[:10], rows[10:], rows[:5]):
        precomputed = precomputed.grow(K, piece)
    assert precomputed.n_features_in == 40
    anchors = to_parts(precomputed)[1]["anchors"]
    assert anchors[0] == rows[0]
    assert sorted(anchors.tolist()) == sorted(rows.tolist())
    values = pairwise_kernels(new, X, metric="rbf").astype(dtype)
    Z, expected = precomputed.apply(values), named.apply(new)
    np.testing.assert_allclose(Z @ Z.T, expected @ expected.T, atol=1e-9 if dtype == np.float64 else 1e-3)
    rows[:] = 0  # the caller may go on to use the array
    np.testing.assert_array_equal(precomputed.apply(values), Z)


def test_a_callable_kernel_sees_blocks_of_rows():
    X = np.random.default_rng(6).normal(size=(600, 3))
    points = grown(lambda A, B: (A @ B.T + 1) ** 2, None, X)
    assert points.dimension == 9
    Z, K = points.apply(X), (X @ X.T + 1) ** 2
    np.testing.assert_allclose(Z @ Z.T, relative(K), atol=1e-10 * K.max())


def test_a_kernel_of_differences_only_will_do():
    """-‖x - y‖² is no inner product, but of differences of points it is one."""
    X = np.random.default_rng(16).normal(size=(50, 3))
    points = grown(lambda A, B: -cdist(A, B, "sqeuclidean"), None, X)
    assert points.dimension == 3
    assert distance_error(points, X, 2 * squared_distances("linear", {}, X)) < 1e-12


def test_each_point_is_looked_at_once_where_all_are_far_apart():
    blocks = []

    def kernel(A, B):
        blocks.append((len(A), len(B)))
        return A @ B.T

    KernelMap(kernel).grow(np.eye(300))
    assert blocks == [(1, 1), (256, 256), (256, 1), (44, 44), (44, 256)]


def test_the_rounding_of_narrow_kernel_values_is_not_taken_for_directions():
    X = np.random.default_rng(11).normal(size=(300, 3))
    points = KernelMap("precomputed")
    points = points.grow((X @ X.T).astype(np.float32))
    assert points.dimension == 3


@pytest.mark.parametrize(
    ("kernel", "params"), [*NAMED, (lambda A, B: np.tanh(A[:, :1] + 1) * np.tanh(B[:, 0] + 1), {})]
)
@pytest.mark.parametrize("x", [[0.0, 0.0, 0.0], [0.1, -0.7, 1e3]])
@pytest.mark.parametrize("n", [1, 300])
def test_points_that_coincide_give_a_map_without_coordinates(kernel, params, x, n):
    points = grown(kernel, params, np.tile(x, (n, 1)))
    assert points.dimension == 0
    assert points.apply(np.ones((4, 3))).shape == (4, 0)
    points = points.grow([[0.5, -0.2, 10.0]])
    assert points.dimension == 1


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_points_in_one_direction_coincide_under_the_cosine(form):
    rng = np.random.default_rng(17)
    X = rng.uniform(0.1, 10, size=(100, 1)) * rng.normal(size=7)
    points = grown("cosine", None, form(X))
    assert points.dimension == 0
    points = points.grow(form(-X))
    assert points.dimension == 1


def test_points_that_coincide_can_be_kept():
    points = grown("poly", {"coef0": 2.0}, np.full((3, 2), 0.3))
    read = build(Step, *to_parts(points))
    assert read.apply(np.ones((4, 2))).shape == (4, 0)
    more = [each.grow(np.eye(2)).apply(np.eye(2)) for each in (points, read)]
    np.testing.assert_array_equal(*more)


def sigmoid(A, B):
    return np.tanh(A @ B.T - 1)


@pytest.mark.parametrize(
    ("kernel", "match"),
    [
        (lambda A, B: -(A @ B.T), "kernel must be positive semi-definite"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "kernel must return finite values"),
        (lambda A, B: A @ B.T + np.inf, "kernel must return finite values"),
        (lambda A, B: np.ones(3), r"kernel must return a value for each pair, a 1×1 matrix, got shape \(3,\)"),
        (lambda A, B: "no", "kernel must return"),
        (lambda A, B: (A @ B.T) * 1j, "kernel must return real numbers"),
        (lambda A, B: A @ B.T + np.arange(len(B)), "kernel must be symmetric"),
        (lambda A, B: 1.0 - 5 * (A @ B.T > 0), "kernel must be positive semi-definite"),
        (lambda A, B: 1.0 + 100 * (np.abs(A @ B.T) < 1), "kernel must be positive semi-definite"),
    ],
)
def test_bad_kernels_are_named_and_leave_the_map_as_it_was(kernel, match):
    X = np.random.default_rng(7).normal(size=(20, 3))
    points = KernelMap(kernel)
    with pytest.raises(ValueError, match=match):
        points.grow(X)
    assert points.dimension == 0
    assert points.n_features_in is None


def test_a_failure_in_a_later_block_undoes_the_earlier_ones():
    calls = []

    def failing(A, B):
        calls.append(len(A))
        if len(calls) > 3:
            raise OSError("the disk is full")
        return A @ B.T

    points = KernelMap(failing)
    with pytest.raises(OSError, match="disk is full"):
        points.grow(np.random.default_rng(8).normal(size=(1000, 3)))
    assert points.dimension == 0
    assert points.n_features_in is None


@pytest.mark.parametrize(
    ("kernel", "params", "X"),
    [
        ("poly", {}, np.eye(3) * 1e30),
        ("poly", {"degree": 2}, np.eye(2) * 1e45),
        ("poly", {"degree": 2}, sp.csr_array(np.eye(2) * 1e45)),
        ("linear", {}, np.full((1, 2), 1e45)),
        (lambda A, B: 1e150 * (A @ B.T), {}, np.eye(2)),
    ],
)
def test_kernel_values_too_large_to_learn_from_are_refused(kernel, params, X):
    points = grown(kernel, params, X * 0)
    before = points.__dict__.copy()
    with pytest.raises(ValueError, match=r"kernel has values as large as .* scale the features"):
        points.grow(X)
    assert points.__dict__ == before


@pytest.mark.parametrize(
    ("kernel", "params", "match"),
    [
        ("gauss", {}, "kernel must be one of"),
        (3, {}, "kernel must be one of"),
        (["rbf"], {}, "kernel must be one of"),
        ("rbf", {"degree": 2}, r"kernel 'rbf' takes \['gamma'\], got 'degree'"),
        ("linear", {"gamma": 1}, "takes no parameters.* in kernel_params"),
        (np.inner, {"gamma": 1}, "takes no parameters"),
        ("rbf", {"gamma": "scale"}, r"kernel_params\['gamma'\] must be a number of at least 0 or None"),
        ("rbf", {"gamma": np.inf}, "at least 0 or None, got inf"),
        ("rbf", {"gamma": True}, "at least 0 or None, got True"),
        ("rbf", {"gamma": -1.0}, "must be a number of at least 0 or None"),
        ("poly", {"degree": 0}, "at least 1"),
        ("poly", {"coef0": None}, "finite"),
    ],
)
def test_bad_parameters_are_refused(kernel, params, match):
    with pytest.raises(ValueError, match=match):
        KernelMap(kernel, params)


@pytest.mark.parametrize("params", ["gamma", 0, [("gamma", 1.0)], 2.0, ()])
def test_parameters_must_be_a_dict(params):
    with pytest.raises(TypeError, match="kernel_params must be a dict or None, got "):
        KernelMap("rbf", params)


def test_bad_points_are_refused():
    points = grown("linear", None, np.eye(3))
    with pytest.raises(ValueError, match="X has 2 features, but this kernel map maps points of 3"):
        points.grow(np.eye(2))
    with pytest.raises(ValueError, match="X has 2 features"):
        points.apply(np.eye(2))
    with pytest.raises(ValueError, match="NaN"):
        points.grow(np.full((1, 3), np.nan))
    with pytest.raises(ValueError, match="rows must hold row numbers from 0 to 2, got 3"):
        points.grow(np.eye(3), [3])
    with pytest.raises(ValueError, match="2D"):
        points.grow(np.ones(3))
    with pytest.raises(ValueError, match="call grow first"):
        KernelMap("rbf").apply(np.eye(3))
    with pytest.raises(ValueError, match="square kernel matrix"):
        KernelMap("precomputed").grow(np.ones((3, 2)))
    with pytest.raises(ValueError, match="finite values"):
        KernelMap("poly", {"degree": 9}).grow(np.full((2, 2), 1e44))


def test_a_map_never_changes():
    X = np.random.default_rng(9).normal(size=(20, 5))
    points = grown("rbf", None, X[:10])
    expected = points.apply(X)
    more = points.grow(X[10:])
    assert (points.dimension, more.dimension) == (9, 19)
    np.testing.assert_array_equal(points.apply(X), expected)
    np.testing.assert_array_equal(points.apply(X[3]), points.apply(X[3:4])[0])
    for array in [*to_parts(points)[1].values(), *to_parts(more)[1].values()]:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 7.0


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(("kernel", "params"), [*NAMED, ("precomputed", {})])
def test_files_keep_the_map_exactly(tmp_path, kernel, params, form):
    X = np.random.default_rng(10).normal(size=(25, 4))
    X = form(X @ X.T if kernel == "precomputed" else X)
    points = grown(kernel, params, X[:15] if kernel != "precomputed" else X)
    header, arrays = to_parts(points)
    write_model(tmp_path / "m", "metric", arrays, header)
    read = build(Step, *read_model(tmp_path / "m"))
    np.testing.assert_array_equal(read.apply(X), points.apply(X))
    read = read.grow(X)
    points = points.grow(X)
    np.testing.assert_array_equal(read.apply(X), points.apply(X))


@pytest.mark.parametrize(
    ("header_change", "array_change", "match"),
    [
        ({"kernel": "gauss"}, {}, "kernel must be one of"),
        ({"kernel": 3}, {}, "'kernel' should be str"),
        ({"params": {"gamma": 1}}, {}, "takes no parameters"),
        ({"n_features_in": None}, {}, "'n_features_in' should be int"),
        ({"n_features_in": 3}, {}, "damaged|shape"),
        ({"n_features_in": -4}, {}, "an integer from 0"),
        ({}, {"factor": np.eye(4)[:3]}, "do not fit together"),
        ({}, {"factor": np.ones((4, 4))}, "lower triangular"),
        ({}, {"factor": np.eye(4) * np.nan}, "'factor' holds NaN or infinity"),
        ({}, {"factor": np.zeros((4, 4))}, "positive diagonal"),
        ({}, {"factor": np.eye(4, dtype=np.float32)}, "should be float64"),
        ({}, {"factor": np.eye(3)}, "shape"),
        ({}, {"with_origin": np.zeros(4)}, "shape"),
        ({}, {"with_origin": np.full(5, np.nan)}, "'with_origin' holds NaN or infinity"),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_damaged_parts_are_refused(header_change, array_change, match, form):
    header, arrays = to_parts(grown("linear", None, form(np.eye(5, 4))))
    with pytest.raises(ValueError, match=match):
        build(Step, header | header_change, arrays | array_change)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("anchors.indices", np.array([0, 1, 2, 99])),
        ("anchors.indices", np.array([0, 1, 2, -1])),
        ("anchors.indptr", np.array([0, 1, 2, 3, 99])),
        ("anchors.indptr", np.array([0, 3, 2, 3, 4])),
        ("anchors.indptr", np.array([0, 10**9, 2, 3, -1])),
        ("anchors.indptr", np.array([0, 1, 2, 3, 3])),
        ("anchors.data", np.array([1.0, np.inf, 1.0, 1.0])),
    ],
)
def test_damaged_sparse_landmarks_are_refused(name, value):
    header, arrays = to_parts(grown("linear", None, sp.csr_matrix(np.eye(4))))
    with pytest.raises(ModelFileError, match=r"sparse anchors is damaged|'anchors' holds NaN"):
        build(Step, header, arrays | {name: value.astype(arrays[name].dtype)})


@pytest.mark.parametrize("indices", [[1, 0, 2, 3], [1, 1, 2, 3]])
def test_untidy_sparse_landmarks_are_refused(indices):
    header, arrays = to_parts(grown("linear", None, sp.csr_matrix(np.eye(4))))
    untidy = {"indices": np.array(indices, dtype=np.int32), "indptr": np.array([0, 2, 2, 3, 4], dtype=np.int32)}
    with pytest.raises(ModelFileError, match="anchors is damaged: indices should be sorted"):
        build(Step, header, arrays | {f"anchors.{part}": array for part, array in untidy.items()})


def test_damaged_column_numbers_are_refused():
    header, arrays = to_parts(grown("precomputed", None, np.eye(4)))
    with pytest.raises(ValueError, match="anchors must be numbers of columns, up to 4"):
        build(Step, header, arrays | {"anchors": np.array([0, 1, 2, 4])})


@pytest.mark.parametrize("chunks", [1, 4, 20, 120])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 10.0])
def test_points_along_a_curve_in_order(gamma, chunks):
    t = np.linspace(0.0, 6.0, 120)
    X = np.column_stack([np.cos(t), np.sin(t)])
    points = KernelMap("rbf", {"gamma": gamma})
    for part in np.array_split(X, chunks):
        points = points.grow(part)
    Z = points.apply(X)
    expected = 2.0 - 2.0 * np.exp(-gamma * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    np.testing.assert_allclose(np.sum((Z[:, None] - Z[None]) ** 2, axis=2), expected, rtol=0, atol=1e-9)

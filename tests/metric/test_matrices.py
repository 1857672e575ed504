"""Metrics whose M is sparse: they do what the same M does as a dense one, and never make it one."""

from __future__ import annotations

import copy
import json
import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mahala.metric.matrices
from mahala import BilinearMetric, MahalanobisMetric, Metric
from mahala.metric.matrices import leading
from mahala.support.model_files import ModelFileError, read_model, write_model


@st.composite
def sparse_matrices(draw):
    """A matrix in whole numbers, exact in float32 too, in any of SciPy's formats, and the dense one it stands for."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    dense = rng.integers(-3, 4, size=shape) * (rng.random(shape) < draw(st.sampled_from([0.0, 0.3, 1.0])))
    number = draw(st.sampled_from([np.float32, np.float64, np.int8, np.int64]))
    form = draw(
        st.sampled_from(["csr_matrix", "csr_array", "csc_array", "coo_array", "lil_array", "unsorted", "pieces"])
    )
    if form == "unsorted":
        matrix = sp.csr_array(dense.astype(number))
        for start, stop in zip(matrix.indptr, matrix.indptr[1:], strict=False):
            matrix.indices[start:stop] = matrix.indices[start:stop][::-1].copy()
            matrix.data[start:stop] = matrix.data[start:stop][::-1].copy()
    elif form == "pieces":
        # Each entry in two pieces, which may add up to zero, and explicit zeros.
        first = rng.integers(-2, 3, size=shape)
        indptr = np.arange(shape[0] + 1) * 2 * shape[1]
        columns = np.concatenate([np.tile(np.arange(shape[1]), 2)] * shape[0])
        data = np.concatenate([np.concatenate([a, b]) for a, b in zip(first, dense - first, strict=True)])
        matrix = sp.csr_array((data.astype(number), columns, indptr), shape=shape)
    else:
        matrix = getattr(sp, form)(dense.astype(number))
    if matrix.format == "csr" and draw(st.booleans()):
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix, dense.astype(float)


@given(case=sparse_matrices(), seed=st.integers(0, 2**32 - 1), forms=st.tuples(st.booleans(), st.booleans()))
def test_a_sparse_matrix_measures_as_the_dense_one(case, seed, forms):
    matrix, M = case
    rng = np.random.default_rng(seed)
    metric = BilinearMetric(matrix)
    d, e = M.shape
    X, Y = rng.integers(-2, 3, size=(4, d)), rng.integers(-2, 3, size=(4, e))
    rows, items = (sp.csr_array(A) if sparse else A for A, sparse in zip((X, Y), forms, strict=True))
    expected = X @ M @ Y.T

    assert type(metric.matrix) is sp.csr_array
    assert metric.matrix.dtype == (np.float32 if matrix.dtype == np.float32 else np.float64)
    assert metric.matrix.has_canonical_format
    assert (metric.matrix.data != 0).all()
    np.testing.assert_array_equal(metric.matrix.toarray(), M)
    assert (metric.n_features_in, metric.sparsity) == (d, pytest.approx(np.mean(M == 0)))

    np.testing.assert_array_equal(metric.pairwise(rows, items), expected)
    np.testing.assert_array_equal(metric.similarity(rows, items), expected.diagonal())
    np.testing.assert_array_equal(metric.similarity(rows, Y[1]), expected[:, 1])
    np.testing.assert_array_equal(metric.similarity(X[2], items), expected[2])
    assert metric.similarity(X[2], Y[1]) == expected[2, 1]
    assert type(metric.similarity(X[2], Y[1])) is float
    embedded = metric.embed(rows)
    assert (sp.csr_array if forms[0] else np.ndarray) is type(embedded)
    np.testing.assert_array_equal(embedded.toarray() if forms[0] else embedded, X @ M)
    assert metric.embed(items, side="item") is items or not forms[1]
    np.testing.assert_array_equal(metric.rank(rows, items), np.argsort(-expected, axis=1, kind="stable"))

    explanation = metric.explain(X[0], Y[0])
    assert explanation.distance == expected[0, 0]
    np.testing.assert_array_equal(explanation.features, X[0] * (M @ Y[0]))
    assert explanation.directions is None


@pytest.mark.parametrize("size", [1, 100, 2**25])
def test_the_size_of_blocks_does_not_matter(size, monkeypatch):
    monkeypatch.setattr(mahala.metric.matrices, "BLOCK_BYTES", size)
    rng = np.random.default_rng(0)
    M = rng.normal(size=(8, 5)) * (rng.random((8, 5)) < 0.5)
    X, Y = rng.normal(size=(21, 8)), rng.normal(size=(21, 5))
    for metric in (BilinearMetric(M), BilinearMetric(sp.csr_array(M))):
        for rows, items in ((X, Y), (sp.csr_array(X), sp.csr_array(Y))):
            np.testing.assert_allclose(metric.pairwise(rows, items), X @ M @ Y.T, atol=1e-12)
            np.testing.assert_allclose(metric.similarity(rows, items), np.diag(X @ M @ Y.T), atol=1e-12)
            embedded = metric.embed(rows)
            np.testing.assert_allclose(embedded.toarray() if sp.issparse(embedded) else embedded, X @ M, atol=1e-12)


def test_what_is_not_canonical_is_left_as_it_is():
    matrix = sp.csr_array((np.array([1.0, 2.0, 0.0]), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    before = matrix.data.copy(), matrix.indices.copy()
    metric = BilinearMetric(matrix)
    np.testing.assert_array_equal(metric.matrix.toarray(), [[0.0, 3.0]])
    np.testing.assert_array_equal(matrix.data, before[0])
    np.testing.assert_array_equal(matrix.indices, before[1])
    matrix.data[0] = 9.0
    np.testing.assert_array_equal(metric.matrix.toarray(), [[0.0, 3.0]])


def test_zeros_are_not_kept():
    matrix = sp.csr_array((np.array([1.0, 0.0, 2.0]), np.array([0, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    metric = BilinearMetric(matrix)
    np.testing.assert_array_equal(metric.matrix.data, [1.0, 2.0])
    np.testing.assert_array_equal(metric.matrix.toarray(), [[1.0, 0.0], [2.0, 0.0]])
    assert matrix.nnz == 3


@pytest.mark.parametrize("number", [np.float32, np.float64])
@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix])
def test_what_is_canonical_is_not_copied_and_never_changes(number, form):
    matrix = form(np.array([[0.0, 1.5, 2.0], [0.5, 0.0, 0.0]], dtype=number))
    metric = BilinearMetric(matrix)
    assert metric.matrix is not matrix
    again = BilinearMetric(metric.matrix, origin={"learner": "OASIS"})
    for other in (metric, again, copy.copy(metric)):
        for name in ("data", "indices", "indptr"):
            assert np.shares_memory(getattr(other.matrix, name), getattr(matrix, name))
    for array in (matrix.data, matrix.indices, matrix.indptr):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7
    for other in (metric, copy.copy(metric), copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        np.testing.assert_array_equal(other.matrix.toarray(), [[0.0, 1.5, 2.0], [0.5, 0.0, 0.0]])
        assert other.matrix.dtype == number
        for array in (other.matrix.data, other.matrix.indices, other.matrix.indptr):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


@pytest.fixture
def traced():
    def run(function):
        function()  # compiles
        tracemalloc.start()
        function()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    return run


@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_neither_the_matrix_nor_its_products_are_made_dense(traced, number, monkeypatch):
    # A dense M would take 3.2 GB, a copy of its entries 8 to 16 MB, all rows times M 48 MB.
    monkeypatch.setattr(mahala.metric.matrices, "BLOCK_BYTES", 2**20)
    rng = np.random.default_rng(1)
    n = 20_000
    data, indices = rng.normal(size=100 * n).astype(number), np.tile(np.arange(0, n, n // 100), n)
    metric = BilinearMetric(sp.csr_array((data, indices, np.arange(0, 100 * n + 1, 100)), shape=(n, n)))
    X = sp.random_array((300, n), density=0.001, format="csr", random_state=rng)
    dense = X[:1].toarray()[0]
    for function in (
        lambda: metric.similarity(X, X),
        lambda: metric.similarity(X, dense),
        lambda: metric.similarity(dense, X),
        lambda: metric.similarity(dense, dense),
        lambda: metric.pairwise(X),
        lambda: metric.rank(X, X, k=3),
        lambda: metric.embed(X[:30]),
        lambda: metric.explain(dense, dense),
        lambda: BilinearMetric(metric.matrix),
        lambda: repr(metric),
    ):
        assert traced(function) < 8_000_000


def test_mahalanobis_matrices_are_dense():
    with pytest.raises(ValueError, match=r"matrix must be square, got shape \(2, 1000000000000\)"):
        MahalanobisMetric(sp.csr_array((2, 10**12)))
    metric = MahalanobisMetric(sp.csr_array(np.diag([4.0, 1.0]).astype(np.float32)))
    assert type(metric.matrix) is np.ndarray
    assert metric.matrix.dtype == np.float64
    assert metric.distance([1.0, 0.0], [0.0, 0.0]) == 2.0


def test_sparsity_of_dense_matrices_too():
    assert MahalanobisMetric.euclidean(4).sparsity == 0.75
    assert BilinearMetric(np.ones((2, 3))).sparsity == 0.0
    assert BilinearMetric(sp.csr_array((3, 4))).sparsity == 1.0
    assert repr(BilinearMetric(sp.eye_array(4))) == "BilinearMetric(4×4, sparsity=0.75)"
    assert repr(BilinearMetric(np.eye(4))) == "BilinearMetric(4×4)"


def test_explanations_name_the_features_of_the_query():
    metric = BilinearMetric(sp.csr_array([[0.0, 2.0], [0.0, 0.0], [3.0, 0.0]]), feature_names=["a", "b", "c"])
    explanation = metric.explain([1.0, 5.0, -1.0], [2.0, 1.0])
    assert explanation.distance == -4.0
    assert explanation.top() == [("c", -6.0), ("a", 2.0), ("b", 0.0)]
    with pytest.raises(ValueError, match="feature_names must have 3 names"):
        BilinearMetric(metric.matrix, feature_names=["a", "b"])


@pytest.mark.parametrize(
    ("matrix", "error", "match"),
    [
        (sp.csr_array([[np.nan, 1.0]]), ValueError, "matrix must be finite"),
        (sp.csr_array([[-np.inf, 1.0]]), ValueError, "matrix must be finite"),
        (sp.csr_array([[-1e220, 1.0]]), ValueError, "entries up to 1e\\+210, got 1e\\+220: distances overflow"),
        (sp.csr_array([[1j, 1.0]]), TypeError, "matrix must hold real numbers, got dtype complex128"),
        (sp.csr_array((0, 3)), ValueError, r"at least one row and one column, got shape \(0, 3\)"),
        (sp.csr_array((3, 0)), ValueError, r"at least one row and one column, got shape \(3, 0\)"),
        (sp.coo_array([1.0, 2.0]), ValueError, r"matrix must be 2-D, got shape \(2,\)"),
    ],
)
def test_bad_matrices_are_named(matrix, error, match):
    with pytest.raises(error, match=match):
        BilinearMetric(matrix)


@pytest.mark.parametrize("indices", [[0, 7], [-1, 0]])
def test_indices_out_of_range_are_refused(indices):
    matrix = sp.csr_array(np.ones((1, 2)))
    matrix.indices = np.array(indices, dtype=np.int32)
    with pytest.raises(ValueError, match="matrix must be a valid sparse matrix"):
        BilinearMetric(matrix)


def test_what_a_matrix_says_of_itself_is_not_believed():
    matrix = sp.csr_array((np.array([1.0, 2.0]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    matrix.has_canonical_format = True
    np.testing.assert_array_equal(BilinearMetric(matrix).matrix.indices, [0, 1])
    matrix = sp.csr_array(np.ones((2, 2)))
    matrix.indptr = np.array([0, 9, 4], dtype=np.int32)
    with pytest.raises(ValueError, match="matrix must be a valid sparse matrix"):
        BilinearMetric(matrix)
    for indptr in ([0, 2, 9], [0, 10**9, -1], [0, 10**9, 0]):
        matrix.indptr = np.array(indptr, dtype=np.int32)
        with pytest.raises(ValueError, match="matrix must be a valid sparse matrix"):
            BilinearMetric(matrix)


def test_what_needs_a_dense_matrix_says_how_to_get_one():
    metric = BilinearMetric(sp.eye_array(3))
    for use in (lambda: metric.spectrum, lambda: metric.n_components, lambda: metric.truncate(1)):
        with pytest.raises(ValueError, match=r"sparse: use BilinearMetric\(metric.matrix.toarray\(\)\)"):
            use()
    assert BilinearMetric(metric.matrix.toarray()).n_components == 3
    with pytest.raises(ValueError, match="X has 2 features, but this metric compares points of 3"):
        metric.embed(np.eye(2))


@given(case=sparse_matrices())
def test_files_keep_a_sparse_metric_exactly(tmp_path_factory, case):
    path = tmp_path_factory.mktemp("files") / "m"
    names = [f"word {i}" for i in range(case[1].shape[0])]
    metric = BilinearMetric(case[0], feature_names=names, origin={"learner": "OASIS"})
    metric.save(path)
    read = Metric.load(path)
    assert type(read.matrix) is sp.csr_array
    assert read.matrix.dtype == metric.matrix.dtype
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(read.matrix, name), getattr(metric.matrix, name))
        assert not getattr(read.matrix, name).flags.writeable
    assert (type(read), read.feature_names) == (BilinearMetric, tuple(names))
    assert (read.origin, repr(read)) == (metric.origin, repr(metric))


def test_parts_fit_inside_another_file(tmp_path):
    metric = BilinearMetric(sp.csr_array([[0.0, 1.0, 2.0]]))
    header, arrays = metric.to_parts()
    assert set(arrays) == {"matrix.data", "matrix.indices", "matrix.indptr"}
    assert json.loads(json.dumps(header))["shape"] == [1, 3]
    write_model(tmp_path / "m", "learner", {f"init.{key}": array for key, array in arrays.items()}, {"metric": header})
    header, arrays = read_model(tmp_path / "m", "learner")
    own = {key.removeprefix("init."): array for key, array in arrays.items()}
    np.testing.assert_array_equal(Metric.from_parts(header["metric"], own).matrix.toarray(), [[0.0, 1.0, 2.0]])


# The entries of [[0, 1, 2], [0, 0, 0], [3, 0, 4]] in CSR.
INDICES, INDPTR = np.array([1, 2, 0, 2]), np.array([0, 2, 2, 4])


@pytest.mark.parametrize(
    ("header_change", "array_change", "match"),
    [
        ({"shape": None}, {}, "'shape' should be list"),
        ({"shape": [3]}, {}, "is damaged"),
        ({"shape": [3, 3, 1]}, {}, "'shape' should be one or two lengths"),
        ({"shape": [3, "3"]}, {}, "'shape' should be one or two lengths"),
        ({"shape": [3, True]}, {}, "'shape' should be one or two lengths"),
        ({"shape": [3, -3]}, {}, "'shape' should be one or two lengths"),
        ({"shape": [0, 3]}, {}, "'shape' should be one or two lengths"),
        ({"shape": [3, 10**30]}, {}, "'shape' should be one or two lengths"),
        ({"shape": [3, 2]}, {}, "sparse matrix is damaged"),
        ({"shape": [2, 3]}, {}, "'matrix.indptr' should be int64 of shape 3"),
        ({"shape": [10**17, 3]}, {}, "'matrix.indptr' should be int64 of shape 100000000000000001"),
        ({"kind": "cosine"}, {}, "'kind' should be 'bilinear' or 'mahalanobis', found 'cosine'"),
        ({"kind": "mahalanobis"}, {}, "'matrix' is missing"),
        ({"kind": "mahalanobis", "shape": [3, 10**12]}, {}, "'matrix' is missing"),
        ({"feature_names": ["a"]}, {}, "must have 3 names"),
        ({}, {"matrix.data": np.ones(3)}, "'matrix.indices' should be int64 of shape 3"),
        ({}, {"matrix.data": np.ones((4, 1))}, "'matrix.data' should be float64"),
        ({}, {"matrix.data": np.ones(4, dtype=np.int64)}, "'matrix.data' should be float64"),
        ({}, {"matrix.data": np.array([1.0, np.nan, 3.0, 4.0])}, "'matrix' holds NaN"),
        ({}, {"matrix.data": np.array([1.0, np.inf, 3.0, 4.0], dtype=np.float32)}, "'matrix' holds NaN"),
        ({}, {"matrix.data": np.full(4, 1e220)}, "distances overflow"),
        ({}, {"matrix.indices": np.array([1, 3, 0, 2])}, "sparse matrix is damaged"),
        ({}, {"matrix.indices": np.array([1, 2, -1, 2])}, "sparse matrix is damaged"),
        ({}, {"matrix.indices": np.array([1, 2**62, 0, 2])}, "sparse matrix is damaged"),
        ({}, {"matrix.indices": np.array([1, 2**32, 0, 2])}, "sparse matrix is damaged"),
        ({}, {"matrix.indices": np.array([2, 1, 0, 2])}, "should be sorted"),
        ({}, {"matrix.indices": np.array([1, 1, 0, 2])}, "should be sorted"),
        ({}, {"matrix.indices": INDICES.astype(np.int32)}, "'matrix.indices' should be int64"),
        ({}, {"matrix.indices": INDICES.astype(float)}, "'matrix.indices' should be int64"),
        ({}, {"matrix.indptr": np.array([0, 3, 2, 4])}, "sparse matrix is damaged"),
        ({}, {"matrix.indptr": np.array([0, -2, 2, 4])}, "sparse matrix is damaged"),
        ({}, {"matrix.indptr": np.array([1, 2, 2, 4])}, "sparse matrix is damaged"),
        ({}, {"matrix.indptr": np.array([0, 10**9, 2, -1])}, "sparse matrix is damaged"),
        ({}, {"matrix.indptr": np.array([0, 2**62, -(2**62), 4])}, "sparse matrix is damaged"),
        ({}, {"matrix.indptr": np.array([0, 2, 2, 3])}, "should end with the 4 entries, found 3"),
        ({}, {"matrix.indptr": np.array([0, 2, 2, 2**40])}, "should end with the 4 entries"),
        ({}, {"matrix.indptr": np.array([0, 2, 4])}, "'matrix.indptr' should be int64 of shape 4"),
        ({}, {"matrix.indptr": INDPTR.astype(np.uint64)}, "'matrix.indptr' should be int64"),
    ],
)
def test_hostile_files_are_named(tmp_path, header_change, array_change, match):
    header, arrays = BilinearMetric(sp.csr_array([[0.0, 1, 2], [0, 0, 0], [3, 0, 4]])).to_parts()
    arrays = arrays | {"matrix.indices": INDICES, "matrix.indptr": INDPTR}
    write_model(tmp_path / "m", "metric", arrays, header)
    np.testing.assert_array_equal(Metric.load(tmp_path / "m").matrix.toarray(), [[0, 1, 2], [0, 0, 0], [3, 0, 4]])
    write_model(tmp_path / "m", "metric", arrays | array_change, header | header_change)
    with pytest.raises(ModelFileError, match=match):
        Metric.load(tmp_path / "m")


@pytest.mark.parametrize("name", ["matrix.data", "matrix.indices", "matrix.indptr"])
def test_missing_arrays_are_named(tmp_path, name):
    header, arrays = BilinearMetric(sp.eye_array(3)).to_parts()
    del arrays[name]
    write_model(tmp_path / "m", "metric", arrays, header)
    with pytest.raises(ModelFileError, match="is missing"):
        Metric.load(tmp_path / "m")


@given(data=st.data())
def test_no_bytes_of_the_arrays_do_harm(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("files") / "m"
    header, arrays = BilinearMetric(sp.csr_array([[0.0, 1, 2], [0, 0, 0], [3, 0, 4]])).to_parts()
    name = data.draw(st.sampled_from(sorted(arrays)))
    changed = bytearray(arrays[name].tobytes())
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    write_model(path, "metric", arrays | {name: np.frombuffer(bytes(changed), arrays[name].dtype)}, header)
    try:
        metric = Metric.load(path)
    except ModelFileError:
        return
    dense = metric.matrix.toarray()
    np.testing.assert_allclose(metric.embed(np.eye(3)), dense)


@given(data=st.data())
def test_leading_items_are_those_of_a_sorted_list(data):
    shape = st.tuples(st.integers(1, 5), st.integers(1, 9))
    ties = st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 1.0, 2.0])
    scores = data.draw(hnp.arrays(np.float64, shape, elements=ties))
    k = data.draw(st.integers(1, scores.shape[1]))
    expected = [sorted(range(len(row)), key=lambda j: (-row[j], j))[:k] for row in scores.tolist()]
    before = scores.copy()
    np.testing.assert_array_equal(leading(scores, k), expected)
    np.testing.assert_array_equal(scores, before)


def test_leading_items_of_long_rows():
    rng = np.random.default_rng(0)
    for scores in (rng.normal(size=(4, 5000)), rng.integers(0, 20, size=(4, 5000)).astype(float), np.zeros((4, 5000))):
        expected = np.argsort(-scores, axis=1, kind="stable")
        for k in (1, 2, 17, 4999, 5000):
            np.testing.assert_array_equal(leading(scores, k), expected[:, :k])

"""Tables from .npy, .npz and svmlight files."""

from __future__ import annotations

import gzip
import io
import tracemalloc
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from mahala.data.tables import read_table
from mahala_search import read_qrels


def test_npy(tmp_path):
    path = tmp_path / "t.npy"
    for dtype, kept in ((np.float32, np.float32), (np.float64, np.float64), (np.int16, np.float64), (bool, np.float64)):
        X = np.array([[1, 0], [0, 1], [1, 1]], dtype=dtype)
        np.save(path, X)
        table = read_table(path, n_features=2)
        np.testing.assert_array_equal(table.X, X)
        assert table.X.dtype == kept
        assert table[1:] == (None, None, None, (), None, {}, None)
    assert read_table(path, features=("a", "b")).X.shape == (3, 2)
    for options, words in (
        ({"n_features": 3}, "rows of 2 features, but the model compares rows of 3"),
        ({"features": ("a",)}, "rows of 2 features, but the model compares rows of 1"),
        ({"label": "y"}, "has no column names; it holds rows only"),
        ({"drop": ["y"]}, "no column names"),
    ):
        with pytest.raises(ValueError, match=words):
            read_table(path, **options)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(3), r"2-D array of numbers, got float64 of shape \(3,\)"),
        (np.array([["a"]]), "2-D array of numbers"),
        (np.zeros((0, 3)), "no rows or no features"),
        (np.array([[1.0], [np.nan], [2.0], [np.inf]]), "missing or infinite values in rows 1, 3"),
        (np.array([[1e300, 1.0]]), r"t.npy has values as large as 1e\+300, .*; scale the features below 1e\+45"),
        (np.array([[None]]), "not a readable NumPy file"),
    ],
)
def test_npy_refusals(tmp_path, array, words):
    np.save(tmp_path / "t.npy", array, allow_pickle=True)
    with pytest.raises(ValueError, match=words):
        read_table(tmp_path / "t.npy")


def test_an_npy_file_by_another_name(tmp_path):
    with open(tmp_path / "t.npz", "wb") as file:
        np.save(file, np.eye(2))
    with pytest.raises(ValueError, match=r"t\.npz is not an \.npz file, which is a zip file of arrays"):
        read_table(tmp_path / "t.npz")


def test_npz(tmp_path):
    path = tmp_path / "t.npz"
    X, y = np.arange(6, dtype=np.float32).reshape(3, 2), np.array(["a", "b", "a"])
    np.savez(path, X=X, y=y, other=[1, 2, 3])
    table = read_table(path)
    np.testing.assert_array_equal(table.X, X)
    assert table.X.dtype == np.float32
    assert table.labels.tolist() == ["a", "b", "a"]
    assert read_table(path, label="other").labels.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match=r"label names the array 'z', but .* holds X, y, other"):
        read_table(path, label="z")
    np.savez(path, X)  # the only array, whatever its name
    assert read_table(path).labels is None
    for arrays, words in (
        ({"X": X, "y": y[:2]}, r"3 rows, but labels of shape \(2,\)"),
        ({"X": X, "y": [0.0, np.nan, 1.0]}, "missing labels in row 1: drop"),
        ({"X": X, "y": np.array([None] * 3)}, r"save them as text, with y\.astype"),
        ({"Z": X, "y": y}, "must hold X, or data, indices, indptr and shape, but holds Z, y"),
        ({"data": [1.0], "indices": [7], "indptr": [0, 1], "shape": [1, 2]}, "cannot be read"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match=words):
            read_table(path)


def test_sparse_npz(tmp_path):
    path = tmp_path / "t.npz"
    X = sp.random_array((5, 4), density=0.5, format="csr", random_state=np.random.default_rng(0))
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    np.savez(path, **parts, y=np.arange(5))
    table = read_table(path, n_features=4)
    assert isinstance(table.X, sp.csr_array)
    np.testing.assert_array_equal(table.X.toarray(), X.toarray())
    assert table.labels.tolist() == [0, 1, 2, 3, 4]
    sp.save_npz(path, X.tocsc())
    np.testing.assert_array_equal(read_table(path).X.toarray(), X.toarray())
    parts["data"] = np.where(np.arange(X.nnz) == X.indptr[2], np.nan, X.data)
    np.savez(path, **parts)
    with pytest.raises(ValueError, match="infinite values in row 2"):
        read_table(path)


@pytest.mark.parametrize(
    "change",
    [
        {"indices": [0, 10**9]},
        {"indices": [0, -1]},
        {"indices": np.array([0, 2**63], dtype=np.uint64)},
        {"indptr": [0, 10**9, -1]},
        {"indptr": [0, 10**9, 2]},
        {"indptr": [0, 2]},
        {"indptr": [1, 1, 2]},
        {"indptr": []},
        {"indptr": 2},
        {"data": [], "indices": [], "indptr": [0, 10**9, 0]},
        {"shape": [2, 1]},
        {"shape": 2},
    ],
)
@pytest.mark.parametrize("layout", [{}, {"format": b"csr"}, {"format": b"csc"}, {"format": b"bsr"}])
def test_sparse_arrays_that_do_not_fit_together_are_refused(tmp_path, layout, change):
    parts = {"data": [1.0, 1.0], "indices": [0, 1], "indptr": [0, 1, 2], "shape": [2, 2]} | change
    if layout == {"format": b"bsr"}:
        parts["data"] = np.reshape(parts["data"], (-1, 1, 1))
    if layout == {"format": b"csc"} and parts["shape"] == [2, 1]:
        parts["shape"] = [1, 2]
    np.savez(tmp_path / "t.npz", **parts, **layout)
    with pytest.raises(ValueError, match="cannot be read"):
        read_table(tmp_path / "t.npz")


@pytest.mark.parametrize(
    "arrays", [{"format": b"lil", "data": [1.0]}, {"format": 3, "data": [1.0]}, {"format": b"csr", "a": 1}]
)
def test_sparse_files_of_other_formats_are_refused(tmp_path, arrays):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(ValueError, match="cannot be read"):
        read_table(tmp_path / "t.npz")


def test_untidy_sparse_npz(tmp_path):
    parts = {"data": [1.0, 2.0, 3.0], "indices": [1, 0, 1], "indptr": [0, 3], "shape": [1, 2]}
    for layout in ({}, {"format": b"csr"}):
        np.savez(tmp_path / "t.npz", **parts, **layout)
        np.testing.assert_array_equal(read_table(tmp_path / "t.npz").X.toarray(), [[2.0, 4.0]])


@pytest.mark.parametrize("name", ["t.svm", "t.svmlight", "t.libsvm.gz"])
@pytest.mark.parametrize("zero_based", [True, False])
def test_svmlight(tmp_path, name, zero_based):
    X = np.array([[1.0, 0.0, 2.5], [0.0, 3.0, 0.0]])
    text = io.BytesIO()
    dump_svmlight_file(X, [1, -1], text, zero_based=zero_based)
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.getvalue()) if name.endswith("gz") else text.getvalue())
    first = {"first_index": 1 - zero_based}
    table = read_table(path, **first)
    assert isinstance(table.X, sp.csr_array)
    np.testing.assert_array_equal(table.X.toarray(), X)
    assert table.labels.tolist() == [1, -1]
    assert table.labels.dtype == np.int64
    wide = read_table(path, n_features=5, **first).X
    np.testing.assert_array_equal(wide.toarray(), np.hstack([X, np.zeros((2, 2))]))
    for options, words in (
        ({"n_features": 2}, "but the model compares rows of 2"),
        ({"label": "y"}, "its labels at the start"),
    ):
        with pytest.raises(ValueError, match=words):
            read_table(path, **options, **first)


def test_indices_count_from_one_unless_said_otherwise(tmp_path):
    path = tmp_path / "t.svm"
    path.write_text("# two rows\n1 1:5 3:2\n2 2:1\n")
    assert read_table(path).X.toarray().tolist() == [[5, 0, 2], [0, 1, 0]]
    assert read_table(path, first_index=0).X.toarray().tolist() == [[0, 5, 0, 2], [0, 0, 1, 0]]
    path.write_text("1 1:5\n2 0:1\t3:2\n")
    with pytest.raises(ValueError, match=r"line 2 has index 0, but indices count from 1 unless first_index=0"):
        read_table(path)
    with pytest.raises(ValueError, match="first_index must be 0 or 1, got 2"):
        read_table(path, first_index=2)
    with pytest.raises(ValueError, match=r"decimal must be '.', ',' or None, got ';'"):
        read_table(path, decimal=";")
    assert read_table(path, first_index=0, n_features=4).X.shape == (2, 4)
    with pytest.raises(
        ValueError, match="line 2 has index 3, but the model compares rows of 3 features, up to index 2"
    ):
        read_table(path, first_index=0, n_features=3)
    path.write_text("1 1:5\n2 a:1\n")
    with pytest.raises(ValueError, match=r"line 2: "):
        read_table(path)


@pytest.mark.parametrize("index", [2_000_000_000, 9 * 10**18, 10**19, 10**40])
def test_indices_beyond_memory_are_refused_before_anything_is_allocated(tmp_path, monkeypatch, index):
    monkeypatch.setattr("mahala.support.arrays.memory_limit", lambda _: 2.0**34)
    path = tmp_path / "t.svm"
    path.write_text(f"1 1:5\n2 3:1 {index}:1 # 7:1\n")
    with pytest.raises(MemoryError, match=rf"t\.svm: line 2 has index {index}.* more than this machine's"):
        read_table(path)


def test_sparse_files_with_more_features_than_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("mahala.support.arrays.memory_limit", lambda _: 2.0**34)
    np.savez(tmp_path / "t.npz", data=[1.0], indices=[3], indptr=[0, 1], shape=[1, 2**28])
    with pytest.raises(MemoryError, match="with its 268,435,456 features takes 32 GiB"):
        read_table(tmp_path / "t.npz")


def test_small_files_of_large_arrays_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros((1000, 1000)))
    assert read_table(tmp_path / "bomb.npz").X.shape == (1000, 1000)
    with gzip.open(tmp_path / "bomb.csv.gz", "wt", compresslevel=1) as file:
        file.write("a,b\n" + "0,0\n" * 1_000_000)
    with gzip.open(tmp_path / "bomb.svm.gz", "wt", compresslevel=1) as file:
        file.write("1 1:0" + "0" * 4_000_000 + "\n")
    with gzip.open(tmp_path / "qrels.tsv.gz", "wt", compresslevel=1) as file:
        file.write("0\t0\t1\n" * 700_000)
    monkeypatch.setattr("mahala.support.arrays.memory_limit", lambda _: 2.0**22)
    readers = {"bomb.npz": read_table, "bomb.csv.gz": read_table, "bomb.svm.gz": read_table, "qrels.tsv.gz": read_qrels}
    for name, read in readers.items():
        tracemalloc.start()
        with pytest.raises(MemoryError, match=rf"{name}.* more than this machine's 0\.00391 GiB"):
            read(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 2**25
        tracemalloc.stop()


def npy(shape, data=b""):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue() + data


def test_headers_that_claim_more_than_there_is_are_refused(tmp_path):
    (tmp_path / "t.npy").write_bytes(npy((4, 2**28), bytes(64)))
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as file:
        file.writestr("X.npy", npy((2**20, 2**20), bytes(64)))
    for name in ("t.npy", "t.npz"):
        with pytest.raises(ValueError, match=r"bytes, too few for an array of float64 and shape"):
            read_table(tmp_path / name)


@pytest.mark.parametrize("name", ["X", "y", "data"])
def test_members_that_are_not_arrays_are_refused(tmp_path, name):
    arrays = {"data": [1.0], "indices": [0], "indptr": [0, 1], "shape": [1, 1], "y": [1]}
    arrays = {"X": [[1.0]], "y": [1]} if name == "X" else arrays
    np.savez(tmp_path / "t.npz", **{key: array for key, array in arrays.items() if key != name})
    with zipfile.ZipFile(tmp_path / "t.npz", "a") as file:
        file.writestr(name, "hello")
    with pytest.raises(ValueError, match=f"{name} is not an array"):
        read_table(tmp_path / "t.npz")

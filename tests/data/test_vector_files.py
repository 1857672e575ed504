"""Files of vectors with their ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from mahala.data.vector_files import read_vectors


@pytest.mark.parametrize(
    ("dtype", "kept"), [(np.float16, np.float64), (np.float32, np.float32), (np.float64, np.float64)]
)
def test_vectors_of_numpy_files(tmp_path: Path, dtype: Any, kept: Any) -> None:
    X = np.array([[0.5, 1.0], [2.0, 0.0]], dtype=dtype)
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "one.npz", vectors=X)
    np.savez(tmp_path / "labelled.npz", X=X, y=[0, 1])
    for name in ("x.npy", "one.npz", "labelled.npz"):
        read, ids = read_vectors(tmp_path / name)
        np.testing.assert_array_equal(read, X)
        assert read.dtype == kept
        assert ids is None
    np.savez(tmp_path / "ids.npz", X=X, ids=["b", "a"], other=["c", "d"])
    assert read_vectors(tmp_path / "ids.npz")[1].tolist() == ["b", "a"]
    assert read_vectors(tmp_path / "ids.npz", id="other")[1].tolist() == ["c", "d"]


def test_sparse_vectors(tmp_path: Path) -> None:
    X = sp.csr_array([[0.0, 2.0], [1.0, 0.0]])
    sp.save_npz(tmp_path / "x.npz", X)
    read, ids = read_vectors(tmp_path / "x.npz")
    np.testing.assert_array_equal(read.toarray(), X.toarray())
    assert ids is None


def test_vectors_of_parquet_files(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    X = np.array([[0.5, 1.0, 3.0], [2.0, 0.0, 4.0]], dtype=np.float32)
    frame = pl.DataFrame({"title": ["t", "u"], "vector": X.tolist(), "id": ["b", "a"], "other": [[1], [2]]})
    for kind in (pl.List(pl.Float32), pl.Array(pl.Float32, 3)):
        frame.with_columns(pl.col("vector").cast(kind)).write_parquet(path)
        read, ids = read_vectors(path)
        np.testing.assert_array_equal(read, X)
        assert read.dtype == np.float32
        assert ids.tolist() == ["b", "a"]
    read, ids = read_vectors(path, vector="other", id="title")
    assert read.tolist() == [[1.0], [2.0]]
    assert ids.tolist() == ["t", "u"]
    pl.DataFrame({"weights": X.tolist()}).write_parquet(path)
    assert read_vectors(path)[1] is None


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"a": [1.0, 2.0]}, {}, "must have a column of lists of numbers, or vector must name it; it has only a"),
        ({"a": [[1.0], [2.0]], "b": [[1.0], [2.0]]}, {}, "it has 2 of them: a, b"),
        ({"a": [["x"], ["y"]]}, {}, "it has only a"),
        ({"a": [1.0, 2.0]}, {"vector": "a"}, "column 'a' must hold lists of numbers, got Float64"),
        ({"a": [[1.0], [2.0]]}, {"vector": "b"}, "vector names the column 'b', which"),
        ({"a": [[1.0], [2.0]]}, {"id": "b"}, "id names the column 'b', which"),
        ({"a": [[1.0], [2.0, 3.0], [3.0]]}, {}, "lists of one length, but row 1 differs from the others"),
        ({"a": [[1.0], None, [3.0]]}, {}, "lists of one length, but row 1 differs from the others"),
        ({"a": [[1.0], [None], [3.0]]}, {}, "missing or infinite values in row 1"),
        ({"a": [[1.0], [2.0]], "id": ["x", None]}, {}, "column 'id' has missing ids in row 1"),
        ({"a": [[1.0], [2.0]], "id": [1.5, None]}, {}, "column 'id' has missing ids in row 1"),
    ],
)
def test_wrong_parquet_files_are_refused(tmp_path: Path, columns: Any, options: Any, message: str) -> None:
    path = tmp_path / "x.parquet"
    pl.DataFrame(columns).write_parquet(path)
    with pytest.raises(ValueError, match=message):
        read_vectors(path, **options)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.eye(2))
    with pytest.raises(ValueError, match="vector names a column of Parquet files"):
        read_vectors(path, vector="a")
    with pytest.raises(ValueError, match=r"id names the array 'a', but .* holds rows only"):
        read_vectors(path, id="a")
    path = tmp_path / "x.npz"
    np.savez(path, X=np.eye(2), y=[0, 1])
    with pytest.raises(ValueError, match=r"id names the array 'a', but .* holds X, y"):
        read_vectors(path, id="a")
    (tmp_path / "x.bin").write_bytes(b"")
    with pytest.raises(ValueError, match=r"a file of vectors, .npy, .npz or .parquet, got the suffix '.bin'"):
        read_vectors(tmp_path / "x.bin")

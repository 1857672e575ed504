"""Data sets by name."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import mahala.data.datasets
from mahala.data.datasets import load, read_data


def test_a_folder_comes_first(tmp_path, monkeypatch):
    X, y = np.arange(6.0).reshape(3, 2), np.array([0, 1, 1], dtype=np.int32)
    np.savez(tmp_path / "wine.npz", X=X, y=y, n_train=2)
    for data in (load("wine", tmp_path), load("wine", str(tmp_path))):
        np.testing.assert_array_equal(data.X, X)
        assert data.y.dtype == np.intp
        assert data.n_train == 2
    monkeypatch.setenv("MAHALA_DATA", str(tmp_path))
    assert load("wine").X.shape == (3, 2)
    monkeypatch.delenv("MAHALA_DATA")
    assert load("wine").X.shape == (178, 13)


def test_sparse_files(tmp_path):
    X = sp.random_array((5, 4), density=0.5, format="csr", random_state=np.random.default_rng(0))
    np.savez(tmp_path / "text.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=np.arange(5) % 2)
    data = load("text", tmp_path)
    np.testing.assert_array_equal(data.X.toarray(), X.toarray())
    assert data.n_train is None


def test_what_is_not_there(tmp_path, monkeypatch):
    monkeypatch.delenv("MAHALA_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"no data set 'moon': MAHALA_DATA is not set.*iris"):
        load("moon")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*moon\.npz"):
        load("moon", tmp_path)


def test_openml_out_of_reach(monkeypatch):
    def unreachable(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", unreachable)
    with pytest.raises(FileNotFoundError, match=r"'glass' could not be fetched from OpenML \(no network\)"):
        load("glass", "nowhere")


def test_openml(monkeypatch):
    asked = {}

    def fetched(name, **kwargs):
        asked.update(kwargs, name=name)
        return [[1, 2], [3, 4], [5, 6]], np.array(["b", "a", "b"])

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetched)
    X, y, _ = load("glass", "nowhere")
    assert (asked["name"], asked["version"]) == mahala.data.datasets._OPENML["glass"]
    assert X.dtype == np.float64
    np.testing.assert_array_equal(y, [1, 0, 1])


def test_scikit_learns():
    X, y, n_train = load("iris", "nowhere")
    assert (X.shape, y.dtype, n_train) == ((150, 4), np.intp, None)
    np.testing.assert_array_equal(np.bincount(y), [50, 50, 50])


def test_a_file_without_classes(tmp_path):
    np.savez(tmp_path / "mine.npz", X=np.eye(3))
    with pytest.raises(ValueError, match=r"mine\.npz must hold the classes y beside the rows"):
        load("mine", tmp_path)


@pytest.mark.parametrize(("name", "label"), [("balance", "tips"), ("wine", "cultivar")])
def test_tables_of_the_package(name, label):
    table = read_data(name)
    assert label not in table.feature_names
    X, y, _ = load(name, "nowhere")
    np.testing.assert_array_equal(X, table.X)
    np.testing.assert_array_equal(np.unique(table.labels)[y], table.labels)
    assert read_data(name, drop=[table.feature_names[0]]).feature_names == table.feature_names[1:]
    other = read_data(name, label=table.feature_names[0])
    assert other.labels.tolist() == table.X[:, 0].tolist()


def test_the_bundled_balance_is_the_data_set_of_the_papers(dataset):
    """Classes too: which class is the first decides tied votes."""
    X, y = dataset("balance")
    data = load("balance", "nowhere")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)


def test_names_where_files_are_read(tmp_path, monkeypatch):
    table = read_data("iris")
    assert (table.X.shape, table.feature_names) == ((150, 4), None)
    with pytest.raises(ValueError, match="iris has rows of 4 features, but the model compares rows of 3"):
        read_data("iris", n_features=3)
    with pytest.raises(ValueError, match="label and drop name columns of a file, but 'iris' is the name"):
        read_data("iris", label="kind")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wine.csv").write_text("a,b\n1,2\n3,4\n")
    assert read_data("wine.csv").X.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(FileNotFoundError, match=r"iris\.csv"):
        read_data("iris.csv")

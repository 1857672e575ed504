"""`mahala transform` as a person uses it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from typer.testing import CliRunner

import mahala
from mahala.cli.main import app
from mahala.data.tables import read_table
from mahala.metric import Scales

TEXT = "kind,b,a,extra\nu,10,1,?\nv,25,0.5,?\nu,-3,2,?\n"
ROWS = np.array([[1, 10], [0.5, 25], [2, -3]])


@pytest.fixture
def files(tmp_path):
    """A table whose columns are in another order than the model's, and a model with scales."""
    (tmp_path / "t.csv").write_text(TEXT)
    metric = mahala.MahalanobisMetric([[2.0, 0.5], [0.5, 1.0]], feature_names=["a", "b"], steps=[Scales([1.0, 10.0])])
    metric.save(tmp_path / "m.safetensors")
    return tmp_path, metric


def run(folder, data, output, *more):
    names = [str(folder / data), "--model", str(folder / "m.safetensors"), "--output", str(folder / output)]
    return CliRunner().invoke(app, ["transform", *names, *more])


@pytest.mark.parametrize("output", ["o.npy", "o.npz", "o.csv", "o.parquet", "O.CSV"])
def test_distances_are_the_learned_ones(files, output):
    folder, metric = files
    labelled = not output.endswith(".npy")
    result = run(folder, "t.csv", output, *(["--label", "kind"] if labelled else []))
    assert result.exit_code == 0, result.output
    assert result.stdout == f"Wrote 3 rows with 2 columns{' and the label' * labelled} to {folder / output}\n"
    label = "kind" if not output.endswith(("npy", "npz")) else None
    table = read_table(folder / output, label=label)
    np.testing.assert_allclose(cdist(table.X, table.X), metric.pairwise(ROWS), rtol=1e-12)
    if labelled:
        assert table.labels.tolist() == ["u", "v", "u"]
    if label:
        assert table.feature_names == ("z0", "z1")
    assert sorted(path.name for path in folder.iterdir()) == sorted(["t.csv", "m.safetensors", output])


def test_components(files):
    folder, metric = files
    result = run(folder, "t.csv", "o.npy", "--components", "1", "--json")
    told = json.loads(result.stdout)
    assert told == {"rows": 3, "columns": 1, "kind": "mahalanobis", "file": str(folder / "o.npy")}
    found = np.load(folder / "o.npy")
    np.testing.assert_allclose(cdist(found, found), metric.truncate(1).pairwise(ROWS), rtol=1e-9)


@pytest.mark.parametrize("output", ["o.npz", "o.npy"])
def test_sparse_queries(tmp_path, output):
    M = sp.random_array((6, 6), density=0.3, format="csr", random_state=np.random.default_rng(0))
    mahala.BilinearMetric(M).save(tmp_path / "m.safetensors")
    X = sp.random_array((4, 6), density=0.5, format="csr", random_state=np.random.default_rng(1))
    np.savez(tmp_path / "t.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape)
    result = run(tmp_path, "t.npz", output)
    assert "4 queries with 6 columns" in result.stdout
    found = read_table(tmp_path / output).X
    assert sp.issparse(found) == (output == "o.npz")
    np.testing.assert_allclose(found.toarray() if sp.issparse(found) else found, (X @ M).toarray(), rtol=1e-12)


def test_float32_stays(tmp_path):
    mahala.MahalanobisMetric(np.eye(2)).save(tmp_path / "m.safetensors")
    np.save(tmp_path / "t.npy", ROWS.astype(np.float32))
    assert run(tmp_path, "t.npy", "o.npy").exit_code == 0
    assert np.load(tmp_path / "o.npy").dtype == np.float32


def test_what_is_wrong_is_said(files):
    folder, _ = files
    np.save(folder / "wide.npy", np.ones((2, 5)))
    (folder / "less.csv").write_text("a,c\n1,2\n")
    for data, output, more, words in (
        ("wide.npy", "o.npy", [], "rows of 5 features, but the model compares rows of 2"),
        ("less.csv", "o.npy", [], "the table lacks the column b"),
        ("none.csv", "o.npy", [], "none.csv: No such file or directory"),
        ("t.csv", "o.xlsx", [], "--output must end in .npy, .npz, .csv, .parquet"),
        ("t.csv", "o.npy", ["--label", "kind"], "--label cannot be used with .npy"),
        ("t.csv", "o.csv", ["--label", "kin"], "did you mean 'kind'?"),
        ("t.csv", "no/o.csv", [], "there is no folder"),
    ):
        result = run(folder, data, output, *more)
        assert (result.exit_code, words in result.stderr) == (2, True), result.output
        assert not (folder / output).exists()
    (folder / "m.safetensors").write_text("nonsense")
    result = run(folder, "t.csv", "o.csv")
    assert (result.exit_code, "not a readable model file" in result.stderr) == (2, True)

"""`mahala search` as a person uses it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import mahala
from mahala.cli.main import app
from mahala.cli.search import _find
from mahala.metric import Scales


def run(*arguments):
    return CliRunner().invoke(app, ["search", *map(str, arguments)])


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    items, queries = rng.normal(size=(30, 3)), rng.normal(size=(4, 3))
    names = ["a", "b", "c"]
    lines = [",".join([*names, "kind"])]
    lines += [",".join([*map(repr, row), "xyz"[i % 3]]) for i, row in enumerate(items.tolist())]
    (tmp_path / "items.csv").write_text("\n".join(lines))
    np.save(tmp_path / "queries.npy", queries)
    root = rng.normal(size=(3, 3))
    metric = mahala.MahalanobisMetric(root @ root.T, feature_names=names, steps=[Scales([1.0, 2.0, 3.0])])
    metric.save(tmp_path / "m.safetensors")
    return tmp_path, metric, items, queries


def test_queries_against_brute_force(files):
    folder, metric, items, queries = files
    base = (folder / "items.csv", "--queries", folder / "queries.npy", "--model", folder / "m.safetensors")
    result = run(*base, "--label", "kind", "-k", 5, "--json")
    assert result.exit_code == 0, result.output
    distances = metric.pairwise(queries, items)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["query"] for line in lines] == [0, 1, 2, 3]
    for line, expected in zip(lines, distances, strict=True):
        order = np.argsort(expected)[:5]
        assert line["rows"] == order.tolist()
        np.testing.assert_allclose(line["distances"], expected[order], rtol=1e-9)
        assert line["labels"] == ["xyz"[i % 3] for i in order]
    assert json.loads(run(*base, "--json").stdout.splitlines()[0])["labels"] is None


def test_rows_leave_themselves_out(files):
    folder, metric, items, _ = files
    base = (folder / "items.csv", "--row", 7, "--row", 0, "--model", folder / "m.safetensors", "--json")
    lines = [json.loads(line) for line in run(*base, "-k", 100).stdout.splitlines()]
    assert [line["query"] for line in lines] == [7, 0]
    for line in lines:
        distances = metric.pairwise(items)[line["query"]]
        order = [i for i in np.argsort(distances) if i != line["query"]]
        assert line["rows"] == order
    first = json.loads(run(*base, "-k", 3).stdout.splitlines()[0])
    assert first["rows"] == lines[0]["rows"][:3]


@given(st.lists(st.integers(0, 2), min_size=2, max_size=12), st.integers(1, 12), st.booleans(), st.data())
def test_ties_and_duplicates(values, k, sparse, data):
    X = np.array(values, dtype=float)[:, None]
    rows = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=4))
    items = sp.csr_array(X) if sparse else X
    metric = mahala.MahalanobisMetric(np.eye(1))
    for query, near, labels, scores in _find(metric, items[rows], rows, items, np.array(values), k, True):
        distances = np.abs(X[:, 0] - X[query, 0])
        others = [i for i in np.argsort(distances, kind="stable") if i != query]
        assert len(near) == min(k, len(others))
        assert query not in near
        assert scores == sorted(scores)
        assert scores == distances[others][: len(near)].tolist()
        assert labels == [values[i] for i in near]


def test_table_and_csv(files):
    folder, metric, items, queries = files
    base = (folder / "items.csv", "--queries", folder / "queries.npy", "--model", folder / "m.safetensors", "-k", 2)
    shown = run(*base, "--label", "kind").stdout
    assert all(word in shown for word in ("query", "rank", "item", "label", "distance"))
    result = run(*base, "--label", "kind", "--output", folder / "o.csv")
    assert "Wrote the results of 4 queries to" in result.stdout
    lines = (folder / "o.csv").read_text().splitlines()
    assert lines[0] == "query,rank,row,label,distance"
    assert len(lines) == 9
    query, rank, row, label, distance = lines[4].split(",")
    assert (query, rank) == ("1", "2")
    assert label == "xyz"[int(row) % 3]
    assert float(distance) == pytest.approx(np.sort(metric.pairwise(queries, items)[1])[1])
    told = json.loads(run(*base, "--output", folder / "o.csv", "--force", "--json").stdout)
    assert told == {"queries": 4, "file": str(folder / "o.csv")}


def test_bilinear(tmp_path):
    rng = np.random.default_rng(0)
    M, queries, items = rng.normal(size=(2, 3)), rng.normal(size=(3, 2)), rng.normal(size=(9, 3))
    mahala.BilinearMetric(M).save(tmp_path / "m.safetensors")
    np.save(tmp_path / "q.npy", queries)
    np.savez(tmp_path / "i.npz", X=items, y=np.arange(9))
    base = (tmp_path / "i.npz", "--model", tmp_path / "m.safetensors", "-k", 4, "--json")
    lines = [json.loads(line) for line in run(*base, "--queries", tmp_path / "q.npy").stdout.splitlines()]
    for line, scores in zip(lines, queries @ M @ items.T, strict=True):
        assert line["rows"] == line["labels"] == np.argsort(-scores)[:4].tolist()
        np.testing.assert_allclose(line["similarities"], np.sort(scores)[::-1][:4])
    result = run(*base, "--row", 1)
    assert (result.exit_code, "--row needs items with the features of queries" in result.stderr) == (2, True)


def test_what_is_wrong_is_said(files):
    folder = files[0]
    base = (folder / "items.csv", "--model", folder / "m.safetensors")
    np.save(folder / "wide.npy", np.ones((2, 5)))
    (folder / "one.csv").write_text("a,b,c\n1,2,3\n")
    for arguments, words in (
        (base, "give either --queries (a table) or --row"),
        ((*base, "--row", 0, "--queries", folder / "queries.npy"), "give either --queries"),
        ((*base, "--row", 30), "--row must be a row number from 0 to 29, got 30"),
        ((*base, "--row", -1), "--row must be a row number from 0 to 29, got -1"),
        ((*base, "--queries", folder / "wide.npy"), "rows of 5 features, but the model compares rows of 3"),
        ((*base, "--row", 0, "--output", folder / "o.txt"), "--output must end in .csv"),
        ((*base, "--row", 0, "-k", 0), "Invalid value for '-k'"),
        ((folder / "one.csv", "--model", folder / "m.safetensors", "--row", 0), "nothing to find"),
        ((folder / "items.csv", "--model", folder / "none", "--row", 0), "none: No such file or directory"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert words in " ".join(result.stderr.split()), result.stderr

"""`mahala evaluate` as a person uses it."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import mahala
import mahala_search
from mahala.cli.main import app


def run(*arguments):
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


@pytest.fixture
def collection(tmp_path):
    rng = np.random.default_rng(0)
    queries, items = rng.normal(size=(12, 3)), rng.normal(size=(40, 3))
    M = rng.normal(size=(3, 3))
    triples = [(i, int(j), 1 + i % 2) for i in range(11) for j in np.argsort(-queries[i] @ M @ items.T)[:4]]
    triples.append((11, 0, 0))
    np.save(tmp_path / "queries.npy", queries)
    np.save(tmp_path / "items.npy", items)
    lines = [f"{i}\t{j}\t{grade}\n" for i, j, grade in triples]
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    mahala.BilinearMetric(M).save(tmp_path / "m.safetensors")
    options = [
        part for name in ("queries.npy", "items.npy", "qrels.tsv") for part in (f"--{name[:-4]}", tmp_path / name)
    ]
    return tmp_path, options, (queries, items, triples), mahala.BilinearMetric(M)


def test_table_of_the_inner_products(collection):
    _, options, (queries, items, triples), _ = collection
    result = run(*options)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{mahala_search.evaluate_ranking(queries, items, triples)}\n"
    assert result.stdout.startswith("11 queries with a relevant item (1 without), 40 items\n")
    assert "baseline" not in result.stdout


def test_gains_of_a_model(collection):
    folder, options, (queries, items, triples), metric = collection
    result = run(*options, "--model", folder / "m.safetensors", "-k", 3, "--k", 1, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    expected = mahala_search.evaluate_ranking(queries, items, triples, metric, k=[1, 3])
    assert told == {"queries": 11, "left_out": 1, "items": 40, "confidence": 0.95, "measures": expected.table()}
    [ndcg] = [row for row in told["measures"] if row["measure"] == "ndcg@3"]
    assert ndcg["mean"] == 1.0
    assert ndcg["low"] > 0.0
    text = run(*options, "--model", folder / "m.safetensors").stdout
    assert text == f"{mahala_search.evaluate_ranking(queries, items, triples, metric)}\n"


def test_files_with_ids(collection):
    folder, options, (queries, items, triples), _ = collection
    order = np.random.default_rng(1).permutation(40)
    np.savez(folder / "q.npz", X=queries, ids=[f"q{i}" for i in range(12)])
    pl.DataFrame({"id": order + 100, "vector": items[order].tolist()}).write_parquet(folder / "i.parquet")
    (folder / "qrels.txt").write_text("".join(f"q{i} 0 {j + 100} {grade}\n" for i, j, grade in triples))
    files = ("--queries", folder / "q.npz", "--items", folder / "i.parquet", "--qrels", folder / "qrels.txt")
    assert run(*files).stdout == run(*options).stdout


def test_queries_and_items_of_different_lengths(collection):
    folder, options, (_, items, triples), _ = collection
    wide = np.random.default_rng(1).normal(size=(12, 5))
    np.save(folder / "queries.npy", wide)
    metric = mahala.BilinearMetric(np.ones((5, 3)))
    metric.save(folder / "m.safetensors")
    result = run(*options, "--model", folder / "m.safetensors")
    assert result.stdout == f"{mahala_search.evaluate_ranking(wide, items, triples, metric, baseline=None)}\n"
    assert "the inner products of metric need queries and items" in run(*options).output


def test_errors_are_one_line(collection):
    folder, options, _, _ = collection
    (folder / "qrels.tsv").write_text("0\t40\t1\n12\t0\t1\n")
    result = run(*options)
    assert result.exit_code == 2
    assert result.stderr == "error: --qrels must name ids in --queries, got unknown ones: '12'\n"
    (folder / "qrels.tsv").write_text("0\t40\t1\n")
    assert "--qrels must name ids in --items, got unknown ones: '40'" in run(*options).stderr
    (folder / "qrels.tsv").write_text("0\t1\t1\n0\t1\n")
    assert "qrels.tsv: line 2 must be query-id, corpus-id and score" in run(*options).stderr
    (folder / "qrels.tsv").write_text("0\t1\t0\n")
    assert "qrels must have a grade above 0" in run(*options).stderr
    assert "none.npy: No such file" in run(*options[2:], "--queries", folder / "none.npy").stderr


def test_a_saved_adapter_is_a_model(collection):
    folder, options, (queries, items, triples), _ = collection
    adapter = mahala_search.QueryAdapter(random_state=0).fit(queries, items, triples)
    adapter.save(folder / "adapter.safetensors")
    result = run(*options, "--model", folder / "adapter.safetensors")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{mahala_search.evaluate_ranking(queries, items, triples, adapter)}\n"

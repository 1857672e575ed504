"""`mahala adapt` as a person uses it."""

from __future__ import annotations

import contextlib
import json
import os
import pty

import numpy as np
import pytest
from typer.testing import CliRunner

import mahala
import mahala_search
from mahala.cli.main import app
from processes import COMMAND, Program

QUICK = ("--set", "n_folds=3")


def run(*arguments, command="adapt", code=0):
    result = CliRunner().invoke(app, [command, *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def words(result):
    return " ".join(result.stdout.split())


def refusal(*arguments):
    return run(*arguments, code=2).stderr


def collection(strength=4.0, n_queries=40, n_items=150, d=8):
    """Queries and items whose relevance has another taste than the inner product, unless the strength is 1."""
    rng = np.random.default_rng(0)
    queries, items = rng.normal(size=(n_queries, d)), rng.normal(size=(n_items, d))
    taste = np.where(np.arange(d) < d // 2, strength, 1.0)
    return queries, items, np.argsort(-(queries * taste) @ items.T, axis=1)[:, :6]


def write(folder, queries, items, wanted):
    """Write a collection in which the ids of queries are q0, q1, ...; the last query has no relevant item."""
    np.savez(folder / "q.npz", X=queries, ids=[f"q{i}" for i in range(len(queries))])
    np.save(folder / "x.npy", items)
    lines = [f"q{i}\t{j}\t1\n" for i, row in enumerate(wanted[:-1]) for j in row]
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    return ("--queries", folder / "q.npz", "--items", folder / "x.npy", "--qrels", folder / "qrels.tsv")


def judgments(wanted):
    return [(i, int(j), 1) for i, row in enumerate(wanted[:-1]) for j in row]


@pytest.fixture
def given(tmp_path):
    return tmp_path, write(tmp_path, *collection())


def test_judgments_give_the_adapter_of_the_library(given):
    folder, options = given
    queries, items, wanted = collection()
    told = json.loads(run(*options, *QUICK, "--output", folder / "a", "--seed", 3, "--json").stdout)
    adapter = mahala_search.QueryAdapter(n_folds=3, random_state=3).fit(queries, items, judgments(wanted))
    adapter.save(folder / "expected")
    assert (folder / "a").read_bytes() == (folder / "expected").read_bytes()
    values = adapter.cross_validation_
    assert (told["queries"], told["left_out"], told["items"], told["measure"]) == (39, 1, 150, "nDCG@10")
    assert told["means"] == {"raw": values.raw.mean(), "learned": values.learned.mean()}
    assert (told["verdict"], told["trust"]) == (adapter.verdict_.as_dict(), adapter.trust_)
    assert told["verdict"]["kind"] == "shown to help"
    gains = values.learned - values.raw
    assert told["changes"]["gain"] == (gains > 1e-9).sum() > 20
    assert sum(told["changes"].values()) == 39
    assert told["values"][7] == {"query": "q7", "raw": values.raw[7], "learned": values.learned[7]}
    assert len(told["values"]) == 39
    assert told["output"] == str(folder / "a")


def test_the_table_says_what_the_json_says(given):
    folder, options = given
    base = (*options, *QUICK, "--output", folder / "a")
    told, shown = json.loads(run(*base, "--json").stdout), words(run(*base))
    means = told["means"]
    for expected in (
        "learned from 39 queries with a relevant item (1 without), 150 items",
        f"nDCG@10 {means['raw']:.3f} plain → {means['learned']:.3f} learned, in cross-validation",
        ", ".join(f"{told['changes'][name]} {name}" for name in ("gain", "lose", "stay")),
        f"{told['trust']['new']:.2f} for new queries",
        told["verdict"]["sentence"],
    ):
        assert expected in shown


def test_where_nothing_is_shown_to_help_the_map_is_the_identity(tmp_path):
    options = write(tmp_path, *collection(strength=1.0))
    shown = words(run(*options, *QUICK, "--output", tmp_path / "a"))
    assert "Does not help: " in shown
    assert "trust" not in shown
    np.testing.assert_array_equal(mahala.load(tmp_path / "a").metric_.matrix, np.eye(8))


def test_other_commands_take_the_adapter_and_its_metric(given):
    folder, options = given
    run(*options, *QUICK, "--output", folder / "a.safetensors")
    adapter = mahala.load(folder / "a.safetensors")
    adapter.metric_.save(folder / "m.safetensors")
    queries = np.random.default_rng(1).normal(size=(3, 8))
    np.save(folder / "new.npy", queries)
    for name in ("a.safetensors", "m.safetensors"):
        base = (folder / "x.npy", "--queries", folder / "new.npy", "--model", folder / name, "-k", 4, "--json")
        found = [json.loads(line)["rows"] for line in run(*base, command="search").stdout.splitlines()]
        assert found == adapter.rank(queries, np.load(folder / "x.npy"), 4).tolist()
        told = json.loads(run(*options, "--model", folder / name, "--json", command="evaluate").stdout)
        [ndcg] = [row for row in told["measures"] if row["measure"] == "ndcg@10"]
        assert ndcg["low"] > 0.0


def test_clicks_are_learned_after_judgments(given):
    folder, options = given
    run(*options, "--output", folder / "a")
    after = mahala.load(folder / "a")
    queries, items, _ = collection()
    for query in range(5):
        shown = np.argsort(-items @ queries[query])[:10]
        after.learn_one(queries[query], items[shown], [True] + [False] * 9, query_id=query)
    after.save(folder / "a")
    assert after.n_impressions_ == 5
    assert after.verdict_.measure == "nDCG@10"
    told = json.loads(run(folder / "a", "--json", command="show").stdout)
    assert (told["holds"], told["learner"], told["params"]["cap"]) == ("learner", "QueryAdapter", 1.0)
    assert (told["impressions"], told["trust"], told["verdict"]) == (5, after.trust_, after.verdict_.as_dict())
    shown = words(run(folder / "a", command="show"))
    assert "has seen 5 impressions" in shown
    assert f"trust {after.trust_['new']:.2f} for new queries" in shown
    assert f"verdict {after.verdict_}" in shown


def test_what_is_wrong_is_said(given):
    folder, options = given
    output = ("--output", folder / "a")
    assert "'--output'" in refusal(*options)
    assert "'--items'" in refusal(*output, *options[:2], *options[4:])
    assert "QueryAdapter has no parameter 'caps' (did you mean cap?)" in refusal(*output, *options, "--set", "caps=1")
    assert "cap" in refusal(*output, *options, "--set", "cap=2")
    assert not (folder / "a").exists()


def test_a_terminal_shows_progress(given):
    folder, options = given
    theirs, ours = pty.openpty()
    with Program(COMMAND, "adapt", *options, "--output", folder / "a", "--json", stderr=ours) as process:
        os.close(ours)
        shown = b""
        with contextlib.suppress(OSError):  # the end, on Linux
            while block := os.read(theirs, 4096):
                shown += block
        os.close(theirs)
        told = json.loads(process.stdout.read())
    assert told["output"] == str(folder / "a")
    assert b"fits" in shown

"""What --help shows: every example runs as it is printed, and switches look like switches."""

from __future__ import annotations

import contextlib
import csv
import json
import re
import shlex
import shutil
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import joblib
import numpy as np
import pandas
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import mahala
from mahala import BilinearMetric
from mahala.cli.main import app

pytestmark = pytest.mark.usefixtures("few_rounds")
COMMANDS = get_command(app).commands
EXAMPLES = [
    pytest.param(example, id=example)
    for command in COMMANDS.values()
    for example in re.findall(
        r"^ +((?:(?:tail|cat) .* \| )?mahala .*)$", command.help.partition("Examples:")[2], re.MULTILINE
    )
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("prepared")
    with contextlib.chdir(folder):
        _write_files(folder)
    return folder


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch, stored):
    """A copy of the folder for one example; comparisons measure nothing."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    panel = {"LDA": mahala.LDA(), "RCA": mahala.RCA()}  # two learners that are quick
    for module in ("planning", "panel"):
        monkeypatch.setattr(f"mahala.evaluation.cross_validation.{module}.default_panel", lambda *_, **__: panel)
    monkeypatch.setattr("mahala.evaluation.cross_validation.planning.auto_repeats", lambda *_: 1)
    monkeypatch.setattr("mahala.evaluation.cross_validation.panel.panel_for", lambda *_: {"OASIS": mahala.OASIS()})


def _write_files(folder):
    rng = np.random.default_rng(0)
    table = files("mahala").joinpath("data/wine.csv").read_text().replace("cultivar", "maker")
    (folder / "wine.csv").write_text(table)
    names, features, makers = _read(table)
    replace(mahala.RCA().fit(features, makers).metric_, feature_names=names).save("wine.safetensors")
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3)) + np.eye(2, 3)[y]
    np.savez("features.npz", X=X, y=y)
    np.savez("clicks.npz", X=X, y=y)
    rows = "".join(
        f"{i},{a},{b},{c},{'yes' if k else 'no'}\n" for i, ((a, b, c), k) in enumerate(zip(X, y, strict=True))
    )
    (folder / "customers.csv").write_text("id,age,visits,spent,churned\n" + rows)
    (folder / "new.csv").write_text("id,age,visits,spent\nn0,0.5,1,0.25\nn1,0,1,-1\n")
    (folder / "labelled.csv").write_text("id,age,visits,spent,churned\nn0,0.5,1,0.25,yes\nn1,0,1,-1,no\n")
    names = ["age", "visits", "spent"]
    model = mahala.NeighborClassifier(trees=False, linear=False)
    model.fit(pandas.DataFrame(X, columns=names), pandas.Series(np.where(y, "yes", "no"), name="churned"))
    model.save("churn.safetensors")
    (folder / "fraud.csv").write_text("id,age,visits,spent,fraud\n" + rows)
    homes = "".join(f"{i // 3},{a},{b},{k}\n" for i, ((a, b, _), k) in enumerate(zip(X, y, strict=True)))
    (folder / "visits.csv").write_text("household,age,visits,bought\n" + homes)
    mahala.OASIS(n_triplets=50, random_state=0).fit(X, y).save("state.safetensors")
    queries, items = rng.normal(size=(8, 3)), rng.normal(size=(40, 3))
    for name, rows in (("queries", queries), ("q", queries), ("items", items), ("i", items), ("embeddings", items)):
        np.save(f"{name}.npy", rows)
    (folder / "names.txt").write_text("".join(f"item {i}\n" for i in range(len(items))))
    np.save("shoes.npy", items)
    (folder / "answers.csv").write_text("".join(f"{i},{i + 1},{i + 2}\n" for i in range(38)))
    polars = pytest.importorskip("polars")
    for name, rows in (("q", queries), ("i", items)):
        polars.DataFrame({"vector": rows.tolist()}).write_parquet(f"{name}.parquet")
    grades = "query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{i}\t1\n" for q in range(8) for i in range(q, q + 4))
    for name in ("qrels.tsv", "test.tsv"):
        (folder / name).write_text(grades)
    BilinearMetric(np.eye(3)).save("m.safetensors")
    lines = {
        "pairs.jsonl": [{"x": a, "x2": b, "similar": i % 2 == 0} for i, (a, b) in enumerate(pairwise(X))],
        "clicks.jsonl": [{"query": i, "positive": i + 1, "negative": i + 2} for i in range(30)],
    }
    for name, records in lines.items():
        text = "".join(json.dumps(record, default=np.ndarray.tolist) + "\n" for record in records)
        (folder / name).write_text(text)


def _read(table):
    (*names, _), *rows = csv.reader(table.splitlines())  # the label is the last column
    return names, np.array([row[:-1] for row in rows], dtype=float), [row[-1] for row in rows]


def test_every_command_has_an_example():
    named = {re.search(r"mahala ([\w-]+)", example.values[0])[1] for example in EXAMPLES}
    assert named == set(COMMANDS)


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_runs_as_printed(example, folder):
    pipe, _, command = example.rpartition(" | ")
    words = shlex.split(command.partition(" > ")[0])
    given = None
    if pipe.startswith("cat "):
        given = Path(pipe.split()[1]).read_text()
    elif pipe:
        assert pipe == "tail -n +1 -F clicks.jsonl"  # which waits for more lines, as the test does not
        given = Path("clicks.jsonl").read_text()
    if "--scheduler" in words:  # read, but not run: test_fit.py starts a cluster
        with COMMANDS["fit"].make_context("fit", words[2:]) as context:
            assert list(context.params["data"]) == ["folder/*.parquet"]
        return
    if words[1:] == ["warm-up"]:  # tests/test_warming.py compiles everything, and test_warm_up.py runs the command
        COMMANDS["warm-up"].make_context("warm-up", [])
        return
    if words[1:2] == ["serve"]:  # which does not end: read, but not run
        command, rest = COMMANDS["serve"], words[2:]
        while hasattr(command, "commands"):
            name = rest.pop(0) if rest[:1] and rest[0] in command.commands else "start"
            command = command.commands[name]
        with command.make_context(name, rest) as context:
            assert context.params
        return
    with joblib.parallel_config(backend="threading"):  # tests of `compare` start processes
        result = CliRunner().invoke(app, words[1:], input=given)
    assert result.exit_code == 0, result.output


def test_switches_are_shown_without_a_type():
    for _ in range(2):  # what --help changes for itself, it changes back
        text = CliRunner(env={"COLUMNS": "120"}).invoke(app, ["compare", "--help"]).output
        assert "--report / --no-report " in text
        assert "[default: --report]" in text
        assert not re.search(r"bool", text, re.IGNORECASE)
    result = CliRunner().invoke(app, ["compare", "nowhere.csv", "--no-report", "--json"])
    assert result.exit_code == 2
    assert "nowhere" in result.output
    assert not re.search(r"bool", CliRunner().invoke(app, ["--help"]).output, re.IGNORECASE)

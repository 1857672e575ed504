"""`mahala add` and `mahala forget` as a person uses them."""

from __future__ import annotations

import json
import signal

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

import mahala
from mahala.cli.main import app
from mahala.neighbors.learning import MapFit


def table_of(n, seed):
    rng = np.random.default_rng(seed)
    size = rng.uniform(20, 120, n).round(1)
    kind = np.where(size + rng.normal(size=n) > 70, "large", "small")
    return polars.DataFrame({"name": [f"n{seed}-{row}" for row in range(n)], "size": size, "kind": kind})


@pytest.fixture
def folder(tmp_path):
    """A folder with a model whose rows have names, one whose rows have numbers, and a table of new rows."""
    train, new = table_of(60, 0), table_of(8, 1)
    model = mahala.NeighborClassifier(trees=False).fit(train.select("size"), train["kind"])
    model.save(tmp_path / "numbers")
    model.name_rows(train["name"].to_list()).save(tmp_path / "names")
    new.write_csv(tmp_path / "new.csv")
    return tmp_path


def run(command, folder, *arguments, model="names"):
    return CliRunner().invoke(app, [command, *map(str, arguments), "--model", str(folder / model)])


def told(*arguments, **options):
    result = run(*arguments, "--json", **options)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def words(result):
    return " ".join(result.output.split())


def test_rows_are_added(folder):
    new, before = polars.read_csv(folder / "new.csv"), mahala.load(folder / "names")
    facts = told("add", folder, folder / "new.csv", "--ids", "name")
    assert (facts["added"], facts["before"], facts["rows"], facts["score"]) == (8, 60, 68, None)
    assert facts["errors"]["error"] == pytest.approx(1.0 - before.score(new, new["kind"].to_numpy()))
    model = mahala.load(folder / "names")
    assert model.rows_.tolist() == [*before.rows_.tolist(), *new["name"].to_list()]
    expected = before.add(new, new["kind"].to_numpy(), names=new["name"].to_list())
    np.testing.assert_array_equal(model.predict_proba(new), expected.predict_proba(new))


def test_rows_with_numbers_get_the_next_ones(folder):
    told("add", folder, folder / "new.csv", model="numbers")
    assert mahala.load(folder / "numbers").rows_.tolist() == list(range(68))
    model = mahala.load(folder / "numbers")
    model.name_rows([row + 5 for row in range(68)]).save(folder / "numbers")
    told("add", folder, folder / "new.csv", model="numbers")
    assert mahala.load(folder / "numbers").rows_.tolist() == list(range(5, 81))


def test_another_file_and_another_label(folder):
    frame = polars.read_csv(folder / "new.csv").with_columns(kind=polars.lit(None), truth=polars.col("kind"))
    frame = frame.with_columns(polars.when(polars.col("name") != "n1-2").then("truth").alias("truth"))
    frame.write_csv(folder / "t.csv")
    before = (folder / "numbers").read_bytes()
    options = ("--label", "truth", "--output", folder / "out", "--refit")
    result = run("add", folder, folder / "t.csv", *options, model="numbers")
    assert result.exit_code == 0, result.output
    assert "1 row without a label left out" in result.stderr
    assert "60 and 7 new ones" in words(result)
    assert "on rows left out" in words(result)
    assert (folder / "numbers").read_bytes() == before
    model = mahala.load(folder / "out")
    assert len(model.rows_) == 67
    assert (model.folds_ >= 0).all()


def test_numbers_to_predict(folder):
    train = table_of(50, 0)
    y = 3.0 * train["size"].to_numpy() + 0.5
    mahala.NeighborRegressor(trees=False).fit(train.select("size"), y).save(folder / "m")
    (folder / "t.csv").write_text('size,price\n"50,5","152,0"\n"60,5",182\n')
    facts = told("add", folder, folder / "t.csv", "--label", "price", "--decimal", ",", model="m")
    assert facts["errors"]["mean_absolute_error"] < 20
    model = mahala.load(folder / "m")
    assert model._model.encoder.table._plans[0].decimal == "."  # as before
    row = model.explain(polars.DataFrame({"size": [50.5]}), k=1).rows[0]
    assert (row[0], row[1]) == (50, pytest.approx(152.0))
    (folder / "t.csv").write_text("size,price\n50,much\n")
    result = run("add", folder, folder / "t.csv", "--label", "price", model="m")
    assert "row 0 of" in words(result)
    assert "has the label 'much', which is no number" in words(result)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--ids must name a column, since the rows of the model have names, such as 'n0-0'"),
        (["--ids", "kind"], "--ids must name a column of different values"),
        (["--label", "sort", "--ids", "name"], "--label must name the column of labels, but "),
        (["--label", "name", "--ids", "name"], "the label 'n1-0', which is no class of the model (large, small)"),
        (["--output", "new.csv", "--ids", "name"], "--output must not be an input"),
    ],
)
def test_what_is_wrong_with_new_rows_is_said(folder, monkeypatch, arguments, said):
    monkeypatch.chdir(folder)
    before = (folder / "names").read_bytes()
    result = run("add", folder, "new.csv", *arguments)
    assert result.exit_code == 2, result.output
    assert said in words(result)
    assert (folder / "names").read_bytes() == before


def test_names_that_are_there(folder):
    told("add", folder, folder / "new.csv", "--ids", "name")
    result = run("add", folder, folder / "new.csv", "--ids", "name")
    assert result.exit_code == 2
    assert "--ids must name new rows, but 'n1-" in words(result)


def test_rows_are_forgotten_for_good(folder):
    assert b"n0-3" in (folder / "names").read_bytes()
    facts = told("forget", folder, "n0-3", "n0-17", "n0-3")
    assert (facts["forgotten"], facts["rows"]) == (["n0-3", "n0-17"], 58)
    assert b'"n0-3"' not in (folder / "names").read_bytes()
    assert list(folder.glob("*previous*")) == []
    model = mahala.load(folder / "names")
    assert "n0-3" not in model.rows_.tolist()
    result = run("forget", folder, 5, 6, "--refit", "--output", folder / "out", model="numbers")
    assert result.exit_code == 0, result.output
    assert "58 rows" in words(result)
    assert len(mahala.load(folder / "numbers").rows_) == 60
    assert mahala.load(folder / "out").rows_.tolist() == [row for row in range(60) if row not in (5, 6)]


def test_what_is_wrong_with_rows_is_said(folder):
    (folder / "mine").write_text("mine")
    for arguments, model, said in (
        (["n0-99"], "names", "ROW must be the name of a training row, got 'n0-99' (did you mean"),
        (["60"], "numbers", "ROW must be the number of a training row, got '60'"),
        (list(range(60)), "numbers", "ROW must leave at least one row"),
        (["1", "--output", folder / "mine"], "numbers", "give --force"),
    ):
        before = (folder / model).read_bytes()
        result = run("forget", folder, *arguments, model=model)
        assert (result.exit_code, said in words(result)) == (2, True), result.output
        assert (folder / model).read_bytes() == before
    assert (folder / "mine").read_text() == "mine"
    mahala.MahalanobisMetric.euclidean(2).save(folder / "metric")
    assert "which predicts nothing" in words(run("forget", folder, 1, model="metric"))


def test_ctrl_c_keeps_the_file_or_the_best_so_far(folder, monkeypatch):
    whole = MapFit.learn

    def pressed(self, start, tick):
        signal.raise_signal(signal.SIGINT)
        return whole(self, start, tick)

    monkeypatch.setattr(MapFit, "learn", pressed)
    result = run("forget", folder, "n0-1", "--refit", "--output", folder / "out")
    assert result.exit_code in (0, 130), result.output
    assert (folder / "out").exists() == (result.exit_code == 0)

"""`mahala predict` as a person uses it."""

from __future__ import annotations

import csv
import json

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

import mahala
from mahala.cli.main import app


def table_of(n, seed):
    """Return a table of flats, with a district and a gap, and what they cost."""
    rng = np.random.default_rng(seed)
    size, district = rng.uniform(20, 120, n).round(1), rng.choice(["old", "new", "far"], n)
    price = (10 * size + 200 * (district == "old") + rng.normal(size=n)).round(2)
    sizes = [None if row == 3 else value for row, value in enumerate(size.tolist())]
    kind = np.where(price > 800, "dear", "=cheap")
    names = [f"n{row}" for row in range(n)]
    return polars.DataFrame({"name": names, "size": sizes, "district": district, "price": price, "kind": kind})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with tables and two models, of classes and of numbers."""
    folder = tmp_path_factory.mktemp("predict")
    train = table_of(80, 0)
    table_of(30, 1).write_csv(folder / "new.csv")
    X = train.select("size", "district")
    classes = mahala.NeighborClassifier(trees=False).fit(X, train["kind"])
    classes.name_rows(train["name"].to_list()).save(folder / "classes")
    mahala.NeighborRegressor(trees=False).fit(X, train["price"]).save(folder / "numbers")
    return folder


def run(folder, *arguments, data="new.csv", model="classes", **options):
    path = data if data == "-" else folder / data
    command = ["predict", str(path), "--model", str(folder / model), *map(str, arguments)]
    return CliRunner().invoke(app, command, **options)


def told(*arguments, **options):
    result = run(*arguments, "--json", **options)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def words(result):
    return " ".join(result.output.split())


def test_classes(folder):
    options = ("--probabilities", "--level", "0.9", "--strangeness", "--why", "-k", 2)
    facts = told(folder, *options)
    new, model = polars.read_csv(folder / "new.csv"), mahala.load(folder / "classes")
    lines = facts["predictions"]
    assert [line["prediction"] for line in lines] == model.predict(new).tolist()
    shares = np.array([[line["probabilities"][name] for name in model.classes_] for line in lines])
    np.testing.assert_allclose(shares, model.predict_proba(new))
    assert [line["probability"] for line in lines] == pytest.approx(shares.max(axis=1).tolist())
    sets = model.predict_set(new, 0.9)
    assert [line["set"] for line in lines] == [model.classes_[row].tolist() for row in sets]
    assert [line["strangeness"] for line in lines] == pytest.approx(model.strangeness(new).tolist())
    reasons = model.explain(new[:1], k=2)
    assert [tuple(row.values()) for row in lines[0]["why"]["rows"]] == reasons.rows
    assert lines[0]["why"]["columns"].items() <= reasons.columns.items()
    assert facts["errors"] == {"rows": 30, "error": pytest.approx(1.0 - model.score(new, new["kind"].to_numpy()))}


def test_numbers(folder):
    facts = told(folder, "--level", "0.8", model="numbers")
    new, model = polars.read_csv(folder / "new.csv"), mahala.load(folder / "numbers")
    assert [line["prediction"] for line in facts["predictions"]] == pytest.approx(model.predict(new).tolist())
    assert [line["interval"] for line in facts["predictions"]] == model.predict_interval(new, 0.8).tolist()
    assert facts["errors"]["r2"] == pytest.approx(model.score(new, new["price"].to_numpy()))
    shown = words(run(folder, "--level", "0.8", model="numbers"))
    assert "row price lower upper" in shown
    assert "R² 0." in shown
    assert "10 more rows" in shown


def test_what_is_printed(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = run(folder, "--why", "--level", "0.9", "--strangeness", "--ids", "name")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "row kind probability set strangeness nearest apart n0" in words(result)
    assert "on 30 rows with a label" in words(result)


def test_files(folder, tmp_path):
    options = ("--level", "0.9", "--why", "--ids", "name", "--strangeness", "--probabilities")
    titles = ["row", "prediction", "probability", "probability of =cheap", "probability of dear", "set", "strangeness"]
    expected = told(folder, *options)["predictions"]
    for name in ("p.csv", "p.parquet", "p.json"):
        facts = told(folder, *options, "--output", tmp_path / name)
        assert (facts["rows"], facts["file"]) == (30, str(tmp_path / name))
        assert "predictions" not in facts
    assert json.loads((tmp_path / "p.json").read_text()) == expected
    frame = polars.read_parquet(tmp_path / "p.parquet")
    assert frame.columns == [*titles, "nearest", "apart"]
    assert frame["prediction"].to_list() == [line["prediction"] for line in expected]
    with open(tmp_path / "p.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["row"] for line in lines] == frame["row"].to_list()
    assert {line["prediction"] for line in lines} == {"'=cheap", "dear"}  # no formula in a spreadsheet
    assert lines[0]["nearest"].startswith(f"'{expected[0]['why']['rows'][0]['row']}") or "%" in lines[0]["nearest"]
    told(folder, "--level", "0.9", "--output", tmp_path / "n.parquet", model="numbers")
    assert polars.read_parquet(tmp_path / "n.parquet").columns == ["row", "prediction", "lower", "upper"]


def test_standard_input_and_output(folder):
    text = (folder / "new.csv").read_bytes()
    result = run(folder, "--output", "-", data="-", input=text)
    assert result.exit_code == 0, result.output
    lines = list(csv.reader(result.stdout.splitlines()))
    assert (lines[0], len(lines)) == (["row", "prediction", "probability"], 31)
    assert "on 30 rows with a label" in result.stderr


def test_the_label_need_not_be_there_and_may_be_odd(folder, tmp_path):
    new = polars.read_csv(folder / "new.csv")
    expected = told(folder)["predictions"]
    changes = {
        "none": new.drop("kind"),
        "some": new.with_columns(polars.when(polars.col("name") == "n0").then("kind").alias("kind")),
        "other": new.with_columns(polars.lit("blue").alias("kind")),
        "text": new.with_columns(polars.lit("much").alias("price")),
    }
    for name, frame in changes.items():
        frame.write_csv(tmp_path / f"{name}.csv")
        facts = told(folder, data=tmp_path / f"{name}.csv")
        assert facts["predictions"] == expected
        rows = {"some": 1, "text": 30}.get(name)
        assert (facts["errors"] and facts["errors"]["rows"]) == rows
    assert "it holds no class of the model but 'blue'" in words(run(folder, data=tmp_path / "other.csv"))
    assert told(folder, data=tmp_path / "text.csv", model="numbers")["errors"] is None
    new.rename({"kind": "truth"}).write_csv(tmp_path / "t.csv")
    assert told(folder, "--label", "truth", data=tmp_path / "t.csv")["errors"]["rows"] == 30


@pytest.mark.parametrize("classes", [[1.5, 2.0], [True, False], [0, 1], ["1.1", "1.10"]])
def test_labels_are_compared_however_they_are_written(tmp_path, classes):
    x, y = np.arange(40.0), [classes[row // 20] for row in range(40)]
    text = [str(value).lower() if isinstance(value, bool) else str(value) for value in y]
    lines = "".join(f"{value:g},{label}\n" for value, label in zip(np.roll(x * 1.37 % 40, 3), text, strict=True))
    (tmp_path / "t.csv").write_text("x,kind\n" + lines)
    options = ["--label", "kind", "--set", "trees=False", "--no-judge", "--output", str(tmp_path / "m")]
    assert CliRunner().invoke(app, ["fit", str(tmp_path / "t.csv"), *options]).exit_code == 0
    model = mahala.load(tmp_path / "m")
    truth = [f"{value:g}" if isinstance(value, float) else str(value) for value in y]
    expected = 1.0 - np.mean(model.predict(polars.read_csv(tmp_path / "t.csv")).astype(str) == np.array(truth))
    facts = told(tmp_path, data="t.csv", model="m")
    assert facts["errors"] == {"rows": 40, "error": pytest.approx(expected)}
    (tmp_path / "one.csv").write_text(f"x,kind\n3,{text[0]}\n")
    assert told(tmp_path, data="one.csv", model="m")["errors"]["rows"] == 1


def test_odd_rows_are_reported(folder, tmp_path):
    (tmp_path / "odd.csv").write_text("size,district\n50,moon\nlarge,old\n")
    result = run(folder, "--why", "--strangeness", data=tmp_path / "odd.csv")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("column 'district' has 1 value not seen in fit, such as 'moon'") == 1
    assert "column 'size' has 1 cell other than numbers, such as 'large'" in result.stderr
    (tmp_path / "comma.csv").write_text('size,district\n"50,5",old\n')
    assert "set the decimal mark to ','" in run(folder, data=tmp_path / "comma.csv").stderr
    facts = told(folder, "--decimal", ",", data=tmp_path / "comma.csv")
    point = tmp_path / "point.csv"
    point.write_text("size,district\n50.5,old\n")
    assert facts["predictions"] == told(folder, data=point)["predictions"]


def test_arrays(folder, tmp_path, labelled):
    X, y = labelled
    mahala.NeighborClassifier(trees=False).fit(X, y).save(tmp_path / "m")
    np.savez(tmp_path / "t.npz", X=X, y=y)
    np.save(tmp_path / "t.npy", X[:, :4])
    facts = told(tmp_path, data="t.npz", model="m")
    assert facts["errors"]["rows"] == 90
    for data, model, said in (
        (folder / "new.csv", "m", "has column names, but the model was fitted to rows of 5 numbers"),
        ("t.npz", folder / "classes", "has no column names, but the model was fitted to size, district"),
        ("t.npy", "m", "X has 4 features, but NeighborClassifier is expecting 5"),
    ):
        result = run(tmp_path, data=data, model=model)
        assert (result.exit_code, said in words(result)) == (2, True), result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--level", "90"], "--level must be between 0 and 1, such as 0.9, got 90"),
        (["--output", "p.txt"], "--output must end in .csv, .parquet, .json, got p.txt"),
        (["--output", "-", "--json"], "would both print on standard output"),
        (["--ids", "nam"], "--ids names the column 'nam', which"),
        (["--ids", "district"], "--ids must name a column of different values"),
        (["--label", "sort"], "--label names the column 'sort', which"),
        (["--model", "metric"], "holds a metric learned by PA, which predicts nothing: make a model that predicts"),
        (["--model", "none"], "none: No such file or directory"),
    ],
)
def test_what_is_wrong_is_said(folder, tmp_path, monkeypatch, labelled, arguments, said):
    monkeypatch.chdir(tmp_path)
    mahala.PA(n_pairs=10, random_state=0).fit(*labelled).metric_.save("metric")
    result = run(folder, *arguments)
    assert result.exit_code == 2
    assert said in words(result)
    assert "--probabilities are those of classes" in words(run(folder, "--probabilities", model="numbers"))
    (tmp_path / "less.csv").write_text("size\n5\n")
    assert "less.csv: the table lacks the column district" in words(run(folder, data=tmp_path / "less.csv"))


def test_existing_files_need_force(folder, tmp_path):
    (tmp_path / "p.csv").write_text("mine")
    assert "give --force" in words(run(folder, "--output", tmp_path / "p.csv"))
    assert (tmp_path / "p.csv").read_text() == "mine"
    assert run(folder, "--output", tmp_path / "p.csv", "--force").exit_code == 0
    assert "must not be an input" in words(run(folder, "--output", folder / "new.csv"))

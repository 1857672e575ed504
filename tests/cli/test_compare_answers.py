"""`mahala compare ITEMS --triplets FILE` as a person uses it."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from mahala import MahalanobisMetric, Metric
from mahala.cli.main import app

NAMES = [f"tree {i}" for i in range(30)]


def mahala(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


@pytest.fixture
def trees(tmp_path):
    """Items with names, and answers of people who look at the first of four features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    np.savez(tmp_path / "trees.npz", X=X, ids=np.array(NAMES))
    a, b, c = rng.integers(30, size=(3, 250))
    near = abs(X[a, 0] - X[b, 0]) < abs(X[a, 0] - X[c, 0])
    rows = np.stack([a, np.where(near, b, c), np.where(near, c, b)], axis=1)
    with (tmp_path / "answers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["query", "nearer", "farther", "who"])
        writer.writerows([*(NAMES[i] for i in row), f"person {at % 3}"] for at, row in enumerate(rows))
    return tmp_path


def test_learners_are_compared_by_answers(trees):
    files = trees / "trees.npz", "--triplets", trees / "answers.csv", "--output", trees / "out"
    result = mahala(*files, "--by", "who", "--learners", "LogisticMetric,OASIS")
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    for part in (
        "250 triplets over 30 items",
        "Shown to help: LogisticMetric has a new-item error",
        "model.safetensors holds LogisticMetric",
    ):
        assert part in text
    metric = Metric.load(trees / "out" / "model.safetensors")
    assert metric.matrix.diagonal().argmax() == 0
    assert metric.origin["verdict"] == "shown to help"
    page = (trees / "out" / "report.html").read_text(encoding="utf-8")
    assert "Answers about the same items" in page
    assert "The gain of each item" in page
    assert "Spectrum of LogisticMetric" in page
    assert '"names":["tree 0","tree 1"' in page


def test_the_table_has_the_entries_of_both_kinds_of_items(trees, stored):
    stored({"LMNN": 0.1})
    files = trees / "trees.npz", "--triplets", trees / "answers.csv", "--output", trees / "out"
    facts = json.loads(mahala(*files, "--learners", "LMNN,OASIS", "--no-report", "--json").stdout)
    assert facts["winner"] == "LMNN"
    with (trees / "out" / "leaderboard.csv").open() as file:
        lines = [(line["errors_of"], line["name"]) for line in csv.DictReader(file)]
    assert lines == [(entry["errors_of"], entry["name"]) for entry in facts["entries"]]
    assert [line[0] for line in lines] == ["new items"] * 4 + ["same items"] * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--triplets", "answers.csv", "--pairs", "answers.csv"], "give one of --triplets, --pairs and --ratings"),
        (["--triplets", "answers.csv", "--by", "age"], "by names the column 'age'"),
        (["--triplets", "answers.csv", "--learners", "ITML"], "names among LogisticMetric, LMNN"),
        (["--triplets", "answers.csv", "--groups", "who"], "--groups goes with rows that have labels"),
        (["--by", "who"], "--by and --ids go with --triplets"),
        (["--triplets", "answers.csv", "--ids", "nom"], "id names the array 'nom'"),
        (["--pairs", "answers.csv"], "answer 1 must say yes or no"),
    ],
)
def test_options_that_do_not_go_together(trees, options, message, monkeypatch):
    monkeypatch.chdir(trees)
    result = mahala("trees.npz", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not (trees / "trees-mahala").exists()


def test_files_of_others_stay_and_those_of_an_earlier_run_go(trees, stored, monkeypatch):
    stored({"LogisticMetric": 0.05})
    monkeypatch.chdir(trees)
    arguments = (
        "trees.npz",
        "--triplets",
        "answers.csv",
        "--learners",
        "LogisticMetric",
        "--output",
        "out",
        "--no-report",
    )
    (trees / "out").mkdir()
    learned = trees / "out" / "learned.safetensors"
    learned.write_text("mine")
    result = mahala(*arguments)
    assert result.exit_code == 2
    assert "learned.safetensors, which exists and is not a model" in " ".join(result.output.split())
    MahalanobisMetric.euclidean(4).save(learned)
    assert mahala(*arguments).exit_code == 0
    assert not learned.exists()  # the model is shown to help
    (trees / "answers.csv").rename(trees / "out" / "leaderboard.csv")
    result = mahala("trees.npz", "--triplets", "out/leaderboard.csv", "--output", "out", "--force")
    assert "must not be an input" in " ".join(result.output.split())


@pytest.mark.usefixtures("stored")
def test_the_model_of_a_table_takes_such_tables(trees, monkeypatch):
    monkeypatch.chdir(trees)
    X = np.load("trees.npz")["X"]
    with open("trees.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "w", "x", "y", "z", "colour"])
        writer.writerows([name, *row, "red" if row[1] > 0 else "blue"] for name, row in zip(NAMES, X, strict=True))
    options = "--triplets", "answers.csv", "--learners", "LMNN", "--output", "out", "--no-report"
    result = mahala("trees.csv", *options)
    assert result.exit_code == 0, result.output
    assert "The column 'name' has the names of the items" in result.stderr
    found = Metric.load(trees / "out" / "model.safetensors")
    assert found.preprocessor is not None
    assert mahala("trees.csv", *options, "--ids", "name").exit_code == 0
    np.testing.assert_array_equal(Metric.load(trees / "out" / "model.safetensors").matrix, found.matrix)
    # A name that is misspelt does not hide the column, and numbers are those of rows.
    answers = (trees / "answers.csv").read_text()
    (trees / "answers.csv").write_text(answers.replace("tree 7,", "treee 7,", 1))
    assert "(did you mean 'tree 7'?)" in " ".join(mahala("trees.csv", *options).output.split())
    (trees / "answers.csv").write_text(answers.replace("tree ", ""))
    assert "has the names" not in mahala("trees.csv", *options).stderr
    (trees / "answers.csv").write_text(answers.replace("tree ", "bush "))
    message = "--ids must name the column of trees.csv that has the names in the answers, such as 'bush 0'"
    assert message in " ".join(mahala("trees.csv", *options).output.split())

"""`mahala fit` without a learner of metrics, as a person uses it: a model that predicts."""

from __future__ import annotations

import json
import signal
import warnings

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

import mahala
from mahala.cli.main import app
from mahala.neighbors.learning import MapFit

pytestmark = pytest.mark.usefixtures("few_rounds")
FAST = ("--set", "trees=False", "--no-judge")


def rows_of(n=60):
    """Yield lines of a table of customers: text, dates, gaps, a constant, an identifier, and labels of two kinds."""
    rng = np.random.default_rng(0)
    yield "customer_id,joined,age,plan,country,churned,spent"
    for i in range(n):
        churned = i % 2
        plan = "" if i % 7 == 0 else ["basic", "plus", "pro"][i % 3]
        age = "NA" if i % 9 == 0 else f"{40 + 20 * churned + 8 * rng.normal():.0f}"
        day, spent = f"2024-0{1 + i // 2 % 8}-11", 50 * churned + rng.normal()
        yield f"C{i:03},{day},{age},{plan},DE,{['no', 'yes'][churned]},{spent:.3f}"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "customers.csv"
    path.write_text("\n".join(rows_of()) + "\n")
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["fit", *map(str, arguments)])


def told(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def words(result):
    return " ".join(result.output.split())


def test_a_model_from_a_raw_table(tmp_path, table):
    out = tmp_path / "m.safetensors"
    facts = told(table, "--label", "churned", "--drop", "spent", "--ids", "customer_id", "--output", out)
    model = mahala.load(out)
    raw = polars.read_csv(table, infer_schema=False)
    expected = mahala.NeighborClassifier().fit(raw.drop("spent", "churned", "customer_id"), raw["churned"].to_numpy())
    np.testing.assert_array_equal(model.predict_proba(raw), expected.predict_proba(raw))
    assert model.rows_.tolist() == raw["customer_id"].to_list()
    assert model.target_name_ == "churned"
    assert (facts["model"], facts["rows"], facts["classes"]) == ("NeighborClassifier", 60, 2)
    assert facts["left_out"] == {"rows": 60, "folds": 4}
    assert sum(facts["weights"].values()) == pytest.approx(1.0)
    names = ["this model", "k-NN, scaled", "logistic regression", "gradient boosting"]
    assert [line["model"] for line in facts["errors"]] == names
    assert facts["errors"][0]["error"] == pytest.approx(1.0 - model.score_)
    assert all(0.0 <= line["error"] <= 0.5 for line in facts["errors"])
    assert dict(facts["columns"])["country"].startswith("left out: the same value")
    assert (facts["holds_rows"], facts["file"]) == (True, str(out))


def test_numbers_are_predicted_as_numbers(tmp_path, table):
    out = tmp_path / "m.safetensors"
    facts = told(table, "--label", "spent", "--drop", "churned", "--output", out)
    model = mahala.load(out)
    assert isinstance(model, mahala.NeighborRegressor)
    y = polars.read_csv(table)["spent"].to_numpy()
    first = facts["errors"][0]
    assert first["mean_absolute_error"] == pytest.approx(np.abs(model.left_out_ - y).mean())
    assert first["r2"] == pytest.approx(model.score_)
    assert [line["model"] for line in facts["errors"]][2:] == ["ridge regression", "gradient boosting"]
    binned = told(table, "--label", "spent", "--bins", 3, "--output", out, *FAST)
    assert (binned["model"], binned["classes"]) == ("NeighborClassifier", 3)
    assert "divided into 3 classes" in dict(binned["columns"])["spent"]
    named = told(table, "--label", "age", "--learner", "neighborregressor", "--output", out, *FAST)
    assert (named["model"], len(named["errors"])) == ("NeighborRegressor", 1)
    assert "without it left out" in dict(named["columns"])["age"]


def test_what_is_printed(tmp_path, table, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "t.csv"
    path.write_text("\n".join(line.replace(",yes,", ",no,") if "C007" in line else line for line in rows_of()) + "\n")
    result = run(path, "--label", "churned", "--ids", "customer_id", "--output", tmp_path / "m.safetensors", *FAST)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.replace(str(tmp_path), "").splitlines())) <= 80
    for part in (
        "learned from 60 rows of 2 classes",
        "experts rows",
        "trees 0",
        "Rows left out, 60 in 4 folds, the same for all models",
        "this model",
        "Labels that may be wrong",
        "C007 no yes",
        "privacy The file holds the 60 training rows;",
        "mahala forget ROW --model",
    ):
        assert part in words(result), part


def test_a_poor_model_doubts_no_labels(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "t.npz", X=rng.normal(size=(80, 3)), y=rng.integers(2, size=80))
    assert told(tmp_path / "t.npz", "--output", tmp_path / "m", *FAST)["suspects"] == []


def test_columns_that_give_the_label_away(tmp_path, table):
    facts = told(table, "--label", "churned", "--output", tmp_path / "m", *FAST)
    assert "a leak? If so, --drop spent" in dict(facts["columns"])["spent"]


def test_rows_without_a_label_keep_the_numbers_of_the_others(tmp_path, table):
    table.write_text(table.read_text().replace("DE,no", "DE,", 1))
    told(table, "--label", "churned", "--output", tmp_path / "m", *FAST)
    assert mahala.load(tmp_path / "m").rows_.tolist() == list(range(1, 60))


def test_groups_are_left_out_together(tmp_path, table):
    told(table, "--label", "churned", "--groups", "joined", "--output", tmp_path / "m", *FAST)
    model = mahala.load(tmp_path / "m")
    dates = polars.read_csv(table)["joined"].to_numpy()
    assert all(len(set(model.folds_[dates == day].tolist())) == 1 for day in set(dates))
    assert "joined" not in model.feature_names_in_


def test_a_distance_that_is_mostly_a_date_is_said(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"2024-{at % 12 + 1:02d}-{at % 28 + 1:02d},{rng.normal():.3f},{'ab'[at % 12 > 5]}" for at in range(120)]
    (tmp_path / "eggs.csv").write_text("\n".join(["laid,size,kind", *lines]))
    options = (tmp_path / "eggs.csv", "--label", "kind", "--output", tmp_path / "m.safetensors", *FAST)
    (caution,) = json.loads(run(*options, "--json").stdout)["cautions"]
    assert " % of the distance is 'laid', a date (NeighborClassifier): " in caution
    assert caution in " ".join(run(*options, "--force").stdout.split())
    assert json.loads(run(*options, "--drop", "laid", "--force", "--json").stdout)["cautions"] == []


def test_identifiers_and_decimal_marks(tmp_path, table):
    told(table, "--label", "churned", "--keep", "customer_id,age", "--output", tmp_path / "m", *FAST)
    assert "hashed" in dict(mahala.load(tmp_path / "m").metric_.preprocessor.columns_)["customer_id"]
    semicolons = tmp_path / "t.csv"
    semicolons.write_text("size;kind\n" + "".join(f"1.{100 + i * 7 % 31};{'ab'[i % 2]}\n" for i in range(30)))
    for options, done in (((), "1.100 read as 1100"), (("--decimal", "."), "number")):
        facts = told(semicolons, "--label", "kind", "--output", tmp_path / "m", *options, *FAST)
        assert done in dict(facts["columns"])["size"]
    semicolons.write_text(semicolons.read_text().replace("1.128", "1.5"))
    facts = told(semicolons, "--label", "kind", "--output", tmp_path / "m", *FAST)
    assert dict(facts["columns"])["size"] == "number"


@pytest.mark.parametrize("data", ["wine", "iris", "t.npz", "t.svm"])
def test_arrays_and_data_sets(tmp_path, labelled, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    X, y = labelled
    np.savez("t.npz", X=X, y=y + 0.5)
    lines = (f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) for row, label in zip(X, y, strict=True))
    (tmp_path / "t.svm").write_text("\n".join(lines) + "\n")
    facts = told(data, "--output", "m", "--set", "trees=False", "--set", "max_seconds=1")
    assert facts["classes"] == 3
    assert len(facts["errors"]) == 4
    expected = ["0.5", "1.5", "2.5"] if data == "t.npz" else [0, 1, 2]
    if data[0] == "t":
        assert mahala.load("m").classes_.tolist() == expected


def test_ctrl_c_keeps_the_best_so_far(tmp_path, table, monkeypatch):
    whole, calls = MapFit.learn, []

    def pressed(self, start, tick):
        def ticked(loss):
            calls.append(loss)
            if len(calls) == 1:
                signal.raise_signal(signal.SIGINT)
            tick(loss)

        return whole(self, start, ticked)

    monkeypatch.setattr(MapFit, "learn", pressed)
    result = run(table, "--label", "churned", "--output", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert "stopping; Ctrl-C again" in result.stderr
    assert "stopped by Ctrl-C" in result.stdout
    assert "gradient boosting" not in result.stdout
    assert mahala.load(tmp_path / "m").rows_.shape == (60,)

    def at_once(self, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(mahala.NeighborClassifier, "_fit", at_once)
    assert run(table, "--label", "churned", "--output", tmp_path / "none").exit_code == 130
    assert not (tmp_path / "none").exists()


def test_a_model_that_would_take_too_long_is_not_measured(tmp_path, labelled, monkeypatch):
    monkeypatch.setattr("mahala.cli.parts.references._MOST_SECONDS", 0.0)
    np.savez(tmp_path / "t.npz", X=labelled[0], y=labelled[1])
    for line in told(tmp_path / "t.npz", "--output", tmp_path / "m", "--set", "trees=False")["errors"][1:]:
        assert line["error"] is None
        assert line["seconds"] > 0.0


def test_plain_models_are_measured_as_scikit_learn_does(tmp_path, labelled):
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import PredefinedSplit, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = labelled
    np.savez(tmp_path / "t.npz", X=X, y=y)
    facts = told(tmp_path / "t.npz", "--output", tmp_path / "m", "--set", "trees=False")
    folds = PredefinedSplit(mahala.load(tmp_path / "m").folds_)
    line = make_pipeline(StandardScaler(), LogisticRegression())
    shares = [len(test) for _, test in folds.split()]
    error = 1.0 - np.average(cross_val_score(line, X, y, cv=folds), weights=shares)
    assert facts["errors"][2]["error"] == pytest.approx(error)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--label must name the column to predict; the columns are customer_id, joined"),
        (["--label", "churn"], "--label names the column 'churn', which"),
        (["--label", "churned", "--ids", "nr"], "--ids names the column 'nr', which"),
        (["--label", "country"], "--label country has the same value in every row, DE"),
        (["--label", "churned", "--ids", "plan"], "--ids must name a column with a value in every row"),
        (["--label", "churned", "--ids", "joined"], "--ids must name a column of different values, but 'joined' has"),
        (["--label", "churned", "--groups", "churned"], "--groups must name another column than --label"),
        (["--label", "churned", "--learner", "NeighborRegressor"], "--label must name a column of numbers"),
        (["--label", "spent", "--learner", "NeighborRegressor", "--bins", 2], "--bins makes classes"),
        (["--label", "churned", "--set", "tree=False"], "NeighborClassifier has no parameter 'tree' (did you mean"),
        (["--label", "churned", "--scaling", "none"], "--scaling goes with a learner of metrics"),
        (["--label", "churned", "--state"], "--state goes with a learner of metrics"),
        (["--label", "churned", "--scheduler", "local"], "--scheduler goes with a learner of metrics"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, table, arguments, said):
    out = tmp_path / "m.safetensors"
    result = run(table, *arguments, "--output", out)
    assert result.exit_code == 2, result.output
    assert said in words(result)
    assert not out.exists()


def test_options_that_name_columns_need_columns(tmp_path, labelled):
    np.savez(tmp_path / "t.npz", X=labelled[0], y=labelled[1])
    result = run(tmp_path / "t.npz", "--ids", "name", "--output", tmp_path / "m")
    assert "--ids, --groups, --drop and --keep name columns" in words(result)
    np.save(tmp_path / "t.npy", labelled[0])
    assert "has no labels: use an .npz file" in words(run(tmp_path / "t.npy", "--output", tmp_path / "m"))


def test_existing_files_need_force(tmp_path, table):
    out = tmp_path / "mine.txt"
    out.write_text("mine")
    assert "give --force" in words(run(table, "--label", "churned", "--output", out))
    assert out.read_text() == "mine"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(table, "--label", "churned", "--output", out, "--force", *FAST).exit_code == 0

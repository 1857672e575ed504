"""`mahala show MODEL DATA ROW...` as a person uses it."""

from __future__ import annotations

import json

import numpy as np
import polars
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import mahala
from mahala.cli.main import app
from mahala.metric import Scales

M = np.array([[2.0, -0.5, 0.0], [-0.5, 1.0, 0.0], [0.0, 0.0, 0.25]])
X = np.array([[1.0, 20.0, 3.0], [4.0, 50.0, 3.0]])


@pytest.fixture
def files(tmp_path):
    names = ["u", "v", "w[1]"]
    (tmp_path / "t.csv").write_text("w[1],v,u\n3,20,1\n3,50,4\n")
    mahala.MahalanobisMetric(M, feature_names=names, steps=[Scales([1.0, 10.0, 1.0])], threshold=20.0).save(
        tmp_path / "m.safetensors"
    )
    return tmp_path


def run(folder, data, row, row2, *more):
    names = [str(folder / "m.safetensors"), str(folder / data), str(row), str(row2)]
    return CliRunner().invoke(app, ["show", *names, *more])


def test_json(files):
    told = json.loads(run(files, "t.csv", 0, 1, "--json").stdout)
    # The scaled difference is (-3, -3, 0).
    assert told["squared_distance"] == pytest.approx(18.0)
    assert told["distance"] == pytest.approx(18**0.5)
    assert told["euclidean"] == pytest.approx(18**0.5)
    assert told["similar"] is True
    assert told["rows"] == [0, 1]
    contributions = {line["name"]: (line["contribution"], line["values"]) for line in told["contributions"]}
    assert contributions["u"] == (pytest.approx(13.5), [1.0, 4.0])
    assert contributions["v"] == (pytest.approx(4.5), [20.0, 50.0])
    assert contributions["w[1]"] == (0.0, [3.0, 3.0])
    assert told["left_out"] == 0
    assert json.loads(run(files, "t.csv", 0, 1, "--top", "1", "--json").stdout)["left_out"] == 1


def test_words(files):
    shown = run(files, "t.csv", 0, 1)
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.stdout.split())
    assert "The learned distance of rows 0 and 1 is 4.243, squared 18;" in text
    assert "the Euclidean distance of the scaled features" in text
    assert "The model calls them similar: up to 20 squared counts as similar." in text
    assert "75%" in text
    assert "w[1]" in text
    assert "1 smaller contributions are not shown" in run(files, "t.csv", 0, 1, "--top", "1").stdout
    same = " ".join(run(files, "t.csv", 1, 1).stdout.split())
    assert "is 0, squared 0" in same
    assert same.endswith("No feature contributes.")


@pytest.mark.parametrize("width", ["40", "60", "80"])
def test_no_number_is_lost_in_a_narrow_terminal(files, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    text = run(files, "t.csv", 0, 1).stdout
    for word in ("feature", "contribution", "share", "13.5", "75%", "w[1]"):
        assert word in text
    assert ("row 1" in text.splitlines()[-6]) == (width != "40")
    assert ("█" in text) == (width == "80")


def test_bilinear_sparse(tmp_path):
    mahala.BilinearMetric(sp.csr_array(M)).save(tmp_path / "m.safetensors")
    S = sp.csr_array(X)
    np.savez(tmp_path / "t.npz", data=S.data, indices=S.indices, indptr=S.indptr, shape=S.shape)
    told = json.loads(run(tmp_path, "t.npz", 0, 1, "--json").stdout)
    assert told["similarity"] == pytest.approx(X[0] @ M @ X[1])
    assert told["inner_product"] == pytest.approx(X[0] @ X[1])
    assert sum(line["contribution"] for line in told["contributions"]) == pytest.approx(told["similarity"])
    assert "The similarity of rows 0 and 1 is" in run(tmp_path, "t.npz", 0, 1).stdout


def test_kernels_have_directions(tmp_path, labelled):
    learner = mahala.PA(kernel="rbf", n_pairs=30, random_state=0).fit(*labelled)
    learner.save(tmp_path / "m.safetensors")
    np.save(tmp_path / "t.npy", labelled[0])
    told = json.loads(run(tmp_path, "t.npy", 0, 1, "--top", "1000", "--json").stdout)
    assert told["contributions"][0]["name"].startswith("direction ")
    assert sum(line["contribution"] for line in told["contributions"]) == pytest.approx(told["squared_distance"])
    assert "direction" in run(tmp_path, "t.npy", 0, 1).stdout


def test_what_is_wrong_is_said(files):
    (files / "less.csv").write_text("u,v\n1,2\n")
    for data, row, row2, words in (
        ("t.csv", 0, 2, "ROW must be a row number from 0 to 1, got 2"),
        ("t.csv", 9, 0, "ROW must be a row number from 0 to 1, got 9"),
        ("less.csv", 0, 0, "the table lacks the column w[1]"),
        ("none.csv", 0, 0, "none.csv: No such file or directory"),
        ("t.csv", "x", 0, "Invalid value for"),
    ):
        result = run(files, data, row, row2)
        assert result.exit_code == 2
        assert words in " ".join(result.stderr.split()), result.stderr


@pytest.fixture
def predicting(tmp_path):
    """A folder with a model that predicts, and a table of new rows, of which one has a label."""
    size = np.linspace(20, 120, 60)
    frame = polars.DataFrame({"size": size, "district": ["old", "new", "far"] * 20})
    model = mahala.NeighborClassifier(trees=False).fit(frame, polars.Series("kind", np.where(size > 70, "big", "low")))
    model.name_rows([f"n{row}" for row in range(60)]).save(tmp_path / "m.safetensors")
    (tmp_path / "new.csv").write_text("size,district,kind\n30,old,\n110,far,low\nlarge,moon,\n")
    return tmp_path


def explained(folder, *arguments):
    names = [str(folder / "m.safetensors"), str(folder / "new.csv")]
    return CliRunner().invoke(app, ["show", *names, *map(str, arguments)])


def test_one_row_is_a_prediction(predicting, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    model = mahala.load(predicting / "m.safetensors")
    reasons = model.explain(polars.DataFrame({"size": [110.0], "district": ["far"]}), k=2)
    told = json.loads(explained(predicting, 1, "-k", 2, "--json").stdout)
    assert (told["prediction"], told["label"], told["other"]) == ("big", "low", "low")
    assert [tuple(line.values()) for line in told["rows"]] == reasons.rows
    assert told["columns"] == reasons.columns
    assert told["text"] == str(reasons)
    result = explained(predicting, 1)
    assert max(map(len, result.stdout.splitlines())) <= 80
    shown = " ".join(result.stdout.split())
    assert shown.startswith("big is predicted, with a probability of")
    assert "The label in the table is low." in shown
    assert f"{reasons.rows[0][0]} big" in shown
    odd = explained(predicting, 2)
    assert odd.exit_code == 0, odd.output
    assert "such as 'large'" in odd.stderr


def test_two_rows_under_the_metric_of_a_model_that_predicts(predicting):
    told = json.loads(explained(predicting, 0, 1, "--json").stdout)
    metric = mahala.load(predicting / "m.safetensors").metric_
    rows = polars.DataFrame({"size": [30.0, 110.0], "district": ["old", "far"]})
    assert told["distance"] == pytest.approx(metric.pairwise(rows)[0, 1])


def test_one_row_needs_a_model_that_predicts(files, predicting):
    result = explained(predicting, 3)
    assert (result.exit_code, "ROW must be a row number from 0 to 2, got 3" in result.stderr) == (2, True)
    mahala.MahalanobisMetric(M).save(files / "m.safetensors")
    result = explained(predicting, 0)
    assert result.exit_code == 2
    assert "ROW must be two numbers, because" in result.stderr


@pytest.mark.parametrize("rows", [(), (0, 1, 2)])
def test_one_row_or_two(predicting, rows):
    result = explained(predicting, *rows)
    assert result.exit_code == 2
    assert f"ROW must be the number of one row of {predicting / 'new.csv'}, or of two, got {len(rows)}" in result.stderr

"""`mahala show` as a person uses it."""

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


def run(path, *more):
    result = CliRunner().invoke(app, ["show", str(path), *more])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if "--json" in more else " ".join(result.stdout.split())


def test_a_metric(tmp_path):
    path = tmp_path / "m.safetensors"
    metric = mahala.MahalanobisMetric(
        np.diag([1.0, 4.0, 0.0]),
        threshold=2.0,
        feature_names=["a", "b[0]", "c"],
        steps=[Scales([1, 2, 3])],
        origin={"learner": "PA", "params": {"C": 0.5}},
    )
    metric.save(path)
    told = run(path, "--json", "--top", "2")
    expected = {
        "holds": "metric",
        "learner": "PA",
        "params": {"C": 0.5},
        "kind": "mahalanobis",
        "shape": [3, 3],
        "features": 3,
        "scaled": True,
        "threshold": 2.0,
        "rank": 2,
        "spectrum": [4.0, 1.0],
        "weights": [{"feature": "b[0]", "weight": 4.0}, {"feature": "a", "weight": 1.0}],
        "comparisons": None,
    }
    assert expected.items() <= told.items()
    assert told["sparsity"] == pytest.approx(7 / 9)
    shown = run(path)
    for words in (
        "holds a Mahalanobis distance",
        "PA(C=0.5)",
        "matrix 3 × 3",
        "squared distances up to 2 count as similar",
        "Leading eigenvalues",
        "b[0] 4 ████",
        "diagonal of M, scaled features",
    ):
        assert words in shown


def test_no_number_is_lost_in_a_narrow_terminal(tmp_path, monkeypatch):
    mahala.MahalanobisMetric(np.diag([1.25, 4.5]), feature_names=["sugar", "milk"]).save(tmp_path / "m.safetensors")
    monkeypatch.setenv("COLUMNS", "40")
    shown = run(tmp_path / "m.safetensors")
    assert "1 4.5 2 1.25" in shown
    assert "milk 4.5 sugar 1.25" in shown


def test_online_state(tmp_path, labelled):
    path = tmp_path / "s.safetensors"
    learner = mahala.PA(n_pairs=40, n_steps=40, random_state=0).fit(*labelled)
    learner.save(path)
    told = run(path, "--json")
    assert (told["holds"], told["comparisons"], told["updates"]) == ("learner", 40, learner.n_updates_)
    assert told["mistakes"] == learner.n_mistakes_
    assert "holds a learner of a Mahalanobis distance" in run(path)
    assert f"40 comparisons, {learner.n_updates_} updates" in run(path)


def test_batch_state(tmp_path, labelled):
    path = tmp_path / "s.safetensors"
    learner = mahala.NCA(max_iter=3, random_state=0).fit(*labelled)
    learner.save(path)
    told = run(path, "--json")
    assert (told["iterations"], told["objective"]) == (learner.n_iter_, learner.objective_)
    assert f"stopped: {learner.stop_reason_}" in run(path)


def test_sparse_bilinear_and_kernel(tmp_path, labelled):
    path = tmp_path / "m.safetensors"
    mahala.BilinearMetric(sp.csr_array(np.diag([0.0, -3.0, 1.0]))).save(path)
    told = run(path, "--json")
    assert (told["kind"], told["rank"], told["spectrum"]) == ("bilinear", None, None)
    assert told["weights"][0] == {"feature": "x1", "weight": -3.0}
    assert "x1 -3 ▒▒▒▒" in run(path)
    mahala.BilinearMetric(np.ones((2, 3))).save(path)
    assert run(path, "--json")["weights"] is None
    mahala.PA(kernel="rbf", n_pairs=20, random_state=0).fit(*labelled).metric_.save(path)
    told = run(path, "--json")
    assert (told["kernel"], told["weights"], told["features"]) == ("rbf", None, 5)
    assert "by the kernel rbf, from 5 features" in run(path)


def test_a_zero_matrix(tmp_path):
    mahala.MahalanobisMetric(np.zeros((2, 2))).save(tmp_path / "m.safetensors")
    assert run(tmp_path / "m.safetensors", "--json")["rank"] == 0
    assert "Leading eigenvalues" in run(tmp_path / "m.safetensors")


def test_what_is_wrong_is_said(tmp_path):
    for content, words in ((None, "No such file or directory"), ("nonsense", "not a readable model file")):
        if content:
            (tmp_path / "m.safetensors").write_text(content)
        result = CliRunner().invoke(app, ["show", str(tmp_path / "m.safetensors")])
        assert (result.exit_code, words in result.stderr) == (2, True)


def test_a_model_that_predicts(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    size = np.linspace(20, 120, 60)
    frame = polars.DataFrame({"size": size, "district": ["old", "new", "far"] * 20, "country": ["DE"] * 60})
    classes = mahala.NeighborClassifier(trees=False).fit(frame, polars.Series("kind", size > 70))
    path = tmp_path / "m.safetensors"
    classes.name_rows([f"n{row}" for row in range(60)]).save(path)
    told = run(path, "--json")
    expected = {"holds": "model", "learner": "NeighborClassifier", "label": "kind", "rows": 60, "named": True}
    expected |= {"classes": [False, True], "columns_used": 2, "rank": classes.metric_.n_components, "left_out": 60}
    assert expected.items() <= told.items()
    assert told["score"] == pytest.approx(classes.score_)
    assert told["bytes"] == path.stat().st_size
    assert told["column_weights"][0] == {"column": "size", "weight": pytest.approx(classes.column_weights()["size"])}
    assert dict(told["columns"])["country"].startswith("left out")
    shown = run(path)
    for words in (
        "holds a model that predicts classes, and its training rows",
        "NeighborClassifier(trees=False)",
        "60, with names",
        "2: False, True",
        "% on rows left out",
        "trees 0",
        "size 9",
    ):
        assert words in shown
    mahala.NeighborRegressor(trees=False, metric=mahala.MahalanobisMetric.euclidean(1)).fit(
        size[:, np.newaxis], 2.0 * size
    ).save(path)
    told = run(path, "--json")
    assert (told["classes"], told["column_weights"], told["params"]["metric"]) == (None, None, "given")
    assert "predicts numbers" in run(path)
    assert "R² " in run(path)


@pytest.mark.parametrize(
    ("name", "now"), [("inspect", "`mahala show MODEL`"), ("explain", "`mahala show MODEL DATA ROW`")]
)
def test_former_names_are_known(tmp_path, name, now):
    result = CliRunner().invoke(app, [name, str(tmp_path / "m.safetensors")])
    assert result.exit_code == 2
    assert f"there is no command {name!r}: {now}" in result.stderr

"""Learners by name, and model files of both kinds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from typer.testing import CliRunner

import mahala
from mahala.cli.main import app
from mahala.cli.parts.model_rows import read_rows
from mahala.cli.parts.models import learner_named, load_metric
from mahala.cli.parts.options import check_output
from mahala.cli.parts.tables import times_of
from mahala.report.page import page


def test_learners_by_name():
    learner = learner_named("pa", ["C=0.5", "psd = every", "kernel_params={'gamma': 2}", "n_pairs=10"])
    expected = mahala.PA(C=0.5, psd="every", kernel_params={"gamma": 2}, n_pairs=10)
    assert type(learner) is mahala.PA
    assert learner.get_params() == expected.get_params()
    assert learner_named("ADASORS", []).random_state is None
    assert learner_named("oasis", ["average=true", "C=auto"]).average is True
    assert learner_named("nca", ["n_components=none"]).n_components is None
    assert learner_named("nca", [], seed=3).random_state == 3
    assert learner_named("nca", ["random_state=5"], seed=3).random_state == 5
    assert isinstance(learner_named("mdm", [], seed=3), mahala.batch.MDM)  # has no random_state


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("LMN", [], r"'LMN', not a learner \(did you mean LMNN\?\); choose from PA, POLA, .*MDM, "),
        ("Metric", [], "'Metric', not a learner"),
        ("PAUM", [], "'PAUM', not a learner"),
        ("zzz", [], "not a learner; choose from"),
        ("PA", ["c=1"], r"PA has no parameter 'c' \(did you mean C\?\); it has C, balance"),
        ("PA", ["C"], r"--set takes NAME=VALUE, such as --set C=0\.1, got 'C'"),
    ],
)
def test_wrong_names(name, settings, words):
    with pytest.raises(ValueError, match=words):
        learner_named(name, settings)


def test_both_kinds_of_files(tmp_path, labelled):
    learner = mahala.PA(random_state=0).fit(*labelled)
    learner.save(tmp_path / "state.safetensors")
    learner.metric_.save(tmp_path / "metric.safetensors")
    for name in ("state", "metric"):
        np.testing.assert_array_equal(load_metric(tmp_path / f"{name}.safetensors").matrix, learner.metric_.matrix)
    (tmp_path / "bad.safetensors").write_text("no model")
    with pytest.raises(mahala.ModelFileError, match="not a readable model file"):
        load_metric(tmp_path / "bad.safetensors")
    with pytest.raises(FileNotFoundError):
        load_metric(tmp_path / "none.safetensors")


def test_rows_for_a_bilinear_metric(tmp_path):
    metric = mahala.BilinearMetric(np.ones((2, 3)), feature_names=["a", "b"])
    (tmp_path / "q.csv").write_text("b,z,a\n1,2,3\n4,5,6\n")
    (tmp_path / "i.csv").write_text("u,v,w\n1,2,3\n")
    assert read_rows(tmp_path / "q.csv", metric).X.tolist() == [[3, 1], [6, 4]]
    assert read_rows(tmp_path / "i.csv", metric, items=True).X.tolist() == [[1, 2, 3]]
    with pytest.raises(ValueError, match="the table lacks the columns a, b"):
        read_rows(tmp_path / "i.csv", metric)


def test_times_are_numbers_or_dates():
    def times(*texts):
        return times_of(np.array(texts, dtype=object)).tolist()

    assert times("1.50", "2.5", "10") == [1.5, 2.5, 10.0]
    assert [time.year for time in times("2024-01-31", "2025-01-31")] == [2024, 2025]
    with pytest.raises(ValueError, match="--time must name a column of numbers or of dates"):
        times("x", "y")


def test_outputs_are_checked(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"--output must end in \.csv, \.npy, got .*t\.xls"):
        check_output(tmp_path / "t.xls", ".csv", ".npy")
    with pytest.raises(ValueError, match="there is no folder"):
        check_output(tmp_path / "no" / "t.csv", ".csv")
    with pytest.raises(ValueError, match="is a folder"):
        check_output(tmp_path)
    with pytest.raises(ValueError, match="is a device"):
        check_output(Path("/dev/null"), force=True)
    monkeypatch.setattr("mahala.cli.parts.options.os.access", lambda path, mode: False)
    with pytest.raises(ValueError, match="is not writable"):
        check_output(tmp_path / "t.csv")


def test_what_mahala_did_not_write_is_replaced_by_force_only(tmp_path):
    path = tmp_path / "file"
    check_output(path)
    path.touch()
    check_output(path)
    mahala.MahalanobisMetric(np.eye(2)).save(path)
    check_output(path)
    path.write_text(page("title", "<p>text</p>", []))
    check_output(path)
    foreign = tmp_path / "foreign.safetensors"
    save_file({"w": np.eye(2)}, foreign)
    path.write_text("<!DOCTYPE html><html><head><title>a page</title></head></html>")
    for other in (path, foreign):
        with pytest.raises(ValueError, match=r"exists and is not a model or report of mahala: .* give --force"):
            check_output(other)
        check_output(other, force=True)
        with pytest.raises(ValueError, match="must not be an input"):
            check_output(other, inputs=[other], force=True)


@pytest.mark.usefixtures("stored")
def test_every_command_that_writes_asks_for_force(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("q.npy", rng.normal(size=(12, 3)))
    Path("qrels.tsv").write_text("".join(f"{row}\t{row}\t1\n" for row in range(12)))
    compare = "compare iris --learners rca --folds 2 --repeats 1 --no-baselines"
    judged = "--queries q.npy --items q.npy --qrels qrels.tsv"
    commands = {
        "m.safetensors": "fit wine --learner rca --output m.safetensors",
        "z.csv": "transform wine --model model.safetensors --output z.csv",
        "z.npy": "transform wine --model model.safetensors --output z.npy",
        "found.csv": "search wine --row 0 --model model.safetensors --output found.csv",
        "a.safetensors": f"adapt {judged} --output a.safetensors",
        "out/report.html": f"{compare} --output out",
        "out/model.safetensors": f"{compare} --no-report --output out",
        "other/leaderboard.csv": f"{compare} --no-report --output other",
    }
    assert CliRunner().invoke(app, ["fit", "wine", "--learner", "rca", "--output", "model.safetensors"]).exit_code == 0
    for name, command in commands.items():
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_text("mine")
        result = CliRunner().invoke(app, command.split())
        assert (result.exit_code, "--force" in result.stderr) == (2, True), (command, result.output)
        assert Path(name).read_text() == "mine"
        assert CliRunner().invoke(app, [*command.split(), "--force"]).exit_code == 0, command
        assert Path(name).read_bytes() != b"mine"
        if name.endswith((".safetensors", ".html")):  # mahala's own by now
            assert CliRunner().invoke(app, command.split()).exit_code == 0, command

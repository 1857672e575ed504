"""`mahala compare` as a person uses it."""

from __future__ import annotations

import csv
import json
import re
import signal

import numpy as np
import pytest
from sklearn.datasets import load_wine
from typer.testing import CliRunner

from mahala import PCA, Metric, knn_error
from mahala.cli.main import app
from mahala.data.tables import read_table
from processes import Program

pytestmark = pytest.mark.usefixtures("few_rounds")
QUICK = ["--folds", "2", "--repeats", "1", "--learners", "LDA,RCA", "--no-baselines"]


def mahala(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def words(text):
    return " ".join(text.split())


@pytest.fixture
def cups(tmp_path):
    """A table with a column of text labels and one of numbers that says nothing."""
    rng = np.random.default_rng(0)
    path = tmp_path / "cups of tea.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "sugar", "milk", "<b>kind</b>"])
        for i in range(60):
            kind = i % 2
            writer.writerow([i, *(rng.normal(size=2) + 3 * kind).round(3), ["green", "black & strong"][kind]])
    return path


def test_the_bundled_table(tmp_path):
    result = mahala("wine", "--output", tmp_path / "out", *QUICK)
    assert result.exit_code == 0, result.output
    said = ("LDA", "Euclidean, scaled", "reference", "k-NN error", "k of each metric is chosen inside")
    for text in (*said, "model.safetensors holds", "leaderboard.csv"):
        assert text in words(result.output)
    metric = Metric.load(tmp_path / "out" / "model.safetensors")
    assert metric.feature_names[0] == "alcohol"
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "178 rows · 13 features · 3 classes" in page
    assert "--folds" not in page  # sys.argv is the test runner's, not the command's


@pytest.mark.usefixtures("stored")
def test_files_and_json_agree(cups, tmp_path):
    out = tmp_path / "out"
    result = mahala(cups, "--label", "<b>kind</b>", "--drop", "number", "--output", out, "--json", *QUICK)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["classes"] == ["black & strong", "green"]
    assert (told["rows"], told["features"]) == (60, 2)
    with (out / "leaderboard.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["name"] for line in lines] == [entry["name"] for entry in told["entries"]]
    for line, entry in zip(lines, told["entries"], strict=True):
        assert float(line["error"]) == entry["error"]
        assert (line["absolute_error"] == "") == (entry["absolute_error"] is None)
    assert told["verdict"]["kind"] in ("shown to help", "probably helps", "does not help")
    metric = Metric.load(out / "model.safetensors")
    rows = read_table(cups, label="<b>kind</b>", drop=["number"])
    assert metric.feature_names == ("sugar", "milk")
    assert knn_error(metric, rows.X, rows.labels).at(3) < 0.1
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "black &amp; strong" in page
    assert "<b>kind</b>" not in page


def test_the_default_folder_is_named_after_the_table(cups, tmp_path, stored, monkeypatch):
    stored({"LDA": 0.5, "RCA": 0.5})  # so that there is no second model
    monkeypatch.chdir(tmp_path)
    result = mahala(cups, "--label", "<b>kind</b>", "--no-report", *QUICK)
    assert result.exit_code == 0
    folder = tmp_path / "cups of tea-_b_kind_b_-mahala"
    assert sorted(path.name for path in folder.iterdir()) == ["leaderboard.csv", "model.safetensors"]
    cups.rename(tmp_path / "tea.2024.csv")
    assert mahala("tea.2024.csv", "--label", "<b>kind</b>", "--no-report", *QUICK).exit_code == 0
    assert (tmp_path / "tea.2024-_b_kind_b_-mahala" / "leaderboard.csv").exists()


@pytest.mark.usefixtures("stored")
def test_no_number_is_lost_in_a_narrow_terminal(cups, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    shown = mahala(cups, "--label", "<b>kind</b>", "--output", tmp_path, "--no-report", *QUICK).output
    with (tmp_path / "leaderboard.csv").open(newline="") as file:
        errors = [f"{100 * float(line['error']):.1f} %" for line in csv.DictReader(file)]
    assert len(errors) == 4
    assert all(error in shown for error in errors)
    assert "…" not in shown


@pytest.mark.usefixtures("stored")
def test_a_data_set_by_name_and_learners_outside_of_the_panel(tmp_path):
    options = "--folds", 2, "--repeats", 1, "--learners", "pa, relief", "--no-baselines", "--json"
    result = mahala("iris", "--output", tmp_path, *options)
    assert result.exit_code == 0, result.output
    assert {entry["name"] for entry in json.loads(result.stdout)["entries"] if entry["learned"]} == {"PA-I", "Relief"}


def test_a_failed_learner_is_said(tmp_path, stored):
    stored({"OASIS": "OASIS learns a bilinear similarity, which has no distances"})
    result = mahala("iris", "--output", tmp_path, "--no-report", *QUICK, "--learners", "OASIS")
    assert result.exit_code == 0, result.output
    assert "OASIS could not be fitted: OASIS learns a bilinear similarity" in words(result.output)
    assert "No learner could be fitted here" in words(result.output)
    origin = {"learner": "Euclidean", "params": {}, "verdict": "too early to tell"}
    assert Metric.load(tmp_path / "model.safetensors").origin == origin


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no data set 'nowhere'"),
        (["nowhere.csv"], "nowhere.csv: No such file"),
        (["wine", "--learners", "magic"], "--learners is 'magic', not a learner"),
        (["wine", "--learners", ","], "--learners must name learners"),
        (["iris", "--label", "x"], "--label and --drop name columns of a file"),
        (["wine", "-k", "1000"], "n_neighbors must be at most"),
    ],
)
def test_errors_are_words(tmp_path, arguments, message):
    result = mahala(*arguments, "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert message in words(result.stderr)
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_a_table_without_label(cups, tmp_path):
    result = mahala(cups, "--output", tmp_path / "out", "--drop", "<b>kind</b>")
    assert result.exit_code == 2
    assert "--label must name the column of labels" in words(result.stderr)
    file = tmp_path / "file"
    file.write_text("mine")
    result = mahala(cups, "--label", "<b>kind</b>", "--output", file)
    assert result.exit_code == 2
    assert "is a file" in words(result.stderr)
    assert "is a file" in words(mahala(cups, "--label", "<b>kind</b>", "--output", file / "deeper").stderr)
    assert file.read_text() == "mine"
    np.save(tmp_path / "rows.npy", np.eye(3))
    assert "use an .npz file with X and y" in words(mahala(tmp_path / "rows.npy").stderr)


def test_a_folder_that_may_not_be_written_to_is_refused_before_the_work(cups, tmp_path, monkeypatch):
    monkeypatch.setattr("mahala.cli.compare.os.access", lambda path, mode: path != tmp_path)
    result = mahala(cups, "--label", "<b>kind</b>", "--output", tmp_path / "new" / "out")
    assert result.exit_code == 2
    assert f"{tmp_path} is not writable" in words(result.stderr)


def test_help_has_examples():
    result = CliRunner().invoke(app, ["compare", "--help"])
    assert result.exit_code == 0
    assert "mahala compare balance" in result.output


@pytest.mark.usefixtures("stored")
def test_what_is_there_stays_where_writing_fails(cups, tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.html").write_text("before")

    def fail(self, path):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Metric, "save", fail)
    result = mahala(cups, "--label", "<b>kind</b>", "--output", out, *QUICK, "--force")
    assert result.exit_code == 2
    assert "No space left" in words(result.stderr)
    assert (out / "report.html").read_text() == "before"
    assert sorted(path.name for path in out.iterdir()) == ["cells.jsonl", "report.html"]  # for the next try


@pytest.mark.usefixtures("stored")
def test_ctrl_c_at_once_leaves_nothing(tmp_path, monkeypatch):
    stop_at_cell(1, monkeypatch)
    result = mahala("iris", "--output", tmp_path / "out", *QUICK)
    assert (result.exit_code, result.stderr.strip()) == (130, "interrupted")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore")  # of Dask, where the machine is slow
def test_cells_are_measured_by_a_cluster(tmp_path):
    pytest.importorskip("distributed", reason="needs Dask: pip install 'mahala[dask]'")
    import dask

    options = ("iris", "--no-report", "--folds", 2, "--repeats", 1, "--learners", "rca,lda", "--json", "--no-baselines")
    here = mahala(*options, "--output", tmp_path / "here")
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):  # that of processes.py
        there = mahala(*options, "--output", tmp_path / "there", "--scheduler", "local")
    assert there.exit_code == 0, there.output
    entries = [{entry["name"]: entry["error"] for entry in json.loads(r.stdout)["entries"]} for r in (here, there)]
    assert entries[0] == entries[1]
    result = mahala(*options, "--output", tmp_path / "out", "--scheduler", "nowhere://x")
    assert result.exit_code == 2
    assert "--scheduler is 'nowhere://x', where no scheduler answers" in words(result.stderr)
    assert dask.config.get("scheduler", None) is None  # others may use Dask in this process


@pytest.mark.parametrize(("number", "end", "code"), [(signal.SIGINT, "Ctrl-C", 130), (signal.SIGTERM, "SIGTERM", 143)])
def test_a_signal_writes_what_is_finished(tmp_path, number, end, code):
    """In a process of its own, which gets the signal when some cells are finished."""
    script = (
        "import time; import mahala.evaluation.cross_validation.measuring as m; from mahala.cli.main import app\n"
        "cell = m.measure_cell\n"
        "m.measure_cell = lambda *given: (print('ready', flush=True), time.sleep(0.05), cell(*given))[-1]\n"
        "options = ['--output', 'out', '--learners', 'LDA', '--no-report', '--no-baselines', '--folds', '20']\n"
        "app(['compare', 'iris', *options])"
    )
    with Program(script, folder=tmp_path) as process:
        for _ in range(8):
            assert process.stdout.readline() == "ready\n"
        process.send(number)
        output, errors, status = process.stdout.read(), process.stderr.read(), process.wait()
    assert status == code, errors
    assert errors.strip().endswith("interrupted")
    assert f"Partial: {end} ended the comparison after" in words(output)
    assert "the same command again resumes" in words(output)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "cells.jsonl", "leaderboard.csv", "model.safetensors"
    ]  # fmt: skip
    origin = Metric.load(tmp_path / "out" / "model.safetensors").origin
    assert origin["partial"].endswith("of 80 test parts")


def stop_at_cell(number, monkeypatch):
    """Press Ctrl-C when this cell begins; return the keys of the cells that have begun."""
    import mahala.evaluation.cross_validation.measuring as measuring

    measure, measured = measuring.measure_cell, []

    def counted(task, key, *others):
        measured.append(key)
        if len(measured) == number:
            raise KeyboardInterrupt
        return measure(task, key, *others)

    monkeypatch.setattr(measuring, "measure_cell", counted)
    return measured


@pytest.mark.usefixtures("stored")
def test_the_same_command_goes_on(cups, tmp_path, monkeypatch):
    measured = stop_at_cell(8, monkeypatch)
    command = [cups, "--label", "<b>kind</b>", "--output", tmp_path / "out", "--learners", "LDA", "--no-baselines"]
    first = mahala(*command, "--folds", 3, "--repeats", 2, "--json")
    assert first.exit_code == 130
    told = json.loads(first.stdout)
    assert (told["parts"], told["partial"]) == (2, True)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Partial: Ctrl-C ended the comparison after 2 of 6 test parts." in page
    again = mahala(*command, "--folds", 3, "--repeats", 2, "--json")
    assert again.exit_code == 0, again.output
    assert len(measured) == 8 + 11  # the eighth was not finished
    assert json.loads(again.stdout)["partial"] is False
    assert not (tmp_path / "out" / "cells.jsonl").exists()
    assert "partial" not in Metric.load(tmp_path / "out" / "model.safetensors").origin


@pytest.mark.usefixtures("stored")
def test_ctrl_c_after_one_test_part_has_no_intervals(cups, tmp_path, monkeypatch):
    stop_at_cell(5, monkeypatch)
    command = [cups, "--label", "<b>kind</b>", "--output", tmp_path / "out", "--learners", "LDA", "--no-baselines"]
    result = mahala(*command, "--folds", 3, "--repeats", 2)
    assert result.exit_code == 130, result.output
    assert "after 1 of 6 test parts" in words(result.output)
    for text in (result.output, (tmp_path / "out" / "report.html").read_text(encoding="utf-8").partition("<script")[0]):
        assert not re.search(r"\bnan\b", text)


def test_the_plain_distance_is_saved_unless_it_is_beaten(tmp_path, stored):
    stored({"Euclidean": 0.4, "Euclidean, scaled": 0.2, "LDA": 0.4, "RCA": 0.4})
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "noise.npz", X=rng.normal(size=(60, 3)) * [1.0, 5.0, 1.0], y=np.arange(60) % 2)
    command = [tmp_path / "noise.npz", "--learners", "LDA,RCA", "--repeats", 2, "--no-baselines", "--no-report"]
    result = mahala(*command, "--output", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "Does not help: the best learner" in words(result.output)
    assert "model.safetensors holds the plain distance (scaled Euclidean); apply it to raw" in words(result.output)
    origin = {"learner": "Euclidean", "params": {}, "verdict": "does not help"}
    assert Metric.load(tmp_path / "out" / "model.safetensors").origin == origin


@pytest.mark.parametrize("name", ["cosine", "PCA"])
def test_a_plain_cosine_or_pca_that_is_clearly_better_is_the_reference_and_saved(tmp_path, stored, name):
    stored({name: 0.1, "LDA": 0.3})
    result = mahala("wine", "--learners", "LDA", "--folds", 3, "--repeats", 2, "--output", tmp_path / "out")
    assert result.exit_code == 0, result.output
    shown = words(result.output)
    assert re.search(rf"Does not help: the best learner, LDA, has a k-NN error of [\d.]+ %, {name} [\d.]+ %\.", shown)
    assert f"model.safetensors holds the plain distance ({name}); apply it to raw" in shown
    assert "Measured on fewer test parts" not in shown  # in the first repetition, as models are
    assert shown[shown.index("For context: ") :].count(f"k-NN with {name} ") == 1
    metric = Metric.load(tmp_path / "out" / "model.safetensors")
    assert metric.origin["learner"] == name
    assert metric.transform(load_wine().data).shape == (178, metric.n_components)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert f"before: {name}" in page


def test_a_page_has_one_number_of_neighbours(tmp_path, stored):
    stored()
    result = mahala("wine", "--learners", "LDA", "--folds", 3, "--repeats", 1, "-k", 3, "--output", tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    text = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    for words_of in (words(result.output), text):
        assert "3-NN with " in words_of
        assert set(re.findall(r"(\w+)-NN", words_of)) == {"3"}


def test_a_learner_that_probably_helps_is_saved_beside_the_plain_distance(tmp_path, stored):
    stored({"RCA": 0.37})
    command = ["wine", "--learners", "rca", "-k", 3, "--folds", 3, "--repeats", 6, "--no-baselines", "--no-report"]
    shown = words(mahala(*command, "--output", tmp_path / "out").output)
    learned, plain = (Metric.load(tmp_path / "out" / f"{name}.safetensors") for name in ("learned", "model"))
    assert (learned.origin["learner"], plain.origin["learner"]) == ("RCA", "Euclidean")
    assert "RCA, which probably helps, is in learned.safetensors" in shown
    assert re.search(r"\(\d+ of \d+ repeats\)", shown)


def test_groups_and_times(tmp_path):
    """A household tells the label, but not that of a new one."""
    rng = np.random.default_rng(0)
    label_of = rng.integers(0, 2, 30)
    lines = ["household,size,day,kind"]
    for i in range(240):
        home = int(rng.integers(30))
        day = f"2026-{i // 28 + 1:02d}-{i % 28 + 1:02d}"
        lines.append(f"{home},{rng.normal():.3f},{day},{'ab'[label_of[home]]}")
    (tmp_path / "visits.csv").write_text("\n".join(lines))
    command = [
        tmp_path / "visits.csv",
        "--label",
        "kind",
        "--learners",
        "LDA",
        "--no-baselines",
        "--no-report",
        "--json",
    ]
    few = ("--folds", 3, "--repeats", 2)
    told = json.loads(mahala(*command, *few, "--drop", "day", "--output", tmp_path / "a").stdout)
    (caution,) = [text for text in told["cautions"] if "household" in text]
    assert "looks like an id of groups" in caution
    assert next(e["error"] for e in told["entries"] if e["name"] == told["reference"]) < 0.2
    of_homes = ("--groups", "household", "--drop", "day")
    told = json.loads(mahala(*command, *few, *of_homes, "--output", tmp_path / "b").stdout)
    assert told["features"] == 1
    assert told["verdict"]["units"] == "groups"
    assert min(entry["error"] for entry in told["entries"]) > 0.3
    told = json.loads(mahala(*command, "--time", "day", "--output", tmp_path / "c").stdout)
    assert (told["repeats"], told["features"]) == (1, 2)
    result = mahala(*command, "--groups", "home", "--output", tmp_path / "d")
    assert "which" in words(result.stderr)
    assert result.exit_code == 2


@pytest.mark.usefixtures("stored")
def test_lopsided_classes_and_baselines(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(200) < 20
    np.savez(tmp_path / "fraud.npz", X=rng.normal(size=(200, 3)) + 2.0 * y[:, None], y=np.where(y, "fraud", "fine"))
    command = [tmp_path / "fraud.npz", "--output", tmp_path / "out", "--no-report", "--learners", "LDA"]
    command += ["--folds", 2, "--repeats", 1]
    shown = words(mahala(*command).output)
    assert "balanced k-NN" in shown
    assert "over 75 % of rows are of class 'fine': always answering 'fine' has an error of 10.0 %" in shown
    assert "logistic regression" in shown
    assert "gradient boosting" in shown
    told = json.loads(mahala(*command, "--metric", "roc_auc", "--json").stdout)
    assert (told["metric"], told["majority"], told["majority_error"]) == ("roc_auc", "fine", 0.1)
    assert {own["name"] for own in told["baselines"]} == {"cosine", "PCA"}
    models = {"NeighborClassifier", "logistic regression", "gradient boosting"}
    assert {own["name"] for own in told["models"]} == models
    assert {own["kind"] for own in told["models"]} == {"model"}


def test_models_come_first_and_a_prediction_is_explained(tmp_path, stored):
    stored({"NeighborClassifier": 0.01, "LDA": 0.3})
    rng = np.random.default_rng(0)
    lines = ["sugar,milk,noise,kind"]
    for _ in range(120):
        sugar, milk = rng.normal(size=2)
        lines.append(f"{sugar:.3f},{milk:.3f},{rng.normal():.3f},{'black' if sugar * milk > 0 else 'green'}")
    (tmp_path / "tea.csv").write_text("\n".join(lines))
    command = [tmp_path / "tea.csv", "--label", "kind", "--learners", "LDA", "--folds", 3, "--repeats", 1]
    result = mahala(*command, "--output", tmp_path / "out")
    assert result.exit_code == 0, result.output
    shown = words(result.output)
    assert shown.index("model error") < shown.index("metric k-NN error")
    told = json.loads(mahala(*command, "--output", tmp_path / "out", "--json", "--force").stdout)
    advice = told["advice"]
    assert advice["name"] in {own["name"] for own in told["models"]}
    assert shown.index(advice["sentence"]) < shown.index(told["verdict"]["sentence"][:60])
    assert "NeighborClassifier, fitted to 80 rows, predicts others, the least certain first" in shown
    first = told["predictions"][0]
    assert len(told["predictions"]) == 5
    assert f"Why row {first['row']} is predicted so: {first['predicted']} is predicted, with a probability of" in shown
    assert "Rows that voted:" in shown
    assert re.search(r"apart from the nearest rows of \w+: (sugar|milk|noise) \(", shown)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Predictions of rows that were held out" in page
    assert f"<h1>{advice['name']} " in page
    named = json.loads(mahala(*command[:3], "--learners", "neighborclassifier", "--no-baselines", *command[5:],
                              "--output", tmp_path / "named", "--json").stdout)  # fmt: skip
    assert [own["name"] for own in named["models"]] == ["NeighborClassifier"]
    assert not any(own["learned"] for own in named["entries"])


def test_a_budget_is_a_time(tmp_path):
    result = mahala("iris", "--output", tmp_path, "--learners", "ITML", "--budget", "10 minutes")
    assert result.exit_code == 2
    assert "--budget must be a time such as 90s, 10m or 1h, or none, got '10 minutes'" in words(result.stderr)
    np.savez(tmp_path / "t.npz", X=np.random.default_rng(0).normal(size=(1000, 60)), y=np.arange(1000) % 20)
    result = mahala(
        tmp_path / "t.npz", "--output", tmp_path / "out", "--no-report", "--learners", "LMNN", "--budget", "0.1s",
        "--folds", 2, "--repeats", 1, "--no-baselines",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "LMNN (2 of 2). Their errors are those of the best so far; a larger budget" in words(result.output)


def test_members_that_are_left_out_are_listed(tmp_path, monkeypatch, stored):
    panel = {"PCA": PCA(n_components=2)}  # which learns from so many features at once
    for module in ("planning", "panel"):
        monkeypatch.setattr(f"mahala.evaluation.cross_validation.{module}.default_panel", lambda *_, **__: panel)
    np.savez(tmp_path / "t.npz", X=np.random.default_rng(0).normal(size=(28, 1001)), y=np.arange(28) % 2)
    stored({"GML weights": 0.5})  # so that it is not fitted to all rows
    command = [tmp_path / "t.npz", "--output", tmp_path / "out", "--no-report", "--no-baselines", "--folds", 2]
    shown = words(mahala(*command, "--repeats", 1).output)
    names = "PA-I, RCA, KISSME, XQDA, DMLMJ, GMML, LMNN, ITML, GML, GML weights, BoostMetric"
    assert f"Not compared: {names} (1,001 features, and above" in shown
    assert "Name them as learners to include them." in shown
    told = json.loads(mahala(*command, "--repeats", 1, "--learners", "gml weights", "--json").stdout)
    assert {entry["name"] for entry in told["entries"] if entry["learned"]} == {"GML weights"}
    assert told["left_out"] == {}

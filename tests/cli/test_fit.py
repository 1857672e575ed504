"""`mahala fit --learner NAME` as a person uses it."""

from __future__ import annotations

import json
import re
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import mahala
from mahala.batch.run import Run
from mahala.cli.main import app
from mahala.data.scaling import learner_scales
from mahala.data.tables import read_table
from mahala.online.state.margin import MarginState


@pytest.fixture
def table(tmp_path, labelled):
    """A CSV file of numbers, one of another scale, a text column, an identifier and labels."""
    X, y = labelled
    lines = ["a,b,c,d,e,shape,id,class"]
    for number, (row, label) in enumerate(zip(X * [1, 1000, 1, 1, 1], y, strict=True)):
        lines.append(",".join([*map(repr, row.tolist()), "round" if number % 3 else "flat", f"n{number}", f"k{label}"]))
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["fit", *map(str, arguments)])


def test_a_model_for_raw_rows(tmp_path, table):
    out = tmp_path / "m.safetensors"
    options = ("--label", "class", "--drop", "id", "--learner", "lmnn")
    result = run(table, *options, "--set", "mu=0.3", "--output", out, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    X, y, names = read_table(table, label="class", drop=["id"])[:3]
    scaled = X / learner_scales(X, "numbers")
    learner = mahala.LMNN(mu=0.3, random_state=0).fit(scaled, y)
    metric = mahala.Metric.load(out)
    assert metric.feature_names == names
    np.testing.assert_allclose(metric.pairwise(X), learner.metric_.pairwise(scaled), rtol=1e-9, atol=1e-9)
    assert metric.origin["learner"] == "LMNN"
    expected = {"learner": "LMNN", "rows": 90, "classes": 3, "features": 7, "scaling": "numbers", "file": str(out)}
    assert expected.items() <= told.items()
    assert told["rank"] == metric.n_components
    board = mahala.compare(X, y, {"LMNN": mahala.LMNN(mu=0.3)}, repeats=1, scaling="numbers", baselines=False)
    assert told["verdict"]["gain"] == pytest.approx(board.verdict.gain)


def test_the_scaling_is_that_of_compare(tmp_path):
    """In which no mark of missing values and no rare level is the larger part of a distance."""
    rng = np.random.default_rng(0)
    sizes, weights = rng.normal(size=(2, 400))
    lines = ["size,weight,colour,class"]
    for size, weight, number in zip(sizes, weights, range(400), strict=True):
        given = "" if number % 80 == 7 else f"{weight:.3f}"
        colour = "violet" if number % 100 == 3 else ("red", "blue")[number % 2]
        lines.append(f"{1000 * size:.3f},{given},{colour},{'ab'[int(size + 0.3 * rng.normal() > 0)]}")
    path, out = tmp_path / "t.csv", tmp_path / "m.safetensors"
    path.write_text("\n".join(lines) + "\n")
    X, y, names = read_table(path, label="class")[:3]
    board = mahala.compare(X, y, {"PCA": mahala.PCA()}, folds=3, repeats=1, baselines=False)
    for options, how in (((), board["PCA"].scaling), (("--scaling", "standard"), "standard")):
        result = run(path, "--label", "class", "--learner", "pca", "--output", out, "--no-judge", "--json", *options)
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["scaling"] == how
        metric = mahala.Metric.load(out)
        np.testing.assert_allclose(metric.steps[0].scales, learner_scales(X, how))
        parts = X.var(axis=0) / metric.steps[0].scales ** 2  # of the mean squared distance, under PCA without any loss
        shares = dict(zip(names, parts / parts.sum(), strict=True))
        rare = shares["weight missing"] + shares["colour=violet"]
        assert rare == pytest.approx(2 / 6) if options else rare < 0.02


@pytest.mark.usefixtures("stored")
def test_what_is_printed(tmp_path, table):
    out = tmp_path / "m.safetensors"
    result = run(table, "--label", "class", "--drop", "id", "--learner", "rca", "--output", out)
    assert result.exit_code == 0, result.output
    for words in ("RCA", "90 rows of 3 classes", "verdict"):
        assert words in result.stdout


def test_a_distance_that_is_mostly_a_date_is_said(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"2024-{at % 12 + 1:02d}-{at % 28 + 1:02d},{rng.normal():.3f},{'ab'[at % 2]}" for at in range(80)]
    (tmp_path / "eggs.csv").write_text("\n".join(["laid,size,kind", *lines]))
    options = ("--label", "kind", "--learner", "rca", "--scaling", "none", "--output", tmp_path / "m.safetensors")
    (caution,) = json.loads(run(tmp_path / "eggs.csv", *options, "--json").stdout)["cautions"]
    assert caution.startswith("100 % of the distance is 'laid', a date (Euclidean): ")
    assert caution in " ".join(run(tmp_path / "eggs.csv", *options, "--force").stdout.split())


@pytest.mark.usefixtures("stored")
def test_scaling_none_and_seed(tmp_path, table):
    out = tmp_path / "m.safetensors"
    base = (table, "--label", "class", "--drop", "id", "--learner", "pa", "--output", out, "--scaling", "none")
    matrices = []
    for seed in (1, 1, 2):
        assert run(*base, "--seed", seed).exit_code == 0
        metric = mahala.Metric.load(out)
        assert np.ptp(metric.steps[0].scales) == 0.0  # one unit for all features
        matrices.append(metric.matrix)
    np.testing.assert_array_equal(matrices[0], matrices[1])
    assert not np.array_equal(matrices[0], matrices[2])


@pytest.mark.usefixtures("stored")
def test_a_state_goes_on(tmp_path, table):
    out = tmp_path / "s.safetensors"
    assert run(table, "--label", "class", "--drop", "id", "--learner", "pa", "--state", "--output", out).exit_code == 0
    learner = mahala.load(out)
    X, y, names = read_table(table, label="class", drop=["id"])[:3]
    assert tuple(learner.feature_names_in_) == names
    assert learner.metric_.feature_names == names
    steps = learner.n_steps_
    learner.partial_fit(mahala.Pairs.from_labels(X, y, 20, random_state=0))
    assert learner.n_steps_ == steps + 20


@pytest.mark.usefixtures("stored")
def test_bilinear_and_sparse(tmp_path, labelled):
    X, y = labelled
    path, out = tmp_path / "t.npz", tmp_path / "m.safetensors"
    S = sp.csr_array(X * (X > 0))
    np.savez(path, data=S.data, indices=S.indices, indptr=S.indptr, shape=S.shape, y=y)
    for learner, kind in (("oasis", "bilinear"), ("pa", "mahalanobis")):
        result = run(path, "--learner", learner, "--output", out, "--json")
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        assert told["scaling"] == "none"
        assert (told["verdict"] is None) == (kind == "bilinear")
        assert mahala.Metric.load(out).kind == kind
        assert mahala.Metric.load(out).feature_names is None


@pytest.mark.usefixtures("stored")
def test_no_labels_needed(tmp_path, labelled):
    np.save(tmp_path / "t.npy", labelled[0])
    result = run(
        tmp_path / "t.npy", "--learner", "pca", "--set", "n_components=2", "--output", tmp_path / "m", "--json"
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["rank"] == 2
    assert told["classes"] is None
    assert told["verdict"] is None


@pytest.mark.usefixtures("stored")
def test_few_rows(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,u\n2,u\n5,v\n")
    result = run(tmp_path / "t.csv", "--label", "y", "--learner", "lda", "--output", tmp_path / "m", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["verdict"] is None


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("learner", ["nca", "pa"])
def test_ctrl_c(tmp_path, table, monkeypatch, learner):
    out = tmp_path / "m.safetensors"

    def interrupted(self, X, y):
        if learner == "nca":
            type(self).fit_whole(self, X, y)
            self.stop_reason_ = "interrupted"
        raise KeyboardInterrupt

    kind = {"nca": mahala.NCA, "pa": mahala.PA}[learner]
    monkeypatch.setattr(kind, "fit_whole", kind.fit, raising=False)
    monkeypatch.setattr(kind, "fit", interrupted)
    result = run(table, "--label", "class", "--drop", "id", "--learner", learner, "--output", out)
    assert (result.exit_code, out.exists()) == ((0, True) if learner == "nca" else (130, False))
    assert ("stopped by Ctrl-C" in result.stdout) == (learner == "nca")


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("learner", ["nca", "pa"])
def test_ctrl_c_saves_the_model_so_far(tmp_path, table, monkeypatch, learner):
    """Press Ctrl-C during an iteration of a batch learner, or a chunk of an online one."""
    where, name = {"nca": (Run, "step"), "pa": (MarginState, "feed")}[learner]
    whole, calls = getattr(where, name), []

    def pressed(*args):
        calls.append(learner)
        signal.raise_signal(signal.SIGINT)
        return whole(*args)

    monkeypatch.setattr(where, name, pressed)
    out = tmp_path / "m.safetensors"
    before = signal.getsignal(signal.SIGINT)
    steps = ["--set", "n_steps=100000"] if learner == "pa" else []
    arguments = [table, "--label", "class", "--drop", "id", "--learner", learner, *steps, "--output", out]
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert len(calls) == 1
    assert signal.getsignal(signal.SIGINT) is before
    assert "stopping; Ctrl-C again" in result.stderr
    assert "stopped by Ctrl-C" in result.stdout
    assert mahala.Metric.load(out).origin["stopped"] == "interrupted"
    shown = CliRunner().invoke(app, ["show", str(out)]).output
    assert re.search(r"stopped +by Ctrl-C", shown)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--label", "klass", "--drop", "id"], "label names the column 'klass', which .*did you mean 'class'"),
        (["--drop", "id"], "--label must name the column of labels, from which LMNN learns"),
        (["--label", "class", "--drop", "id", "--learner", "paa"], "--learner is 'paa'"),
        (["--label", "class", "--drop", "id", "--set", "max_iter=-1"], "^error: max_iter must be .* got -1"),
        (["--label", "class", "--drop", "id", "--set", "D=1"], "LMNN has no parameter 'D'"),
        (
            ["--label", "class", "--drop", "id", "--learner", "oasis", "--scaling", "standard"],
            "OASIS learns a bilinear",
        ),
        (
            ["--label", "class", "--drop", "id", "--state", "--scaling", "standard"],
            "--scaling must be none here: --stat",
        ),
        (["--label", "class", "--drop", "id", "--scaling", "max"], "Invalid value for '--scaling'"),
        (["--label", "class", "--ids", "id"], "--ids goes with a model that predicts"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, table, arguments, words):
    out = tmp_path / "m.safetensors"
    learner = [] if "--learner" in arguments else ["--learner", "LMNN"]
    result = run(table, *arguments, *learner, "--output", out)
    assert result.exit_code == 2

    assert re.search(words, " ".join(result.stderr.split())), result.stderr
    assert not out.exists()


def test_outputs_are_checked_before_the_fit(tmp_path, table):
    result = run(table, "--label", "class", "--output", tmp_path / "no" / "m.safetensors")
    assert (result.exit_code, "there is no folder" in result.stderr) == (2, True)
    assert run(tmp_path / "none.csv", "--output", tmp_path / "m").stderr.endswith(
        "none.csv: No such file or directory\n"
    )


def test_help_has_examples():
    result = run("--help")
    assert "mahala fit wine.csv --label maker" in result.stdout


@pytest.mark.usefixtures("stored")
def test_every_command_takes_the_tables_of_the_package(tmp_path):
    out = tmp_path / "m.safetensors"
    assert run("balance", "--learner", "rca", "--output", out).exit_code == 0
    for arguments in (
        ["transform", "balance", "--output", tmp_path / "rows.csv", "--model", out],
        ["search", "balance", "--row", 3, "--model", out],
        ["show", out, "balance", 0, 1],
    ):
        result = CliRunner().invoke(app, list(map(str, arguments)))
        assert result.exit_code == 0, result.output
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 626


def test_an_input_is_never_replaced(table):
    before = table.read_bytes()
    result = run(table, "--label", "class", "--output", table)
    assert result.exit_code == 2
    assert "--output must not be an input of the command, which it would replace" in result.output
    assert table.read_bytes() == before


@pytest.mark.usefixtures("stored")
def test_the_first_index_of_svmlight_files_is_said_and_not_guessed(tmp_path):
    table, out = tmp_path / "t.svm", tmp_path / "m.safetensors"
    table.write_text("".join(f"{row % 2} 0:{row + 1} 1:{row % 3} 2:{row % 5}\n" for row in range(20)))
    arguments = (table, "--learner", "rca", "--output", out)
    result = run(*arguments)
    assert result.exit_code == 2
    assert "line 1 has index 0, but indices count from 1 unless --first-index=0" in result.stderr
    assert run(*arguments, "--first-index", 0).exit_code == 0
    table.write_text("1 1:1 2:2\n2 1:5\n")  # nothing here tells where the indices begin
    for command in (
        ["transform", table, "--output", tmp_path / "z.npy", "--model", out],
        ["search", table, "--row", 0, "--model", out],
        ["show", out, table, 0, 1],
    ):
        result = CliRunner().invoke(app, list(map(str, [*command, "--first-index", 0])))
        assert result.exit_code == 0, result.output
    expected = mahala.Metric.load(out).embed([[0.0, 1.0, 2.0], [0.0, 5.0, 0.0]])
    np.testing.assert_allclose(np.load(tmp_path / "z.npy"), expected)


@pytest.mark.filterwarnings("ignore")  # of Dask, where the machine is slow
def test_a_folder_of_parquet_files_by_dask(tmp_path, labelled):
    pandas = pytest.importorskip("pandas")
    dask = pytest.importorskip("dask", reason="needs Dask: pip install 'mahala[dask]'")
    pytest.importorskip("pyarrow")
    X, y = labelled
    frame = pandas.DataFrame(X, columns=list("abcde")).assign(kind=y)
    for i in range(0, 90, 40):
        frame[i : i + 40].to_parquet(tmp_path / f"{i:02}.parquet")
    out = tmp_path / "m.safetensors"
    parts = sorted(tmp_path.glob("*.parquet"))
    options = ("--label", "kind", "--learner", "rca", "--output", out, "--json")
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):  # that of processes.py
        result = run(*parts, "--scheduler", "local", *options)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 90
    scaled = X / X.std(axis=0)
    expected = mahala.RCA().fit(scaled, y).metric_.pairwise(scaled)
    np.testing.assert_allclose(mahala.Metric.load(out).pairwise(X), expected, rtol=1e-8, atol=1e-9)
    for learner in ([], ["--learner", "auto"]):
        result = run(*parts, *options, *learner)
        assert result.exit_code == 2
        assert "--scheduler" in result.output


@pytest.mark.usefixtures("stored")
def test_a_device_that_is_not_there_is_named(tmp_path, table):
    options = ("--label", "class", "--drop", "id", "--output", tmp_path / "m.safetensors")
    assert run(table, *options, "--learner", "nca", "--device", "cpu").exit_code == 0
    result = run(table, *options, "--learner", "nca", "--device", "abacus")
    assert result.exit_code == 2
    assert "engine must be" in result.output


def test_target_values_are_learned_from_as_they_are(tmp_path, stored):
    stored({"MLKR": 0.1})
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    lines = "".join(f"{a},{b},{c},{3 * a + 0.1 * b}\n" for a, b, c in X)
    (tmp_path / "flats.csv").write_text("size,floor,noise,price\n" + lines)
    result = run(tmp_path / "flats.csv", "--label", "price", "--learner", "mlkr", "--output", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert re.search(r"verdict +Shown to help: MLKR has a k-NN error \(1 - R²\)", result.stdout), result.stdout
    assert "classes" not in result.stdout
    options = ("--label", "price", "--learners", "mlkr", "--output", tmp_path, "--folds", 2, "--no-baselines")
    result = CliRunner().invoke(app, ["compare", str(tmp_path / "flats.csv"), *map(str, options)])
    assert result.exit_code == 0, result.output
    assert "1 - R²" in result.stdout
    bins = CliRunner().invoke(app, ["compare", str(tmp_path / "flats.csv"), *map(str, options), "--bins", "2"])
    assert bins.exit_code == 2
    assert "MLKR learns target values" in " ".join(bins.stderr.split())


def test_options_of_tables_are_refused_with_a_scheduler(tmp_path):
    pytest.importorskip("distributed", reason="needs Dask: pip install 'mahala[dask]'")
    options = ("--scheduler", "local", "--output", tmp_path / "m")
    for option in (("--bins", 3), ("--keep", "a"), ("--keep-ids",)):
        result = run(tmp_path, *option, *options, "--learner", "nca")
        assert result.exit_code == 2
        assert f"{option[0]} cannot be used with --scheduler" in " ".join(result.stderr.split())

"""`mahala stream` as it is used: pipes, signals, restarts, bad lines."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import mahala
from mahala.cli.main import app
from processes import COMMAND, Program

PA = ["--learner", "PA", "--set", "variant=I", "--set", "C=0.1"]


def pairs(n, d=4, seed=0):
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        x, x2 = rng.normal(size=(2, d)).round(3).tolist()
        lines.append(json.dumps({"id": i, "x": x, "x2": x2, "similar": bool(rng.random() < 0.5)}) + "\n")
    return "".join(lines)


@pytest.fixture
def run(tmp_path):
    """Runs the command on a model in an own folder; what goes in may be text or bytes."""

    def run(*arguments, text=None, code=0):
        result = CliRunner().invoke(app, ["stream", "--model", str(tmp_path / "m"), *arguments], input=text)
        assert result.exit_code == code, result.output
        return result

    return run


HOLD = """
import sys
from mahala.cli.stream import _only_writer
from pathlib import Path
with _only_writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_processes_do_not_learn_into_one_model(run, tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "m")], **pipes) as holder:
        assert holder.stdout.readline() == b"held\n"
        assert "m is in use by another process, which learns into it" in run(*PA, text=pairs(3), code=2).stderr
        holder.kill()
    run(*PA, text=pairs(3))  # the lock of a process that was killed is not in the way
    run(*PA, "--model", str(tmp_path / "poetry"), text=pairs(3))
    assert not (tmp_path / "poetry.lock").exists()  # which may be the user's


@pytest.mark.parametrize(("number", "code"), [(errno.EROFS, 2), (errno.ENOLCK, 0)])
def test_folders_without_write_permission_and_disks_without_locks(number, code, run, monkeypatch):
    def fail(*_, **__):
        raise OSError(number, "Not here")

    monkeypatch.setattr("filelock.FileLock.acquire", fail)
    result = run(*PA, text=pairs(3), code=code)
    assert ("m cannot be written: no file can be made in" in result.stderr) == bool(code)


def printed(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_line_in_a_line_out(run, tmp_path):
    lines = printed(run(*PA, text=pairs(30)))
    learner = mahala.PA("I", C=0.1)
    for number, (given, answer) in enumerate(zip(pairs(30).splitlines(), lines, strict=True), start=1):
        thing = json.loads(given)
        predicted = learner.learn_one(thing["x"], thing["x2"], thing["similar"])
        assert list(answer) == ["line", "similar", "predicted", "margin", "id"]
        assert answer["line"] == number == answer["id"] + 1
        assert (answer["similar"], answer["predicted"]) == (thing["similar"], predicted)
    saved = mahala.load(tmp_path / "m")
    assert np.array_equal(saved._model.M, learner._model.M)
    assert not saved.record


def test_triplets(run):
    line = '{"query": [1, 0], "positive": [1, 0], "negative": [0, 1]}\n'
    assert printed(run("--learner", "oasis", text=line)) == [{"line": 1, "right": True, "margin": 1.0}]
    result = run(text=line + pairs(1), code=3)
    assert "line 2: a pair, but the model learns from triplets" in result.stderr


def test_files_plain_and_zipped_and_stdin_are_one_input(run, tmp_path):
    (tmp_path / "a").write_text(pairs(10))
    with gzip.open(tmp_path / "b.gz", "wt") as file:
        file.write(pairs(20))
    assert len(printed(run(*PA, "--input", str(tmp_path / "a")))) == 10
    result = run(*PA, "--input", str(tmp_path / "b.gz"))
    assert [answer["line"] for answer in printed(result)] == list(range(11, 21))
    assert "has learned from the first 10 lines; resuming after them" in result.stderr
    assert len(printed(run(*PA, text=pairs(25)))) == 5
    result = run(text=pairs(3, seed=1), code=2)
    assert "error: the input ends after 3 lines" in result.stderr
    assert "or pass --new-input to read this one from its first line" in result.stderr
    assert len(printed(run("--new-input", text=pairs(3, seed=1)))) == 3


def test_a_damaged_gzip_file_is_no_traceback(run, tmp_path):
    whole = gzip.compress(pairs(200).encode())
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])
    result = run(*PA, "--input", str(tmp_path / "cut.gz"), code=2)
    assert "error: the input is not a complete gzip file" in result.stderr
    (tmp_path / "none.gz").write_text("hello")
    assert "not a complete gzip file" in run(*PA, "--input", str(tmp_path / "none.gz"), code=2).stderr


@pytest.mark.parametrize("name", ["items.npy", "items.npz", "several.npz", "csr.npz"])
def test_items_by_row_number(name, run, tmp_path):
    X = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    np.save(tmp_path / "items.npy", X)
    np.savez(tmp_path / "items.npz", X)
    np.savez(tmp_path / "several.npz", X=X, y=np.zeros(3))
    csr = {"data": [1.0, 2.0, 3.0], "indices": [0, 1, 0], "indptr": [0, 1, 2, 3], "shape": [3, 2]}
    np.savez(tmp_path / "csr.npz", **csr)
    line = '{"query": 0, "positive": 1, "negative": 2}\n{"query": 0, "positive": 1, "negative": 3}\n'
    result = run("--learner", "OASIS", "--items", str(tmp_path / name), text=line, code=3)
    assert printed(result) == [{"line": 1, "right": False, "margin": -3.0}]
    assert "line 2: negative must be a row number from 0 to 2, got 3" in result.stderr


def test_lines_that_need_items_fail_once(run, tmp_path):
    lines = '{"query": 0, "positive": 1, "negative": 2}\n' * 50
    result = run("--learner", "OASIS", text=lines, code=2)
    assert printed(result) == []
    assert result.stderr.splitlines() == [
        "error: line 1: query must be a list of numbers, an object of them or (if --items are given) a row number, "
        "got 0"
    ]
    np.save(tmp_path / "items.npy", np.eye(3))
    run("--learner", "OASIS", "--items", str(tmp_path / "items.npy"), text=lines)
    again = run(text=2 * lines, code=2)  # what was learned with items needs them again
    assert "error: line 51: query must be" in again.stderr
    assert run("--items", str(tmp_path / "items.npy"), text=2 * lines).stdout.count("right") == 50


def test_items_that_are_none(run, tmp_path):
    np.savez(tmp_path / "two.npz", a=np.eye(2), b=np.eye(2))
    for name in ("broken.npy", "there.csv"):
        (tmp_path / name).write_bytes(b"hello")
    np.save(tmp_path / "flat.npy", np.ones(3))
    (tmp_path / "zip.npy").write_bytes((tmp_path / "two.npz").read_bytes())
    for name, message in {
        "two.npz": "must hold X, or data, indices, indptr and shape, but holds a, b",
        "broken.npy": "is not a readable .npy file",
        "flat.npy": "items must be rows of numbers, got float64 of shape (3,)",
        "zip.npy": "is not a readable .npy file",
        "there.csv": "must be a file of vectors, .npy, .npz or .parquet",
        "nowhere.npy": "No such file",
    }.items():
        assert message in run(*PA, "--items", str(tmp_path / name), text="", code=2).stderr


def test_sparse_points(run):
    line = '{"x": {"1": 2}, "x2": {}, "similar": true}\n'
    assert "the number of features must be known: give --features" in run(*PA, text=line, code=3).stderr
    assert printed(run(*PA, "--features", "3", text=line)) == [
        {"line": 1, "similar": True, "predicted": True, "margin": 0.0}
    ]


def test_malformed_lines_are_named_counted_and_skipped(run, tmp_path):
    good = pairs(4).splitlines(keepends=True)
    result = run(*PA, text="".join([good[0], "?\n", good[1], "\n", '{"x": 1}\n', good[2]]), code=3)
    assert [answer["line"] for answer in printed(result)] == [1, 3, 6]
    errors = result.stderr.splitlines()
    assert errors[0].startswith("line 2: not JSON")
    assert errors[1].startswith("line 5: x2 is missing")
    assert "3 learned, 2 malformed" in errors[2]
    clean = run(*PA, "--model", str(tmp_path / "clean"), text="".join(good[:3]))
    assert "3 learned, 0 malformed" in clean.stderr
    models = [mahala.load(tmp_path / name)._model for name in ("m", "clean")]
    assert np.array_equal(models[0].M, models[1].M)


def test_max_errors_stops_before_the_line_that_is_too_much(run, tmp_path):
    good = pairs(4).splitlines(keepends=True)
    result = run(*PA, "--max-errors", "1", text="".join([good[0], "?\n", good[1], "?\n", good[2]]), code=2)
    assert len(printed(result)) == 2
    assert "2 malformed lines, but --max-errors is 1" in result.stderr
    mended = run(*PA, text="".join([good[0], "?\n", good[1], good[3], good[2]]))
    assert [answer["id"] for answer in printed(mended)] == [3, 2]


def test_a_half_written_last_line_is_read_again(run):
    text = pairs(3)
    assert len(printed(run(*PA, text=text[:-9], code=3))) == 2
    assert [answer["line"] for answer in printed(run(*PA, text=text))] == [3]


def test_what_does_not_fit_is_refused(run, tmp_path):
    assert "there is no model file" in run(text="", code=2).stderr
    assert "--set sets parameters of a new learner" in run("--set", "C=1", text="", code=2).stderr
    assert "NCA does not learn from one comparison" in run("--learner", "NCA", text="", code=2).stderr
    assert "nowhere" in run(*PA, "--input", str(tmp_path / "nowhere"), text="", code=2).stderr
    assert "nothing was learned" in run(*PA, text="").stderr
    run(*PA, text=pairs(3))
    assert "holds a PA, not a OASIS" in run("--learner", "OASIS", text=pairs(3), code=2).stderr
    assert "C=0.1, not 0.2" in run("--learner", "PA", "--set", "variant=I", "--set", "C=0.2", text="", code=2).stderr
    mahala.MahalanobisMetric.euclidean(2).save(tmp_path / "m")
    assert "holds a metric, not a learner" in run(text="", code=2).stderr


def test_new_input_learns_from_the_first_line(run, tmp_path):
    run(*PA, text=pairs(3))
    assert len(printed(run("--new-input", text=pairs(3)))) == 3
    assert mahala.load(tmp_path / "m").n_steps_ == 6


def test_long_lines_are_malformed(run):
    result = run(*PA, "--max-line", "200", text=pairs(1) + "x" * 300 + "\n" + pairs(1), code=3)
    assert "line 2: it has 300 bytes, but a line may have 200 at most" in result.stderr
    assert len(printed(result)) == 2


def test_summary_as_json(run, tmp_path):
    run(*PA, text=pairs(3))
    summary = json.loads(run("--json", text=pairs(10) + "?\n", code=3).stderr.splitlines()[-1])
    assert summary.pop("seconds") >= 0.0
    assert 0 <= summary.pop("mistakes") <= 7
    assert summary == {
        "lines": 8,
        "learned": 7,
        "malformed": 1,
        "skipped": 3,
        "new_input": False,
        "model": str(tmp_path / "m"),
    }


def test_two_runs_write_the_same_bytes_and_the_seed_counts(run, tmp_path):
    for name, seed in (("m", "0"), ("same", "0"), ("other", "1")):
        run(*PA, "--model", str(tmp_path / name), "--seed", seed, text=pairs(20))
    contents = [(tmp_path / name).read_bytes() for name in ("m", "same", "other")]
    assert contents[0] == contents[1] != contents[2]


def start(tmp_path, *arguments, **ends):
    return Program(COMMAND, "stream", "--model", tmp_path / "m", *arguments, **ends)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_between_two_blocks_keeps_the_model(number, code, run, tmp_path, monkeypatch):
    due = property(lambda _: os.kill(os.getpid(), number))  # asked for after each line
    monkeypatch.setattr("mahala.stream.stream.Stream.due", due)
    assert "30 learned" in run(*PA, text=pairs(30), code=code).stderr
    assert mahala.load(tmp_path / "m").n_steps_ == 30


@pytest.mark.parametrize(("number", "code", "seconds"), [(signal.SIGINT, 130, 0.05), (signal.SIGHUP, 129, 1000)])
def test_a_live_producer_gets_each_answer_at_once_and_a_signal_keeps_the_model(number, code, seconds, tmp_path):
    with start(tmp_path, *PA, "--checkpoint-seconds", str(seconds)) as process:
        for line in pairs(3).splitlines(keepends=True):
            process.stdin.write(line)
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == json.loads(line)["id"]
        if seconds < 1:  # saved while nothing comes
            deadline = time.monotonic() + 30
            while not ((tmp_path / "m").exists() and mahala.load(tmp_path / "m").n_steps_ == 3):
                assert time.monotonic() < deadline
                time.sleep(0.01)
        else:
            assert not (tmp_path / "m").exists()
        process.send(number)
        assert process.wait() == code  # while its input is still open
        assert "3 learned" in process.stderr.read()
    assert mahala.load(tmp_path / "m").n_steps_ == 3


def test_what_was_learned_is_saved_when_the_reader_has_gone(tmp_path):
    (tmp_path / "in").write_text(pairs(3000))
    with start(tmp_path, *PA, "--input", str(tmp_path / "in"), "--checkpoint-every", "1000") as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait() == 141
        learned = int(re.search(r"([\d,]+) learned", process.stderr.read())[1].replace(",", ""))
    assert mahala.load(tmp_path / "m").n_steps_ == learned > 0


def test_closed_ends(tmp_path):
    (tmp_path / "in").write_text(pairs(20))
    # As Python starts with a descriptor that the shell has closed.
    closed = "import os, sys; os.close({number}); sys.{name} = None; " + COMMAND
    arguments = ["stream", "--model", tmp_path / "m", *PA]
    with Program(closed.format(number=0, name="stdin"), *arguments) as process:
        assert process.stdout.read() == ""
        assert "standard input is closed: name a file" in process.stderr.read()
        assert process.wait() == 2
    with Program(closed.format(number=1, name="stdout"), *arguments, "--input", tmp_path / "in") as process:
        assert process.wait() == 0, process.stderr.read()
    assert mahala.load(tmp_path / "m").n_steps_ == 20


def test_killed_and_started_again_it_ends_with_the_same_bytes(tmp_path, run):
    (tmp_path / "in").write_text(pairs(589, d=8) + "?\n" + pairs(21, d=8, seed=1))
    arguments = [*PA, "--set", "psd=every", "--input", str(tmp_path / "in"), "--checkpoint-every", "20"]
    run(*arguments, "--model", str(tmp_path / "whole"), code=3)
    rng = np.random.default_rng()
    answers: dict[int, str] = {}
    # Killed after some checkpoints, unless it has ended before; the second run is left alone.
    for checkpoints in (int(rng.integers(1, 9)), 0):
        with open(tmp_path / "out", "w+b") as out, start(tmp_path, *arguments, stdout=out.fileno()) as process:
            before = os.stat(tmp_path / "m").st_mtime_ns if (tmp_path / "m").exists() else 0
            while checkpoints and process.running:
                now = os.stat(tmp_path / "m").st_mtime_ns if (tmp_path / "m").exists() else 0
                checkpoints, before = checkpoints - (now != before), now
                time.sleep(0.005)
                if not checkpoints:
                    time.sleep(float(rng.uniform(0, 0.02)))
                    process.kill()
            code = process.wait()
            out.seek(0)
            own = [line for line in out.read().decode().splitlines(keepends=True) if line.endswith("\n")]
            for line in own:
                assert answers.setdefault(json.loads(line)["line"], line) == line
    # The run that reads the bad line reports it: no checkpoint is just before it.
    assert code == (3 if own and json.loads(own[0])["line"] < 590 else 0)
    assert sorted(answers) == [number for number in range(1, 612) if number != 590]
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()

"""`mahala teach` as a person uses it."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import mahala
from mahala.cli.main import app
from mahala.data.scaling import feature_scales
from mahala.data.tables import read_table


def run(*arguments, keys="", code=0):
    result = CliRunner().invoke(app, ["teach", *map(str, arguments)], input=keys)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def items(tmp_path):
    rows = np.random.default_rng(0).normal(size=(12, 3))
    np.save(tmp_path / "items.npy", rows)
    (tmp_path / "names.txt").write_text("".join(f"shoe {i}\n" for i in range(12)))
    return tmp_path, (tmp_path / "items.npy", "--model", tmp_path / "m"), rows


def test_answers_are_those_of_the_teacher(items):
    folder, arguments, rows = items
    teacher = mahala.Teacher(rows, random_state=0)
    for key in "abs" + "a" * 10:
        query, a, b = question = teacher.ask()
        teacher.skip(*question) if key == "s" else teacher.answer(*question, nearer=a if key == "a" else b)
    result = run(*arguments, "--names", folder / "names.txt", keys="a\nB\nwhat?\ns\n" + "a\n" * 10 + "q\na\n")
    assert " ".join(result.stdout.split()).startswith("answers 12 now, 12 in all; 1 skipped verdict Too early to tell")
    query, a, b = mahala.Teacher(rows, random_state=0).ask()
    first = f"shoe {query}\n  is more like  a  shoe {a}\n            or  b  shoe {b}\na, b, s(kip) or q(uit)?"
    assert result.stderr.strip().startswith(first)
    taught = mahala.load(folder / "m")
    np.testing.assert_array_equal(taught.metric_.matrix, teacher.metric_.matrix)
    assert taught.ask() == teacher.ask()
    # It resumes, and ends with the input.
    facts = json.loads(run(*arguments, "--metric", folder / "metric", "--json", keys="a\n").stdout)
    assert (facts["answered"], facts["skipped"], facts["in_all"]) == (1, 0, 13)
    taught = mahala.load(folder / "m")
    assert facts["verdict"] == taught.verdict_.as_dict()
    np.testing.assert_array_equal(mahala.load(folder / "metric").matrix, taught.metric_.matrix)
    shown = CliRunner().invoke(app, ["show", str(folder / "m")])
    assert shown.exit_code == 0
    assert "learner Teacher" in " ".join(shown.stdout.split())


def test_a_table_is_read_as_by_other_commands(items):
    folder, _, rows = items
    shapes = ["round" if row[1] > 0 else "flat" for row in rows]
    lines = ["kind,shoe,shape,width;cm,length,stars"]
    for number, (row, shape) in enumerate(zip(rows, shapes, strict=True)):
        lines.append(f"k{number % 3},shoe {number},{shape},{100 * row[0]:.4f},{row[2]:.4f},{number % 5}")
    path = folder / "shoes.csv"
    path.write_text("\n".join(lines) + "\n")
    options = ("--label", "kind", "--drop", "stars", "--model", folder / "m", "--metric", folder / "metric")
    result = run(path, *options, keys="a\n" * 5)
    assert "is more like  a  shoe" in result.stderr
    metric = mahala.Metric.load(folder / "metric")
    assert metric.feature_names == ("shape=flat", "shape=round", "width;cm", "length")
    table = read_table(path, label="kind", drop=["shoe", "stars"])
    np.testing.assert_allclose(metric.steps[0].scales, feature_scales(table.X, "numbers"))
    np.testing.assert_allclose(mahala.load(folder / "m").X, table.X / metric.steps[0].scales)
    shown = CliRunner().invoke(
        app, ["transform", str(path), "--model", str(folder / "metric"), "--output", str(folder / "z.npy")]
    )
    assert shown.exit_code == 0, shown.output
    run(path, *options, "--ids", "shape", "--scaling", "none", "--model", folder / "other", keys="q\n")
    np.testing.assert_array_equal(
        mahala.load(folder / "other").X, read_table(path, label="kind", drop=["shape", "stars"], identifiers=False).X
    )
    message = "--drop goes with tables, but .*items.npy holds vectors"
    assert re.search(message, " ".join(run(folder / "items.npy", *options[2:], code=2).stderr.split()))


def test_what_does_not_help_is_not_written(items, monkeypatch):
    folder, arguments, rows = items
    useless = mahala.Teacher(rows).verdict_._replace(kind="does not help")
    monkeypatch.setattr(mahala.Teacher, "verdict_", useless)
    run(*arguments, "--metric", folder / "metric", keys="a\n" * 5)
    np.testing.assert_array_equal(mahala.load(folder / "metric").matrix, np.eye(3))


def test_it_ends_when_no_question_is_left(items):
    folder, arguments, rows = items
    np.save(folder / "items.npy", rows[:3])
    result = run(*arguments, keys="s\na\nb\na\n")
    assert "no question is left" in result.stderr
    assert len(mahala.load(folder / "m").answers_) == 2


def test_what_is_wrong_is_said(items):
    folder, arguments, rows = items
    (folder / "names.txt").write_text("one\n")
    assert "a line for each of the 12 items" in run(*arguments, "--names", folder / "names.txt", code=2).stderr
    assert "--model must not be an input" in run(arguments[0], "--model", arguments[0], code=2).stderr
    mahala.Teacher(rows + 1.0).save(folder / "m")
    assert "was taught about other vectors" in run(*arguments, code=2).stderr
    mahala.PCA().fit(rows).save(folder / "m")
    assert "holds a PCA, not a Teacher" in run(*arguments, code=2).stderr

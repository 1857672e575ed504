"""Text from files in terminals and spreadsheets."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import mahala
from mahala.cli.main import app
from mahala.cli.parts.output import csv_writer, print_json, printable, say, terminal, text_writer, write_files

HOSTILE = "\x1b]0;title\x07\x9b31m\u202e\udc80"


def is_plain(text):
    return not any(mark in text for mark in HOSTILE if mark not in "]0;title31m")


@given(st.text(st.characters()))
def test_printable_text_has_no_controls(text):
    shown = printable(text)
    assert all(mark.isprintable() or mark in "\n\t" or ord(mark) >= 0xA0 for mark in shown)
    assert is_plain(shown)
    if text.isascii() and text.isprintable():
        assert shown == text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is full")
@pytest.mark.parametrize("write", [say, print_json, lambda text: terminal().print(text)])
def test_a_full_disk_names_what_is_written(monkeypatch, write):
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(full, write_through=True))
        with pytest.raises(OSError, match="No space left on device") as error:
            write("text")
        assert error.value.filename == "standard output"


def test_files_take_names_that_are_not_utf_8(tmp_path):
    name = b"t\xff.csv".decode(errors="surrogateescape")
    write_files({tmp_path / "t.html": text_writer(name), tmp_path / "t.csv": csv_writer([[name]])})
    assert (tmp_path / "t.html").read_text() == "t\\udcff.csv"
    assert (tmp_path / "t.csv").read_text() == "t\\udcff.csv\n"


def test_an_output_without_some_marks_shows_their_numbers(tmp_path):
    """As pipes and files of Windows, whose encoding is that of the country."""
    table = tmp_path / "t.csv"
    table.write_text("größe ●,b\n" + "".join(f"{number},{number % 2}\n" for number in range(9)), encoding="utf-8")
    command = ["fit", table, "--label", "nobody ●", "--output", tmp_path / "m"]
    result = CliRunner(charset="cp1252").invoke(app, list(map(str, command)))
    assert result.exit_code == 2
    assert "nobody \\u25cf" in result.output
    assert "größe \\u25cf" in result.output


def test_json_stays_json(capsys):
    print_json({"label": HOSTILE})
    shown = capsys.readouterr().out
    assert is_plain(shown)
    assert json.loads(shown) == {"label": HOSTILE}


@pytest.mark.parametrize("command", ["show", "search", "rows", "transform", "fit", "wrong", "option", "stream"])
def test_no_command_prints_controls_of_a_file(command, tmp_path):
    name = f"a{HOSTILE[:-1]}[bold]"
    lines = [f'"{name}",b,c', *(f'{number},{number**2 % 7},"x{HOSTILE[:-1]}{number % 2}"' for number in range(1, 9))]
    table, model, file = tmp_path / "t.csv", tmp_path / "m.safetensors", tmp_path / f"{HOSTILE[:-1].strip('/')}.npy"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    mahala.MahalanobisMetric(np.eye(2), feature_names=[name, "b"]).save(model)
    commands = {
        "show": ["show", model],
        "search": ["search", table, "--row", 0, "--label", "c", "--model", model],
        "rows": ["show", model, table, 0, 1],
        "transform": ["transform", table, "--model", model, "--output", file],
        "fit": ["fit", table, "--label", "c", "--learner", "rca", "--output", file],
        "wrong": ["fit", table, "--label", name + "!", "--output", file],
        "option": ["fit", table, HOSTILE[:-1]],
        "stream": ["stream", "--model", tmp_path / "s", "--learner", "PA"],
    }
    line = '{"x": [1], "x2": [1], "similar": "\u202e\x7f"}\n' + '{"query_\x9b": 1}\n'
    result = CliRunner().invoke(app, list(map(str, commands[command])), input=line)
    assert result.exit_code in (0, 2, 3), result.output
    assert result.output
    assert is_plain(result.output), result.output
    assert "\x7f" not in result.output


def test_formulas_are_text_in_a_spreadsheet(tmp_path):
    labels = ['=HYPERLINK("http://x")', "+1 (2)", "-a", "@SUM", "\tx", "plain", "-1.5", "+3e4", ""]
    csv_writer([["label", "z"], *([label, -1.5] for label in labels)])(tmp_path / "labels.csv")
    rows = list(csv.reader(io.StringIO((tmp_path / "labels.csv").read_text(), newline="")))
    assert [row[0] for row in rows[1:]] == [*(f"'{label}" for label in labels[:5]), *labels[5:]]
    assert {row[1] for row in rows[1:]} == {"-1.5"}
    table, model = tmp_path / "t.csv", tmp_path / "m.safetensors"
    table.write_text("a,c\n1,=1+1\n2,=1+1\n-3,b\n")
    mahala.MahalanobisMetric(np.eye(1), feature_names=["a"]).save(model)
    for command in (["transform", "--output"], ["search", "--row", "2", "--output"]):
        out = tmp_path / f"{command[0]}.csv"
        arguments = [command[0], str(table), *command[1:], str(out), "--model", str(model), "--label", "c"]
        assert CliRunner().invoke(app, arguments).exit_code == 0
        assert "'=1+1" in out.read_text()
        assert ",=1+1" not in out.read_text()
    assert "-3.0" in (tmp_path / "transform.csv").read_text()

"""How every command fails."""

from __future__ import annotations

import json
import logging
import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from mahala.cli import group
from mahala.cli.group import Group
from mahala.cli.main import app
from mahala.cli.parts.output import print_json
from mahala.support.limits import NOTICE, Compiling
from processes import Program


def failing(error):
    own = typer.Typer(cls=Group, pretty_exceptions_enable=False)

    @own.command()
    def fail() -> None:
        raise error

    @own.command()
    def other() -> None: ...

    return own


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("C must be positive, got -1"), 2, "error: C must be positive, got -1\n"),
        (FileNotFoundError(2, "No such file or directory", "x.csv"), 2, "error: x.csv: No such file or directory\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (ZeroDivisionError("by zero"), 1, "error: ZeroDivisionError: by zero; use --debug to show the traceback\n"),
        (MemoryError(), 2, "error: MemoryError\n"),
    ],
)
def test_errors_are_words_and_codes(error, code, message):
    result = CliRunner().invoke(failing(error), ["fail"])
    assert (result.exit_code, result.stderr, result.stdout) == (code, message, "")


@pytest.mark.parametrize("arguments", [["--debug", "fail"], ["fail", "--debug"]])
def test_debug_shows_the_traceback(arguments):
    result = CliRunner().invoke(failing(ValueError("no")), arguments)
    assert isinstance(result.exception, ValueError)


def test_debug_after_two_dashes_is_an_argument():
    own = typer.Typer(cls=Group)

    @own.command()
    def say(word: str) -> None:
        typer.echo(word)

    @own.command()
    def other() -> None: ...

    assert CliRunner().invoke(own, ["say", "--", "--debug"]).stdout == "--debug\n"


def test_unknown_options_and_commands():
    for arguments in (["nonsense"], ["fit", "--nonsense"]):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 2
        assert "nonsense" in result.stderr


def test_a_reader_that_goes_away_is_no_error():
    code = (
        "from mahala.cli.main import app; import typer\n"
        "@app.command()\ndef many():\n  while True: typer.echo('y')\napp()"
    )
    with Program(code, "many") as process:
        assert process.stdout.readline() == "y\n"
        process.stdout.close()
        assert (process.wait(), process.stderr.read()) == (141, "")


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.startswith("mahala ")


def test_json_is_strict(capsys):
    print_json({"a": np.array([1.0, np.nan]), "b": (np.int64(2), float("inf")), 3: None})
    assert json.loads(capsys.readouterr().out) == {"a": [1.0, None], "b": [2, None], "3": None}


def test_the_log_is_printed_on_a_terminal_only(monkeypatch, capsys):
    log = logging.getLogger("mahala")
    before, level = list(log.handlers), log.level
    try:
        group._print_log()
        assert log.handlers == before
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        for _ in range(2):
            group._print_log()
        Compiling().start()
        assert capsys.readouterr() == ("", NOTICE + "\n")
    finally:
        log.handlers, log.level = before, level

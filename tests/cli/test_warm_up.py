from __future__ import annotations

import json

from typer.testing import CliRunner

from mahala.cli.main import app


def test_second_run_says_that_nothing_is_left(monkeypatch):
    monkeypatch.setattr("mahala.warming.warm_up", lambda tell: 0)
    result = CliRunner().invoke(app, ["warm-up"])
    assert result.exit_code == 0, result.output
    assert result.stdout == "nothing to compile: all functions are in the cache\n"
    assert json.loads(CliRunner().invoke(app, ["warm-up", "--json"]).stdout)["compiled"] == 0


def test_what_was_compiled_is_counted(monkeypatch):
    monkeypatch.setattr("mahala.warming.warm_up", lambda tell: 7)
    assert CliRunner().invoke(app, ["warm-up"]).stdout.startswith("7 functions compiled in ")

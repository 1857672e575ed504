"""Commands that other distributions add by entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import typer

from mahala.cli.main import app

CODE = '''
import typer

def greet(name: str):
    """Greet somebody."""
    if not name.isalpha():
        raise ValueError("a name has letters only")
    typer.echo(f"Hello {name}")

more = typer.Typer(help="More commands.")
more.command("twice")(lambda: typer.echo("twice"))
more.command("thrice")(lambda: typer.echo("thrice"))
'''


CALLS = """
import json
from typer.testing import CliRunner
from mahala.cli.main import app
for words in (["greet", "Ada"], ["more", "thrice"], ["greet", "4"]):
    result = CliRunner().invoke(app, words)
    print(json.dumps([result.exit_code, result.stdout, result.stderr]))
"""


def test_search_adds_its_commands():
    commands = typer.main.get_command(app).commands
    assert {"evaluate", "adapt", "serve"} <= set(commands)
    assert {"start", "report", "keys"} <= set(commands["serve"].commands)


def test_another_distribution_adds_commands(tmp_path):
    (tmp_path / "others.py").write_text(CODE)
    metadata = tmp_path / "others-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[mahala.commands]\ngreet = others:greet\nmore = others:more\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])

    done = subprocess.run(
        [sys.executable, "-c", CALLS], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        [0, "Hello Ada\n", ""],
        [0, "thrice\n", ""],
        [2, "", "error: a name has letters only\n"],
    ]

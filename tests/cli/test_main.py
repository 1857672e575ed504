"""Commands that other distributions add by entry points."""

from __future__ import annotations

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


def test_search_adds_its_commands():
    commands = typer.main.get_command(app).commands
    assert {"simulate", "adapt", "serve"} <= set(commands)
    assert {"start", "report", "export", "import", "key"} <= set(commands["serve"].commands)


def test_another_distribution_adds_commands(tmp_path):
    (tmp_path / "others.py").write_text(CODE)
    metadata = tmp_path / "others-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[mahala.commands]\ngreet = others:greet\nmore = others:more\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(*arguments):
        command = [sys.executable, "-m", "mahala", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path})

    assert run("greet", "Ada").stdout == "Hello Ada\n"
    assert run("more", "thrice").stdout == "thrice\n"
    refused = run("greet", "4")
    assert (refused.returncode, refused.stderr) == (2, "error: a name has letters only\n")

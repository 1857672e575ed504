"""`mahala`: the app. Commands import what they need when they run, so that --help is instant."""

from __future__ import annotations

import typer

from mahala.cli import reproduce

app = typer.Typer(
    name="mahala",
    help="Metric and similarity learning, online first.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("reproduce")(reproduce.reproduce)


@app.callback()
def main() -> None:
    """Metric and similarity learning, online first."""

"""The `mahala` app. Commands import libraries when they run, so that --help is fast."""

from __future__ import annotations

from typing import Annotated

import typer

from mahala.cli import adapt, compare, evaluate, explain, fit, inspect, reproduce, search, simulate, stream, transform
from mahala.cli.group import Group

app = typer.Typer(
    name="mahala",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("compare")(compare.compare)
app.command("fit")(fit.fit)
app.command("transform")(transform.transform)
app.command("search")(search.search)
app.command("evaluate")(evaluate.evaluate)
app.command("simulate")(simulate.simulate)
app.command("explain")(explain.explain)
app.command("adapt")(adapt.adapt)
app.command("inspect")(inspect.inspect)
app.command("reproduce")(reproduce.reproduce)
app.command("stream")(stream.stream)


def _version(wanted: bool) -> None:
    if wanted:
        from mahala import __version__

        typer.echo(f"mahala {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Metric and similarity learning, online first.

    Exit codes: 0 success, 1 internal error, 2 invalid input or options, 3 (stream, adapt) some lines were malformed,
    130 interrupted by Ctrl-C, 129 or 143 (stream) stopped by SIGHUP or SIGTERM.
    """

"""The `mahala` app. Commands import libraries when they run, so that --help is fast."""

from importlib.metadata import entry_points
from typing import Annotated

import typer

import mahala
from mahala.cli.add import add
from mahala.cli.compare import compare
from mahala.cli.doctor import doctor, warm_up
from mahala.cli.fit import fit
from mahala.cli.forget import forget
from mahala.cli.group import Command, Group
from mahala.cli.predict import predict
from mahala.cli.search import search
from mahala.cli.show import show
from mahala.cli.stream import stream
from mahala.cli.teach import teach
from mahala.cli.transform import transform

app = typer.Typer(
    name="mahala",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
# In the order of --help.
ALL = (compare, fit, predict, add, forget, show, transform, search, teach, stream, warm_up, doctor)
for command in ALL:
    app.command(command.__name__.replace("_", "-"), cls=Command)(command)
for entry in entry_points(group="mahala.commands"):  # functions, or apps with commands of their own
    command = entry.load()
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=entry.name)
    else:
        app.command(entry.name, cls=Command)(command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mahala {mahala.__version__}")
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
    130 interrupted by Ctrl-C, 143 (compare, stream) stopped by SIGTERM, 129 (stream) by SIGHUP, 141 the output was
    closed.
    """

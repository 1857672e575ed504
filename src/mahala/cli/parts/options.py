"""Options and arguments that commands share, and checks of what was given."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer

import mahala
from mahala.support.files import replaceable

LabelledData = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A .csv, .tsv, .parquet, .xlsx, .npz or .svm file, - for stdin, or a data set such as wine.",
    ),
]
FittedData = Annotated[str, typer.Argument(metavar="DATA", help="A table with the features the model was fitted with.")]
PredictedData = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A table with the columns that the model was fitted to, or - for CSV from standard input."
    ),
]
Label = Annotated[str | None, typer.Option(help="Column of the labels; in .npz files the array (default: y).")]
Drop = Annotated[list[str] | None, typer.Option(help="Columns to leave out, separated by commas; may be repeated.")]
Keep = Annotated[list[str] | None, typer.Option(help="The only columns to use, even if they look like identifiers.")]
KeepIds = Annotated[bool, typer.Option("--keep-ids", help="Use columns that look like identifiers.")]
Bins = Annotated[int | None, typer.Option(help="Number of classes to make of a label that is a number.", min=2)]
Decimal = Annotated[
    Literal[".", ","] | None,
    typer.Option(help="Decimal mark of numbers such as 1,019; default: inferred, or that of the model."),
]
FirstIndex = Annotated[int, typer.Option(help="Index of the first feature in svmlight files, 1 or 0.", min=0, max=1)]
ScalingName = Literal["auto", "none", "numbers", "standard", "minmax", "robust"]
Groups = Annotated[str | None, typer.Option(help="Column of groups, such as households; each is left out as a whole.")]
Jobs = Annotated[int, typer.Option(help="Number of processes.", min=1)]
Device = Annotated[str | None, typer.Option(help="Device that computes the sums: cpu, cuda or cuda:1.")]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler, or local for processes on this machine.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files, also those that mahala did not write.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="Set a parameter of the learner: NAME=VALUE.")]
MODEL_HELP = "A model file, written by `mahala fit`, `adapt` or `stream`."
Model = Annotated[Path, typer.Option(help=MODEL_HELP)]


# Of commands that change a model.
Changed = Annotated[Path | None, typer.Option("--output", help="The model file to write; default: the same file.")]
Refit = Annotated[bool, typer.Option("--refit", help="Learn again, from the present state on.")]


class FitOptions(NamedTuple):
    """The options of `mahala fit`."""

    data: list[str]
    label: str | None
    output: Path
    learner: str
    settings: list[str]
    scaling: ScalingName
    drop: list[str]
    keep: list[str]
    keep_ids: bool
    ids: str | None
    groups: str | None
    bins: int | None
    decimal: Literal[".", ","] | None
    first_index: int
    judge: bool
    state: bool
    seed: int
    scheduler: str | None
    device: str | None
    as_json: bool


# The line that marks a file as a report of mahala.
GENERATOR = b'<meta name="generator" content="mahala">'


@contextmanager
def computing(device: str | None, scheduler: str | None) -> Iterator[None]:
    """A context in which sums are computed on a device, and what runs in parallel on a cluster of Dask."""
    with mahala.config_context(engine=device or mahala.get_config()["engine"]):
        if scheduler is None:
            yield
            return
        from mahala.engine.dask.scheduler import on_cluster

        with on_cluster(scheduler, "--scheduler"):
            yield


def seconds_of(text: str, option: str) -> float | None:
    """Return the seconds of a time such as 90s, 10m or 1h, or None for "none".

    >>> seconds_of("1.5m", "--budget"), seconds_of("none", "--budget")
    (90.0, None)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h|)", text.strip().lower())
    if text.strip().lower() == "none":
        return None
    if match is None or not float(match[1]):
        raise ValueError(f"{option} must be a time such as 90s, 10m or 1h, or none, got {text!r}")
    return float(match[1]) * {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}[match[2]]


def check_row_number(row: int, n_rows: int, what: str) -> int:
    """Return a row number; raise ValueError if there is no such row."""
    if not 0 <= row < n_rows:
        raise ValueError(f"{what} must be a row number from 0 to {n_rows - 1}, got {row}")
    return row


def check_output(
    path: Path, *suffixes: str, option: str = "--output", inputs: Iterable[Path | None] = (), force: bool = False
) -> None:
    """Raise ValueError unless a path can be written to and has one of the suffixes, if any, before a long computation.

    It must not be one of the inputs of the command nor, without `force`, a file with contents other than a model file
    or a report that mahala wrote.
    """
    for source in inputs:
        if source is not None and path.exists() and source.exists() and path.samefile(source):
            raise ValueError(f"{option} must not be an input of the command, which it would replace, got {path}")
    if suffixes and path.suffix.lower() not in suffixes:
        raise ValueError(f"{option} must end in {', '.join(suffixes)}, got {path}")
    if not path.parent.is_dir():
        raise ValueError(f"{option} is {path}, but there is no folder {path.parent}")
    try:
        replaceable(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{option} cannot be written: {error}") from None
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{option} is {path}, but the folder {path.parent} is not writable")
    from mahala.support.model_files import is_model_file  # here: it loads NumPy, which --help does without

    if force or not path.exists() or path.stat().st_size == 0 or is_model_file(path):
        return
    with path.open("rb") as file:
        if GENERATOR not in file.read(1000):
            raise ValueError(
                f"{option} is {path}, which exists and is not a model or report of mahala: "
                "name another file, or give --force to replace it"
            )

"""Read the tables, collections and lines that commands are given, and show what was done to columns."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.format import open_memmap

from mahala.cli.parts.output import escape, terminal
from mahala.cli.parts.output import table as table_of
from mahala.support.files import check_readable

if TYPE_CHECKING:
    from mahala.data.tables import Table
    from mahala.support.arrays import Array, Rows

# Classes that are made of a label that is a number, and the most columns that are listed.
BINS, _SHOWN = 4, 25


def labelled_table(
    data: str, label: str | None, bins: int | None, *, purpose: str | None, classes: bool = True, **reading: Any
) -> Table:
    """Read the rows to learn from; make classes of a label that is a number, and look for columns that give it away.

    `purpose` says in a message what labels are for; with None there need not be any. Without `classes`, labels that
    are numbers stay what they are. `reading` has other parameters of `read_data`.
    """
    from mahala.data.datasets import read_data
    from mahala.data.labels import binned, is_continuous
    from mahala.data.leaks import possible_leaks

    table = read_data(data, label=label, **reading)
    if purpose is not None:
        check_labels(table, data, purpose)
    if table.labels is None or not classes:
        return table
    labels, notes = table.labels, {}
    if bins is not None or is_continuous(labels):
        labels = binned(labels, bins or BINS)
        classes_made = f"divided into {len(set(labels.tolist()))} classes of about equal size; --bins sets how many"
        notes[label or "label"] = f"label: a regression target, {classes_made}"
    if table.preprocessor is not None:
        for name in possible_leaks(table.X, labels, table.preprocessor.feature_groups()):
            notes[name] = f"alone nearly determines the label: a leak? If so, --drop {name}"
    noted = [(name, f"{done}; {notes.pop(name)}" if name in notes else done) for name, done in reversed(table.columns)]
    return table._replace(labels=labels, columns=(*reversed(noted), *notes.items()))


def without_single_rows(table: Table, label: str | None) -> Table:
    """Leave out rows that are the only ones of their class, if at least two classes are left."""
    assert table.labels is not None, "which are compared"
    values, codes, counts = np.unique(table.labels, return_inverse=True, return_counts=True)
    single = values[counts == 1]
    if len(single) == 0 or len(values) - len(single) < 2:
        return table
    rows = np.flatnonzero(counts[codes] > 1)
    named = ", ".join(map(str, single[:5])) + (f" and {len(single) - 5} more" if len(single) > 5 else "")
    remark = (label or "label", f"label: classes of one row left out, which cannot be trained and tested: {named}")
    numbers = rows if table.rows is None else table.rows[rows]
    extra = {name: values[rows] for name, values in table.extra.items()}
    names = None if table.names is None else table.names[rows]
    return table._replace(
        X=table.X[rows], labels=table.labels[rows], columns=(*table.columns, remark), rows=numbers, extra=extra,
        names=names,
    )  # fmt: skip


def times_of(values: Array | None) -> Array | None:
    """Return a column of times: numbers, also those that were kept as text, or dates."""
    if values is None or values.dtype.kind in "iufM":
        return values
    with suppress(ValueError):
        return values.astype(np.float64)
    try:
        return values.astype(str).astype("datetime64[s]")
    except ValueError as error:
        raise ValueError(f"--time must name a column of numbers or of dates such as 2026-11-18: {error}") from None


def show_columns(columns: Sequence[tuple[str, str]]) -> None:
    """Print what was done to the columns of a table, unless all are used as they are."""
    changed = [(name, done) for name, done in columns if done != "number"]
    if not changed:
        return
    grid = table_of(["column", "done"], ["column", "done"])
    grid.show_header, grid.columns[0].style = False, "bold"
    for name, done in changed[:_SHOWN]:
        grid.add_row(escape(name), escape(done), style="yellow" if "left out" in done or "leak" in done else "")
    console = terminal()
    console.print("What was done to the columns", style="dim")
    console.print(grid)
    if len(changed) > _SHOWN:
        console.print(f"{len(changed) - _SHOWN} more columns were changed; --json lists them", style="dim")
    if len(changed) < len(columns):
        console.print(f"{len(columns) - len(changed)} columns are numbers, used as they are", style="dim")
    console.print()


def check_labels(table: Table, data: str, purpose: str) -> None:
    """Raise ValueError if a table has no labels."""
    if table.labels is not None:
        return
    if table.feature_names is None:
        raise ValueError(f"{data} has no labels, {purpose}: use an .npz file with X and y")
    names = [name for name, _ in table.columns if table.preprocessor is not None]
    raise ValueError(f"--label must name the column of labels, {purpose}; the columns are {', '.join(names[:20])}")


def open_input(path: Path | None) -> AbstractContextManager[Any]:
    """Return a file of lines, also .gz, opened for reading bytes; stdin, which stays open, if the path is None."""
    if path is None:
        if sys.stdin is None:
            raise ValueError("standard input is closed: name a file, or give lines through a pipe")
        return nullcontext(sys.stdin.buffer)
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")


def read_items(path: Path) -> Rows:
    """Return the rows of a file of vectors; those of an .npy file are mapped, since it may be large, and grow."""
    if path.suffix != ".npy":
        from mahala.data.vector_files import read_vectors

        return read_vectors(path)[0]
    check_readable(path)
    try:
        rows: Rows = open_memmap(path, mode="r")
    except OSError:
        raise
    except Exception as error:  # damaged files cause errors of many types
        raise ValueError(f"--items {path} is not a readable .npy file ({error})") from error
    return rows

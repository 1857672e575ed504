"""Read the items that answers are about: their rows, and their names."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mahala
from mahala.cli.output import say

if TYPE_CHECKING:
    from mahala.data.tables import Table

_VECTORS = (".npy", ".npz", ".parquet")
# A column has the names of items if it has this share of those that answers use. The others are misspelt.
_KNOWN = 0.5


def read_named_items(items: str, ids: str | None, used: Collection[str] | None = None, **reading: Any) -> Table:
    """Return the rows of items with their names, from the column or array `ids` or from one that is found, or None.

    Parameters
    ----------
    items : a file of vectors, a table, or a data set by name
    ids : the column or array of the names
    used : the names that answers use, by which the column of a table is found; with None or row numbers, the table
        itself says which one it is
    reading : other parameters of `read_data`, for tables
    """
    from mahala.data.datasets import read_data
    from mahala.data.tables import Table

    if Path(items).suffix.lower() in _VECTORS:
        for name, value in reading.items():
            if value and name != "first_index":
                option = {"identifiers": "keep-ids"}.get(name, name)
                raise ValueError(f"--{option} goes with tables, but {items} holds vectors: leave it out")
        X, names = mahala.data.read_vectors(items, id=ids)
        return Table(X, None, None, names=names)
    if ids is None and used is not None and (ids := _column_of_names(items, used)) is not None:
        say(f"The column {ids!r} has the names of the items; --ids names another one", err=True)
    table = read_data(items, extra=[] if ids is None else [ids], **reading)
    return table if ids is None else table._replace(names=table.extra[ids])


def _column_of_names(items: str, used: Collection[str]) -> str | None:
    """Return the column of a table that has most of the names that answers use, or None if these are row numbers."""
    from mahala.data.answer_files import is_row_number
    from mahala.data.columns.values import is_frame
    from mahala.data.datasets import read_raw_data
    from mahala.support.names import listed

    if all(map(is_row_number, used)):
        return None
    data = read_raw_data(items).data
    if not is_frame(data):
        return None
    counts = {name: len({*used}.intersection(map(str, data[name].to_list()))) for name in data.columns}
    best: str = max(counts, key=lambda name: counts[name])
    if counts[best] < _KNOWN * len(used):
        example = next(name for name in sorted(used) if not name.isdecimal())
        raise ValueError(
            f"--ids must name the column of {items} that has the names in the answers, such as {example!r}: "
            f"no column has most of them; the columns are {listed(counts)}"
        )
    return best

"""Read answers and the items that they are about, and name the learners that learn from them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import mahala
from mahala.cli.parts.output import say

if TYPE_CHECKING:
    from mahala.data.tables import Table

AnswerKind = Literal["triplets", "pairs", "ratings"]

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


def answer_table(items: str, kind: AnswerKind, path: Path, *, by: str | None, ids: str | None, seed: int) -> Table:
    """Return answers over the rows of items as the X of a table, and who gave each as its column `by`."""
    from mahala.data.answer_files import is_row_number, names_in, read_answers
    from mahala.evaluation.cross_validation.answers import answers_of

    used = names_in(path, kind, by=by)
    table = read_named_items(items, ids, used)
    # Numbers are those of rows, unless a column was named.
    by_name = ids is not None or table.preprocessor is None or not all(map(is_row_number, used))
    names = None if table.names is None or not by_name else table.names.tolist()
    rows, values, people = read_answers(path, kind, table.X.shape[0], names, by=by)
    if values is not None and values.dtype == bool:
        values = values * 2 - 1  # +1 for similar pairs and -1 for others
    of_kind = mahala.Triplets if kind == "triplets" else mahala.Pairs
    answers = answers_of(of_kind(table.X, *rows), values, seed)
    if people is not None and len(people) != len(answers):
        raise ValueError("--by goes with --triplets and --pairs: ratings become comparisons of two pairs")
    extra = {} if by is None or people is None else {by: people}
    return table._replace(X=answers, labels=None, columns=(), extra=extra)


def answer_learners(answers: mahala.comparisons.Comparisons, names: str | None, seed: int) -> dict[str, Any]:
    """Return the learners from such answers by name, of which some may be chosen."""
    from mahala.evaluation.cross_validation.panel import named_learners, panel_for

    panel = panel_for(answers, seed)
    return panel if names is None else named_learners(filter(None, map(str.strip, names.split(","))), panel)

"""Read files of answers that people gave: triplets, pairs or pairs with ratings, of names or of row numbers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mahala.data.columns.frames import CSV, json_lines, read_frame
from mahala.data.tables import unknown_column
from mahala.support.arrays import IndexArray
from mahala.support.files import check_readable
from mahala.support.names import AnswerKind, RowNames, listed, named_columns

if TYPE_CHECKING:
    from mahala.support.arrays import Array

_YES = ("1", "+1", "1.0", "true", "yes", "similar", "same")
_NO = ("0", "-1", "0.0", "-1.0", "false", "no", "dissimilar", "different")


class AnswerFile(NamedTuple):
    """The answers in a file.

    rows : row numbers of the items in each role: three for triplets, two for pairs
    values : whether the two of each pair are similar, or their ratings; None for triplets
    people : who gave each answer, or None
    """

    rows: list[IndexArray]
    values: Array | None
    people: Array | None


def read_answers(
    path: str | os.PathLike[str],
    kind: AnswerKind,
    n_items: int,
    ids: Sequence[object] | None = None,
    *,
    by: str | None = None,
) -> AnswerFile:
    """Read answers about items from a .csv, .tsv, .jsonl or .parquet file, also .gz.

    Parameters
    ----------
    path : a file with the columns anchor, positive, negative ("triplets"; also query, nearer, farther); left, right,
        similar ("pairs": yes or no); or left, right, rating ("ratings": higher is more alike). Without such names the
        first three columns count. A line of a .jsonl file is an object or a list.
    n_items : number of items
    ids : the name of each item; without them, and beside names none of which is a number, row numbers from 0
    by : column that says who gave the answer
    """
    path, columns = os.fspath(path), _columns(path)
    if by is not None and by not in columns:
        raise ValueError(f"by names the column {by!r}, {unknown_column(by, path, columns)}")
    people = None if by is None else np.array([str(value) for value in columns[by]])
    first, second, third = _roles(path, kind, columns, by)
    names = RowNames(map(str, ids if ids is not None else ()))
    rows = [_row_numbers(path, values, names, n_items) for values in (first, second)]
    if kind == "triplets":
        return AnswerFile([*rows, _row_numbers(path, third, names, n_items)], None, people)
    return AnswerFile(rows, (_similar if kind == "pairs" else _ratings)(path, third), people)


def names_in(path: str | os.PathLike[str], kind: AnswerKind, *, by: str | None = None) -> set[str]:
    """Return the names or numbers of the items, as text, that answers in a file use; arguments as of `read_answers`."""
    roles = _roles(os.fspath(path), kind, _columns(path), by)
    return {str(name).strip() for names in roles[: 3 if kind == "triplets" else 2] for name in names}


def is_row_number(name: str) -> bool:
    """Return whether the text of an answer may be the number of a row."""
    return name.removesuffix(".0").isdecimal()


def _roles(path: str, kind: AnswerKind, columns: dict[str, list[object]], by: str | None) -> list[list[object]]:
    return named_columns(path, kind, {name: values for name, values in columns.items() if name != by})


def _columns(path: str | os.PathLike[str]) -> dict[str, list[object]]:
    path = os.fspath(path)
    check_readable(path)
    suffix = os.path.splitext(path.lower().removesuffix(".gz"))[1]
    if suffix in (".jsonl", ".ndjson"):
        return _json_columns(path)
    if suffix not in (*CSV, ".parquet"):
        raise ValueError(f"{path} must be a .csv, .tsv, .jsonl or .parquet file, got the suffix {suffix!r}")
    columns = {name: values.to_list() for name, values in read_frame(path, suffix).data.to_dict().items()}
    if suffix in CSV and all(map(str.isdecimal, columns)):  # an answer, of which the columns were given the names
        return {f"column {at}": [name, *values] for at, (name, values) in enumerate(columns.items(), start=1)}
    return columns


def _json_columns(path: str) -> dict[str, list[object]]:
    columns: dict[str, list[object]] = {}
    for number, record in json_lines(path):
        if isinstance(record, list):
            record = {f"column {at}": value for at, value in enumerate(record, start=1)}
        if not isinstance(record, dict) or (columns and set(record) != set(columns)):
            expected = f"an object with {listed(columns)}" if columns else "an object or a list"
            raise ValueError(f"{path}: line {number} must be {expected}")
        for name, value in record.items():
            columns.setdefault(name, []).append(value)
    if not columns:
        raise ValueError(f"{path} has no answers")
    return columns


def _row_numbers(path: str, values: list[object], names: RowNames, n: int) -> IndexArray:
    rows = []
    # If a name is a number, "7" could be a row or a name that is missing.
    by_number = not any(str(name).isdecimal() for name in names.names)
    for at, value in enumerate(values, start=1):
        text = "" if value is None else str(value).strip()
        name = text if text in names else text.removesuffix(".0")
        if name in names:
            try:
                rows.append(names.row(name))
            except ValueError as error:  # several items have it
                raise ValueError(f"{path}: answer {at}: {error}") from None
        elif by_number and name.isdecimal() and int(name) < n:
            rows.append(int(name))
        else:
            kinds = ["the name of an item"] if names.names else []
            kinds += [f"a row number below {n}"] if by_number else []
            expected = f"must have {' or '.join(kinds)}, got {text[:60]!r}{names.nearest(text)}"
            raise ValueError(f"{path}: answer {at} {expected}")
    return np.array(rows, dtype=np.intp)


def _similar(path: str, values: list[object]) -> Array:
    texts = [str(value).strip().lower() for value in values]
    for at, text in enumerate(texts):
        if text not in (*_YES, *_NO):
            raise ValueError(f"{path}: answer {at + 1} must say yes or no, 1 or 0, got {text[:60]!r}")
    return np.array([text in _YES for text in texts])


def _ratings(path: str, values: list[object]) -> Array:
    ratings = []
    for at, value in enumerate(values):
        try:
            ratings.append(float(value))  # type: ignore[arg-type]  # which is caught
        except (TypeError, ValueError):
            raise ValueError(f"{path}: answer {at + 1} must have a number as its rating, got {value!r}") from None
    return np.array(ratings)

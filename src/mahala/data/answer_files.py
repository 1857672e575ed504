"""Read files of answers that people gave: triplets, pairs or pairs with ratings, of names or of row numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from mahala.data.array_files import listed
from mahala.data.columns.frames import CSV, json_lines, read_frame
from mahala.data.tables import unknown_column
from mahala.support.arrays import IndexArray
from mahala.support.files import check_readable

if TYPE_CHECKING:
    from mahala.support.arrays import Array


Kind = Literal["triplets", "pairs", "ratings"]
# The names that each column of a file may have; other files have these columns first, in this order.
_NAMES: dict[Kind, tuple[tuple[str, ...], ...]] = {
    "triplets": (
        ("anchor", "query", "a", "head"),
        ("positive", "nearer", "near", "b", "winner"),
        ("negative", "farther", "far", "c", "loser"),
    ),
    "pairs": (("left", "a", "first"), ("right", "b", "second"), ("similar", "same", "label", "y")),
    "ratings": (("left", "a", "first"), ("right", "b", "second"), ("rating", "score", "similarity", "label", "y")),
}
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
    kind: Kind,
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
    path = os.fspath(path)
    check_readable(path)
    columns = _columns(path)
    if by is not None and by not in columns:
        raise ValueError(f"by names the column {by!r}, {unknown_column(by, path, columns)}")
    people = None if by is None else np.array([str(value) for value in columns[by]])
    first, second, third = _chosen(path, kind, {name: values for name, values in columns.items() if name != by})
    numbers = {str(name): row for row, name in enumerate(ids if ids is not None else ())}
    if ids is not None and len(numbers) < len(ids):
        raise ValueError("ids must differ, but some items have the same name")
    rows = [_row_numbers(path, values, numbers, n_items) for values in (first, second)]
    if kind == "triplets":
        return AnswerFile([*rows, _row_numbers(path, third, numbers, n_items)], None, people)
    return AnswerFile(rows, (_similar if kind == "pairs" else _ratings)(path, third), people)


def _columns(path: str) -> dict[str, list[object]]:
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


def _chosen(path: str, kind: Kind, columns: Mapping[str, list[object]]) -> list[list[object]]:
    """Return the three columns by their names, or else the first three."""
    by_name = {name.strip().lower(): values for name, values in columns.items()}
    named = [next((by_name[name] for name in names if name in by_name), None) for names in _NAMES[kind]]
    if all(values is not None for values in named):
        return [values for values in named if values is not None]
    first = list(columns.values())[:3]
    # Columns such as query, a, b, nearer must not be read as if their order was the answer.
    if len(first) < 3 or any(name is not None and name is not given for name, given in zip(named, first, strict=True)):
        names = ", ".join(names[0] for names in _NAMES[kind])
        raise ValueError(f"{path} must have the columns {names}; it has {listed(columns)}")
    return first


def _row_numbers(path: str, values: list[object], numbers: Mapping[str, int], n: int) -> IndexArray:
    rows = []
    by_number = not any(name.isdecimal() for name in numbers)  # else "7" could be a row or a name that is missing
    for at, value in enumerate(values):
        text = "" if value is None else str(value).strip()
        row = numbers.get(text, numbers.get(text.removesuffix(".0")))
        if row is None and by_number and text.removesuffix(".0").isdecimal():
            row = int(text.removesuffix(".0"))
        if row is None or row >= n:
            kinds = (["the name of an item"] if numbers else []) + ([f"a row number below {n}"] if by_number else [])
            what = " or ".join(kinds)
            raise ValueError(f"{path}: answer {at + 1} must have {what}, got {text[:60]!r}")
        rows.append(row)
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

"""Tables from files: CSV, Parquet, .npy, .npz and svmlight become rows of numbers, and labels as they are."""

from __future__ import annotations

import csv
import difflib
import gzip
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala.data.array_files import listed, places, read_arrays

_CSV = (".csv", ".tsv", ".txt")
_SVMLIGHT = (".svm", ".svmlight", ".libsvm")
_READ = ".csv, .tsv and .txt (also .gz), .parquet, .npy, .npz, .svm, .svmlight and .libsvm (also .gz)"
# What people write where a value is missing. Other spellings may be classes: "none", "mild", "severe".
_MISSING = frozenset(("", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "?"))
# A text column with more values than this is probably an identifier.
_MOST_VALUES = 50


class Table(NamedTuple):
    """Rows, their labels as the file has them, and the names of the features where the file names them.

    X is an array of float64 (float32 where an .npy or .npz file holds that), or a `csr_array`.
    """

    X: Any
    labels: NDArray[Any] | None
    feature_names: tuple[str, ...] | None


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    drop: Sequence[str] = (),
    features: Sequence[str] | None = None,
    n_features: int | None = None,
) -> Table:
    """The rows of a file, by its suffix.

    CSV (with a line of names; the delimiter is found out) and Parquet have named columns. `label` is the column of
    labels, `drop` are columns to leave out. Numbers are features, booleans 0 or 1, and text becomes one feature for
    each value, "column=value". With `features`, the names that a model was fitted with, X is made of these in their
    order: other columns are ignored, and values that they do not know give zeros.

    `.npy` holds rows only. `.npz` holds X, or data, indices, indptr and shape of a CSR matrix, and labels under y, or
    under the key `label`. In svmlight files the labels are the first numbers; indices count from 1 unless there is a 0.
    X has `n_features` columns where that is given: svmlight rows are filled up with zeros, others must have as many.

    Missing or infinite values are refused with the lines (or the rows, from 0) where they are.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "wine.csv")
    ...     _ = path.write_text("alcohol,colour,maker\\n12.5,red,A\\n11,white,B\\n13,red,A\\n")
    ...     table = read_table(path, label="maker")
    >>> table.feature_names, table.X[0].tolist(), table.labels.tolist()
    (('alcohol', 'colour=red', 'colour=white'), [12.5, 1.0, 0.0], ['A', 'B', 'A'])
    """
    path = os.fspath(path)
    with open(path, "rb"):  # a missing or forbidden file keeps Python's own OSError
        pass
    suffix = _suffix(path)
    if suffix in _CSV or suffix == ".parquet":
        source = _read_csv(path) if suffix in _CSV else _read_parquet(path)
        table = _from_columns(source, label, drop, features)
    else:
        if drop:
            raise ValueError(f"drop names columns of CSV and Parquet files, but {path} has no column names")
        n_features = n_features if features is None else len(features)
        table = Table(*read_arrays(path, suffix, label, n_features), None)
    if n_features not in (None, table.X.shape[1]):
        raise ValueError(f"{path} has rows of {table.X.shape[1]} features, but the model compares rows of {n_features}")
    return table


def _suffix(path: str) -> str:
    stem, suffix = os.path.splitext(path.lower())
    if suffix == ".gz":
        suffix = os.path.splitext(stem)[1]
        if suffix not in (*_CSV, *_SVMLIGHT):
            suffix += ".gz"
    if suffix not in (*_CSV, *_SVMLIGHT, ".parquet", ".npy", ".npz"):
        raise ValueError(f"{path} has the suffix {suffix or 'of no format'!r}; files that are read: {_READ}")
    return suffix


@dataclass
class _Source:
    """Named columns: cells of text (CSV) or arrays (Parquet). `lines` are the rows' lines in a CSV file."""

    path: str
    columns: dict[str, Any]
    lines: list[int] | None

    def places(self, rows: NDArray[np.intp]) -> str:
        """Where rows are, for messages."""
        return places("row", rows) if self.lines is None else places("line", np.array(self.lines)[rows])


class _Column(NamedTuple):
    """float64 numbers, booleans, or objects that are text; what stands at missing values has no meaning."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]


def _read_csv(path: str) -> _Source:
    opened: Any = gzip.open if path.lower().endswith(".gz") else open
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            first = next((line for line in file if line.strip()), "")
            # The delimiter that makes most columns of the first line.
            order = "\t,;|" if ".tsv" in path.lower() else ",;\t|"
            delimiter = max(
                order, key=lambda mark: len(next(csv.reader([first], delimiter=mark, skipinitialspace=True), ()))
            )
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
            line = 1
            try:
                for row in reader:
                    if row:
                        rows.append(row)
                        lines.append(line)
                    line = reader.line_num + 1
            except csv.Error as error:
                raise ValueError(f"{path} cannot be read from line {line} on: {error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error.reason}): save it as UTF-8") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is no whole gzip file ({error})") from None
    if not rows:
        raise ValueError(f"{path} is empty: it should have a line of column names and lines of values")
    names = [name.strip() for name in rows[0]]
    if all(_is_number(name) for name in names):
        raise ValueError(
            f"{path} should begin with a line of column names, but its first line is all numbers: "
            f"{delimiter.join(rows[0])[:60]}"
        )
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{path} has {names.count(name)} columns named {name!r}: names must differ")
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(names):
            raise ValueError(f"{path}: line {line} has {len(row)} fields, but there are {len(names)} columns")
    if len(rows) == 1:
        raise ValueError(f"{path} has column names, but no rows")
    return _Source(path, dict(zip(names, zip(*rows[1:], strict=True), strict=True)), lines[1:])


def _read_parquet(path: str) -> _Source:
    try:
        try:
            import polars

            frame = polars.read_parquet(path)
        except ImportError:
            import pandas

            frame = pandas.read_parquet(path)
    except ImportError:
        raise ImportError("Parquet files need polars, or pandas with pyarrow: pip install 'mahala[parquet]'") from None
    except Exception as error:  # each library has its own kinds
        raise ValueError(f"{path} is no readable Parquet file ({error})") from error
    if len(frame) == 0:
        raise ValueError(f"{path} has no rows")
    return _Source(path, {str(name): frame[name].to_numpy() for name in frame.columns}, None)


def _from_columns(source: _Source, label: str | None, drop: Sequence[str], features: Sequence[str] | None) -> Table:
    for name, argument in [(label, "label"), *((name, "drop") for name in drop)]:
        if name is not None and name not in source.columns:
            raise ValueError(f"{argument} names the column {name!r}, {_unknown(name, source)}")
    labels = None if label is None else _labels(source, label)
    names = [name for name in source.columns if name not in drop]
    if features is not None:
        # The label may be one of them: a column to show beside what was found.
        return Table(_known_features(source, names, features), labels, tuple(features))
    names = [name for name in names if name != label]
    if not names:
        raise ValueError(f"{source.path} has no columns left to be features")
    if "" in names:
        number = list(source.columns).index("") + 1
        raise ValueError(f"{source.path}: column {number} has no name: name it, or leave it out with --drop ''")
    encoded = [part for name, column in _whole(source, names).items() for part in _encode(source, name, column)]
    found = [name for name, _ in encoded]
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise ValueError(f"{source.path} gives two features named {twice!r}: rename a column")
    return Table(np.column_stack([values for _, values in encoded]).astype(np.float64), labels, tuple(found))


def _known_features(source: _Source, names: list[str], features: Sequence[str]) -> NDArray[np.float64]:
    """The features that a model was fitted with."""
    homes: list[tuple[str, str | None]] = []
    for feature in features:
        ends = [at for at, mark in enumerate(feature) if mark == "=" and feature[:at] in names]
        if feature in names:
            homes.append((feature, None))
        elif ends:
            homes.append((feature[: ends[0]], feature[ends[0] + 1 :]))
        else:
            raise ValueError(f"the model needs the feature {feature!r}, {_unknown(feature, source)}")
    coded = {name for name, value in homes if value is not None}
    columns = _whole(source, dict.fromkeys(name for name, _ in homes), coded)
    X = np.empty((len(next(iter(source.columns.values()))), len(features)))
    for j, (name, value) in enumerate(homes):
        values = columns[name].values
        if value is None and values.dtype == object:
            raise ValueError(f"{source.path}: column {name!r} is text, but the model knows it as numbers")
        X[:, j] = values if value is None else values == value
    return X


def _whole(source: _Source, names: Iterable[str], as_text: Iterable[str] = ()) -> dict[str, _Column]:
    """Columns, in none of which a value is missing."""
    columns = {name: _column(source, name, text=name in as_text) for name in names}
    gaps = {name: np.flatnonzero(column.missing) for name, column in columns.items() if column.missing.any()}
    if gaps:
        told = [f"column {name!r} has {len(rows)} ({source.places(rows)})" for name, rows in list(gaps.items())[:3]]
        rest = f"; so do {len(gaps) - 3} more columns" if len(gaps) > 3 else ""
        raise ValueError(
            f"{source.path} has missing or infinite values: {'; '.join(told)}{rest}. Fill them in or drop those rows"
        )
    return columns


def _column(source: _Source, name: str, text: bool = False) -> _Column:
    """A column as numbers, booleans or text; as `text` where that is asked for."""
    cells = source.columns[name]
    if isinstance(cells, np.ndarray):
        return _from_array(source.path, name, cells)
    if not text:
        try:
            numbers = _numbers(cells)
            return _Column(numbers, ~np.isfinite(numbers))
        except ValueError:
            pass
    texts = _objects([cell.strip() for cell in cells])
    missing = _mask(cell in _MISSING for cell in texts)
    present = texts[~missing]
    if not text:
        try:
            numbers = np.full(len(texts), np.nan)
            numbers[~missing] = _numbers(present)
            return _Column(numbers, ~np.isfinite(numbers))
        except ValueError:
            pass
        if {cell.lower() for cell in present} <= {"true", "false"}:
            return _Column(_mask(cell.lower() == "true" for cell in texts), missing)
    return _Column(texts, missing)


def _from_array(path: str, name: str, array: NDArray[Any]) -> _Column:
    """A column of a frame."""
    if array.dtype.kind == "b":
        return _Column(array, np.zeros(len(array), dtype=bool))
    if array.dtype.kind in "iuf":
        numbers = array.astype(np.float64)
        return _Column(numbers, ~np.isfinite(numbers))
    # Text, and what has gaps: None, NaN, or what pandas writes as <NA> and NaT.
    missing = _mask(str(value) in ("<NA>", "NaT", *_MISSING) for value in array)
    present = array[~missing]
    if all(isinstance(value, str) for value in present):
        return _Column(_objects(array), missing)
    if all(isinstance(value, bool | np.bool_) for value in present):
        return _Column(_mask(str(value) == "True" for value in array), missing)
    try:
        numbers = np.full(len(array), np.nan)
        numbers[~missing] = [float(value) for value in present]
    except (TypeError, ValueError):
        raise ValueError(
            f"{path}: column {name!r} holds values of type {type(present[0]).__name__}, which are neither numbers nor "
            f"text: leave it out with --drop {name!r}"
        ) from None
    return _Column(numbers, ~np.isfinite(numbers))


def _labels(source: _Source, name: str) -> NDArray[Any]:
    """Labels as they are: booleans, integers, other numbers, or text."""
    cells = source.columns[name]
    values = _whole(source, [name])[name].values
    if isinstance(cells, np.ndarray):
        return cells if cells.dtype.kind in "iuf" else values
    if values.dtype.kind != "f":
        return values
    texts = [cell.strip() for cell in cells]
    try:
        integers = [int(text) for text in texts]
        # 007 is a name, not a number, and so is what 64 bits cannot hold.
        exact = [str(integer) for integer in integers] == texts
        return np.array(integers, dtype=np.int64) if exact else _objects(texts)
    except ValueError:
        return values
    except OverflowError:
        return _objects(texts)


def _encode(source: _Source, name: str, column: _Column) -> list[tuple[str, NDArray[Any]]]:
    """A column as named features."""
    if column.values.dtype != object:
        return [(name, column.values)]
    found = sorted(set(column.values))
    n_rows = len(column.values)
    numeric = _mask(_is_number(value) for value in column.values)
    if not numeric.all() and all(_is_number(value.replace(",", ".", 1)) for value in found):
        raise ValueError(
            f"{source.path}: column {name!r} has numbers with a comma ({found[0]!r}): write a decimal point instead"
        )
    if len(found) > _MOST_VALUES or len(found) == n_rows > 1:
        if 2 * numeric.sum() > n_rows:
            odd = np.flatnonzero(~numeric)
            raise ValueError(
                f"{source.path}: column {name!r} has {len(odd)} values that are no numbers ({source.places(odd)}), "
                f"such as {column.values[odd[0]]!r}: mend them, or leave the column out with --drop {name!r}"
            )
        raise ValueError(
            f"{source.path}: column {name!r} is text with {len(found)} different values in {n_rows} rows, probably an "
            f"identifier: leave it out with --drop {name!r}"
        )
    return [(f"{name}={value}", column.values == value) for value in found]


def _numbers(cells: Iterable[str]) -> NDArray[np.float64]:
    cells = list(cells)
    if "_" in "".join(cells):
        raise ValueError("Python takes 1_0 for a number, people do not")
    return np.array(list(map(float, cells)))


def _is_number(text: str) -> bool:
    try:
        _numbers([text])
    except ValueError:
        return False
    return True


def _mask(flags: Iterable[bool]) -> NDArray[np.bool_]:
    return np.fromiter(flags, dtype=bool)


def _objects(values: Any) -> NDArray[Any]:
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


def _unknown(name: str, source: _Source) -> str:
    near = difflib.get_close_matches(name, source.columns, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"which {source.path} does not have{hint}; its columns are {listed(source.columns)}"

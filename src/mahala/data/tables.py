"""Read tables from CSV, Parquet, .npy, .npz and svmlight files."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala.data.array_files import listed, open_data, places, read_arrays
from mahala.support.memory import check_room

_CSV = (".csv", ".tsv", ".txt")
_SVMLIGHT = (".svm", ".svmlight", ".libsvm")
_READ = ".csv, .tsv and .txt (also .gz), .parquet, .npy, .npz, .svm, .svmlight and .libsvm (also .gz)"
# Spellings of a missing value. Others may be classes, such as "none", "mild", "severe".
_MISSING = frozenset(("", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "?"))
# A text column with more values than this is probably an identifier.
_MOST_VALUES = 50
# Characters of the longest field; the default of Python's reader is 131,072.
_LONGEST_FIELD = 2**27


class Table(NamedTuple):
    """Rows, their labels as in the file, and the names of the features if the file has them.

    X is a float64 array (float32 if an .npy or .npz file holds float32) or a `csr_array`.
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
    first_index: int = 1,
) -> Table:
    """Read the rows of a file, whose suffix tells the format.

    CSV files (with a header line; the delimiter is detected) and Parquet files have named columns. Numeric columns
    become features, booleans become 0 or 1, and a text column becomes one 0/1 feature per value, "column=value".
    `.npy` files hold rows only. `.npz` files hold X, or the data, indices, indptr and shape of a CSR matrix, and labels
    under y. svmlight files start each line with the label.

    Parameters
    ----------
    path : .csv, .tsv or .txt (also .gz), .parquet, .npy, .npz, .svm, .svmlight or .libsvm (also .gz)
    label : column of the labels; in .npz files the name of an array
    drop : columns to leave out
    features : feature names that a model was fitted with. X then has these columns in this order: other columns are
        ignored, and unknown values of text columns become zeros.
    n_features : number of columns that X must have; shorter svmlight rows are padded with zeros
    first_index : the index of the first feature in svmlight files: 1, as LIBSVM writes them, or 0, as scikit-learn's
        `dump_svmlight_file` does by default. It is not guessed, because a file may lack the first feature

    Missing or infinite values raise a ValueError that names the lines, or the rows counted from 0. A file that declares
    more than fits into the memory of this machine is refused before it is read.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "wine.csv")
    ...     _ = path.write_text("alcohol,colour,maker\\n12.5,red,A\\n11,white,B\\n13,red,A\\n")
    ...     table = read_table(path, label="maker")
    >>> table.feature_names, table.X[0].tolist(), table.labels.tolist()
    (('alcohol', 'colour=red', 'colour=white'), [12.5, 1.0, 0.0], ['A', 'B', 'A'])
    """
    if first_index not in (0, 1):
        raise ValueError(f"first_index must be 0 or 1, got {first_index!r}")
    path = os.fspath(path)
    with open(path, "rb"):  # raise Python's own OSError if the file is missing or not readable
        pass
    suffix = _suffix(path)
    if suffix in _CSV or suffix == ".parquet":
        source = _read_csv(path) if suffix in _CSV else _Source(path, read_parquet(path), None)
        table = _from_columns(source, label, drop, features)
    else:
        if drop:
            raise ValueError(f"drop names columns of CSV and Parquet files, but {path} has no column names")
        n_features = n_features if features is None else len(features)
        table = Table(*read_arrays(path, suffix, label, n_features, first_index), None)
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
        raise ValueError(f"{path} has the suffix {suffix or 'of no format'!r}; supported are {_READ}")
    return suffix


@dataclass
class _Source:
    """Named columns: cells of text (CSV) or arrays (Parquet). `lines` holds the line of each row in a CSV file."""

    path: str
    columns: dict[str, Any]
    lines: list[int] | None

    def places(self, rows: NDArray[np.intp]) -> str:
        """Describe the positions of rows in messages."""
        return places("row", rows) if self.lines is None else places("line", np.array(self.lines)[rows])


class _Column(NamedTuple):
    """float64 numbers, booleans, or text as objects; values are undefined where `missing` is set."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]


@contextmanager
def text_file(path: str) -> Iterator[IO[str]]:
    """Open a text file in UTF-8, also .gz; raise a ValueError that names it if it cannot be decoded."""
    try:
        with io.TextIOWrapper(open_data(path), encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error.reason}): save it as UTF-8") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is not a complete gzip file ({error})") from None


def _read_csv(path: str) -> _Source:
    rows: list[list[str]] = []
    lines: list[int] = []
    with text_file(path) as file:
        first = next((line for line in file if line.strip()), "")
        # The delimiter is the one that splits the first line into most columns.
        order = "\t,;|" if ".tsv" in path.lower() else ",;\t|"
        delimiter = max(
            order, key=lambda mark: len(next(csv.reader([first], delimiter=mark, skipinitialspace=True), ()))
        )
        file.seek(0)
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
        reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
        line = 1
        try:
            for row in reader:
                if row:
                    rows.append(row)
                    lines.append(line)
                line = reader.line_num + 1
        except csv.Error as error:
            hint = "; a quotation mark may be missing" if "field limit" in str(error) else ""
            raise ValueError(f"{path} cannot be read beyond line {line}: {error}{hint}") from None
    if not rows:
        raise ValueError(f"{path} is empty: it must have a line of column names and lines of values")
    names = [name.strip() for name in rows[0]]
    if all(_is_number(name) for name in names):
        raise ValueError(
            f"{path} must begin with a line of column names, but its first line holds only numbers: "
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


def read_parquet(path: str) -> dict[str, Any]:
    """Return the columns of a Parquet file as arrays, by name."""
    try:
        try:
            import polars

            scan = polars.scan_parquet(path, glob=False)
            n_rows, n_columns = scan.select(polars.len()).collect().item(), len(scan.collect_schema())
            check_room(8.0 * n_rows * n_columns, None, path, "split it")
            frame = polars.read_parquet(path, glob=False)
        except ImportError:
            import pandas

            frame = pandas.read_parquet(path)
    except ImportError:
        raise ImportError("Parquet files need polars, or pandas with pyarrow: pip install 'mahala[parquet]'") from None
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # each library has its own exceptions; polars derives that of a panic from this one
        raise ValueError(f"{path} is not a readable Parquet file ({error})") from error
    if len(frame) == 0:
        raise ValueError(f"{path} has no rows")
    return {str(name): frame[name].to_numpy() for name in frame.columns}


def _from_columns(source: _Source, label: str | None, drop: Sequence[str], features: Sequence[str] | None) -> Table:
    for name, argument in [(label, "label"), *((name, "drop") for name in drop)]:
        if name is not None and name not in source.columns:
            raise ValueError(
                f"{argument} names the column {name!r}, {unknown_column(name, source.path, source.columns)}"
            )
    labels = None if label is None else _labels(source, label)
    names = [name for name in source.columns if name not in drop]
    if features is not None:
        # The label may be one of the features: a column to show with the results.
        return Table(_known_features(source, names, features), labels, tuple(features))
    names = [name for name in names if name != label]
    if not names:
        raise ValueError(f"{source.path} has no columns left to be features")
    if "" in names:
        number = list(source.columns).index("") + 1
        raise ValueError(f"{source.path}: column {number} has no name: name it, or leave it out with drop=['']")
    encoded = [part for name, column in _whole(source, names).items() for part in _encode(source, name, column)]
    found = [name for name, _ in encoded]
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise ValueError(f"{source.path} gives two features named {twice!r}: rename a column")
    return Table(np.column_stack([values for _, values in encoded]).astype(np.float64), labels, tuple(found))


def _known_features(source: _Source, names: list[str], features: Sequence[str]) -> NDArray[np.float64]:
    """Return the features that a model was fitted with."""
    homes: list[tuple[str, str | None]] = []
    for feature in features:
        ends = [at for at, mark in enumerate(feature) if mark == "=" and feature[:at] in names]
        if feature in names:
            homes.append((feature, None))
        elif ends:
            homes.append((feature[: ends[0]], feature[ends[0] + 1 :]))
        else:
            raise ValueError(
                f"the model needs the feature {feature!r}, {unknown_column(feature, source.path, source.columns)}"
            )
    coded = {name for name, value in homes if value is not None}
    columns = _whole(source, dict.fromkeys(name for name, _ in homes), coded)
    X = np.empty((len(next(iter(source.columns.values()))), len(features)))
    for j, (name, value) in enumerate(homes):
        values = columns[name].values
        if value is None and values.dtype == object:
            raise ValueError(f"{source.path}: column {name!r} is text, but the model was fitted with numbers")
        X[:, j] = values if value is None else values == value
    return X


def _whole(source: _Source, names: Iterable[str], as_text: Iterable[str] = ()) -> dict[str, _Column]:
    """Return columns; raise ValueError if any value is missing."""
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
    """Return a column as numbers, booleans or text; always as text if `text` is set."""
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
    """Return a column of a data frame."""
    if array.dtype.kind == "b":
        return _Column(array, np.zeros(len(array), dtype=bool))
    if array.dtype.kind in "iuf":
        numbers = array.astype(np.float64)
        return _Column(numbers, ~np.isfinite(numbers))
    # Text, or values with gaps: None, NaN, or pandas' <NA> and NaT.
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
            f"text: leave it out with drop=[{name!r}]"
        ) from None
    return _Column(numbers, ~np.isfinite(numbers))


def _labels(source: _Source, name: str) -> NDArray[Any]:
    """Return labels as they are: booleans, integers, other numbers, or text."""
    cells = source.columns[name]
    values = _whole(source, [name])[name].values
    if isinstance(cells, np.ndarray):
        return cells if cells.dtype.kind in "iuf" else values
    if values.dtype.kind != "f":
        return values
    texts = [cell.strip() for cell in cells]
    try:
        integers = [int(text) for text in texts]
        # 007 is a name, not a number; so is an integer of more than 64 bits.
        exact = [str(integer) for integer in integers] == texts
        return np.array(integers, dtype=np.int64) if exact else _objects(texts)
    except ValueError:
        return values
    except OverflowError:
        return _objects(texts)


def _encode(source: _Source, name: str, column: _Column) -> list[tuple[str, NDArray[Any]]]:
    """Return a column as named features."""
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
                f"{source.path}: column {name!r} has {len(odd)} values that are not numbers ({source.places(odd)}), "
                f"such as {column.values[odd[0]]!r}: fix them, or leave the column out with drop=[{name!r}]"
            )
        raise ValueError(
            f"{source.path}: column {name!r} is text with {len(found)} different values in {n_rows} rows, probably an "
            f"identifier: leave it out with drop=[{name!r}]"
        )
    return [(f"{name}={value}", column.values == value) for value in found]


def _numbers(cells: Iterable[str]) -> NDArray[np.float64]:
    cells = list(cells)
    if "_" in "".join(cells):
        raise ValueError("1_0 is a number in Python, but not in a table")
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


def unknown_column(name: str, path: str, columns: Iterable[str]) -> str:
    """Say in a message which columns a file has instead of one."""
    near = difflib.get_close_matches(name, columns, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"which {path} does not have{hint}; its columns are {listed(columns)}"

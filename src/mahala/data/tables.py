"""Read tables from files of many formats: rows, labels, and what was done to the columns."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np

from mahala.data.array_files import read_arrays
from mahala.data.columns.cells import Decimal, number
from mahala.data.columns.frames import CSV, FRAMES, Frame, read_frame
from mahala.data.columns.values import is_frame
from mahala.data.labels import label_column, label_values, spaces_left_out
from mahala.data.preprocessing import TablePreprocessor
from mahala.support.arrays import IndexArray
from mahala.support.files import check_readable
from mahala.support.names import listed
from mahala.support.parameters import ParameterError

if TYPE_CHECKING:
    from mahala.support.arrays import Array


# Cells by which text is told from numbers that are written as text.
_LOOKED_AT = 100
_SVMLIGHT = (".svm", ".svmlight", ".libsvm")
_READ = (
    ".csv, .tsv and .txt (also .gz), .parquet, .feather, .xlsx, .npy, .npz, .svm, .svmlight and .libsvm (also .gz), "
    "and - for standard input"
)


class Table(NamedTuple):
    """Rows, their labels as in the file, the names of the features if the file has them, and what was done to columns.

    X is a float64 array (float32 if an .npy or .npz file holds float32) or a `csr_array`. `preprocessor` turns further
    tables with the same columns into such rows, and `columns` holds pairs of a name and what was done to it: of each
    column, of the file as a whole and of the label where something was done to them. `rows` holds the numbers of the
    rows in the file, counted from 0, if some of the file's were left out. `extra` has the columns that were asked for
    beside the features. `names` has the first column of text that tells most rows apart, if there is one.
    """

    X: Any
    labels: Array | None
    feature_names: tuple[str, ...] | None
    preprocessor: TablePreprocessor | None = None
    columns: tuple[tuple[str, str], ...] = ()
    rows: IndexArray | None = None
    extra: Mapping[str, Array] = MappingProxyType({})
    names: Array | None = None


class RawTable(NamedTuple):
    """Columns as a file has them, for models that convert them themselves; the rest is as in :class:`Table`.

    `data` is a Polars data frame, or the rows of a file without column names. `decimal` is the mark of numbers in it
    that do not show theirs.
    """

    data: Any
    labels: Array | None
    notes: tuple[tuple[str, str], ...] = ()
    rows: IndexArray | None = None
    extra: Mapping[str, Array] = MappingProxyType({})
    decimal: Decimal = "."


def read_raw_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    extra: Sequence[str] = (),
    decimal: Decimal | None = None,
    n_features: int | None = None,
    first_index: int = 1,
    all_rows: bool = False,
) -> RawTable:
    """Read the columns of a file as they are; the arguments are those of :func:`read_table`.

    With `all_rows`, rows without a label and columns that are not used stay.
    """
    path, suffix = _checked(path, first_index, decimal)
    if suffix not in FRAMES:
        _without_names(path, drop, keep, extra)
        return RawTable(*read_arrays(path, suffix, label, n_features, first_index))
    frame = read_frame(path, suffix)
    columns = _ColumnNames.of(frame, path, label, drop, keep, extra)
    notes = [(os.path.basename(path), note) for note in frame.notes]
    labels, data, rows, mark = None, frame.data, None, decimal or frame.decimal
    if (label := columns.label) is not None:
        column, present = label_column(data[label])
        if not all_rows and not present.all():
            n_gaps = int((~present).sum())
            if n_gaps == len(present):
                raise ValueError(f"{path}: the label column {label!r} is empty")
            notes.append((label, f"label; {n_gaps:,} row{'s' if n_gaps > 1 else ''} without it left out"))
            data, column, rows = data.filter(present), column.filter(present), np.flatnonzero(present)
        labels, remarks = label_values(column, mark)
        notes += [(label, f"label; {remark}") for remark in (*spaces_left_out(data[label]), *remarks)]
    if all_rows:
        return RawTable(data, labels, tuple(notes), decimal=frame.decimal)
    used = [name for name in data.columns if columns.is_feature(name)]
    if not used:
        raise ValueError(f"{path} has no columns left to be features")
    values = {name: label_values(data[place], mark)[0] for name, place in zip(extra, columns.extra, strict=True)}
    return RawTable(data.select(used), labels, tuple(notes), rows, values, frame.decimal)


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    extra: Sequence[str] = (),
    identifiers: bool = False,
    decimal: Decimal | None = None,
    preprocessor: TablePreprocessor | None = None,
    features: Sequence[str] | None = None,
    n_features: int | None = None,
    first_index: int = 1,
) -> Table:
    """Read the rows of a file in the format that its suffix names.

    CSV, Parquet, Feather and Excel files have named columns: numbers, text and dates, with gaps, which
    :class:`TablePreprocessor` converts to features. The encoding of a CSV file (UTF-8, UTF-16, Latin-1), its
    delimiter, its decimal mark and whether it begins with column names are detected. Without names the columns are
    "column 1", "column 2", ...

    `.npy` files hold rows only. `.npz` files hold X, or the data, indices, indptr and shape of a CSR matrix, and labels
    under y. svmlight files start each line with the label.

    Parameters
    ----------
    path : str or path
        A .csv, .tsv or .txt (also .gz), .parquet, .feather, .xlsx, .npy, .npz, .svm, .svmlight or .libsvm (also .gz)
        file, or "-" for CSV from standard input.
    label : str or None, default=None
        Column of the labels; in .npz files the name of an array. Rows without a label are left out, unless
        `preprocessor` or `features` is given.
    drop : list of str, default=()
        Columns to leave out; an entry may hold several names separated by commas.
    keep : list of str, default=()
        The only columns to use beside the label, also if they look like identifiers; names as in `drop`.
    extra : list of str, default=()
        Columns that are not features, returned as they are, such as groups or times.
    identifiers : bool, default=False
        Whether to use columns that look like identifiers.
    decimal : ".", "," or None, default=None
        Decimal mark of ambiguous text such as 1,019, and of all text that is read with a `preprocessor`. None infers it
        from the column, then from the other columns, or reads as the preprocessor does.
    preprocessor : TablePreprocessor or None, default=None
        What converts columns to features; None to fit a new one to the file.
    features : list of str or None, default=None
        Feature names that a model without a preprocessor was fitted with. X then has these columns in this order:
        other columns are ignored, and unknown values of text columns become zeros.
    n_features : int or None, default=None
        Number of columns that X must have; shorter svmlight rows are padded with zeros.
    first_index : 0 or 1, default=1
        Index of the first feature in svmlight files: 1, as LIBSVM writes them, or 0, as scikit-learn's
        `dump_svmlight_file` does by default. It is not guessed, because a file may lack the first feature.

    Returns
    -------
    Table
        A named tuple of `X`, `labels`, `feature_names`, `preprocessor`, `columns`, `rows` and `extra`.

    Lines with another number of fields than the first raise a ValueError that names them all. A file that declares more
    than fits into the memory of this machine is refused before it is read.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "wine.csv")
    ...     _ = path.write_text("alcohol;colour;maker\\n12,5;red;A\\nNA;white;B\\n13;red;A\\n")
    ...     table = read_table(path, label="maker")
    >>> table.feature_names, table.X[0].tolist(), table.labels.tolist()
    (('alcohol', 'alcohol missing', 'colour=red', 'colour=white'), [12.5, 0.0, 1.0, 0.0], ['A', 'B', 'A'])
    """
    path, n_features = os.fspath(path), n_features if features is None else len(features)
    known = preprocessor is not None or features is not None
    raw = read_raw_table(
        path, label=label, drop=drop, keep=keep, extra=extra, decimal=decimal, n_features=n_features,
        first_index=first_index, all_rows=known,
    )  # fmt: skip
    with _named(path):
        if not is_frame(raw.data):
            table = Table(raw.data, raw.labels, None)
        elif known:
            table = _with_known_features(raw, decimal, preprocessor, features)
        else:
            table = _with_new_features(raw, decimal, "keep" if identifiers or keep else "drop")
    if n_features not in (None, table.X.shape[1]):
        raise ValueError(f"{path} has rows of {table.X.shape[1]} features, but the model compares rows of {n_features}")
    return table


def _suffix(path: str) -> str:
    if path == "-":
        return ".csv"
    stem, suffix = os.path.splitext(path.lower())
    if suffix == ".gz":
        suffix = os.path.splitext(stem)[1]
        if suffix not in (*CSV, *_SVMLIGHT):
            suffix += ".gz"
    if suffix not in (*FRAMES, *_SVMLIGHT, ".npy", ".npz"):
        raise ValueError(f"{path} has the suffix {suffix or 'of no format'!r}; supported are {_READ}")
    return suffix


def _checked(path: str | os.PathLike[str], first_index: int, decimal: str | None) -> tuple[str, str]:
    """Return a path, which must be readable, and its suffix; check other arguments of `read_table`."""
    if first_index not in (0, 1):
        raise ValueError(f"first_index must be 0 or 1, got {first_index!r}")
    if decimal not in (None, ".", ","):
        raise ValueError(f"decimal must be '.', ',' or None, got {decimal!r}")
    path = os.fspath(path)
    if path != "-":
        check_readable(path)
    return path, _suffix(path)


def _without_names(path: str, *columns: Sequence[str]) -> None:
    """Raise ParameterError if columns are asked for of a file without column names."""
    if any(columns):
        message = f"drop and keep name columns of CSV and Parquet files, but {path} has no column names"
        raise ParameterError(message, "drop", "keep")


class _ColumnNames(NamedTuple):
    """The names of columns that have a role in a data frame."""

    label: str | None
    drop: list[str]
    keep: list[str]
    extra: list[str]

    @classmethod
    def of(
        cls, frame: Frame, path: str, label: str | None, drop: Sequence[str], keep: Sequence[str], extra: Sequence[str]
    ) -> Self:
        """Find the columns that arguments name; raise one ParameterError for all that are not there."""
        problems: list[str] = []
        made = cls(
            None if label is None else _one_column(label, "label", frame, path, problems),
            _several_columns(drop, "drop", frame, path, problems),
            _several_columns(keep, "keep", frame, path, problems),
            [_one_column(name, "extra", frame, path, problems) for name in extra],
        )
        if problems:
            raise ParameterError("; ".join(problems), "label", "drop", "keep")
        return made

    def is_feature(self, name: str) -> bool:
        """Return whether a column is to be converted to features."""
        return name not in (self.label, *self.drop, *self.extra) and (not self.keep or name in self.keep)


def _with_known_features(
    raw: RawTable, decimal: Decimal | None, preprocessor: TablePreprocessor | None, features: Sequence[str] | None
) -> Table:
    """Return the features of columns that a preprocessor makes, or those with the given names."""
    order: list[int] | slice = slice(None)
    made = preprocessor
    if made is None:
        # The label may be one of the features: a column to show with the results.
        made, order = TablePreprocessor.from_feature_names(features or (), raw.data.columns)
    made = made if decimal is None else made.with_decimal(decimal)
    X = made.transform(raw.data)[:, order]
    if preprocessor is None:
        return Table(X, raw.labels, tuple(features or ()))
    return Table(X, raw.labels, tuple(made.get_feature_names_out()), made, raw.notes)


def _with_new_features(raw: RawTable, decimal: Decimal | None, identifiers: Literal["drop", "keep"]) -> Table:
    """Return the features of columns by a new preprocessor."""
    made = TablePreprocessor(decimal=decimal or ("auto," if raw.decimal == "," else "auto"), identifiers=identifiers)
    X = made.fit_transform(raw.data)
    columns = (*raw.notes, *made.columns_)
    features = tuple(made.get_feature_names_out())
    return Table(X, raw.labels, features, made, columns, raw.rows, raw.extra, _row_names(raw.data, features))


def _row_names(data: Any, features: Collection[str]) -> Array | None:
    """Return the first column of text, which is no feature itself, that tells most rows apart; None without one."""
    for column in data.iter_columns():
        if str(column.dtype) != "String" or column.name in features or 2 * column.n_unique() <= len(column):
            continue
        if any(number(text) is None for text in column.drop_nulls().head(_LOOKED_AT)):
            return np.asarray(column.fill_null("").to_numpy())
    return None


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Name the file in errors."""
    try:
        yield
    except ValueError as error:
        raise ParameterError(f"{path}: {error}", *getattr(error, "parameters", ())) from None


def _one_column(name: str, argument: str, frame: Frame, path: str, problems: list[str]) -> str:
    """Return the name of a column, which may be its number if the file has no names; note it if there is none."""
    names = frame.data.columns
    if name in names:
        return name
    numbered = f"column {name}"
    if frame.named is False and numbered in names:
        return numbered
    problem = f"{argument} names the column {name!r}, {unknown_column(name, path, names)}"
    if frame.named is None and name.isdecimal():
        why = f"the first line of {path} may be column names or values: put a line of other names above it"
        problem = f"{argument} is {name!r}, which may be a name or a number, because {why}, or give {numbered!r}"
    problems.append(problem)
    return name


def _several_columns(names: Sequence[str], argument: str, frame: Frame, path: str, problems: list[str]) -> list[str]:
    """Return the names of columns, of which one text may hold several separated by commas."""
    if isinstance(names, str):
        raise TypeError(f"{argument} must be a list of column names, got the text {names!r}")
    result = []
    for text in names:
        parts = [text] if text in frame.data.columns else [part.strip() for part in text.split(",") if part.strip()]
        result += [_one_column(part, argument, frame, path, problems) for part in parts or [text]]
    return result


def unknown_column(name: str, path: str, columns: Iterable[str]) -> str:
    """Say in a message which columns a file has instead of one."""
    near = difflib.get_close_matches(name, columns, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"which {path} does not have{hint}; its columns are {listed(columns)}"

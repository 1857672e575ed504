"""Read comparisons from lines of JSON, one per line."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, NamedTuple, NoReturn, TypeVar

import numpy as np
import scipy.sparse as sp

from mahala.comparisons import Pairs, Triplets
from mahala.support.arrays import FloatArray, IntArray, Rows, RowsLike
from mahala.support.parameters import ParameterError
from mahala.support.validation import LARGEST_VALUE, check_sparse, is_sparse

Comparison = TypeVar("Comparison")
Entries = dict[str, Any]  # of a line

_NUMBERS = np.arange(3)[:, np.newaxis]
_ABBREVIATION = 40


class LineError(ParameterError):
    """A line does not hold a comparison; the message says what is wrong and what would be right."""


class MissingItems(LineError):
    """A line refers to items, and there are none."""


class Point(NamedTuple):
    """A point of a comparison, dense or sparse."""

    values: FloatArray
    columns: IntArray | None  # in order, of a sparse point
    width: int


class LineReader(ABC, Generic[Comparison]):
    """Read comparisons of one kind.

    `widths` are the numbers of features of queries and items; if they are None, lists may have any length. A point is
    a list, an object of features by number (or by name, if there are `names`), or the number of a row of `items`.
    """

    kind: ClassVar[str]
    keys: ClassVar[tuple[str, ...]]
    reserved: ClassVar[tuple[str, ...]]
    """Keys that a line must not have, because the answer to it has them."""

    def __init__(
        self,
        widths: tuple[int | None, int | None] = (None, None),
        names: Sequence[str] = (),
        items: RowsLike | None = None,
    ) -> None:
        self.widths = widths
        self.items: Any = None if items is None else _check_items(items)
        self._columns = {name: column for column, name in enumerate(names)}
        # If a name looks like a number, numbers are read as names.
        self._by_number = not any(name.isdecimal() for name in names)

    @abstractmethod
    def comparison(self, entries: Entries) -> Comparison:
        """Return what the entries of a line hold, which has all the keys."""

    def read(self, line: bytes) -> tuple[Comparison, Entries]:
        """Return the comparison and the other entries of a line; raise LineError if it does not hold a comparison."""
        try:
            return self._read(_decode(line))
        except RecursionError:
            raise LineError("its brackets are nested too deeply for a comparison") from None

    def _read(self, entries: Entries) -> tuple[Comparison, Entries]:
        for key in self.keys:
            if key not in entries:
                raise LineError(self._missing(key, entries))
        for key in self.reserved:
            if key in entries:
                raise LineError(f"the key {key} is reserved for the answer: use another name")
        comparison = self.comparison(entries)
        others = {key: value for key, value in entries.items() if key not in self.keys}
        try:
            json.dumps(others, allow_nan=False)  # Python reads 1e999 as infinity, which JSON cannot express
        except ValueError:
            raise LineError("every number must be finite, got one that is too large for a float") from None
        return comparison, others

    def _missing(self, key: str, entries: Entries) -> str:
        form = "{" + ", ".join(f'"{name}": ...' for name in self.keys) + "}"
        for other in LineReader.__subclasses__():
            if all(name in entries for name in other.keys):
                return f"{other.kind}, but the model learns from {self.kind.split()[1]}s: {form}"
        return f"{key} is missing: {self.kind} is {form}"

    @staticmethod
    def rows(*points: Point) -> Rows:
        """Return points as rows: CSR if all of them are sparse."""
        width = points[0].width
        columns = [point.columns for point in points if point.columns is not None]
        if len(columns) == len(points):
            indptr = np.append(0, np.cumsum(list(map(len, columns))))
            data = np.concatenate([point.values for point in points])
            return sp.csr_array((data, np.concatenate(columns), indptr), shape=(len(points), width))
        rows = np.zeros((len(points), width))
        for row, point in zip(rows, points, strict=True):
            row[slice(None) if point.columns is None else point.columns] = point.values
        return rows

    def two_points(self, entries: Entries, names: tuple[str, ...], width: int | None) -> list[Point]:
        """Return the points under two names, which must have the same width."""
        points = [self.point(entries[name], name, width) for name in names]
        if points[0].width != points[1].width:
            widths = f"{names[0]} has {points[0].width} numbers and {names[1]} {points[1].width}"
            raise LineError(f"{widths}; they must have the same number")
        return points

    def point(self, value: object, name: str, width: int | None) -> Point:
        """Return the point that a value of a line is; `name` says in a message which one."""
        # Exact types: isinstance would accept true as an int.
        if type(value) is list:
            point = Point(_numbers(value, range(len(value)), name), None, len(value))
        elif type(value) is dict:
            point = self._sparse_point(value, name, width)
        elif type(value) is int and self.items is not None:
            point = self._item(value, name)
        else:
            row = "a row number" if self.items is not None else "(if items are given) a row number"
            kind = MissingItems if type(value) is int else LineError
            raise kind(
                f"{name} must be a list of numbers, an object of them or {row}, got {_abbreviated(value)}", "items"
            )
        if point.width == 0 or width not in (None, point.width):
            raise LineError(f"{name} must have {width or 'at least 1'} numbers, got {point.width}")
        largest = float(np.abs(point.values).max(initial=0.0))
        if not largest <= LARGEST_VALUE:
            raise LineError(f"{name} must have finite numbers up to {LARGEST_VALUE:g}, got {largest:g}")
        return point

    def _sparse_point(self, value: dict[str, object], name: str, width: int | None) -> Point:
        if width is None:
            message = f"{name} is an object, so the number of features must be known: give n_features"
            raise LineError(message, "n_features")
        columns = np.array([self._column(key, name, width) for key in value], dtype=np.int64)
        values, order = _numbers(list(value.values()), list(value), name), np.argsort(columns)
        columns = columns[order]
        again = columns[1:][columns[1:] == columns[:-1]]
        if again.size:
            raise LineError(f"{name} must have each feature once, got feature {again[0]} twice")
        return Point(values[order], columns, width)

    def _column(self, key: str, name: str, width: int) -> int:
        if key in self._columns:
            return self._columns[key]
        if self._by_number and key.isascii() and key.isdecimal() and len(key) < 20 and int(key) < width:
            return int(key)
        kinds = ["feature names of the model"] if self._columns else []
        kinds += [f"numbers from 0 to {width - 1}"] if self._by_number else []
        raise LineError(f"the features of {name} must be {' or '.join(kinds)}, got {_abbreviated(key)}")

    def _item(self, number: int, name: str) -> Point:
        n_rows, width = self.items.shape
        if not 0 <= number < n_rows:
            raise LineError(f"{name} must be a row number from 0 to {n_rows - 1}, got {number}")
        if not is_sparse(self.items):
            return Point(np.array(self.items[number], dtype=np.float64), None, width)
        part = slice(self.items.indptr[number], self.items.indptr[number + 1])
        return Point(self.items.data[part].astype(np.float64), self.items.indices[part].astype(np.int64), width)


class PairReader(LineReader[Pairs]):
    """Read pairs.

    >>> comparison, others = PairReader().read(b'{"x": [1, 2], "x2": [0, 1], "similar": true, "id": 7}')
    >>> comparison, comparison.similar, others
    (<Pairs: 1 over X of shape (2, 2), float64>, array([ True]), {'id': 7})
    """

    kind, keys = "a pair", ("x", "x2", "similar")
    reserved = ("line", "predicted", "margin")

    def comparison(self, entries: Entries) -> Pairs:
        if not isinstance(entries["similar"], bool):
            raise LineError(f"similar must be true or false, got {_abbreviated(entries['similar'])}")
        points = self.two_points(entries, self.keys[:2], self.widths[0])
        return Pairs._build(self.rows(*points), *_NUMBERS[:2], np.array([entries["similar"]]))


class TripletReader(LineReader[Triplets]):
    """Read triplets.

    >>> reader = TripletReader(widths=(9, 9))
    >>> reader.read(b'{"query": {"3": 1}, "positive": {"3": 2, "5": 1}, "negative": {}}')[0].X.nnz
    3
    """

    kind, keys = "a triplet", ("query", "positive", "negative")
    reserved = ("line", "right", "margin")

    def comparison(self, entries: Entries) -> Triplets:
        query = self.point(entries["query"], "query", self.widths[0])
        items = self.two_points(entries, self.keys[1:], self.widths[1])
        if query.width == items[0].width:
            return Triplets._build(self.rows(query, *items), *_NUMBERS)
        return Triplets._build(self.rows(query), *_NUMBERS[[0, 0, 1]], items=self.rows(*items))


def _abbreviated(value: object) -> str:
    """Return a value as a message shows it."""
    text = json.dumps(value)
    return text if len(text) <= _ABBREVIATION else f"{text[:_ABBREVIATION]}…"


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) < len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise LineError(f"the key {_abbreviated(twice)} must not occur twice in one object")
    return result


def _reject(constant: str) -> NoReturn:
    raise LineError(f"{constant} is not JSON: every number must be finite")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_reject)


def _decode(line: bytes) -> Entries:
    try:
        # Some editors begin a file with a byte order mark.
        entries = _DECODER.decode(line.rstrip().decode("utf-8-sig"))
    except LineError:
        raise
    except json.JSONDecodeError as error:
        raise LineError(f"not JSON: {error.msg} at character {error.pos + 1}; a line must be one object") from None
    except UnicodeDecodeError as error:
        raise LineError(f"not UTF-8: {error.reason} at byte {error.start + 1}") from None
    except ValueError as error:  # an integer of thousands of digits
        raise LineError(f"not a number: {error}") from None
    if not isinstance(entries, dict):
        raise LineError(f"it must be an object {{...}}, got {_abbreviated(entries)}")
    return entries


def _numbers(values: Sequence[object], keys: Sequence[object], name: str) -> FloatArray:
    # NumPy would convert "1" and true to numbers.
    if not set(map(type, values)) <= {int, float}:
        key, value = next((k, v) for k, v in zip(keys, values, strict=True) if type(v) not in (int, float))
        raise LineError(f"{name}[{_abbreviated(key)}] must be a number, got {_abbreviated(value)}")
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:
        raise LineError(f"{name} must have finite numbers up to {LARGEST_VALUE:g}, got a larger one") from None


def _check_items(items: Any) -> Any:
    items = items if is_sparse(items) or hasattr(items, "ndim") else np.asarray(items)
    if items.ndim != 2 or items.dtype.kind not in "biuf":
        raise ValueError(f"items must be rows of numbers, got {items.dtype} of shape {items.shape}")
    if not is_sparse(items):
        return items
    check_sparse(items)
    items = sp.csr_matrix(items)
    items.sum_duplicates()
    return items

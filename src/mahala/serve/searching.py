"""Index: exact search among the items of a collection, which follows the database."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala.serve.records import Item
from mahala.serve.store import Store
from mahala.support.arrays import FloatArray, IndexArray

# Rows for which there is room at first, and rows that are scored at a time: their scores stay in the cache.
_ROOM, _BLOCK = 1024, 16_384


class Found(NamedTuple):
    """An item that was found."""

    row: int
    id: str
    score: float
    payload: dict[str, Any]


class Index:
    """The rows of a collection in memory, in single precision; those of deleted and of former items as well.

    Learning changes the query only: nothing here is rebuilt. Items with equal scores are in the order of their rows.
    """

    def __init__(self, name: str, width: int) -> None:
        self.name, self.width = name, width
        self.change = 0
        self._lock = threading.Lock()
        self._X: NDArray[np.float32] = np.zeros((_ROOM, width), dtype=np.float32)
        self._live: NDArray[np.bool_] = np.zeros(_ROOM, dtype=bool)
        self._ids: list[str] = []
        self._payloads: list[dict[str, Any]] = []
        self._rows: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def refresh(self, store: Store, known: int = 0) -> None:
        """Take in what has changed in the database, at least up to the change with the number `known`."""
        with self._lock:
            change = self.change
            for item in store.changed_items(self.name, change):
                self._take(item)
                change = item.change
            self.change = max(change, known)  # not before all are here: to take one twice does no harm

    def _take(self, item: Item) -> None:
        n = len(self._ids)
        if item.row >= len(self._X):
            room = max(2 * len(self._X), item.row + 1)
            for name in ("_X", "_live"):
                old = getattr(self, name)
                new = np.zeros((room, *old.shape[1:]), dtype=old.dtype)
                new[:n] = old[:n]
                setattr(self, name, new)
        # A row that others do not see yet may be missing for a moment; it is dead until it comes.
        missing = item.row + 1 - n
        self._ids.extend([""] * missing)
        self._payloads.extend({} for _ in range(missing))
        self._X[item.row] = item.vector
        self._ids[item.row], self._payloads[item.row] = item.id, item.payload
        self._live[item.row] = item.live
        if item.live:
            self._rows[item.id] = item.row
        elif self._rows.get(item.id) == item.row:
            del self._rows[item.id]

    def row(self, id: str) -> int | None:
        """Return the row of an item, or None if there is none with this id."""
        return self._rows.get(id)

    def vectors(self, rows: Sequence[int]) -> FloatArray:
        """Return the vectors of rows in double precision; raise KeyError if one is not here."""
        if not 0 <= min(rows) <= max(rows) < len(self._ids):
            raise KeyError(f"rows {min(rows)} to {max(rows)} are not among the {len(self._ids)} rows of {self.name!r}")
        return self._X[list(rows)].astype(np.float64)

    def item(self, row: int, score: float = 0.0) -> Found:
        """Return a row with a score."""
        return Found(row, self._ids[row], score, self._payloads[row])

    def rows(self) -> IndexArray:
        """Return the rows of live items in their order."""
        return np.flatnonzero(self._live[: len(self._ids)])

    def items(self, start: int, n: int, like: str = "") -> list[Found]:
        """Return live items in the order of their rows: those after the first `start`, n at most.

        With `like`, only items are counted that have it in their id or their title, in any case.
        """
        rows = iter(self.rows().tolist())
        if like:
            rows = (row for row in rows if self._is_like(row, like.casefold()))
        return [self.item(row) for row in itertools.islice(rows, start, start + n)]

    def _is_like(self, row: int, like: str) -> bool:
        title = self._payloads[row].get("title", "")
        return like in self._ids[row].casefold() or (isinstance(title, str) and like in title.casefold())

    def search(
        self, vector: FloatArray, k: int, keep: Callable[[dict[str, Any]], bool] | None = None, leave_out: int = -1
    ) -> list[Found]:
        """Return the k live items with the largest inner products, best first.

        Parameters
        ----------
        keep : function of a payload; only items for which it is true are found
        leave_out : a row that is not found, such as that of the query
        """
        scores = self._scores(vector)
        if 0 <= leave_out < len(scores):
            scores[leave_out] = -np.inf
        n = int(np.isfinite(scores).sum())
        wanted = k
        while True:  # with a filter, until enough have passed it
            rows = leading(scores, min(wanted, n))
            found = [row for row in rows.tolist() if keep is None or keep(self._payloads[row])]
            if len(found) >= k or wanted >= n:
                return [self.item(row, float(scores[row])) for row in found[:k]]
            wanted *= 8

    def _scores(self, vector: FloatArray) -> NDArray[np.float32]:
        n = len(self._ids)
        X, live, own = self._X, self._live, np.asarray(vector, dtype=np.float32)
        scores = np.empty(n, dtype=np.float32)
        for start in range(0, n, _BLOCK):
            np.dot(X[start : min(start + _BLOCK, n)], own, out=scores[start : start + _BLOCK])
        scores[~live[:n]] = -np.inf
        return scores


def leading(scores: NDArray[np.float32], k: int) -> IndexArray:
    """Return the places of the k largest scores, in descending order; ties in the order of places.

    >>> leading(np.array([1, 3, 2, 3, 2], dtype=np.float32), 3)
    array([1, 3, 2])
    """
    if k == 0:
        return np.empty(0, dtype=np.intp)
    border = np.partition(scores, len(scores) - k)[len(scores) - k]
    candidates = np.flatnonzero(scores >= border)
    return candidates[np.argsort(-scores[candidates], kind="stable")[:k]]


def payload_filter(conditions: Mapping[str, Any]) -> Callable[[dict[str, Any]], bool]:
    """Return whether a payload fulfils all conditions: {field: value}, or {field: {"in": [...], "gte": 1, "lte": 2}}.

    A field that is a list fulfils a value that it has.

    >>> keep = payload_filter({"kind": "film", "year": {"gte": 1970}})
    >>> keep({"kind": "film", "year": 1979}), keep({"kind": "film"})
    (True, False)
    """
    tests = [(name, _test(name, wanted)) for name, wanted in conditions.items()]
    return lambda payload: all(name in payload and test(payload[name]) for name, test in tests)


def _test(name: str, wanted: Any) -> Callable[[Any], bool]:
    if not isinstance(wanted, dict):
        return lambda value: any(_equal(own, wanted) for own in (value if isinstance(value, list) else [value]))
    if not wanted or wanted.keys() - {"in", "gte", "lte"}:
        raise ValueError(f"filter: {name} must be a value or an object of in, gte and lte, got {sorted(wanted)}")
    for bound in wanted.keys() & {"gte", "lte"}:
        if not isinstance(wanted[bound], int | float | str) or isinstance(wanted[bound], bool):
            raise ValueError(f"filter: {bound} of {name} must be a number or text, got {wanted[bound]!r:.40}")
    if "in" in wanted and not isinstance(wanted["in"], list):
        raise ValueError(f"filter: in of {name} must be a list, got {wanted['in']!r:.40}")

    def test(value: Any) -> bool:
        return (
            ("in" not in wanted or any(_equal(value, one) for one in wanted["in"]))
            and ("gte" not in wanted or (_comparable(value, wanted["gte"]) and value >= wanted["gte"]))
            and ("lte" not in wanted or (_comparable(value, wanted["lte"]) and value <= wanted["lte"]))
        )

    return test


def _equal(value: Any, wanted: Any) -> bool:
    # Python takes true for 1.
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _comparable(value: Any, bound: Any) -> bool:
    numbers = (int, float)
    return (isinstance(value, numbers) and isinstance(bound, numbers) and not isinstance(value, bool)) or (
        isinstance(value, str) and isinstance(bound, str)
    )

"""Index: exact search among the items of a collection, which follows the database."""

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mahala_search.arrays import FloatArray, IndexArray, slices
from mahala_search.serve.index.quantised import kth_largest, quantised, score_bounds
from mahala_search.serve.store.collection_store import BLOCK, Store
from mahala_search.serve.store.rows import Items

# Results up to which the best are found in one pass over the bounds.
_FEW = 64
# Rows for which memory is allocated at first, at least.
_CAPACITY = 1024
# Candidates that a graph gives, at least; with as many, nearly all of the ten best are among them.
_BREADTH = 512


class Candidates(Protocol):
    """Finds candidates among `n` rows, all up to `last` that were live: a graph here or in the database."""

    n: int
    last: int

    def nearest(self, query: FloatArray, n: int) -> IndexArray: ...


Keep = Callable[[dict[str, Any]], bool]


class Found(NamedTuple):
    """An item that was found."""

    row: int
    id: str
    score: float
    payload: dict[str, Any]

    def shown(self) -> dict[str, Any]:
        """Return what is shown of it, whatever its score."""
        return {"id": self.id, "payload": self.payload}


class _Rows(NamedTuple):
    """The rows in single precision, as bytes with their sizes (`compiled.quantised`), and which of them are live."""

    X: NDArray[np.float32]
    codes: NDArray[np.int8]
    sizes: NDArray[np.float32]
    live: NDArray[np.bool_]

    @classmethod
    def empty(cls, n: int, width: int) -> Self:
        # Not zeros, for which NumPy does not ask for large pages: bytes in small ones take half as long again to read.
        X, codes = np.empty((n, width), dtype=np.float32), np.empty((n, width), dtype=np.int8)
        return cls(X, codes, np.empty((n, 3), dtype=np.float32), np.zeros(n, dtype=bool))


class Index:
    """The rows of a collection in memory, in single precision; those of deleted and of former items as well.

    Learning changes the query only: nothing here is rebuilt. A search reads the rows as bytes, a quarter of the memory,
    which gives bounds on all scores, and then in full those that may be among the best. Scores are in double precision,
    and items with equal scores are in the order of their rows. With a `graph`, only its candidates are scored: some of
    the best may be missing then.
    """

    def __init__(self, name: str, width: int, capacity: int = 0) -> None:
        self.name, self.width = name, width
        self.change = 0
        self.graph: Candidates | None = None
        self._lock = threading.Lock()
        self._rows = _Rows.empty(max(capacity, _CAPACITY), width)
        self._ids: list[str] = []
        self._payloads: list[dict[str, Any]] = []
        self._row_of: dict[str, int] = {}
        self._missing: set[int] = set()  # rows before others that are here

    def __len__(self) -> int:
        return len(self._row_of)

    def refresh(self, store: Store, change: int = 0) -> None:
        """Take in what has changed in the database, at least up to the change with a number."""
        with self._lock:
            for block in store.changed_blocks(self.name, self.change):
                self._take(block)
                change = max(change, block.changes[-1])
            self.change = max(self.change, change)  # not before all are here: to take one twice does no harm

    def _take(self, block: Items) -> None:
        rows, n = np.array(block.rows), len(self._ids)
        most = max(n, int(rows.max()) + 1)
        if most > len(self._rows.X):
            grown = _Rows.empty(max(2 * len(self._rows.X), most), self.width)
            for name in _Rows._fields:
                getattr(grown, name)[:n] = getattr(self._rows, name)[:n]
            self._rows = grown
        X, codes, sizes, live = self._rows
        X[n:most] = 0.0
        X[rows] = block.X
        codes[rows], sizes[rows] = quantised(X[rows])
        # A row that others do not see yet may be missing for a moment; it is dead until it comes.
        self._payloads.extend({} for _ in range(most - n))
        self._ids.extend([""] * (most - n))
        self._missing = (self._missing | set(range(n, most))) - set(block.rows)
        for row, id, payload, is_live in zip(block.rows, block.ids, block.payloads, block.live, strict=True):
            self._ids[row], self._payloads[row] = id, payload
            if is_live:
                self._row_of[id] = row
            elif self._row_of.get(id) == row:
                del self._row_of[id]
        live[rows] = block.live

    def row(self, id: str) -> int | None:
        """Return the row of an item, or None if there is none with this id."""
        return self._row_of.get(id)

    def holds(self, ids: Iterable[str]) -> bool:
        """Return whether all of these items are here."""
        return all(id in self._row_of for id in ids)

    def is_live(self, rows: Sequence[int]) -> bool:
        """Return whether all of these rows are here, and those of items that are found."""
        return max(rows) < len(self._ids) and bool(self._rows.live[list(rows)].all())

    def vectors(self, rows: Sequence[int]) -> FloatArray:
        """Return the vectors of rows in double precision; raise KeyError if one is not here."""
        if not 0 <= min(rows) <= max(rows) < len(self._ids):
            raise KeyError(f"rows {min(rows)} to {max(rows)} are not among the {len(self._ids)} rows of {self.name!r}")
        return self._rows.X[list(rows)].astype(np.float64)

    def vector(self, row: int) -> FloatArray:
        """Return the vector of a row that is here, in double precision."""
        return np.asarray(self._rows.X[row], dtype=np.float64)

    def item(self, row: int, score: float = 0.0) -> Found:
        """Return a row with a score."""
        return Found(row, self._ids[row], score, self._payloads[row])

    def rows(self, complete: bool = False) -> IndexArray:
        """Return the rows of live items in their order; with `complete`, up to the first row that is not here yet."""
        if not complete:
            return np.flatnonzero(self._rows.live[: len(self._ids)])
        with self._lock:
            return np.flatnonzero(self._rows.live[: min(self._missing, default=len(self._ids))])

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

    def search(self, vector: FloatArray, k: int, keep: Keep | None = None, leave_out: int = -1) -> list[Found]:
        """Return the k live items with the largest inner products, best first.

        Parameters
        ----------
        keep : function of a payload; only items for which it is true are found
        leave_out : a row that is not found, such as that of the query
        """
        query = np.asarray(vector, dtype=np.float64)
        if self.graph is not None and (near := self._near(self.graph, query, k, keep, leave_out)) is not None:
            return near
        lower, upper = self._bounds(0, query)
        if 0 <= leave_out < len(lower):
            lower[leave_out] = upper[leave_out] = -np.inf
        wanted = k
        while True:  # with a filter, until enough have passed it
            found = self._best(_candidates(lower, upper, wanted), query, wanted, keep)
            if len(found) >= k or wanted >= (upper > -np.inf).sum():
                return found[:k]
            wanted *= 8

    def search_with_bonuses(
        self, vector: FloatArray, k: int, bonuses: Mapping[int, float], keep: Keep | None = None, leave_out: int = -1
    ) -> list[Found]:
        """Return the k best items as `search` does, with a number added to the scores of some live rows."""
        found = self.search(vector, k + len(bonuses), keep, leave_out)
        others = sorted(bonuses.keys() - {one.row for one in found} - {leave_out})
        found += self._best(np.array(others, dtype=np.intp), np.asarray(vector, dtype=np.float64), len(others), keep)
        scored = [one._replace(score=one.score + bonuses.get(one.row, 0.0)) for one in found]
        return sorted(scored, key=lambda one: (-one.score, one.row))[:k]

    def current_row(self, row: int) -> int | None:
        """Return the live row of the item that has or had a row, or None if it was deleted."""
        return self._row_of.get(self._ids[row]) if row < len(self._ids) else None

    def _bounds(self, start: int, query: FloatArray) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return lower and upper bounds on the scores of rows from a start; those of deleted rows are -inf."""
        rows, n = self._rows, len(self._ids)
        return score_bounds(rows.codes[start:n], rows.sizes[start:n], rows.live[start:n], query)

    def _best(self, rows: IndexArray, query: FloatArray, k: int, keep: Keep | None = None) -> list[Found]:
        """Return those of the k rows with the largest scores that are kept, best first."""
        scores = _scores(self._rows.X, rows, query)
        order = np.argsort(-scores, kind="stable")[:k]
        ranked = zip(rows[order].tolist(), scores[order].tolist(), strict=True)
        return [self.item(row, score) for row, score in ranked if keep is None or keep(self._payloads[row])]

    def _near(
        self, graph: Candidates, query: FloatArray, k: int, keep: Keep | None, omitted: int
    ) -> list[Found] | None:
        """Return the best of the candidates of a graph and of later rows, or None if too few are live and kept."""
        start, wanted, live = graph.last + 1, max(_BREADTH, 4 * k), self._rows.live
        near = graph.nearest(query, wanted)
        later = start + _candidates(*self._bounds(start, query), wanted)
        rows = np.sort(np.concatenate([near[live[near]], later]))
        rows = rows[rows != omitted]
        if keep is not None:
            rows = rows[[keep(self._payloads[row]) for row in rows.tolist()]]
        return None if len(rows) < 2 * k else self._best(rows, query, k)


def _candidates(lower: NDArray[np.float32], upper: NDArray[np.float32], k: int) -> IndexArray:
    """Return the live rows that may be among the k best, in their order: k have scores above those of the rest."""
    if k >= len(lower):
        least = -np.inf
    else:
        least = kth_largest(lower, k) if k <= _FEW else np.partition(lower, len(lower) - k)[len(lower) - k]
    return np.flatnonzero(upper >= least if least > -np.inf else upper > -np.inf)


def _scores(X: NDArray[np.float32], rows: IndexArray, query: FloatArray) -> FloatArray:
    """Return the inner products of rows with a query; equal rows have equal ones, which BLAS does not promise."""
    scores = np.empty(len(rows))
    for part in slices(len(rows), BLOCK):
        scores[part] = (X[rows[part]] * query).sum(axis=1)
    return scores


def payload_filter(conditions: Mapping[str, Any]) -> Keep:
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
        return lambda value: any(_equal(one, wanted) for one in (value if isinstance(value, list) else [value]))
    if not wanted or wanted.keys() - {"in", "gte", "lte"}:
        raise ValueError(f"filter: {name} must be a value or an object of in, gte and lte, got {sorted(wanted)}")
    for bound in wanted.keys() & {"gte", "lte"}:
        if not isinstance(wanted[bound], int | float | str) or isinstance(wanted[bound], bool):
            raise ValueError(f"filter: {bound} of {name} must be a number or text, got {wanted[bound]!r:.40}")
    if "in" in wanted and not isinstance(wanted["in"], list):
        raise ValueError(f"filter: in of {name} must be a list, got {wanted['in']!r:.40}")
    tests: dict[str, Callable[[Any, Any], bool]] = {
        "in": lambda value, values: any(_equal(value, one) for one in values),
        "gte": lambda value, bound: _comparable(value, bound) and value >= bound,
        "lte": lambda value, bound: _comparable(value, bound) and value <= bound,
    }
    return lambda value: all(tests[kind](value, limit) for kind, limit in wanted.items())


def _equal(value: Any, wanted: Any) -> bool:
    # Python takes true for 1.
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _comparable(value: Any, bound: Any) -> bool:
    kind = str if isinstance(bound, str) else int | float
    return isinstance(value, kind) and not isinstance(value, bool)

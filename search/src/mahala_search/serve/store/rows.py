"""Rows of the tables as objects: collections, items and entries of the log; and the checks of what they hold."""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mahala_search.arrays import FloatArray

# Names of collections and of learners.
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
# The largest number of a vector: inner products stay finite in single precision.
LARGEST = 1e15


class Collection(NamedTuple):
    """The row of a collection."""

    name: str
    width: int
    settings: dict[str, Any]
    n_rows: int
    n_logged: int
    change: int
    generation: int
    version: int
    pinned: int | None

    @property
    def served_learner(self) -> str:
        """The name of the learner that is served: the one that the settings name, or the first."""
        return str(self.settings.get("served") or next(iter(self.settings.get("learners") or ["adapter"])))


class Items(NamedTuple):
    """Rows of a collection, a field of each row. The item with an id is the live row that has it."""

    rows: Sequence[int]
    ids: Sequence[str]
    X: NDArray[np.float32]
    payloads: Sequence[dict[str, Any]]
    live: Sequence[bool]
    changes: Sequence[int]


class NewItem(NamedTuple):
    """An item to be added, or to replace the one with the same id."""

    id: str
    vector: FloatArray
    payload: dict[str, Any]


# By the name of a signal, a number of each item, or None.
SignalLists = dict[str, list[float | None]]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """What was shown for a query, and a reaction to each item shown.

    The query is a row number, or a vector. `key` identifies repeated requests; `place` is the position in the log.
    `signals` are other numbers of each item shown, None where one is missing.
    """

    kind: str
    shown: Sequence[int]
    clicked: Sequence[float]
    query: int | None = None
    vector: FloatArray | None = None
    query_id: str | None = None
    user: str | None = None
    version: int | None = None
    at: float = field(default_factory=time.time)
    key: str | None = None
    place: int = 0
    signals: SignalLists | None = None

    @property
    def rows(self) -> list[int]:
        return list(self.shown) if self.query is None else [self.query, *self.shown]

    def row(self, collection: str, place: int) -> dict[str, Any]:
        """Return the row of the log."""
        body: dict[str, Any] = {"query": self.query, "shown": list(self.shown), "clicked": list(self.clicked)}
        body["query_id"] = self.query_id
        if self.signals is not None:
            body["signals"] = self.signals
        return {
            "collection": collection, "place": place, "vector": None if self.vector is None else to_blob(self.vector),
            "body": body, "kind": self.kind, "user": self.user, "at": self.at, "version": self.version, "key": self.key,
        }  # fmt: skip

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[Any]]) -> list[Self]:
        """Return the entries of rows of the log, whose columns are those of `appends.ENTRY`."""
        bodies = json.loads(f"[{','.join([row[1] for row in rows])}]")
        return [
            cls(
                kind, body["shown"], body["clicked"], body["query"], None if vector is None else from_blob(vector),
                body["query_id"], user, version, at, key, place, body.get("signals"),
            )
            for body, (kind, _, vector, user, version, at, key, place) in zip(bodies, rows, strict=True)
        ]  # fmt: skip

    def same(self, other: Self) -> bool:
        """Return whether two entries are equal but for their times and versions."""
        rows = [entry.row("", 0) for entry in (self, other)]
        if self.kind == other.kind == "pair":  # the rest is what it was compared with
            for row in rows:
                row["body"] |= {"shown": row["body"]["shown"][:1], "clicked": row["body"]["clicked"][:1]}
        ours, theirs = ([json.dumps(row["body"]), row["kind"], row["vector"], row["user"]] for row in rows)
        return ours == theirs


def picked(signals: SignalLists | None, places: Sequence[int]) -> SignalLists | None:
    """Return the signals of the items at some places."""
    return signals and {name: [values[at] for at in places] for name, values in signals.items()}


def to_blob(vector: FloatArray) -> bytes:
    """Return a vector as bytes, in single precision."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def from_blob(data: bytes) -> FloatArray:
    """Return the vector of `to_blob`, in double precision."""
    return np.frombuffer(data, dtype="<f4").astype(np.float64)


def check_vector(value: Any, width: int, name: str) -> FloatArray:
    """Return a vector in the precision in which it is stored; raise ValueError unless it has `width` finite numbers."""
    try:
        numbers = np.asarray(value)
    except ValueError:  # lists of different lengths
        numbers = np.array(None)
    if numbers.dtype.kind not in "fiu":  # bodies of events are not checked before
        raise ValueError(f"{name} must be a list of numbers")
    vector = numbers.astype(np.float64)
    if vector.shape != (width,):
        raise ValueError(f"{name} must have {width} numbers, got {len(vector) if vector.ndim == 1 else vector.shape}")
    if not (np.abs(vector) <= LARGEST).all():
        raise ValueError(f"{name} must have finite numbers up to {LARGEST:g}")
    return vector.astype(np.float32).astype(np.float64)

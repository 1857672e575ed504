"""What the database holds, as objects: collections, items and entries of the log."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala.support.arrays import FloatArray


class Collection(NamedTuple):
    """What the database says about a collection."""

    name: str
    width: int
    settings: dict[str, Any]
    n_rows: int
    n_logged: int
    change: int
    generation: int
    version: int
    pinned: int | None


class Item(NamedTuple):
    """A row of a collection. The item with an id is the live row that has it."""

    row: int
    id: str
    vector: NDArray[np.float32]
    payload: dict[str, Any]
    live: bool
    change: int


class Items(NamedTuple):
    """The fields of many items."""

    rows: Sequence[int]
    ids: Sequence[str]
    X: NDArray[np.float32]
    payloads: Sequence[dict[str, Any]]
    live: Sequence[bool]
    changes: Sequence[int]


class NewItem(NamedTuple):
    """An item to be added, or to take the place of the one with the same id."""

    id: str
    vector: FloatArray
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that people did: what was shown for a query, and a reaction to each of it.

    The query is a row number, or a vector. `key` tells repeated requests apart, `place` is where it lies in the log.
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

    @property
    def rows(self) -> list[int]:
        """All rows that it names."""
        return list(self.shown) if self.query is None else [self.query, *self.shown]

    def row(self, collection: str, place: int) -> dict[str, Any]:
        """Return the row of the log."""
        body = {"query": self.query, "shown": list(self.shown), "clicked": list(self.clicked)}
        return {
            "collection": collection,
            "place": place,
            "kind": self.kind,
            "vector": None if self.vector is None else to_blob(self.vector),
            "body": body | {"query_id": self.query_id},
            "user": self.user,
            "at": self.at,
            "version": self.version,
            "key": self.key,
        }

    @classmethod
    def of(cls, row: Any) -> Entry:
        """Return the entry of a row of the log."""
        vector = None if row.vector is None else from_blob(row.vector)
        return cls(
            row.kind, **row.body, vector=vector, user=row.user, version=row.version, at=row.at, key=row.key,
            place=row.place,
        )  # fmt: skip

    def same(self, other: Entry) -> bool:
        """Return whether two entries say the same, whenever and under whatever version they were sent."""
        ours, theirs = (entry.row("", 0) for entry in (self, other))
        if self.kind == other.kind == "pair":  # the rest is what it was compared with
            for own in (ours, theirs):
                own["body"] |= {"shown": own["body"]["shown"][:1], "clicked": own["body"]["clicked"][:1]}
        return json.dumps(ours["body"]) == json.dumps(theirs["body"]) and all(
            ours[name] == theirs[name] for name in ("kind", "vector", "user")
        )


def to_blob(vector: FloatArray) -> bytes:
    """Return a vector as bytes, in single precision."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def from_blob(data: bytes) -> FloatArray:
    """Return the vector of `to_blob`, in double precision."""
    return np.frombuffer(data, dtype="<f4").astype(np.float64)

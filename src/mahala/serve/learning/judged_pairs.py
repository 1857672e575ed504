"""Single judged pairs: is this item like that query, or not? Each is compared with earlier ones of the same query."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from mahala.serve.store.records import Entry
from mahala.serve.store.store import Store

if TYPE_CHECKING:
    from mahala.serve.index.served import Query
    from mahala.serve.service import Service

# Items with the other verdict that a pair is compared with at most, the latest ones.
MOST = 10


class JudgedPairs:
    """What each user judged in the log of a collection: for each query, items and the last verdict on each."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._clear(0)

    def _clear(self, generation: int) -> None:
        self._generation, self._place = generation, 0
        self._verdicts: dict[Hashable, dict[int, float]] = {}

    def contrast(self, store: Store, generation: int, entry: Entry) -> list[int]:
        """Return rows on which the user had the other verdict for the same query, and remember the entry.

        What other users said is not used: it could not be forgotten with them.
        """
        with self._lock:
            if generation != self._generation:  # entries were deleted
                self._clear(generation)
            for known in store.read_log(self.name, self._place, kind="pair"):
                self._take(known)
                self._place = known.place
            own = self._take(entry)
            return [row for row, verdict in own.items() if verdict != entry.clicked[0]][-MOST:]

    def _take(self, entry: Entry) -> dict[int, float]:
        query = entry.query if entry.vector is None else entry.vector.tobytes()
        own = self._verdicts.setdefault((entry.user, query if entry.query_id is None else entry.query_id), {})
        own.pop(entry.shown[0], None)  # the latest come last
        own[entry.shown[0]] = entry.clicked[0]
        return own


def pair_entry(service: Service, name: str, query: Query, other: str, similar: bool, **more: Any) -> Entry:
    """Return the entry of the log for a judged pair; the items that it is compared with are written with it.

    A pair alone does not say above or below which others the item belongs: nothing is learned from the first ones of a
    query until there are both verdicts.
    """
    row, verdict, served = service.row(name, other), float(similar), service.served(name)
    if row == query.row:
        raise ValueError("a judged pair must have two different items")
    vector = None if query.row is not None else query.vector
    told = {"query": query.row, "vector": vector, "query_id": query.id, **more}
    alone = Entry("pair", [row], [verdict], **told)
    rows = served.pairs.contrast(service.store, served.collection.generation, alone)
    return Entry("pair", [row, *rows], [verdict, *[1.0 - verdict] * len(rows)], **told)

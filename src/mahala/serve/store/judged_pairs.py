"""Single judged pairs: is this item like that query, or not? Each is compared with earlier ones of the same query."""

from __future__ import annotations

import threading
from collections.abc import Hashable

from mahala.serve.store.collection_store import Store
from mahala.serve.store.rows import LogEntry

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

    def contrast(self, store: Store, generation: int, entry: LogEntry) -> list[int]:
        """Return rows on which the user had the other verdict for the same query, and remember the entry.

        Verdicts of other users are not used: they could not be forgotten with them.
        """
        with self._lock:
            if generation != self._generation:  # entries were deleted
                self._clear(generation)
            for pair in store.read_log(self.name, self._place, kind="pair"):
                self._take(pair)
                self._place = pair.place
            return [row for row, verdict in self._take(entry).items() if verdict != entry.clicked[0]][-MOST:]

    def _take(self, entry: LogEntry) -> dict[int, float]:
        query = entry.query if entry.vector is None else entry.vector.tobytes()
        verdicts = self._verdicts.setdefault((entry.user, query if entry.query_id is None else entry.query_id), {})
        verdicts.pop(entry.shown[0], None)  # the latest come last
        verdicts[entry.shown[0]] = entry.clicked[0]
        return verdicts

"""Causes: choices in the log that moved an item for a query, as examples."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mahala_search.serve.index.item_index import Index
from mahala_search.serve.index.served_collection import Query
from mahala_search.serve.store.rows import LogEntry

# Entries of the log that are looked at, the newest.
RECENT = 500
# Words that were searched for are shown to others if so many users chose the same item for them.
_USERS = 3
# A choice is a cause if its effect is at least this share of the largest.
_LEAST = 0.1


@dataclass
class _Choice:
    """The same item, chosen for the same query: its row, the first entry, how often, by whom, and the effect."""

    row: int
    entry: LogEntry
    n: int = 0
    users: set[str | None] = field(default_factory=set)
    effect: float = 0.0

    def shown(self, index: Index, user: str | None) -> dict[str, Any]:
        yours = user is not None and user in self.users
        item = None if self.entry.query is None else index.item(self.entry.query).shown()
        text = self.entry.query_id if item is None and (yours or len(self.users) >= _USERS) else None
        counts = {"n": self.n, "users": len(self.users), "yours": yours}
        return {
            "text": text, "item": item, "chosen": index.item(self.row).shown(), **counts, "raises": self.effect > 0.0,
        }  # fmt: skip


def causes(
    entries: Iterable[LogEntry], index: Index, query: Query, row: int, n: int, user: str | None = None
) -> list[dict[str, Any]]:
    """Return the n choices that moved an item most, by query and chosen item.

    A choice of z among others, for a query q, raises an item x for a query p in proportion to (p · q) (x · (z - mean
    of the others)): a similar query, and an item that is more like the chosen one than like the others.

    `user` is the one who asks. Words that others searched for are left out unless several users did so.
    """
    choices: dict[Hashable, _Choice] = {}
    for entry in entries:
        best = max(entry.clicked)
        others = [other for other, value in zip(entry.shown, entry.clicked, strict=True) if value < best]
        chosen = entry.shown[list(entry.clicked).index(best)]
        if not others or not index.is_live(entry.rows):
            continue
        query_vector = np.asarray(entry.vector) if entry.query is None else index.vector(entry.query)
        more_alike = index.vector(chosen) - index.vectors(others).mean(axis=0)
        key = (chosen, entry.query, entry.query_id or (None if entry.vector is None else entry.vector.tobytes()))
        choice = choices.setdefault(key, _Choice(chosen, entry))
        choice.n += 1
        choice.users.add(entry.user)
        choice.effect += max(0.0, float(query.vector @ query_vector)) * float(index.vector(row) @ more_alike)
    order = sorted(choices.values(), key=lambda choice: -abs(choice.effect))
    return [choice.shown(index, user) for choice in order[:n] if abs(choice.effect) > _LEAST * abs(order[0].effect)]

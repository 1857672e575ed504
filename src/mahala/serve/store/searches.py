"""The table of searches: what was shown for each, so that clicks which come later can name it."""

from __future__ import annotations

import time
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from mahala.serve.store.appends import blocks
from mahala.serve.store.database import Database, collections, searches
from mahala.serve.store.rows import SignalLists, from_blob, to_blob
from mahala.support.arrays import FloatArray

# Seconds for which a search is kept, how many are kept of a collection at most, and how many are deleted at a time.
KEPT, MOST, DELETED = 7 * 86400.0, 500_000, 2_000
# Seconds for which a search is kept that has an arm.
KEPT_IN_ARMS = 90 * 86400.0
# Columns that hold a field as it is.
_PLAIN = ("id", "at", "query", "query_id", "user", "version", "arm", "teams", "signals")


@dataclass(frozen=True, slots=True)
class Search:
    """A query, the ids of the items that were shown for it from the top, and the version that ranked them.

    The query is a row number, or a vector. `clicked` has, by item, the largest reaction so far and its place in the
    log. `arm` is that of a comparison of rankings; `teams` has a letter for each item of two mixed rankings. `signals`
    are those by which candidates were reranked, a number or None for each item shown.
    """

    id: str
    shown: Sequence[str]
    query: int | None = None
    vector: FloatArray | None = None
    query_id: str | None = None
    user: str | None = None
    version: int | None = None
    arm: str | None = None
    teams: str | None = None
    signals: SignalLists | None = None
    at: float = field(default_factory=time.time)
    clicked: dict[str, tuple[float, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Any) -> Search:
        """Return the search of a row of the table."""
        vector = None if row.vector is None else from_blob(row.vector)
        columns = {name: getattr(row, name) for name in (*_PLAIN, "shown", "clicked")}
        return cls(**columns, vector=vector)


def add_searches(connection: Any, name: str, new: Sequence[Search]) -> None:
    """Write searches; one whose id is in the table is not written again."""
    by_id = {search.id: search for search in reversed(new)}
    for search_id in read_searches(connection, name, list(by_id)):
        del by_id[search_id]
    rows = [
        {column: getattr(search, column) for column in _PLAIN}
        | {"collection": name, "shown": list(search.shown), "clicked": search.clicked}
        | {"vector": None if search.vector is None else to_blob(search.vector)}
        for search in by_id.values()
    ]
    if rows:
        connection.execute(searches.insert(), rows)


def read_searches(connection: Any, name: str, ids: Sequence[str]) -> dict[str, Search]:
    """Return those of the searches that are in the table, by id."""
    result: dict[str, Search] = {}
    for part in blocks(ids):
        mine = (searches.c.collection == name) & searches.c.id.in_(part)
        result |= {row.id: Search.of(row) for row in connection.execute(sa.select(searches).where(mine))}
    return result


def delete_reactions(connection: Any, name: str, places: Set[int]) -> None:
    """Delete the reactions at these places of the log from all searches that have them."""
    some = (searches.c.collection == name) & (sa.cast(searches.c.clicked, sa.Text) != "{}")
    for id, clicked in connection.execute(sa.select(searches.c.id, searches.c.clicked).where(some)).all():
        left = {item: reaction for item, reaction in clicked.items() if reaction[1] not in places}
        if len(left) < len(clicked):
            mine = (searches.c.collection == name) & (searches.c.id == id)
            connection.execute(searches.update().where(mine).values(clicked=left))


def delete_old_searches(database: Database, kept: float = KEPT, most: int = MOST) -> int:
    """Delete searches that are too old or too many, a few thousand at a time; return how many.

    Those of an experiment are kept for longer, so that it does not become that of the last days.
    """
    deleted = 0
    with database.reading() as connection:
        names = connection.scalars(sa.select(collections.c.name)).all()
    for name in names:
        mine = searches.c.collection == name
        newest_first = sa.select(searches.c.at).where(mine).order_by(searches.c.at.desc())
        with database.reading() as connection:
            beyond = connection.scalar(newest_first.offset(most).limit(1))
            now = time.time()
            is_old = (searches.c.at <= now - kept) & (searches.c.arm.is_(None) | (searches.c.at <= now - KEPT_IN_ARMS))
            is_old |= searches.c.at <= (-1.0 if beyond is None else beyond)
            old = sa.select(searches.c.id).where(mine, is_old).order_by(searches.c.at).limit(DELETED)
            ids = connection.scalars(old).all()
        for part in blocks(ids):  # others can write in between
            with database.writing() as connection:
                deleted += connection.execute(searches.delete().where(mine, searches.c.id.in_(part))).rowcount
    return deleted

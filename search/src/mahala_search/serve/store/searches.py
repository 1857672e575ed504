"""Searches, with what was shown for each, and the events that name them, which are joined into impressions."""

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Self

import sqlalchemy as sa

from mahala_search.arrays import FloatArray
from mahala_search.events.joining import Page, Reaction, join
from mahala_search.serve.store.appends import KeyReused, append_groups, blocks, raised
from mahala_search.serve.store.database import Database, Unknown, collections, items, searches
from mahala_search.serve.store.rows import LogEntry, SignalLists, from_blob, picked, to_blob

# Seconds for which a search is kept, how many are kept of a collection at most, and how many are deleted at a time.
KEPT, MOST, DELETED = 7 * 86400.0, 500_000, 2_000
# Seconds for which a search is kept that has an arm.
KEPT_IN_ARMS = 90 * 86400.0
# Columns that hold a field as it is.
_PLAIN = ("id", "at", "query", "query_id", "user", "version", "arm", "teams", "signals")
# Why a reaction is ignored.
COUNTED_BEFORE = "reactions to this search were counted before, from a file"


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
    def of(cls, row: Any) -> Self:
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


def delete_old_searches(database: Database, seconds: float = KEPT, most: int = MOST) -> int:
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
            is_old = (searches.c.at <= now - seconds) & (
                searches.c.arm.is_(None) | (searches.c.at <= now - KEPT_IN_ARMS)
            )
            is_old |= searches.c.at <= (-1.0 if beyond is None else beyond)
            old = sa.select(searches.c.id).where(mine, is_old).order_by(searches.c.at).limit(DELETED)
            ids = connection.scalars(old).all()
        for part in blocks(ids):  # others can write in between
            with database.writing() as connection:
                deleted += connection.execute(searches.delete().where(mine, searches.c.id.in_(part))).rowcount
    return deleted


@dataclass(frozen=True)
class Events:
    """Searches that were made elsewhere, and reactions to these or to others."""

    searches: Sequence[Search]
    reactions: Sequence[Reaction]

    def __len__(self) -> int:
        return len(self.searches) + len(self.reactions)


def append_events(connection: Any, name: str, batches: Sequence[Events]) -> list[list[int | str] | Exception]:
    """Write batches of events; return for each reaction its place in the log, or why it is ignored.

    Batches are joined together, so that a page has what was clicked at the same time.
    """
    try:
        raised(connection, name, n_logged=0)  # the row of the collection stays locked until the commit
    except Unknown as error:
        return [error] * len(batches)
    add_searches(connection, name, list(chain.from_iterable(batch.searches for batch in batches)))
    reactions = list(chain.from_iterable(batch.reactions for batch in batches))
    named = read_searches(connection, name, list({one.search for one in reactions}))
    rows = live_rows(connection, name, {item for search in named.values() for item in search.shown})
    shown = {id: [item for item in search.shown if item in rows] for id, search in named.items()}
    counted = {id: {item: value for item, (value, _) in search.clicked.items()} for id, search in named.items()}
    users = {id: search.user for id, search in named.items()}
    pages, outcomes = join(shown, counted, reactions, users)
    places = _write(connection, name, [named[page.search] for page in pages], pages, rows)

    def place(one: Reaction, outcome: int | str | None) -> int | str:
        if outcome is None:
            return int(named[one.search].clicked[one.item][1])
        return outcome if isinstance(outcome, str) else places[outcome]

    settled = iter([place(one, outcome) for one, outcome in zip(reactions, outcomes, strict=True)])
    return [[next(settled) for _ in batch.reactions] for batch in batches]


def _write(
    connection: Any, name: str, of_pages: Sequence[Search], pages: Sequence[Page], rows: Mapping[str, int]
) -> list[int | str]:
    """Write pages to the log, and their reactions to their searches; return the place of each, or why it has none."""
    keyed: set[str] = set()
    entries = []
    for search, page in zip(of_pages, pages, strict=True):
        # The first page of a search has a key, so that the same events in a file are not counted again.
        key = None if search.clicked or search.id in keyed else search_key(search.id)
        keyed.add(search.id)
        entries.append(page_entry(page, rows, search, key))
    places: list[int | str] = []
    for result in append_groups(connection, name, [[entry] for entry in entries]):
        if isinstance(result, Exception) and not isinstance(result, KeyReused):
            raise result
        places.append(COUNTED_BEFORE if isinstance(result, KeyReused) else result[0])
    changed: dict[str, dict[str, tuple[float, int]]] = {}
    for search, page, at in zip(of_pages, pages, places, strict=True):
        if isinstance(at, int):
            values = {item: (value, at) for item, value in zip(page.items, page.values, strict=True) if value > 0.0}
            changed[search.id] = changed.get(search.id, search.clicked) | values
    if changed:
        mine = (searches.c.collection == name) & (searches.c.id == sa.bindparam("search"))
        statement = searches.update().where(mine).values(clicked=sa.bindparam("values"))
        connection.execute(statement, [{"search": id, "values": clicked} for id, clicked in changed.items()])
    return places


def search_key(id: str) -> str:
    """Return the key of the first entry of a search in the log."""
    return f"search:{id}"


def page_entry(page: Page, rows: Mapping[str, int], search: Search, key: str | None) -> LogEntry:
    """Return the entry of the log for a page of a search."""
    places = [search.shown.index(item) for item in page.items] if search.signals else []
    return LogEntry(
        "impression", [rows[item] for item in page.items], page.values, search.query, search.vector, search.query_id,
        page.user, search.version, page.at, key, signals=picked(search.signals, places),
    )  # fmt: skip


def live_rows(connection: Any, name: str, ids: set[str]) -> dict[str, int]:
    """Return the rows of those of the items that are there, by id."""
    rows: dict[str, int] = {}
    for part in blocks(sorted(ids)):
        live = (items.c.collection == name) & items.c.live & items.c.id.in_(part)
        rows |= {row.id: row.row for row in connection.execute(sa.select(items.c.id, items.c.row).where(live))}
    return rows

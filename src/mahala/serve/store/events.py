"""Events in the database: reactions are joined with searches, and written to the log as impressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import sqlalchemy as sa

from mahala.data.events import Page, Reaction, join
from mahala.serve.store.appends import KeyReused, append_groups, blocks, raised
from mahala.serve.store.database import Unknown, items, searches
from mahala.serve.store.rows import LogEntry, picked
from mahala.serve.store.searches import Search, add_searches, read_searches

COUNTED_BEFORE = "reactions to this search were counted before, from a file"


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

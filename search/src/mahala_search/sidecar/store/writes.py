"""What is written for a space in a transaction: searches, what was shown, what people did, and the log of all that."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any, Literal

import sqlalchemy as sa
from pydantic_core import from_json

from mahala_search.arrays import FloatArray
from mahala_search.sidecar.records import Reaction, Search, Settings, Shown, Unknown, Work, Written
from mahala_search.sidecar.store import tables
from mahala_search.sidecar.store.database import blocks, execute, insert_rows, marks, rows_with
from mahala_search.sidecar.store.tables import encode_json
from mahala_search.sidecar.store.vectors import add_rows, with_vector

# Why nothing comes of a work.
UNKNOWN = "the search is unknown: it was not recorded, or has expired"
NOT_SHOWN = "the item was not shown for this search"
FORGOTTEN = "the user was forgotten"
GONE = "there is no such space: it was deleted, or never made"
OLD = "it is older than the retention of the space"

# In which order works of a transaction are taken.
_ORDER: dict[type, int] = {Search: 0, Shown: 1, Reaction: 2}
# The kind of a reaction which says only that an item was seen.
SEEN = "impression"
# Columns of a page: those of its search, those of what was shown, and those that change later.
_OF_SEARCH = ("id", "query", "user", "at", "arm", "version")
_OF_SHOWN = ("ids", "teams", "signals")
_CHANGING = ("seen", "positions", "reactions", "logged", "waits")
_READ = ("id", "query", '"user"', "at", "ids", "seen", "positions", "reactions", "logged", "waits")
_LOG = ("space", "place", "page", "user", "first", "at", "values")


@dataclass(slots=True)
class _Page:
    """A row of pages, and what has happened to it in this transaction."""

    id: str
    query: str
    user: str | None
    at: float
    ids: list[str] | None = None
    seen: int | None = None
    positions: list[int] | None = None
    reactions: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    logged: list[str] | Literal[True] | None = None  # the items whose reactions the log has; True: all
    waits: int = 0
    arm: str | None = None
    version: int = 0
    teams: str | None = None
    signals: Any = None
    is_shown: bool = False  # in this transaction
    counts_more: bool = False  # items may count that did not before
    fresh: set[str] = field(default_factory=set)  # items with their first reaction

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> "_Page":
        id, query, user, at, ids, seen, positions, reactions, logged, waits = row
        return cls(
            id, query, user, at, from_json(ids) if ids else None, seen, from_json(positions) if positions else None,
            from_json(reactions), from_json(logged) if logged else None, waits,
        )  # fmt: skip

    def counted(self) -> list[str]:
        """Return the items that were seen, and those that people reacted to."""
        ids = self.ids or []
        n = len(ids) if self.seen is None else self.seen
        return [id for at, id in enumerate(ids) if at < n or id in self.reactions]

    def see(self, n: int) -> bool:
        """Count the first items as seen; return whether that is new."""
        if self.seen is None or n <= self.seen:
            return False
        self.seen, self.counts_more = n, True
        return True

    def place(self, item: str, position: int | None) -> None:
        """Set the position of an item."""
        if position is not None and self.ids is not None:
            self.positions = self.positions or list(range(1, len(self.ids) + 1))
            self.positions[self.ids.index(item)] = position

    def entries(self) -> list[tuple[Any, ...]]:
        """Return the entries of the log for what none has, from the column "page" on, and count it as logged.

        There is one for each user, with the items to which this user reacted, against those to which nobody has. An
        item counts once, with the largest of the reactions at that time. The first entry comes also without a reaction.
        """
        ids, is_first, old = self.ids or [], self.logged is None, set(self.logged_items())
        new = {
            item: max(kinds.values(), key=itemgetter(0)) for item, kinds in self.reactions.items() if item not in old
        }
        n_seen = len(ids) if self.seen is None else self.seen
        others = [0.0] * n_seen + [None] * (len(ids) - n_seen)
        for item in self.reactions:
            others[ids.index(item)] = None
        result = []
        for user in dict.fromkeys(one[2] for one in new.values()) or ([self.user] if is_first else []):
            mine = {item: one for item, one in new.items() if one[2] == user}
            values = others.copy()
            for item, one in mine.items():
                values[ids.index(item)] = one[0]
            at = max((one[3] for one in mine.values()), default=self.at)
            result.append((self.id, user, is_first, at, encode_json(values)))
            is_first = False
        self.logged = True
        return result

    def logged_items(self) -> list[str]:
        """Return the items whose reactions the log has."""
        return [item for item in self.reactions if item not in self.fresh] if self.logged is True else self.logged or []

    def row(self, names: Sequence[str]) -> tuple[Any, ...]:
        """Return columns as they are written."""
        values = [getattr(self, name) for name in names]
        return tuple([value if type(value) not in (list, dict, bool) else encode_json(value) for value in values])


class SpaceWriter:
    """Writes works, and vectors, in a transaction that has the row of the space locked.

    Unknown is raised if the space is gone.
    """

    def __init__(self, connection: Any, space_id: str) -> None:
        lock = "" if connection.dialect.name == "sqlite" else " FOR UPDATE"
        select = f"SELECT n_logged, settings FROM search_spaces WHERE id = ?{lock}"
        row = execute(connection, select, (space_id,)).fetchone()
        if row is None:
            raise Unknown(GONE)
        self._connection, self._id, self._n_logged = connection, space_id, int(row[0])
        self._settings = Settings.of(from_json(row[1]))
        self._pages: dict[str, _Page] = {}
        self._queries: dict[str, dict[str, Any]] = {}  # new rows
        self._items: dict[str, dict[str, Any]] = {}
        self._oldest = time.time() - 86400.0 * self._settings.retention

    def write(self, groups: Sequence[Sequence[Work]]) -> list[list[Written]]:
        """Write groups of works in their order; each has been checked where it came in."""
        works = list(chain.from_iterable(groups))
        self._read(list(dict.fromkeys(work.id if isinstance(work, Search) else work.search_id for work in works)))
        users = {work.user for work in works if isinstance(work, Reaction)} | {p.user for p in self._pages.values()}
        searches = [work if isinstance(work, Search) else getattr(work, "search", None) for work in works]
        users |= {search.user for search in searches if search is not None}
        named = list(users - {None})
        self._forgotten = dict(rows_with(self._connection, tables.forgotten, ('"user"', "at"), self._id, "user", named))
        # What people did comes last: in a request, it may be named before what was shown.
        taken = {at: self._take(works[at]) for at in sorted(range(len(works)), key=lambda at: _ORDER[type(works[at])])}
        outcomes = [taken[at] for at in range(len(works))]
        missing = self._finish()
        for at, work in enumerate(works):
            if isinstance(work, Shown) and outcomes[at].ignored is None:
                shown = self._pages[work.search_id]
                outcomes[at] = outcomes[at]._replace(missing=[id for id in shown.counted() if id in missing])
        reasons = [one.ignored for one in outcomes if one.ignored is not None]
        count(self._connection, self._id, {reason: reasons.count(reason) for reason in set(reasons)})
        settled = iter(outcomes)
        return [[next(settled) for _ in works] for works in groups]

    def add_vectors(self, items: dict[str, FloatArray], queries: dict[str, FloatArray]) -> None:
        """Write vectors of items, and by their keys of queries, and log the pages that waited for them."""
        now = time.time()
        self._items = {id: {"at": now, "vector": vector} for id, vector in items.items()}
        self._queries = {key: {"at": now, "text": None, "vector": vector} for key, vector in queries.items()}
        self._finish()

    def forget(self, user: str) -> int:
        """Delete what a user did and was shown; return from how many pages.

        Of the user's own pages, the ids remain, so that they are not written again.
        """
        connection, pages, now = self._connection, tables.pages, time.time()
        mine = pages.c.space == self._id
        own = connection.execute(sa.select(pages.c.id, pages.c.query).where(mine, pages.c.user == user)).all()
        blank: dict[str, Any] = {column.name: None for column in pages.c if column.nullable}
        for part in blocks([row.id for row in own]):
            for table in (tables.log, tables.waits):
                connection.execute(table.delete().where(table.c.space == self._id, table.c.page.in_(part)))
            blanks = pages.update().where(mine, pages.c.id.in_(part))
            connection.execute(blanks.values(blank | {"query": "", "reactions": {}, "waits": 0}))
        delete_unused_queries(connection, self._id, [row.query for row in own])
        connection.execute(tables.log.delete().where(tables.log.c.space == self._id, tables.log.c.user == user))
        of_others = sa.cast(pages.c.reactions, sa.Text).contains(f'"{user}"')
        self._read(sorted(connection.scalars(sa.select(pages.c.id).where(mine, of_others))))
        for page in self._pages.values():
            for kinds in page.reactions.values():
                for kind in [kind for kind, one in kinds.items() if one[2] == user]:
                    del kinds[kind]
            page.reactions = {item: kinds for item, kinds in page.reactions.items() if kinds}
            if isinstance(page.logged, list):
                page.logged = [item for item in page.logged if item in page.reactions]
            page.counts_more = True
            waited = (tables.waits.c.space == self._id) & (tables.waits.c.page == page.id)
            connection.execute(tables.waits.delete().where(waited))
        self._finish()
        of_user = (tables.forgotten.c.space == self._id) & (tables.forgotten.c.user == user)
        connection.execute(tables.forgotten.delete().where(of_user))
        connection.execute(tables.forgotten.insert().values(space=self._id, user=user, at=now))
        return len(own) + len(self._pages)

    def copy(self, rows: Sequence[Any], texts: dict[str, str | None]) -> None:
        """Write pages of the space whose successor this is, as ones that no report counts."""
        for row in rows:
            names = ("id", "query", "user", "at", "ids", "seen", "positions", "reactions", "signals")
            page = _Page(**{name: getattr(row, name) for name in names}, is_shown=True, counts_more=True)
            self._pages[page.id] = page
            text = texts.get(page.query) if self._settings.texts else None
            self._queries[page.query] = {"at": page.at, "text": text, "vector": None}
        self._finish()

    def _read(self, ids: Sequence[str]) -> None:
        new = [id for id in ids if id not in self._pages]
        rows = {row[0]: row for row in rows_with(self._connection, tables.pages, _READ, self._id, "id", new)}
        self._pages |= {id: _Page.of_row(rows[id]) for id in new if id in rows}

    def _refusal(self, user: str | None, at: float) -> str | None:
        if user is not None and at <= self._forgotten.get(user, 0.0):
            return FORGOTTEN
        return OLD if at < self._oldest else None

    def _take(self, work: Work) -> Written:
        if isinstance(work, Search):
            return self._take_search(work)
        if isinstance(work, Shown) and work.search is not None and work.search_id not in self._pages:
            searched = self._take_search(work.search)
            if searched.ignored is not None:
                return searched
        page = self._pages.get(work.search_id)
        if page is None:
            return Written(False, ignored=UNKNOWN)
        if not page.query:
            return Written(False, ignored=FORGOTTEN)
        return self._take_shown(page, work) if isinstance(work, Shown) else self._take_reaction(page, work)

    def _take_search(self, search: Search) -> Written:
        if search.id in self._pages:
            return Written(False, ignored=None if self._pages[search.id].query else FORGOTTEN)
        if (reason := self._refusal(search.user, search.at)) is not None:
            return Written(False, ignored=reason)
        query = search.query
        known = query.key, search.user, search.at
        self._pages[search.id] = _Page(search.id, *known, arm=search.arm, version=search.version)
        row = self._queries.setdefault(query.key, {"at": search.at, "text": None, "vector": None})
        row["vector"] = query.vector if row["vector"] is None else row["vector"]
        if self._settings.texts and row["text"] is None:
            row["text"] = query.text
        return Written(True)

    def _take_shown(self, page: _Page, shown: Shown) -> Written:
        is_first = page.ids is None
        if page.ids is None:
            page.ids, page.seen = list(shown.ids), None if shown.seen is None else min(shown.seen, len(shown.ids))
            page.positions = None if shown.positions is None else list(shown.positions)
            page.teams, page.signals = shown.teams, shown.signals
            page.is_shown = page.counts_more = True
        elif shown.seen is not None:
            page.see(min(shown.seen, len(page.ids)))
        for id in {*shown.vectors} & {*page.ids} - self._items.keys():
            self._items[id] = {"at": page.at, "vector": shown.vectors[id]}
        return Written(is_first)

    def _take_reaction(self, page: _Page, reaction: Reaction) -> Written:
        item, user = reaction.item, reaction.user or page.user
        if item not in (page.ids or ()):
            return Written(False, ignored=NOT_SHOWN)
        # Without a time of its own, a reaction that comes again would be a new one.
        if (reason := self._refusal(user, min(reaction.at, page.at))) is not None:
            return Written(False, ignored=reason)
        page.place(item, reaction.position)
        if reaction.kind == SEEN:
            return Written(page.see(1 + (page.ids or []).index(item)))
        if item not in page.reactions:
            page.fresh.add(item)
            page.counts_more |= page.seen is not None
        kinds = page.reactions.setdefault(item, {})
        if (before := kinds.get(reaction.kind)) is None:
            kinds[reaction.kind] = [reaction.value, reaction.revenue, user, reaction.at]
            return Written(True)
        if reaction.value <= before[0] and reaction.revenue <= before[1]:
            return Written(False)
        before[:2] = max(before[0], reaction.value), max(before[1], reaction.revenue)
        return Written(True)

    def _finish(self) -> set[str]:
        """Write vectors, pages and the log; return the items without a vector, of pages that count other ones now."""
        taken = dict.fromkeys(self._pages)
        promoted = self._promoted(True, self._added(tables.queries, self._queries))
        promoted |= self._promoted(False, self._added(tables.items, self._items))
        self._read(sorted(promoted))
        rest = [page for page in self._pages.values() if page.id not in taken]
        pages = [*(self._pages[id] for id in taken), *sorted(rest, key=lambda page: (page.at, page.id))]
        pages = [page for page in pages if page.ids is not None]
        # All others are as they were but for their reactions.
        missing = self._check([page for page in pages if page.counts_more or page.waits or page.id in promoted])
        entries = [entry for page in pages if not page.waits for entry in page.entries()]
        self._write_pages()
        self._write_log(entries)
        return missing

    def _added(self, table: sa.Table, rows: dict[str, dict[str, Any]]) -> set[str]:
        return add_rows(self._connection, table, self._id, rows, self._settings)

    def _promoted(self, of_query: bool, ids: Iterable[str]) -> set[str]:
        """Return the pages that have waited for these vectors."""
        result = set[str]()
        for part in blocks(sorted(ids)):
            delete = f"DELETE FROM search_waits WHERE space = ? AND of_query = ? AND id IN {marks(part)} RETURNING page"
            result.update(page for (page,) in execute(self._connection, delete, (self._id, of_query, *part)))
        return result

    def _check(self, pages: Sequence[_Page]) -> set[str]:
        """Have each page wait for the vectors that it lacks; return the items without one."""
        connection = self._connection
        queries = with_vector(connection, tables.queries, self._id, list({page.query for page in pages}))
        ids = dict.fromkeys(chain.from_iterable(page.counted() for page in pages))
        items = with_vector(connection, tables.items, self._id, list(ids))
        self._added(tables.items, {id: {"at": time.time(), "vector": None} for id in ids if id not in items})
        rows = []
        for page in pages:
            lacking = [(False, id) for id in page.counted() if not items.get(id)]
            lacking += [] if queries.get(page.query) else [(True, page.query)]
            page.waits = len(lacking)
            page.logged = page.logged_items() if page.waits and page.logged else page.logged
            rows += [(self._id, page.id, kind, id) for kind, id in lacking]
        insert_rows(connection, tables.waits, ("space", "page", "of_query", "id"), rows)
        return {id for id in ids if not items.get(id)}

    def _write_pages(self) -> None:
        for is_shown in (False, True):
            changing = _CHANGING + _OF_SHOWN * is_shown
            columns = ("space", *_OF_SEARCH, *changing)
            rows = [(self._id, *page.row(columns[1:])) for page in self._pages.values() if page.is_shown == is_shown]
            insert_rows(self._connection, tables.pages, columns, rows, changing)

    def _write_log(self, entries: Sequence[tuple[Any, ...]]) -> None:
        if entries:
            rows = [(self._id, place, *entry) for place, entry in enumerate(entries, self._n_logged + 1)]
            insert_rows(self._connection, tables.log, _LOG, rows)
            n_logged = "UPDATE search_spaces SET n_logged = n_logged + ? WHERE id = ?"
            execute(self._connection, n_logged, (len(rows), self._id))


def count(connection: Any, space_id: str, numbers: dict[str, int]) -> None:
    """Add to the counts of a space by their reasons."""
    add = "INSERT INTO search_counts (space, reason, n) VALUES (?, ?, ?) ON CONFLICT (space, reason)"
    for reason, n in sorted(numbers.items()):
        execute(connection, f"{add} DO UPDATE SET n = search_counts.n + excluded.n", (space_id, reason, n))


def delete_unused_queries(connection: Any, space_id: str, keys: Sequence[str]) -> None:
    """Delete those of the queries that no page has; their texts may be what a person wrote."""
    pages, queries = tables.pages, tables.queries
    is_used = sa.exists().where(pages.c.space == queries.c.space, pages.c.query == queries.c.key)
    for part in blocks(sorted(set(keys))):
        connection.execute(queries.delete().where(queries.c.space == space_id, queries.c.key.in_(part), ~is_used))

"""Store: spaces, what was shown and done in them, vectors and models, in a database."""

import dataclasses
import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from mahala_search.arrays import FloatArray
from mahala_search.sidecar.records import Conflict, Entry, Model, Query, Settings, Space, Unknown, Work, Written
from mahala_search.sidecar.store import tables
from mahala_search.sidecar.store.checkpoints import served_model
from mahala_search.sidecar.store.database import Database, blocks
from mahala_search.sidecar.store.vectors import read_vectors
from mahala_search.sidecar.store.writes import GONE, SpaceWriter, delete_unused_queries

# Names of spaces.
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
# Settings that cannot be changed: what is stored depends on them.
_FIXED = ("width", "similarity", "encoder")
# Pages that are deleted at a time.
_PRUNED = 1000


class Store:
    """Spaces, what was shown and done in them, vectors and models; every method is one transaction.

    A space is named by its id, which no other one ever has, so that nothing which is kept of it elsewhere can be taken
    for another one's. Unknown is raised if it is gone, and Unavailable if the database cannot be used.

    >>> import tempfile
    >>> store = Store(tempfile.mkdtemp() + "/mahala.db")
    >>> space = store.create("films", Settings(width=2))
    >>> store.spaces()["films"] == space
    True
    """

    def __init__(self, address: str | os.PathLike[str], create: bool = True) -> None:
        self.database = Database(address, create)
        self.reading, self.writing = self.database.reading, self.database.writing

    def spaces(self) -> dict[str, Space]:
        """Return all spaces by name."""
        with self.reading() as connection:
            rows = connection.execute(sa.select(tables.spaces).order_by(tables.spaces.c.name)).all()
        return {row.name: _space(row) for row in rows}

    def create(self, name: str, settings: Settings) -> Space:
        """Make an empty space."""
        if not NAME.fullmatch(name):
            raise ValueError(f"name must be letters a-z, digits, - and _, 64 at most, got {name[:80]!r}")
        with self.writing() as connection:
            if connection.scalar(sa.select(tables.spaces.c.id).where(tables.spaces.c.name == name)) is not None:
                raise Conflict(f"there is a space {name!r} already")
            return _create(connection, name, settings)

    def configure(self, name: str, settings: Settings) -> Space:
        """Change the settings of a space; with other parameters of the learner, its log is learned again."""
        with self.writing() as connection:
            space = _locked(connection, tables.spaces.c.name == name)
            before = Settings.of(space.settings)
            for field in _FIXED:
                if getattr(settings, field) != getattr(before, field):
                    raise Conflict(
                        f"{field} of a space cannot be changed from {getattr(before, field)!r} to "
                        f"{getattr(settings, field)!r}: make another space"
                    )
            values = {
                "settings": dataclasses.asdict(settings),
                "generation": space.generation + (settings.learner != before.learner),
            }
            return _space(_updated(connection, space.id, **values))

    def drop(self, name: str) -> None:
        """Remove a space with everything in it."""
        with self.writing() as connection:
            space = _locked(connection, tables.spaces.c.name == name)
            _drop(connection, space.id)

    def succeed(self, name: str, successor: str) -> Space:
        """Name the space of the next encoder, to which pages are copied: `copy_pages`.

        The successor must not have pages of its own. It gets a new id, and makes keys of ids as this space does.
        """
        with self.writing() as connection:
            space = _locked(connection, tables.spaces.c.name == name)
            other = _locked(connection, tables.spaces.c.name == successor)
            if other.id == space.id:
                raise Conflict("a space cannot be its own successor")
            if other.origin != space.origin:
                pages = sa.select(tables.pages.c.id).where(tables.pages.c.space == other.id).limit(1)
                if connection.scalar(pages) is not None:
                    raise Conflict(f"{successor!r} has pages of its own: name a space that has none")
                _create(connection, successor, Settings.of(other.settings), space, other)
            return _space(_updated(connection, space.id, successor=successor))

    def copy_pages(self, space_id: str, before: float, limit: int = 200) -> int:
        """Copy pages from before a time to the successor, where they wait for its vectors; return how many.

        Later reactions are not copied, so that recent pages are best left for later.
        """
        pages, copy = tables.pages, tables.pages.alias()
        with self.writing() as connection:
            space = _locked(connection, tables.spaces.c.id == space_id)
            other = _locked(connection, tables.spaces.c.name == space.successor)
            is_copied = sa.exists().where(copy.c.space == other.id, copy.c.id == pages.c.id)
            oldest = time.time() - 86400.0 * Settings.of(other.settings).retention
            some = (pages.c.space == space_id) & pages.c.at.between(oldest, before) & pages.c.ids.is_not(None)
            some &= ~is_copied
            rows = connection.execute(sa.select(pages).where(some).order_by(pages.c.at).limit(limit)).all()
            keys = [row.query for row in rows]
            of_queries = (tables.queries.c.space == space_id) & tables.queries.c.key.in_(keys)
            texts = dict(
                connection.execute(sa.select(tables.queries.c.key, tables.queries.c.text).where(of_queries)).all()
            )
            SpaceWriter(connection, other.id).copy(rows, texts)
            return len(rows)

    def salt(self, space_id: str) -> bytes:
        """Return what `records.key_of` makes the keys of the ids of users and queries with."""
        with self.reading() as connection:
            return self._derived(f"ids:{_one(connection, tables.spaces.c.id == space_id).origin}")

    def token_secret(self, space_id: str) -> bytes:
        """Return the secret that signs the tokens of a space."""
        return self._derived(f"tokens:{space_id}")

    def _derived(self, text: str) -> bytes:
        return hmac.digest(self.database.secret, text.encode(), hashlib.sha256)

    def write(self, batch: Sequence[tuple[str, Sequence[Work]]]) -> list[list[Written] | Exception]:
        """Write groups of works, each for the space with an id, in one transaction.

        Return what became of each work, once that is durable; or for a group why nothing of it was written. A work
        that was written before changes nothing.
        """
        results: dict[int, list[Written] | Exception] = {}
        with self.writing() as connection:
            for space_id in sorted({space_id for space_id, _ in batch}):  # the same order everywhere: no deadlocks
                groups = {at: works for at, (of, works) in enumerate(batch) if of == space_id}
                try:
                    writer = SpaceWriter(connection, space_id)
                except Unknown as error:
                    results.update((at, error) for at in groups)
                else:
                    results |= zip(groups, writer.write(list(groups.values())), strict=True)
        return [results[at] for at in range(len(batch))]

    def missing(self, space_id: str, limit: int, tries: int | None = None) -> list[str]:
        """Return ids of items that were shown and have no vector; with `tries`, those asked for in vain that often."""
        table = tables.items
        query = sa.select(table.c.id).where(table.c.space == space_id, table.c.vector.is_(None)).limit(limit)
        with self.reading() as connection:
            return list(connection.scalars(query if tries is None else query.where(table.c.tries == tries)))

    def missing_queries(self, space_id: str, limit: int, tries: int) -> dict[str, str]:
        """Return keys and texts of queries without a vector that were asked for in vain this often."""
        table = tables.queries
        mine = (table.c.space == space_id) & table.c.vector.is_(None) & table.c.text.is_not(None)
        query = sa.select(table.c.key, table.c.text).where(mine, table.c.tries == tries).limit(limit)
        with self.reading() as connection:
            return {row.key: row.text for row in connection.execute(query)}

    def add_vectors(
        self,
        space_id: str,
        vectors: Mapping[str, FloatArray],
        absent: Iterable[str] = (),
        queries: Mapping[str, FloatArray] = {},
    ) -> None:
        """Write vectors of items, and of queries by their keys, unless they have one; log the pages that waited.

        Items that are `absent` in the engine are asked for less often.
        """
        with self.writing() as connection:
            SpaceWriter(connection, space_id).add_vectors(dict(vectors), dict(queries))
            for part in blocks(sorted(absent)):
                mine = (tables.items.c.space == space_id) & tables.items.c.id.in_(part)
                connection.execute(tables.items.update().where(mine).values(tries=tables.items.c.tries + 1))

    def read_log(self, space_id: str, after: int, limit: int) -> list[Entry]:
        """Return the entries after a place, in order."""
        log, pages, queries = tables.log, tables.pages, tables.queries
        of_page = (pages.c.space == log.c.space) & (pages.c.id == log.c.page)
        query = sa.select(log, pages.c.query, pages.c.ids, pages.c.positions, pages.c.signals)
        query = query.join(pages, of_page).where(log.c.space == space_id, log.c.place > after)
        with self.reading() as connection:
            rows = connection.execute(query.order_by(log.c.place).limit(limit)).all()
            vectors = read_vectors(connection, queries, space_id, list({row.query for row in rows}))
        return [_entry(row, vectors[row.query]) for row in rows]

    def item_vectors(self, space_id: str, ids: Sequence[str]) -> dict[str, FloatArray]:
        """Return the vectors of those of the items that have one."""
        with self.reading() as connection:
            return read_vectors(connection, tables.items, space_id, list(dict.fromkeys(ids)))

    def served(self, space_id: str, known: int | None = None) -> Model | None:
        """Return the model to serve: the version that is pinned, or the newest; None if it is the version `known`.

        Version 0 is returned, with a problem, for a pinned version that is lost.
        """
        with self.reading() as connection:
            return served_model(connection, space_id, known)

    def versions(self, space_id: str) -> list[Model]:
        """Return the versions that are kept, the newest first, without their maps and names."""
        table = tables.checkpoints
        query = sa.select(table).where(table.c.space == space_id).order_by(table.c.version.desc())
        with self.reading() as connection:
            return [
                Model(row.version, row.place, b"", (), row.created, row.status) for row in connection.execute(query)
            ]

    def pin(self, space_id: str, version: int | None) -> None:
        """Serve this version until another one is pinned; 0 is the plain ranking, None the newest."""
        with self.writing() as connection:
            _locked(connection, tables.spaces.c.id == space_id)
            mine = (tables.checkpoints.c.space == space_id) & (tables.checkpoints.c.version == version)
            if version and connection.scalar(sa.select(tables.checkpoints.c.version).where(mine)) is None:
                raise Unknown(f"there is no version {version} of the space: it was not kept, or never was")
            _updated(connection, space_id, pinned=version)

    def set_problems(self, problems: Mapping[str, str]) -> None:
        """Write why spaces are not learned, by their names."""
        table = tables.spaces
        with self.writing() as connection:
            for space in self.spaces().values():
                if space.problem != (problem := problems.get(space.name)):
                    connection.execute(table.update().where(table.c.id == space.id).values(problem=problem))

    def counts(self, space_id: str) -> dict[str, int]:
        """Return how much was dropped or ignored, by the reason."""
        table = tables.counts
        with self.reading() as connection:
            rows = connection.execute(sa.select(table.c.reason, table.c.n).where(table.c.space == space_id))
            return {row.reason: row.n for row in rows}

    def forget(self, space_id: str, user: str) -> int:
        """Delete what a user, by the key, did and was shown, also its copies in successors; return from how many pages.

        The log is learned again without it. Until then, what is served stays as it is.
        """
        table = tables.spaces
        with self.writing() as connection:
            origin = _one(connection, table.c.id == space_id).origin
            ids = connection.scalars(sa.select(table.c.id).where(table.c.origin == origin).order_by(table.c.id)).all()
            deleted = {}
            for id in ids:
                n = deleted[id] = SpaceWriter(connection, id).forget(user)
                _updated(connection, id, generation=table.c.generation + int(n > 0))
            return deleted[space_id]

    def prune(self, now: float) -> int:
        """Delete what is older than the retention of its space, some pages of each at a time; return how many."""
        pages, forgotten, deleted = tables.pages, tables.forgotten, 0
        for space in self.spaces().values():
            oldest = now - 86400.0 * space.settings.retention
            old = sa.select(pages.c.id, pages.c.query).where(pages.c.space == space.id, pages.c.at < oldest)
            with self.reading() as connection:
                rows = connection.execute(old.order_by(pages.c.at).limit(_PRUNED)).all()
            for part in blocks(rows):  # others can write in between
                ids = [row.id for row in part]
                with self.writing() as connection:
                    for table, key in ((tables.log, "page"), (tables.waits, "page"), (pages, "id")):
                        connection.execute(table.delete().where(table.c.space == space.id, table.c[key].in_(ids)))
                    delete_unused_queries(connection, space.id, [row.query for row in part])
                    gone = (forgotten.c.space == space.id) & (forgotten.c.at < oldest)
                    connection.execute(forgotten.delete().where(gone))
            deleted += len(rows)
        return deleted

    def progress(self, space_id: str) -> dict[str, int]:
        """Return how far learning is: places of the log `logged` and `learned`, which are equal once all is learned.

        `waiting` is how many pages wait for vectors, `missing` how many items have none.
        """
        spaces, checkpoints, log = tables.spaces, tables.checkpoints, tables.log
        with self.reading() as connection:
            space = _one(connection, spaces.c.id == space_id)
            of_space = checkpoints.c.space == space_id, checkpoints.c.generation == space.generation
            place = connection.scalar(sa.select(sa.func.max(checkpoints.c.place)).where(*of_space))
            later = (log.c.space == space_id) & (log.c.place > (place or 0))
            # What was deleted is not learned any more, and nothing waits for it.
            rest = connection.scalar(sa.select(log.c.place).where(later).limit(1))
            is_learned = rest is None and (place is not None or space.n_logged == 0 or space.generation == 0)
            waiting = (tables.pages.c.space == space_id) & (tables.pages.c.waits > 0)
            without = (tables.items.c.space == space_id) & tables.items.c.vector.is_(None)
            return {
                "logged": space.n_logged,
                "learned": space.n_logged if is_learned else place or 0,
                "waiting": connection.scalar(sa.select(sa.func.count()).select_from(tables.pages).where(waiting)),
                "missing": connection.scalar(sa.select(sa.func.count()).select_from(tables.items).where(without)),
            }

    def close(self) -> None:
        self.database.close()


def _space(row: Any) -> Space:
    fields = {field.name: getattr(row, field.name) for field in dataclasses.fields(Space)}
    return Space(**fields | {"settings": Settings.of(row.settings)})


def _entry(row: Any, vector: FloatArray) -> Entry:
    places = [place for place, value in enumerate(row.values) if value is not None]

    def counted(values: Sequence[Any]) -> list[Any]:
        return [values[place] for place in places]

    signals = row.signals and {name: counted(values) for name, values in row.signals.items()}
    positions = counted(row.positions or range(1, len(row.ids) + 1))
    of_page = row.page, Query(row.query, vector), row.user, counted(row.ids), positions
    return Entry(row.place, *of_page, counted(row.values), signals, row.first, row.at)


def _one(connection: Any, condition: Any, *, lock: bool = False) -> Any:
    query = sa.select(tables.spaces).where(condition)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise Unknown(GONE)
    return row


def _locked(connection: Any, condition: Any) -> Any:
    """Return the row of a space, which no one else changes until the commit."""
    return _one(connection, condition, lock=True)


def _updated(connection: Any, space_id: str, **values: Any) -> Any:
    statement = tables.spaces.update().where(tables.spaces.c.id == space_id).values(values)
    return connection.execute(statement.returning(*tables.spaces.c)).one()


def _create(connection: Any, name: str, settings: Settings, successor_of: Any = None, before: Any = None) -> Space:
    """Make a space; as a successor, in the place of the one before, whose API keys remain, and the plain pin."""
    id = secrets.token_hex(8)
    row: dict[str, Any] = {"id": id, "name": name, "settings": dataclasses.asdict(settings), "origin": id}
    if successor_of is not None:
        connection.execute(tables.keys.update().where(tables.keys.c.space == before.id).values(space=id))
        _drop(connection, before.id)
        row |= {"origin": successor_of.origin, "pinned": None if before.pinned is None else 0}
    connection.execute(tables.spaces.insert().values(**row, n_logged=0, generation=0, version=0))
    return Space(id, name, settings, pinned=row.get("pinned"))


def _drop(connection: Any, space_id: str) -> None:
    for table in tables.metadata.tables.values():
        if "space" in table.c:
            connection.execute(table.delete().where(table.c.space == space_id))
    connection.execute(tables.spaces.delete().where(tables.spaces.c.id == space_id))

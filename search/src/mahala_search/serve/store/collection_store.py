"""Store: collections, their items and their logs, in a database."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from mahala_search.serve.store.appends import ENTRY, append_groups, blocks, fetched, raised
from mahala_search.serve.store.database import Conflict, Database, Unknown, collections, items, log, metadata, searches
from mahala_search.serve.store.rows import NAME, Collection, Items, LogEntry, NewItem, to_blob
from mahala_search.serve.store.searches import Events, Search, add_searches, append_events, delete_reactions

# Rows that are read at a time.
BLOCK = 2000
# What is read of an item as the driver has it, because there are many; payloads are text then.
_VECTOR = items.c.row, sa.type_coerce(items.c.vector, sa.types.NullType())
_PAYLOAD = sa.type_coerce(sa.cast(items.c.payload, sa.Text), sa.types.NullType())
_ITEM = (items.c.row, items.c.id, _VECTOR[1], _PAYLOAD, items.c.live, items.c.change)


class Store:
    """Collections, items and the log in a database; every method is one transaction.

    >>> import tempfile
    >>> import numpy as np
    >>> store = Store(tempfile.mkdtemp() + "/mahala.db")
    >>> store.create("films", width=2, settings={})
    >>> store.put_items("films", [NewItem("alien", np.array([1.0, 0.0]), {"year": 1979})])
    >>> [(block.ids, block.payloads) for block in store.changed_blocks("films", 0)]
    [(('alien',), [{'year': 1979}])]
    >>> store.append("films", [LogEntry("impression", shown=[0], clicked=[1.0], query=0, key="k")])
    [1]
    """

    def __init__(self, address: str | os.PathLike[str], **options: Any) -> None:
        self.database = Database(address, **options)

    def create(self, name: str, *, width: int, settings: dict[str, Any]) -> None:
        """Make an empty collection of vectors with `width` numbers."""
        if not NAME.fullmatch(name):
            raise ValueError(f"name must be letters a-z, digits, - and _, 64 at most, got {name[:80]!r}")
        with self.database.writing() as connection:
            if connection.scalar(sa.select(collections.c.width).where(collections.c.name == name)) is not None:
                raise Conflict(f"there is a collection {name!r} already")
            counters = dict.fromkeys(("n_rows", "n_logged", "change", "generation", "version"), 0)
            connection.execute(collections.insert().values(name=name, width=width, settings=settings, **counters))

    def drop(self, name: str) -> None:
        """Remove a collection with everything in it."""
        with self.database.writing() as connection:
            for table in metadata.tables.values():
                if "collection" in table.c:
                    connection.execute(table.delete().where(table.c.collection == name))
            connection.execute(collections.delete().where(collections.c.name == name))
            if not self.database.is_sqlite:
                connection.execute(sa.text(f"DROP TABLE IF EXISTS {self.database.graph_table(name)}"))
        if (path := self.database.graph_file(name)) is not None:
            path.unlink(missing_ok=True)

    def collections(self) -> dict[str, Collection]:
        """Return all collections by name."""
        with self.database.reading() as connection:
            rows = connection.execute(sa.select(collections).order_by(collections.c.name)).all()
        return {row.name: Collection(*row) for row in rows}

    def collection(self, name: str) -> Collection:
        """Return a collection; raise Unknown if there is none of this name."""
        if (collection := self.collections().get(name)) is None:
            raise Unknown(f"there is no collection {name[:64]!r}")
        return collection

    def configure(self, name: str, settings: dict[str, Any], *, relearn: bool = False) -> None:
        """Change the settings of a collection, and perhaps have its models learned again from the whole log."""
        with self.database.writing() as connection:
            connection.execute(collections.update().where(collections.c.name == name).values(settings=settings))
            raised(connection, name, generation=int(relearn))

    def put_items(self, name: str, new: Sequence[NewItem]) -> None:
        """Add items; each replaces the one with the same id."""
        if len({item.id for item in new}) < len(new):
            raise ValueError("items must have different ids, got one twice")
        with self.database.writing() as connection:
            row, change = raised(connection, name, n_rows=len(new), change=len(new) + 1).values()
            for part in blocks(new):
                self._retire(connection, name, [item.id for item in part], change + 1)
            values = [
                {"collection": name, "row": row + at, "id": item.id, "vector": to_blob(item.vector),
                 "payload": item.payload, "live": True, "change": change + 2 + at}
                for at, item in enumerate(new)
            ]  # fmt: skip
            if values:
                connection.execute(items.insert(), values)

    def delete_items(self, name: str, ids: Sequence[str]) -> int:
        """Delete items; return how many there were."""
        with self.database.writing() as connection:
            change = raised(connection, name, change=1)["change"] + 1
            return sum(self._retire(connection, name, part, change) for part in blocks(ids))

    @staticmethod
    def _retire(connection: Any, name: str, ids: Sequence[str], change: int) -> int:
        live = (items.c.collection == name) & items.c.live & items.c.id.in_(ids)
        return int(connection.execute(items.update().where(live).values(live=False, change=change)).rowcount)

    def changed_blocks(self, name: str, after: int) -> Iterator[Items]:
        """Yield the rows that changed after a change number, in the order of the changes, many at a time."""
        row = 2**62  # those of one change may be in two blocks
        while True:
            later = (items.c.change >= after) & ((items.c.change > after) | (items.c.row > row))
            query = sa.select(*_ITEM).where(items.c.collection == name, later).order_by(items.c.change, items.c.row)
            with self.database.reading() as connection:
                rows = connection.execute(query.limit(BLOCK)).all()
            if rows:
                numbers, ids, vectors, payloads, live, changes = zip(*rows, strict=True)
                X = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(rows), -1)
                yield Items(numbers, ids, X, json.loads(f"[{','.join(payloads)}]"), live, changes)
                after, row = changes[-1], numbers[-1]
            if len(rows) < BLOCK:
                return

    def vectors(self, name: str, rows: Sequence[int]) -> NDArray[np.float32]:
        """Return the vectors of rows, one or more; raise KeyError if one is not there."""
        blobs: dict[int, bytes] = {}
        with self.database.reading() as connection:
            for part in blocks(sorted(set(rows)), BLOCK):
                # In the text of the statement: many parameters take longer than to read the rows.
                named = sa.text(f'{items.name}."row" IN ({",".join(str(int(row)) for row in part)})')
                blobs.update(fetched(connection, sa.select(*_VECTOR).where(items.c.collection == name, named)))
        if missing := set(rows) - blobs.keys():
            raise KeyError(f"there is no row {min(missing)} in {name!r}")
        return np.frombuffer(b"".join([blobs[row] for row in rows]), dtype="<f4").reshape(len(rows), -1)

    def append(self, name: str, entries: Sequence[LogEntry]) -> list[int]:
        """Write entries to the log; return the place of each, which is durable.

        One whose key is in the log is not written again and gets its place there; KeyReused is raised if it differs.
        """
        (result,) = self.append_all([(name, entries)])
        if isinstance(result, Exception):
            raise result
        return list(result)

    def append_all(
        self, groups: Sequence[tuple[str, Sequence[LogEntry] | Events]], new_searches: Sequence[tuple[str, Search]] = ()
    ) -> list[Any]:
        """Write searches, and groups of entries or of events, in one transaction.

        Return, for each group, the places of its entries in the log, or why it was not written; for each group of
        events, the place of each reaction, or why it is ignored. A group of entries is written whole or not at all.
        """
        results: dict[int, Any] = {}
        with self.database.writing() as connection:
            for name in {name for name, _ in new_searches} & set(connection.scalars(sa.select(collections.c.name))):
                add_searches(connection, name, [search for of, search in new_searches if of == name])
            for name in sorted({name for name, _ in groups}):  # in the same order in all processes: no deadlocks
                mine = {at: group for at, (of, group) in enumerate(groups) if of == name}
                events = {at: group for at, group in mine.items() if isinstance(group, Events)}
                entries = {at: group for at, group in mine.items() if not isinstance(group, Events)}
                results |= zip(entries, append_groups(connection, name, list(entries.values())), strict=True)
                if events:
                    results |= zip(events, append_events(connection, name, list(events.values())), strict=True)
        return [results[at] for at in range(len(groups))]

    def read_log(
        self, name: str, after: int = 0, limit: int | None = None, kind: Literal["pair"] | None = None
    ) -> Iterator[LogEntry]:
        """Yield the entries after a place, in order; all, or the judged pairs."""
        while limit is None or limit > 0:
            n = BLOCK if limit is None else min(BLOCK, limit)
            later = log.c.collection == name, log.c.place > after
            query = sa.select(*ENTRY).where(*later).order_by(log.c.place).limit(n)
            if kind is not None:
                query = query.where(sa.text(f"kind = '{kind}'"))  # as the index says it
            with self.database.reading() as connection:
                entries = LogEntry.of_rows(fetched(connection, query))
            yield from entries
            if len(entries) < n:
                return
            after, limit = entries[-1].place, None if limit is None else limit - n

    def forget_user(self, name: str, user: str) -> int:
        """Delete what a user did and searched for, and have the models learned again without it; return how many."""
        did, searched = ((table.c.collection == name) & (table.c.user == user) for table in (log, searches))
        with self.database.writing() as connection:
            delete_reactions(connection, name, set(connection.scalars(sa.select(log.c.place).where(did))))
            n = int(connection.execute(log.delete().where(did)).rowcount)
            raised(connection, name, generation=int(n > 0))
            return n + int(connection.execute(searches.delete().where(searched)).rowcount)

    def close(self) -> None:
        self.database.close()

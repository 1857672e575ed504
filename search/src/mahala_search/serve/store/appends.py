"""Appends to the log, within a transaction."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from mahala_search.serve.store.database import Conflict, Unknown, collections, log
from mahala_search.serve.store.rows import LogEntry

# What is read of an entry as the driver has it; the body is text then.
ENTRY = (
    log.c.kind, sa.type_coerce(sa.cast(log.c.body, sa.Text), sa.types.NullType()),
    sa.type_coerce(log.c.vector, sa.types.NullType()), log.c.user, log.c.version, log.c.at, log.c.key, log.c.place,
)  # fmt: skip


class KeyReused(Conflict):
    """An idempotency key was sent before, with something else."""


def append_groups(connection: Any, name: str, groups: Sequence[Sequence[LogEntry]]) -> list[list[int] | Exception]:
    """Write groups of entries to the log of one collection, in few statements however many groups there are."""
    n = sum(map(len, groups))
    try:
        # The row of the collection stays locked until the commit: places are in the order in which they are seen.
        start = raised(connection, name, n_logged=n)["n_logged"]
    except Unknown as error:
        return [error] * len(groups)
    keys = [entry.key for entries in groups for entry in entries if entry.key is not None]
    logged: dict[str | None, LogEntry] = {}  # entries by their keys
    for part in blocks(keys):
        query = sa.select(*ENTRY).where(log.c.collection == name, log.c.key.in_(part))
        logged |= {entry.key: entry for entry in LogEntry.of_rows(fetched(connection, query))}
    new: list[dict[str, Any]] = []
    results: list[list[int] | Exception] = []
    for entries in groups:
        places: list[int] = []
        rows: list[dict[str, Any]] = []
        added: dict[str | None, LogEntry] = {}
        for entry in entries:
            before = None if entry.key is None else added.get(entry.key) or logged.get(entry.key)
            if before is None:
                before = added[entry.key] = replace(entry, place=start + len(new) + len(rows) + 1)
                rows.append(before.row(name, before.place))
            elif not entry.same(before):
                results.append(KeyReused(f"the idempotency key {entry.key!r} was used before, with something else"))
                break
            places.append(before.place)
        else:
            new += rows
            logged |= added
            results.append(places)
    if len(new) < n:  # some are in the log already, or are refused
        raised(connection, name, n_logged=len(new) - n)
    if new:
        connection.execute(log.insert(), new)
    return results


def raised(connection: Any, name: str, **by: int) -> dict[str, int]:
    """Raise counters of a collection, whose row stays locked until the commit; return what they were before."""
    changes: Any = {column: collections.c[column] + n for column, n in by.items()}
    statement = collections.update().where(collections.c.name == name).values(changes)
    now = connection.execute(statement.returning(*(collections.c[column] for column in by))).one_or_none()
    if now is None:
        raise Unknown(f"there is no collection {name!r}")
    return {column: int(value) - n for (column, n), value in zip(by.items(), now, strict=True)}


def fetched(connection: Any, query: Any) -> list[Any]:
    """Return the rows of a query as tuples of the driver: SQLAlchemy takes as long for its own as the driver does."""
    return list(connection.execute(query).cursor.fetchall())


def blocks(values: Sequence[Any], size: int = 500) -> Iterator[Sequence[Any]]:
    """Yield parts that fit into one statement."""
    for start in range(0, len(values), size):
        yield values[start : start + size]

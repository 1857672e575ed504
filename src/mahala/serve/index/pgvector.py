"""PgVector: candidates for a search from an index in the database (HNSW, of pgvector)."""

from __future__ import annotations

import threading

import numpy as np
import sqlalchemy as sa

from mahala.serve.index.item_index import Candidates, Index
from mahala.serve.store.database import Database, Unavailable
from mahala.support.arrays import FloatArray, IndexArray

# Rows that are written at a time; numbers of a vector, and candidates of a search, that pgvector takes at most.
_BLOCK, _WIDEST, _MOST = 500, 2000, 1000


class PgVectorIndex:
    """The vectors of a collection in a table of the database with an index; it answers as a graph here does."""

    def __init__(self, database: Database, name: str, n: int, last: int) -> None:
        self.n, self.last = n, last
        self._database = database
        self._table = database.graph_table(name)

    def nearest(self, query: FloatArray, n: int) -> IndexArray:
        """Return n rows whose inner products with a query are about the largest; none if the database is gone."""
        n = min(n, _MOST)
        scaled = str((query / (np.abs(query).max() or 1.0)).tolist())
        nearest = sa.text(f"SELECT row FROM {self._table} ORDER BY vector <#> CAST(:query AS vector) LIMIT :n")
        try:
            with self._database.reading() as connection:
                connection.execute(sa.text(f"SET LOCAL hnsw.ef_search = {n:d}"))
                rows = [row for (row,) in connection.execute(nearest, {"query": scaled, "n": n})]
        except Unavailable:
            rows = []
        near = np.array(rows, dtype=np.intp)
        return near[near <= self.last]  # another process may have added more


def has_pgvector(database: Database) -> bool:
    """Return whether the server has an extension vector that knows HNSW, made in the database or not."""
    version = "SELECT string_to_array(default_version, '.')::int[] >= '{0,5}'"
    with database.reading() as connection:
        return bool(connection.scalar(sa.text(f"{version} FROM pg_available_extensions WHERE name = 'vector'")))


def in_pgvector(
    database: Database, index: Index, before: Candidates | None, stop: threading.Event
) -> PgVectorIndex | None:
    """Bring the table of a collection, which all processes share, and its index up to date; None if stopped."""
    if index.width > _WIDEST:
        raise ValueError(f"pgvector indexes vectors of {_WIDEST:,} numbers at most, got {index.width:,}")
    table = database.graph_table(index.name)
    rows = index.rows(complete=True)
    with database.writing() as connection:
        # One process at a time: the others wait, and find it done.
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext(:table))"), {"table": table})
        connection.execute(sa.text("CREATE EXTENSION IF NOT EXISTS vector"))
        columns = f"(row bigint PRIMARY KEY, vector vector({index.width:d}) NOT NULL)"
        connection.execute(sa.text(f"CREATE TABLE IF NOT EXISTS {table} {columns}"))
        written = {row for (row,) in connection.execute(sa.text(f"SELECT row FROM {table}"))}
        new = [row for row in rows.tolist() if row not in written]
        for start in range(0, len(new), _BLOCK):
            if stop.is_set():
                return None
            block = new[start : start + _BLOCK]
            vectors = [str(vector) for vector in index.vectors(block).tolist()]
            values = [{"row": row, "vector": vector} for row, vector in zip(block, vectors, strict=True)]
            connection.execute(sa.text(f"INSERT INTO {table} VALUES (:row, CAST(:vector AS vector))"), values)
        gone = f"DELETE FROM {table} WHERE row <= :last AND NOT row = ANY(:rows)"
        if written - set(rows.tolist()):
            connection.execute(sa.text(gone), {"last": int(rows[-1]), "rows": rows.tolist()})
        made = f"CREATE INDEX IF NOT EXISTS {table}_hnsw ON {table} USING hnsw (vector vector_ip_ops)"
        connection.execute(sa.text(made))
    return PgVectorIndex(database, index.name, len(rows), int(rows[-1]))

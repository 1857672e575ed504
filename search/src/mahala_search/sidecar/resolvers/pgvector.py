"""Vectors from Postgres with pgvector."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import psycopg
from psycopg import sql

from mahala_search.arrays import FloatArray


class PgvectorResolver:
    """Finds vectors in a column of a table.

    Parameters
    ----------
    address : postgresql://...
    table : its name, perhaps with that of a schema and a dot before it
    id : column of the ids
    vector : column of the vectors, of the type vector or halfvec
    """

    def __init__(self, address: str, table: str, id: str = "id", vector: str = "embedding") -> None:
        self._address = address
        names = sql.Identifier(*table.split(".")), sql.Identifier(id), sql.Identifier(vector)
        self._table, self._id, self._vector = names
        self._type: str | None = None  # of the ids

    def vectors(self, ids: Sequence[str]) -> dict[str, FloatArray]:
        """Return the vectors of those of the items that are there."""
        with psycopg.connect(self._address, connect_timeout=5, autocommit=True) as connection:
            try:
                return self._read(connection, ids)
            except psycopg.DataError:  # an id that the type of the column does not have, such as a word
                result: dict[str, FloatArray] = {}
                for id in ids:
                    try:
                        result |= self._read(connection, [id])
                    except psycopg.DataError:
                        continue
                return result

    def close(self) -> None:
        """Do nothing: each call has a connection of its own."""

    def _read(self, connection: psycopg.Connection, ids: Sequence[str]) -> dict[str, FloatArray]:
        if self._type is None:  # an index is not used for a column that is converted
            types = sql.SQL("SELECT pg_typeof({})::text FROM {} LIMIT 1").format(self._id, self._table)
            row = connection.execute(types).fetchone()
            if row is None:
                return {}
            self._type = str(row[0])
        query = sql.SQL("SELECT {id}::text, {vector}::text FROM {table} WHERE {id} = ANY(%s::{type}[])").format(
            id=self._id, vector=self._vector, table=self._table, type=sql.SQL(self._type)
        )
        rows = connection.execute(query, [list(ids)]).fetchall()
        return {id: np.array(json.loads(text), dtype=np.float64) for id, text in rows if text is not None}

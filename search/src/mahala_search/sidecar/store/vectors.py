"""Vectors as they are stored: whole numbers from -127 to 127 and a scale."""

from typing import Any

import numpy as np
import sqlalchemy as sa

from mahala_search.arrays import FloatArray
from mahala_search.sidecar.records import Settings
from mahala_search.sidecar.store.database import add_missing, rows_with


def stored(vector: FloatArray, settings: Settings) -> dict[str, Any]:
    """Return the columns of a vector; it gets length 1 where the engine compares cosines.

    ValueError is raised unless it has finite numbers of the width of the space.

    >>> stored(np.array([0.0, -2.0]), Settings(2, similarity="dot"))
    {'vector': b'\\x00\\x81', 'scale': 0.015748031496062992}
    """
    values = np.asarray(vector, dtype=np.float64)
    if values.shape != (settings.width,) or not np.isfinite(values).all():
        raise ValueError(f"a vector must have {settings.width} finite numbers, got the shape {values.shape}")
    largest = float(np.abs(values).max(initial=0.0))
    if largest > 0.0 and settings.similarity == "cosine":
        values = values / largest
        values /= np.linalg.norm(values)
        largest = float(np.abs(values).max())
    scale = largest / 127.0
    if scale == 0.0:
        return {"vector": bytes(settings.width), "scale": 0.0}
    return {"vector": np.rint(values / scale).astype(np.int8).tobytes(), "scale": scale}


def restored(vector: bytes, scale: float) -> FloatArray:
    """Return the vector of its columns."""
    return np.frombuffer(vector, dtype=np.int8).astype(np.float64) * scale


def read_vectors(connection: Any, table: sa.Table, space_id: str, ids: list[str]) -> dict[str, FloatArray]:
    """Return the vectors of those of the items, or of the keys of queries, that have one."""
    key, vector = key_of_table(table), sa.type_coerce(table.c.vector, sa.types.NullType())
    query = sa.select(key, vector, table.c.scale).where(table.c.space == space_id, table.c.vector.is_not(None))
    return {id: restored(data, scale) for id, data, scale in rows_with(connection, query, key, ids)}


def with_vector(connection: Any, table: sa.Table, space_id: str, ids: list[str]) -> dict[str, bool]:
    """Return whether each of the items, or of the keys of queries, has a vector, for those that are in the table."""
    key = key_of_table(table)
    query = sa.select(key, table.c.vector.is_not(None)).where(table.c.space == space_id)
    return {id: bool(has) for id, has in rows_with(connection, query, key, ids)}


def add_rows(connection: Any, table: sa.Table, space_id: str, rows: dict[str, dict[str, Any]]) -> set[str]:
    """Write rows of items or queries by their keys; one that has a vector keeps it. Return those that got their first.

    Values that rows do not have are null.
    """
    if not rows:
        return set()
    key, known = key_of_table(table), with_vector(connection, table, space_id, list(rows))
    empty = {column.name: None for column in table.c if column.nullable} | {"space": space_id, "tries": 0}
    add_missing(connection, table, [empty | row | {key.name: id} for id, row in rows.items() if id not in known])
    first = {id: row for id, row in rows.items() if row.get("vector") is not None and not known.get(id)}
    if later := [{"of": id, "data": row["vector"], "by": row["scale"]} for id, row in first.items() if id in known]:
        mine = (table.c.space == space_id) & (key == sa.bindparam("of"))
        values: dict[str, Any] = {"vector": sa.bindparam("data"), "scale": sa.bindparam("by")}
        connection.execute(table.update().where(mine).values(values), later)
    return set(first)


def key_of_table(table: sa.Table) -> Any:
    """Return the column that has the id of an item, or the key of a query."""
    return table.c.key if "key" in table.c else table.c.id

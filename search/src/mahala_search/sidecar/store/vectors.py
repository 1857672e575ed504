"""Vectors as they are stored: whole numbers from -127 to 127 and a scale."""

from typing import Any

import numpy as np
import sqlalchemy as sa

from mahala_search.arrays import FloatArray
from mahala_search.sidecar.records import Settings
from mahala_search.sidecar.store.database import add_missing, blocks, fetched


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
    key, vector, scale = key_of_table(table), sa.type_coerce(table.c.vector, sa.types.NullType()), table.c.scale
    result: dict[str, FloatArray] = {}
    for part in blocks(ids):
        known = (table.c.space == space_id) & key.in_(part) & table.c.vector.is_not(None)
        result |= {
            id: restored(data, factor)
            for id, data, factor in fetched(connection, sa.select(key, vector, scale).where(known))
        }
    return result


def with_vector(connection: Any, table: sa.Table, space_id: str, ids: list[str]) -> dict[str, bool]:
    """Return whether each of the items, or of the keys of queries, has a vector, for those that are in the table."""
    key, result = key_of_table(table), dict[str, bool]()
    for part in blocks(ids):
        query = sa.select(key, table.c.vector.is_not(None)).where(table.c.space == space_id, key.in_(part))
        result |= {id: bool(has) for id, has in fetched(connection, query)}
    return result


def add_rows(
    connection: Any, table: sa.Table, space_id: str, rows: dict[str, dict[str, Any]], known: dict[str, bool]
) -> set[str]:
    """Write rows of items or queries by their keys; one that has a vector keeps it. Return those that got their first.

    `known` is `with_vector` of these keys, and is brought up to date.
    """
    key = key_of_table(table)
    empty = {column.name: None for column in table.c if column.nullable}
    new = [empty | row | {"space": space_id, key.name: id, "tries": 0} for id, row in rows.items() if id not in known]
    add_missing(connection, table, new)
    first = {id: row for id, row in rows.items() if row.get("vector") is not None and not known.get(id, False)}
    if later := [{"of": id, "data": row["vector"], "by": row["scale"]} for id, row in first.items() if id in known]:
        mine = (table.c.space == space_id) & (key == sa.bindparam("of"))
        values: dict[str, Any] = {"vector": sa.bindparam("data"), "scale": sa.bindparam("by")}
        connection.execute(table.update().where(mine).values(values), later)
    known |= {id: known.get(id, False) or id in first for id in rows}
    return set(first)


def key_of_table(table: sa.Table) -> Any:
    """Return the column that has the id of an item, or the key of a query."""
    return table.c.key if "key" in table.c else table.c.id

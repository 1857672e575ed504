"""Vectors as they are stored: whole numbers from -127 to 127 and a scale."""

from typing import Any

import numpy as np
import sqlalchemy as sa

from mahala_search.arrays import FloatArray
from mahala_search.sidecar.store.database import insert_rows, rows_with, update_rows


def check_vector(vector: FloatArray, width: int) -> None:
    """Raise ValueError unless a vector has finite numbers of the width of its space."""
    if np.shape(vector) != (width,) or not np.isfinite(vector).all():
        raise ValueError(f"a vector must have {width} finite numbers, got the shape {np.shape(vector)}")


def stored(vector: FloatArray, similarity: str) -> dict[str, Any]:
    """Return the columns of a vector; it gets length 1 where the engine compares cosines.

    >>> stored(np.array([0.0, -2.0]), "dot")
    {'vector': b'\\x00\\x81', 'scale': 0.015748031496062992}
    """
    values = np.asarray(vector, dtype=np.float64)
    largest = float(np.abs(values).max())
    if largest == 0.0:
        return {"vector": bytes(len(values)), "scale": 0.0}
    numbers = np.rint(127.0 * (values / largest)).astype(np.int8)
    norm = largest * float(np.linalg.norm(values / largest)) if similarity == "cosine" else 1.0
    return {"vector": numbers.tobytes(), "scale": largest / 127.0 / norm}


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


def add_rows(
    connection: Any, table: sa.Table, space: str, rows: dict[str, dict[str, Any]], similarity: str
) -> set[str]:
    """Write rows of items or queries by their keys; one that has a vector keeps it. Return those that got their first.

    The vectors of the rows are as they came, or None.
    """
    if not rows:
        return set()
    key, known = key_of_table(table).name, with_vector(connection, table, space, list(rows))
    first = {id: row for id, row in rows.items() if row["vector"] is not None and not known.get(id)}
    columns = {id: stored(row["vector"], similarity) for id, row in first.items()}
    empty = {"space": space, "tries": 0, "vector": None, "scale": None}
    new = [row | empty | {key: id} | columns.get(id, {}) for id, row in rows.items() if id not in known]
    insert_rows(connection, table, new, missing=True)
    later = [{"space": space, key: id} | columns[id] for id in first if id in known]
    update_rows(connection, table, ("space", key), later)
    return set(first)


def key_of_table(table: sa.Table) -> Any:
    """Return the column that has the id of an item, or the key of a query."""
    return table.c.key if "key" in table.c else table.c.id

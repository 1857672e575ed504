"""Vectors as they are stored: whole numbers from -127 to 127 and a scale."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from mahala_search.arrays import FloatArray
from mahala_search.sidecar.records import Settings
from mahala_search.sidecar.store.database import insert_rows, rows_with


def stored(vector: FloatArray, settings: Settings) -> tuple[bytes, float]:
    """Return the numbers of a vector and their scale; it gets length 1 where the engine compares cosines.

    >>> stored(np.array([0.0, -2.0]), Settings(2, "dot"))
    (b'\\x00\\x81', 0.015748031496062992)
    """
    values = np.asarray(vector, dtype=np.float64)
    if values.shape != (settings.width,) or not np.isfinite(values).all():
        raise ValueError(f"a vector must have {settings.width} finite numbers, got the shape {values.shape}")
    largest = float(np.abs(values).max())
    if largest == 0.0:
        return bytes(len(values)), 0.0
    numbers = np.rint(127.0 * (values / largest)).astype(np.int8)
    norm = largest * float(np.linalg.norm(values / largest)) if settings.similarity == "cosine" else 1.0
    return numbers.tobytes(), largest / 127.0 / norm


def restored(vector: bytes, scale: float) -> FloatArray:
    """Return the vector of its columns."""
    return np.frombuffer(vector, dtype=np.int8).astype(np.float64) * scale


def read_vectors(connection: Any, table: sa.Table, space_id: str, ids: Sequence[str]) -> dict[str, FloatArray]:
    """Return the vectors of those of the items, or of the keys of queries, that have one."""
    key = key_of_table(table)
    rows = rows_with(connection, table, (key, "vector", "scale"), space_id, key, ids)
    return {id: restored(data, scale) for id, data, scale in rows if data is not None}


def with_vector(connection: Any, table: sa.Table, space_id: str, ids: Sequence[str]) -> dict[str, bool]:
    """Return whether each of the items, or of the keys of queries, has a vector, for those that are in the table."""
    key = key_of_table(table)
    rows = rows_with(connection, table, (key, "vector IS NOT NULL"), space_id, key, ids)
    return {id: bool(has) for id, has in rows}


def add_rows(
    connection: Any, table: sa.Table, space_id: str, rows: dict[str, dict[str, Any]], settings: Settings
) -> set[str]:
    """Write rows of items or queries by their keys; one that has a vector keeps it. Return those that got their first.

    The vectors of the rows are as they came, or None. ValueError is raised if one is not of the width of the space.
    """
    key, known = key_of_table(table), with_vector(connection, table, space_id, list(rows))
    first = {
        id: stored(row["vector"], settings)
        for id, row in rows.items()
        if row["vector"] is not None and not known.get(id)
    }
    names = [name for name in next(iter(rows.values()), {}) if name != "vector"]
    columns = ("space", key, "tries", "vector", "scale", *names)
    for ids, changing in ((rows.keys() - known.keys(), ()), (first.keys() & known.keys(), ("vector", "scale"))):
        values = [
            (space_id, id, 0, *first.get(id, (None, None)), *(rows[id][name] for name in names)) for id in sorted(ids)
        ]
        insert_rows(connection, table, columns, values, changing)
    return set(first)


def key_of_table(table: sa.Table) -> str:
    """Return the name of the column that has the id of an item, or the key of a query."""
    return "key" if "key" in table.c else "id"

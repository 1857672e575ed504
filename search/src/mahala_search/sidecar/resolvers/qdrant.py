"""Vectors from Qdrant, by its own client."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
from qdrant_client import QdrantClient, models

from mahala_search.arrays import FloatArray


class QdrantResolver:
    """Finds vectors of points by their ids, or by a field of their payload.

    Parameters
    ----------
    collection : its name
    vector : name of the vector, where points have several
    field : field of the payload that has the ids; None: ids are those of the points, numbers or UUIDs
    options : as of `qdrant_client.QdrantClient`: url, api_key, ...
    """

    def __init__(self, collection: str, vector: str | None = None, field: str | None = None, **options: Any) -> None:
        self._client = QdrantClient(**options)
        self._collection, self._vector, self._field = collection, vector, field

    def vectors(self, ids: Sequence[str]) -> dict[str, FloatArray]:
        """Return the vectors of those of the items that are there."""
        with_vectors: Any = True if self._vector is None else [self._vector]
        if self._field is None:
            points: Any = self._client.retrieve(
                self._collection, [point for id in ids if (point := point_id(id)) is not None], with_payload=False,
                with_vectors=with_vectors,
            )  # fmt: skip
            named = {str(point.id): point for point in points}
        else:
            matches = models.FieldCondition(key=self._field, match=models.MatchAny(any=list(ids)))
            points, _ = self._client.scroll(
                self._collection, models.Filter(must=[matches]), limit=len(ids), with_payload=[self._field],
                with_vectors=with_vectors,
            )  # fmt: skip
            named = {str(point.payload[self._field]): point for point in points}
        vectors = {
            id: point.vector if self._vector is None else point.vector[self._vector] for id, point in named.items()
        }
        return {id: np.array(vector, dtype=np.float64) for id, vector in vectors.items() if vector is not None}

    def close(self) -> None:
        """Close the client."""
        self._client.close()


def point_id(id: str) -> int | str | None:
    """Return the id of a point, a number or a UUID, or None: Qdrant would refuse all ids beside another one.

    >>> point_id("17"), point_id("017"), point_id("5c56c793-69f3-4fbf-87e6-c4bf54c28c26")
    (17, None, '5c56c793-69f3-4fbf-87e6-c4bf54c28c26')
    """
    if id.isdecimal():
        return int(id) if str(int(id)) == id and int(id) < 2**64 else None
    with contextlib.suppress(ValueError):
        return id if str(uuid.UUID(id)) == id else None
    return None

"""Vectors from OpenSearch or Elasticsearch, whose `_mget` is the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import numpy as np

from mahala_search.arrays import FloatArray


class OpenSearchResolver:
    """Finds vectors in a field of documents.

    Parameters
    ----------
    url : of the cluster
    index : its name
    vector : field of the vectors
    headers : such as {"Authorization": "ApiKey ..."}; a name and a password may be in the URL
    """

    def __init__(
        self, url: str, index: str, vector: str = "embedding", headers: Mapping[str, str] | None = None
    ) -> None:
        self._client = httpx.Client(base_url=url, headers=headers, timeout=10.0)
        self._index, self._vector = index, vector
        self._more: dict[str, str] = {}

    def vectors(self, ids: Sequence[str]) -> dict[str, FloatArray]:
        """Return the vectors of those of the items that are there."""
        documents = self._read(ids)
        result = {one["_id"]: vector for one in documents if (vector := self._vector_of(one)) is not None}
        if documents and not result and not self._more:
            # Elasticsearch leaves vectors out since 9.2 unless it is told not to; earlier ones refuse that parameter.
            self._more = {"_source_exclude_vectors": "false"}
            try:
                return self.vectors(ids)
            except httpx.HTTPStatusError:
                self._more = {}
        return {id: np.array(vector, dtype=np.float64) for id, vector in result.items()}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _read(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return the documents that are there."""
        address = f"/{self._index}/_mget"
        options = {"_source_includes": self._vector} | self._more
        answer = self._client.post(address, params=options, json={"ids": list(ids)}).raise_for_status().json()
        return [one for one in answer["docs"] if one.get("found")]

    def _vector_of(self, document: Mapping[str, Any]) -> Any:
        value: Any = document.get("_source", {})
        for name in self._vector.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value

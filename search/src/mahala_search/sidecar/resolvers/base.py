"""What a resolver is, and how one is made from the settings of a space."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import httpx
import numpy as np

from mahala_search.arrays import FloatArray

# Returns the vectors of texts of queries.
Encode = Callable[[Sequence[str]], Sequence[FloatArray]]

_KINDS = {
    "qdrant": ("qdrant", "QdrantResolver"),
    "pgvector": ("pgvector", "PgvectorResolver"),
    "faiss": ("faiss_file", "FaissResolver"),
    "opensearch": ("opensearch", "OpenSearchResolver"),
    "elasticsearch": ("opensearch", "OpenSearchResolver"),
}


class Resolver(Protocol):
    """Finds vectors of items in an engine."""

    def vectors(self, ids: Sequence[str]) -> Mapping[str, FloatArray]:
        """Return the vectors of those of the items that the engine has; raise an error if it does not answer."""

    def close(self) -> None:
        """Leave the engine."""


def new_resolver(settings: Mapping[str, Any]) -> Resolver:
    """Return the resolver of some settings: its "kind", and what its class takes.

    `encoder` belongs to `new_encoder`.
    """
    values = {name: value for name, value in settings.items() if name not in ("kind", "encoder")}
    module, name = _KINDS[kind := check_kind(settings)]
    try:
        resolver: Resolver = getattr(importlib.import_module(f"mahala_search.sidecar.resolvers.{module}"), name)(
            **values
        )
    except TypeError as error:
        raise ValueError(f"the resolver {kind} cannot be made: {error}") from None
    return resolver


def check_kind(settings: Mapping[str, Any]) -> str:
    """Return the kind of the resolver of some settings."""
    kind = settings.get("kind")
    if kind not in _KINDS:
        raise ValueError(f"kind of a resolver must be one of {', '.join(_KINDS)}, got {kind!r:.40}")
    return str(kind)


def new_encoder(settings: Mapping[str, Any]) -> Encode | None:
    """Return what makes vectors of texts of queries, for a successor: an address that takes {"texts": [...]}.

    It answers {"vectors": [...]} with a list of numbers for each text.
    """
    if (url := settings.get("encoder")) is None:
        return None

    def encode(texts: Sequence[str]) -> Sequence[FloatArray]:
        answer = httpx.post(url, json={"texts": list(texts)}, timeout=60.0).raise_for_status().json()
        return [np.array(vector, dtype=np.float64) for vector in answer["vectors"]]

    return encode

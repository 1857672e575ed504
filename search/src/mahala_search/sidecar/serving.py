"""Served: what a space serves, in the sidecar and in the process of a client. It needs NumPy only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from mahala_search.adapter.maps.query_maps import QueryMaps
from mahala_search.adapter.memory.bonuses import NO_BONUS, PLACES
from mahala_search.adapter.memory.remembered import digest_of
from mahala_search.adapter.trust.signals import ENGINE, check_signals
from mahala_search.arrays import FloatArray
from mahala_search.sidecar.experiment.arms import arm_of
from mahala_search.sidecar.records import Control, Model, Space, key_of


class Boost(NamedTuple):
    """What is added to the score of an item, and how many places it may gain by that; None: any number."""

    id: str
    add: float
    places: int | None


@dataclass(frozen=True)
class Served:
    """A version of the maps of a space, with what is needed to apply them to queries.

    >>> served = Served("7f", 2, "cosine", b"salt", Control())
    >>> served.embed(np.array([[3.0, 4.0]]))[0]
    array([[3., 4.]])
    """

    space: str  # its id
    width: int
    similarity: str
    salt: bytes  # of keys
    control: Control
    version: int = 0
    maps: QueryMaps | None = None
    names: Sequence[str] = field(default=(), repr=False)

    @classmethod
    def of(cls, space: Space, salt: bytes, model: Model) -> Self:
        """Return what a space serves with a model."""
        from safetensors.numpy import load

        maps = QueryMaps.from_arrays(load(model.maps)) if model.maps else None
        settings = space.settings
        numbers = settings.width, settings.similarity, salt, settings.control
        served = cls(space.id, *numbers, model.version, maps, model.names)
        len(served._ids)  # made here, and not in the first search that needs it
        return served

    def to_bytes(self) -> bytes:
        """Return it as a safetensors file, for `from_bytes`."""
        from safetensors.numpy import save

        about = {"space": self.space, "width": self.width, "similarity": self.similarity, "version": self.version}
        about |= {"salt": self.salt.hex(), "control": asdict(self.control), "names": list(self.names)}
        arrays = {} if self.maps is None else self.maps.to_arrays()
        return save(arrays, {"served": json.dumps(about)})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return what `to_bytes` was called on."""
        from safetensors.numpy import load

        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        about = json.loads(header["__metadata__"]["served"])
        about |= {"salt": bytes.fromhex(about["salt"]), "control": Control(**about["control"])}
        arrays = load(data)
        return cls(**about, maps=QueryMaps.from_arrays(arrays) if arrays else None)

    def vector(self, values: ArrayLike, name: str = "vector") -> FloatArray:
        """Return a vector of the width of the space; raise ValueError if it is not one of finite numbers."""
        vector = np.asarray(values, dtype=np.float64)
        if vector.shape != (self.width,):
            numbers = len(vector) if vector.ndim == 1 else f"the shape {vector.shape}"
            raise ValueError(f"{name} must have {self.width} numbers, got {numbers}")
        if not np.isfinite(vector).all():
            raise ValueError(f"{name} must have finite numbers")
        return vector

    def query_key(self, id: str | None, vector: FloatArray | None) -> str:
        """Return the key of a query, by its id or else by its vector."""
        if id is None and vector is not None:
            id = "\0" + vector.astype("<f4").tobytes().hex()
        return key_of(self.salt, id or "")

    def user_key(self, id: str | None) -> str | None:
        return None if id is None else key_of(self.salt, id)

    def arm(self, who: str) -> str | None:
        """Return the arm of a user's key or of a search; None if nothing is compared."""
        if self.control.share == 0.0 or self.maps is None or self.control.mode == "team":
            return None
        return arm_of(self.control, self.space, who)

    @cached_property
    def _ids(self) -> dict[int, str]:
        return {digest_of(name): name for name in self.names}

    def embed(self, queries: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the vectors to search with, and what their scores were divided by.

        If the engine compares by the cosine, the maps are those of unit vectors, and so are the vectors returned.
        """
        if self.maps is None:
            return queries, np.ones(len(queries))
        rows = _unit(queries)[0] if self.similarity == "cosine" else queries
        mapped = self.maps.embed(rows)
        return _unit(mapped) if self.similarity == "cosine" else (mapped, np.ones(len(rows)))

    def boosts(self, vector: FloatArray, key: str, scale: float = 1.0) -> list[Boost]:
        """Return the boosts of the items that are remembered for a query, the largest first."""
        if self.maps is None:
            return []
        bonus = self.maps.bonus(vector, key)
        columns = bonus.items.tolist(), (bonus.values / scale).tolist(), bonus.is_held.tolist()
        boosts = [
            Boost(self._ids[digest], value, PLACES if is_held else None)
            for digest, value, is_held in zip(*columns, strict=True)
            if digest in self._ids and value != 0.0
        ]
        return sorted(boosts, key=lambda boost: -boost.add)

    def rerank(
        self,
        query: FloatArray,
        key: str,
        ids: Sequence[str],
        signals: Mapping[str, Sequence[float | None]],
        vectors: Mapping[str, FloatArray],
    ) -> tuple[list[int], list[float]]:
        """Return the numbers of candidates, best first, and their scores in that order.

        Parameters
        ----------
        signals : of each candidate by name; "score" is that of the engine
        vectors : of candidates; one without has no similarity, to which its boost would be added
        """
        numbers, weights, bonus = check_signals(signals, len(ids)), ENGINE, NO_BONUS
        similarity, keys = np.full(len(ids), np.nan), np.array([digest_of(id) for id in ids], dtype=np.uint64)
        if self.maps is not None:
            weights, bonus = self.maps.signals, self.maps.bonus(query, key)
            mapped, scale = self.embed(query[np.newaxis])
            bonus = bonus._replace(values=bonus.values / scale[0])
            for at, id in enumerate(ids):
                if id in vectors:
                    item = vectors[id]
                    item = _unit(item[np.newaxis])[0][0] if self.similarity == "cosine" else item
                    similarity[at] = item @ mapped[0]
        order, scores = weights.rank(numbers, similarity, bonus, keys)
        return order.tolist(), scores.tolist()


def _unit(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return rows of length 1, and the lengths that they had; rows of zeros stay."""
    lengths = np.linalg.norm(rows, axis=1)
    lengths[lengths == 0.0] = 1.0
    return rows / lengths[:, np.newaxis], lengths

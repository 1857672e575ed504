"""What a process serves of a collection: its items, the maps of one version of the models, and encoded texts."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load

from mahala.feedback.query_maps import QueryMaps
from mahala.serve.index.searching import Found, Index
from mahala.serve.learning.judged_pairs import JudgedPairs
from mahala.serve.store.checkpoints import Checkpoints, Version
from mahala.serve.store.records import Collection
from mahala.serve.store.store import Store
from mahala.support.arrays import FloatArray


class Query(NamedTuple):
    """A query that was resolved: its vector, its row if it is an item, and the id by which it is known."""

    vector: FloatArray
    row: int | None = None
    id: str | None = None


class Model(NamedTuple):
    """One version of the learned maps. Version 0, without maps, is the plain ranking."""

    version: int
    maps: QueryMaps | None
    told: dict[str, Any]
    place: int = 0

    def embed(self, query: Query) -> FloatArray:
        """Return the vector to search with."""
        return query.vector if self.maps is None else self.maps.embed(query.vector, query.id)


PLAIN = Model(0, None, {})


class Served:
    """The state of one collection in this process, which follows the database."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.index = Index(collection.name, collection.width, collection.n_rows)
        self.pairs = JudgedPairs(collection.name)
        self.model = PLAIN
        self._stamp: tuple[int, int | None, int, str] | None = None
        self._lock = threading.Lock()

    def refresh(self, collection: Collection, store: Store, checkpoints: Checkpoints) -> None:
        """Take in new items, and the version that is to be served."""
        with self._lock:
            if collection.change != self.index.change:
                self.index.refresh(store, collection.change)
            stamp = (collection.version, collection.pinned, collection.generation, served_learner(collection))
            if stamp != self._stamp:  # so often asked, and nearly always the same
                wanted = collection.pinned != 0 and collection.version > 0
                self.model = read_model(checkpoints, collection.name, stamp[-1]) if wanted else PLAIN
                self._stamp = stamp
            self.collection = collection

    def ranked(self, query: Query, model: Model, k: int, keep: Any = None) -> list[Found]:
        """Return the k best items for a query, which is left out itself."""
        return self.index.search(model.embed(query), k, keep, -1 if query.row is None else query.row)

    def explain(self, query: Query, row: int, n: int) -> dict[str, Any]:
        """Return how a score comes about: the plain part, the learned part, and the features and directions of it."""
        x, z, maps = query.vector, self.index.vector(row), self.model.maps
        plain = float(x @ z)
        told: dict[str, Any] = {"score": plain, "plain": plain, "learned": 0.0, "features": [], "directions": []}
        if maps is None:
            return told
        known = maps.is_known(x, query.id)
        changed = (maps.known if known else maps.new).astype(np.float64) @ z - z  # (M - I) z
        learned = x * changed
        _, left = maps.known_directions if known else maps.new_directions
        directions = (x @ left) * (changed @ left)  # with the right vectors and the values in (M - I) z
        told |= {"score": plain + float(learned.sum()), "learned": float(learned.sum())}
        for name, shares in (("features", learned), ("directions", directions)):
            order = np.argsort(-np.abs(shares), kind="stable")[:n]
            told[name] = [{"number": int(at), "contribution": float(shares[at])} for at in order]
        return told

    def spectrum(self, n: int) -> dict[str, list[float]]:
        """Return the n largest singular values of M - I for new and for known queries; none of the plain ranking."""
        maps = self.model.maps
        if maps is None:
            return {"new": [], "known": []}
        return {"new": maps.new_directions[0][:n].tolist(), "known": maps.known_directions[0][:n].tolist()}


def served_learner(collection: Collection) -> str:
    """Return the name of the learner that is served: the one that the settings name, or the first."""
    return str(collection.settings.get("served") or next(iter(collection.settings.get("learners") or ["adapter"])))


def read_model(checkpoints: Checkpoints, name: str, learner: str) -> Model:
    """Return the version that is to be served."""
    found = checkpoints.served(name, learner)
    return PLAIN if found is None else model_of(*found)


def model_of(version: Version, data: bytes | None) -> Model:
    """Return a version as it is served; one in which nothing was learned is the plain ranking under its number."""
    maps = None if data is None else QueryMaps.from_arrays(load(data))
    return Model(version.version, maps, version.told, version.place)

"""ServedCollection: the items of a collection in memory, and the version of its maps that ranks them."""

import threading
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load

from mahala.answers import candidates, usefulness
from mahala_search.adapter.maps.query_maps import QueryMaps
from mahala_search.adapter.trust.signals import ENGINE, Signals
from mahala_search.arrays import FloatArray, IndexArray
from mahala_search.serve.index.item_index import Found, Index
from mahala_search.serve.store.checkpoints import Checkpoints
from mahala_search.serve.store.collection_store import Store
from mahala_search.serve.store.database import Conflict
from mahala_search.serve.store.rows import Collection, LogEntry

# Questions among which one is chosen, and items with the other verdict that a judged pair is compared with at most.
N_CANDIDATES, MOST = 500, 10


class Query(NamedTuple):
    """A query: its vector, its row if it is an item, and the id of the query."""

    vector: FloatArray
    row: int | None = None
    id: str | None = None

    @property
    def stored_vector(self) -> FloatArray | None:
        """The vector, unless the row says it."""
        return None if self.row is not None else self.vector


class ServedModel(NamedTuple):
    """One version of the learned maps. Version 0, without maps, is the plain ranking."""

    version: int
    maps: QueryMaps | None
    status: dict[str, Any]
    place: int = 0

    def embed(self, query: Query) -> FloatArray:
        """Return the vector to search with."""
        return query.vector if self.maps is None else self.maps.embed(query.vector, query.id)


PLAIN_MODEL = ServedModel(0, None, {})


class JudgedPairs:
    """What each user judged in the log of a collection: for each query, items and the last verdict on each."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._generation = self._place = 0
        self._verdicts: dict[Hashable, dict[int, float]] = {}

    def contrast(self, store: Store, generation: int, entry: LogEntry) -> list[int]:
        """Return rows on which the user had the other verdict for the same query, and remember the entry.

        Verdicts of other users are not used: they could not be forgotten with them.
        """
        with self._lock:
            if generation != self._generation:  # entries were deleted
                self._generation, self._place, self._verdicts = generation, 0, {}
            for pair in store.read_log(self.name, self._place, kind="pair"):
                self._take(pair)
                self._place = pair.place
            return [row for row, verdict in self._take(entry).items() if verdict != entry.clicked[0]][-MOST:]

    def _take(self, entry: LogEntry) -> dict[int, float]:
        query = entry.query if entry.vector is None else entry.vector.tobytes()
        verdicts = self._verdicts.setdefault((entry.user, query if entry.query_id is None else entry.query_id), {})
        verdicts.pop(entry.shown[0], None)  # the latest come last
        verdicts[entry.shown[0]] = entry.clicked[0]
        return verdicts


class ServedCollection:
    """The state of one collection in this process, which follows the database."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.index = Index(collection.name, collection.width, collection.n_rows)
        self.pairs = JudgedPairs(collection.name)
        self.model = PLAIN_MODEL
        self._stamp: tuple[int, int | None, int, str] | None = None
        self._lock = threading.Lock()

    def refresh(self, collection: Collection, store: Store, checkpoints: Checkpoints) -> None:
        """Take in new items, and the version that is to be served."""
        with self._lock:
            if collection.change != self.index.change:
                self.index.refresh(store, collection.change)
            stamp = (collection.version, collection.pinned, collection.generation, collection.served_learner)
            if stamp != self._stamp:
                self.model = self._read_model(collection, checkpoints)
                self._stamp = stamp
            self.collection = collection

    @staticmethod
    def _read_model(collection: Collection, checkpoints: Checkpoints) -> ServedModel:
        """Return the version to serve; one in which nothing was learned is the plain ranking under its number."""
        is_plain = collection.pinned == 0 or collection.version == 0
        served = None if is_plain else checkpoints.served(collection.name, collection.served_learner)
        if served is None:
            return PLAIN_MODEL
        version, data = served
        maps = None if data is None else QueryMaps.from_arrays(load(data))
        return ServedModel(version.version, maps, version.status, version.place)

    def status(self) -> dict[str, Any]:
        """Return what is served, the status of each learner, and which one is ahead, as JSON."""
        collection, model = self.collection, self.model
        return {
            "version": model.version, "pinned": collection.pinned is not None, "served": collection.served_learner,
            "items": len(self.index), "graph": 0 if self.index.graph is None else self.index.graph.n,
            "logged": collection.n_logged, "learned": model.place, "learners": model.status.get("learners", {}),
            "differences": model.status.get("differences", []), "taught": model.status.get("taught"),
        }  # fmt: skip

    def ranked(
        self, query: Query, model: ServedModel, k: int, keep: Any = None, user: str | None = None
    ) -> list[Found]:
        """Return the k best items for a query of a user; an item that is the query is left out.

        To a query of zeros, such as words that an encoder does not know, nothing is similar: there are no results.
        """
        if not query.vector.any():
            return []
        bonuses, leave_out = self._bonuses(query, model, user), -1 if query.row is None else query.row
        return self.index.search_with_bonuses(model.embed(query), k, bonuses, keep, leave_out)

    def reranked(
        self,
        query: Query,
        model: ServedModel,
        rows: Sequence[int | None],
        vectors: Sequence[FloatArray | None],
        signals: Signals,
        user: str | None = None,
    ) -> tuple[IndexArray, FloatArray]:
        """Return the numbers of candidates, best first, and their scores in that order.

        A candidate is a row, or None with a vector; without either, its similarity is missing.
        """
        x, bonuses, similarity = model.embed(query), self._bonuses(query, model, user), np.full(len(rows), np.nan)
        for at, (row, vector) in enumerate(zip(rows, vectors, strict=True)):
            if row is not None:
                similarity[at] = self.index.vector(row) @ x + bonuses.get(row, 0.0)
            elif vector is not None:
                similarity[at] = vector @ x
        weights = ENGINE if model.maps is None else model.maps.signals
        return weights.rank(signals | {"similarity": similarity})

    def _bonuses(self, query: Query, model: ServedModel, user: str | None) -> dict[int, float]:
        """Return by row what is added to the scores of the live items that are remembered for a query."""
        result: dict[int, float] = {}
        if model.maps is not None:
            rows, values = model.maps.bonuses(query.vector, query.id, user)
            for row, value in zip(rows.tolist(), values.tolist(), strict=True):
                if (live := self.index.current_row(row)) is not None:
                    result[live] = max(value, result.get(live, value))
        return result

    def explain(self, query: Query, row: int, n: int, user: str | None = None) -> dict[str, Any]:
        """Return the plain, the learned and the remembered part of a score, and what the learned part comes from."""
        x, z, maps = query.vector, self.index.vector(row), self.model.maps
        plain = float(x @ z)
        parts: dict[str, Any] = {"score": plain, "plain": plain, "learned": 0.0, "features": [], "directions": []}
        parts["remembered"] = self._bonuses(query, self.model, user).get(row, 0.0)
        if maps is None:
            return parts
        is_known = maps.is_known(x, query.id)
        changed = (maps.known if is_known else maps.new) @ z - z  # (M - I) z
        learned = x * changed
        _, left = maps.known_directions if is_known else maps.new_directions
        directions = (x @ left) * (changed @ left)  # with the right vectors and the values in (M - I) z
        parts["learned"] = float(learned.sum())
        parts["score"] = plain + parts["learned"] + parts["remembered"]
        for name, shares in (("features", learned), ("directions", directions)):
            order = np.argsort(-np.abs(shares), kind="stable")[:n]
            parts[name] = [{"number": int(at), "contribution": float(shares[at])} for at in order]
        return parts

    def spectrum(self, n: int) -> dict[str, list[float]]:
        """Return the n largest singular values of M - I for new and for known queries; none of the plain ranking."""
        maps = self.model.maps
        if maps is None:
            return {"new": [], "known": []}
        return {"new": maps.new_directions[0][:n].tolist(), "known": maps.known_directions[0][:n].tolist()}

    def question(self) -> tuple[Found, Found, Found]:
        """Return an item and two others to compare it with, in random order; raise Conflict unless there are three.

        Of random questions, it is the one whose answer teaches most.
        """
        rng, index, model = np.random.default_rng(), self.index, self.model
        rows = index.rows()
        if len(rows) < 3:
            raise Conflict(f"a question needs three items, but there are {len(rows)}")
        questions = rows[candidates(len(rows), N_CANDIDATES, rng)]
        queries, left, right = (index.vectors(column.tolist()) for column in questions.T)
        raw = np.einsum("ij,ij->i", queries, left - right)
        mapped = queries if model.maps is None else queries @ model.maps.new
        useful = usefulness(raw, np.einsum("ij,ij->i", mapped, left - right), float(np.median(np.abs(raw))))
        query, *others = questions[int(useful.argmax())].tolist()
        rng.shuffle(others)
        first, second = others
        return index.item(query), index.item(first), index.item(second)

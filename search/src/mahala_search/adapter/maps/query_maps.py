"""What a QueryAdapter serves, to be applied elsewhere: maps of queries, and items that are remembered for them."""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala_search.adapter.memory.click_memory import NOTHING, Bonuses, personal_key, summed
from mahala_search.adapter.memory.remembered import digest_of
from mahala_search.adapter.trust.signals import ENGINE, SignalWeights
from mahala_search.arrays import FloatArray, prefixed, without_prefix


@dataclass(frozen=True, eq=False)
class QueryMaps:
    """The matrices that map new and known queries, digests of the ids of the known ones, and remembered items.

    It needs NumPy only, so that a process which serves starts without the learner.

    >>> maps = QueryMaps(np.eye(2), 2.0 * np.eye(2), np.array([digest_of("jazz")], dtype=np.uint64))
    >>> maps.embed(np.array([1.0, 3.0]), "jazz"), maps.embed(np.array([1.0, 3.0]), "blues")
    (array([2., 6.]), array([1., 3.]))
    """

    new: FloatArray
    known: FloatArray
    ids: NDArray[np.uint64]
    crowd: Bonuses = NOTHING
    personal: Bonuses = NOTHING
    weights: FloatArray = field(default_factory=lambda: np.zeros(2))  # of a click by anyone, and by the same user
    signals: SignalWeights = ENGINE

    @cached_property
    def _ids(self) -> NDArray[np.uint64]:
        return np.sort(self.ids)  # in less than a tenth of the time that a set takes

    def is_known(self, query: FloatArray, query_id: Hashable = None) -> bool:
        """Return whether a query was learned from; without an id, it is told by the vector itself."""
        digest = np.uint64(digest_of(_key(query, query_id)))
        at = np.searchsorted(self._ids, digest)
        return bool(at < len(self._ids) and self._ids[at] == digest)

    def matrix(self, query: FloatArray, query_id: Hashable = None) -> FloatArray:
        """Return the matrix M that maps a query x to Mᵀx."""
        return self.known if self.is_known(query, query_id) else self.new

    def embed(self, query: FloatArray, query_id: Hashable = None) -> FloatArray:
        """Return the vector to search with."""
        return np.asarray(query @ self.matrix(query, query_id))

    def plus(self, change: FloatArray) -> "QueryMaps":
        """Return the maps with a matrix added to both."""
        return replace(self, new=self.new + change, known=self.known + change)

    def bonuses(
        self, query: FloatArray, query_id: Hashable = None, user: Hashable = None
    ) -> tuple[NDArray[np.uint64], FloatArray]:
        """Return the keys of the items that are remembered for a query in ascending order, and their bonuses.

        With a `user`, what this user clicked counts as well.
        """
        key = _key(query, query_id)
        items, clicks = (self.crowd if self.is_known(query, query_id) else NOTHING).of(key)
        crowd = items, self.weights[0] * clicks
        if user is None:
            return crowd
        items, clicks = self.personal.of(personal_key(user, key))
        return summed(crowd, (items, self.weights[1] * clicks))

    @cached_property
    def new_directions(self) -> tuple[FloatArray, FloatArray]:
        """The singular values of M - I for new queries, largest first, and the left singular vectors as columns."""
        return _directions(self.new)

    @cached_property
    def known_directions(self) -> tuple[FloatArray, FloatArray]:
        """The same for known queries."""
        return _directions(self.known)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all of it as arrays, the matrices in single precision."""
        maps: dict[str, NDArray[Any]] = {name: getattr(self, name).astype(np.float32) for name in ("new", "known")}
        remembered = prefixed("crowd", self.crowd._asdict()) | prefixed("personal", self.personal._asdict())
        remembered |= prefixed("signals", self.signals.to_arrays())
        return maps | {"ids": self.ids, "weights": self.weights} | remembered

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> "QueryMaps":
        """Return what `to_arrays` was called on, with numbers of single precision."""
        crowd, personal = (Bonuses.from_arrays(without_prefix(name, arrays)) for name in ("crowd", "personal"))
        weights = arrays.get("weights", np.zeros(2))
        signals = SignalWeights.from_arrays(without_prefix("signals", arrays))
        new, known = (arrays[name].astype(np.float64) for name in ("new", "known"))  # once, and not for each query
        return cls(new, known, arrays["ids"], crowd, personal, weights, signals)


def _key(query: FloatArray, query_id: Hashable) -> Hashable:
    """Return what tells a query apart: its id, or else its vector."""
    return query.astype(np.float64).tobytes() if query_id is None else query_id


def _directions(M: FloatArray) -> tuple[FloatArray, FloatArray]:
    change = M - np.eye(len(M))
    squares, left = np.linalg.eigh(change @ change.T)  # in half the time of the whole decomposition
    return np.sqrt(np.maximum(squares[::-1], 0.0)), left[:, ::-1]

"""QueryMaps: what a QueryAdapter serves at a moment, to be applied elsewhere."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala.feedback.remembered import digest_of
from mahala.support.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class QueryMaps:
    """The matrices that map new and known queries, and digests of the ids of the known ones.

    It needs NumPy only, so that a process which serves starts without the learner.

    >>> maps = QueryMaps(np.eye(2), 2.0 * np.eye(2), np.array([digest_of("jazz")], dtype=np.uint64))
    >>> maps.embed(np.array([1.0, 3.0]), "jazz"), maps.embed(np.array([1.0, 3.0]), "blues")
    (array([2., 6.]), array([1., 3.]))
    """

    new: FloatArray
    known: FloatArray
    ids: NDArray[np.uint64]

    @cached_property
    def _ids(self) -> NDArray[np.uint64]:
        return np.sort(self.ids)  # in less than a tenth of the time that a set takes

    def is_known(self, query: FloatArray, query_id: Hashable = None) -> bool:
        """Return whether a query was learned from; without an id, it is told by the vector itself."""
        own = np.uint64(digest_of(query.astype(np.float64).tobytes() if query_id is None else query_id))
        at = np.searchsorted(self._ids, own)
        return bool(at < len(self._ids) and self._ids[at] == own)

    def matrix(self, query: FloatArray, query_id: Hashable = None) -> FloatArray:
        """Return the matrix M that maps a query x to Mᵀx."""
        return self.known if self.is_known(query, query_id) else self.new

    def embed(self, query: FloatArray, query_id: Hashable = None) -> FloatArray:
        """Return the vector to search with."""
        return np.asarray(query @ self.matrix(query, query_id))

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
        return {"new": self.new.astype(np.float32), "known": self.known.astype(np.float32), "ids": self.ids}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> QueryMaps:
        """Return what `to_arrays` was called on, in single precision."""
        return cls(arrays["new"], arrays["known"], arrays["ids"])


def _directions(M: FloatArray) -> tuple[FloatArray, FloatArray]:
    change = M.astype(np.float64) - np.eye(len(M))
    squares, left = np.linalg.eigh(change @ change.T)  # in half the time of the whole decomposition
    return np.sqrt(np.maximum(squares[::-1], 0.0)), left[:, ::-1]

"""What a QueryAdapter serves, to be applied elsewhere, and the ids of the queries that are known."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala.support.arrays import Arrays, FloatArray
from mahala.support.model_files import ModelFileError, array_value

_MOST = 2**62  # of a count in a file: one more must fit into 64 bits


def digest_of(id: Hashable) -> int:
    """Return 64 bits by which an id is told apart."""
    if isinstance(id, np.generic):  # the same id as the number or string of Python
        id = id.item()
    data = id if isinstance(id, bytes) else repr(id).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


class Remembered:
    """How often each id was seen, for the `size` ids that were seen last (least recently used ones are forgotten).

    An id is any hashable. It is told apart by 64 bits of its `repr` (of the bytes themselves, if it is bytes), so a
    model file remembers ids whose `repr` is the same in every process, as that of numbers, strings and tuples is.

    >>> names = Remembered(size=2)
    >>> [names.add(name) for name in ("a", "b", "a", "c")]
    [1, 1, 2, 1]
    >>> "a" in names, "b" in names
    (True, False)
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._counts: OrderedDict[int, int] = OrderedDict()

    def __contains__(self, id: Hashable) -> bool:
        return digest_of(id) in self._counts

    def add(self, id: Hashable) -> int:
        """Remember an id; return how often it was seen."""
        key = digest_of(id)
        count = self._counts[key] = self._counts.pop(key, 0) + 1
        if len(self._counts) > self.size:
            self._counts.popitem(last=False)
        return count

    @property
    def digests(self) -> NDArray[np.uint64]:
        """The digests of the ids, those that were seen last at the end."""
        return np.array(list(self._counts), dtype=np.uint64)

    def get_state(self) -> tuple[dict[str, object], Arrays]:
        """Return the memory as a header and arrays for a model file."""
        return {}, {"digests": self.digests, "counts": np.array(list(self._counts.values()), dtype=np.int64)}

    def set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Restore what `get_state` returned."""
        digests = array_value(arrays, "digests", np.uint64, (None,))
        counts = array_value(arrays, "counts", np.int64, digests.shape)
        if len(digests) > self.size or ((counts < 1) | (counts > _MOST)).any():
            raise ModelFileError(f"the ids should be up to {self.size} digests, each with a count from 1 to {_MOST}")
        self._counts = OrderedDict(zip(digests.tolist(), counts.tolist(), strict=True))


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
        digest = np.uint64(digest_of(query.astype(np.float64).tobytes() if query_id is None else query_id))
        at = np.searchsorted(self._ids, digest)
        return bool(at < len(self._ids) and self._ids[at] == digest)

    def matrix(self, query: FloatArray, query_id: Hashable = None) -> FloatArray:
        """Return the matrix M that maps a query x to Mᵀx."""
        return self.known if self.is_known(query, query_id) else self.new

    def embed(self, query: FloatArray, query_id: Hashable = None) -> FloatArray:
        """Return the vector to search with."""
        return np.asarray(query @ self.matrix(query, query_id))

    def plus(self, change: FloatArray) -> QueryMaps:
        """Return the maps with a matrix added to both."""
        return QueryMaps(self.new + change, self.known + change, self.ids)

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

"""Ids by their digests, and how often each was seen, for a bounded number of them."""

import hashlib
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala import ModelFileError
from mahala.extend import array_value
from mahala_search.arrays import Arrays

_MOST = 2**62  # of a count in a file: one more must fit into 64 bits


class Digest(int):
    """64 bits by which an id is told apart; it is its own digest."""

    __slots__ = ()


def digest_of(id: Hashable) -> Digest:
    """Return 64 bits by which an id is told apart."""
    if isinstance(id, Digest):
        return id
    if isinstance(id, np.generic):  # the same id as the number or string of Python
        id = id.item()
    data = id if isinstance(id, bytes) else repr(id).encode()
    return Digest.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


class Remembered:
    """How often each id was seen, for the `size` ids that were seen last (least recently used ones are forgotten).

    An id is any hashable. It is told apart by 64 bits of its `repr` (of the bytes themselves, if it is bytes), so a
    model file remembers ids whose `repr` is the same in every process, as that of numbers, strings and tuples is.

    >>> names = Remembered(size=2)
    >>> [names.add(name) for name in ("a", "b", "a", "c")]
    [1, 1, 2, 1]
    >>> len(names.digests)
    2
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._counts: OrderedDict[int, int] = OrderedDict()

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
        return np.fromiter(self._counts, np.uint64, len(self._counts))

    def get_state(self) -> tuple[dict[str, object], Arrays]:
        """Return the memory as a header and arrays for a model file."""
        return {}, {"digests": self.digests, "counts": np.fromiter(self._counts.values(), np.int64)}

    def set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Restore what `get_state` returned."""
        digests = array_value(arrays, "digests", np.uint64, (None,))
        counts = array_value(arrays, "counts", np.int64, digests.shape)
        if len(digests) > self.size or ((counts < 1) | (counts > _MOST)).any():
            raise ModelFileError(f"the ids should be up to {self.size} digests, each with a count from 1 to {_MOST}")
        self._counts = OrderedDict(zip(digests.tolist(), counts.tolist(), strict=True))

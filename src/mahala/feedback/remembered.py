"""A bounded memory of ids."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala.support.model_files import ModelFileError

_MOST = 2**62  # of a count in a file: one more must fit into 64 bits


class Remembered:
    """How often each id was seen, for the `size` ids that were seen last (least recently used ones are forgotten).

    An id is any hashable. It is told apart by 64 bits of its `repr` (of the bytes themselves, if it is bytes), so a
    model file remembers ids whose `repr` is the same in every process, as that of numbers, strings and tuples is.

    >>> known = Remembered(size=2)
    >>> [known.add(name) for name in ("a", "b", "a", "c")]
    [1, 1, 2, 1]
    >>> "a" in known, "b" in known
    (True, False)
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._counts: OrderedDict[int, int] = OrderedDict()

    def __contains__(self, own: Hashable) -> bool:
        return digest_of(own) in self._counts

    def add(self, own: Hashable) -> int:
        """Remember an id; return how often it was seen."""
        key = digest_of(own)
        count = self._counts[key] = self._counts.pop(key, 0) + 1
        if len(self._counts) > self.size:
            self._counts.popitem(last=False)
        return count

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the memory as arrays for a model file."""
        return {
            "digests": np.array(list(self._counts), dtype=np.uint64),
            "counts": np.array(list(self._counts.values()), dtype=np.int64),
        }

    def from_arrays(self, digests: NDArray[Any], counts: NDArray[Any]) -> None:
        """Restore what `to_arrays` returned."""
        if digests.dtype != np.uint64 or counts.dtype != np.int64 or digests.shape != counts.shape:
            raise ModelFileError("the ids should be unsigned and their counts signed integers, as many of each")
        if digests.ndim != 1 or len(digests) > self.size or ((counts < 1) | (counts > _MOST)).any():
            raise ModelFileError(f"the ids should be up to {self.size} digests, each with a count from 1 to {_MOST}")
        self._counts = OrderedDict(zip(digests.tolist(), counts.tolist(), strict=True))


def digest_of(own: Hashable) -> int:
    """Return 64 bits by which an id is told apart."""
    if isinstance(own, np.generic):  # the same id as the number or string of Python
        own = own.item()
    data = own if isinstance(own, bytes) else repr(own).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")

"""Vectors from a file of a FAISS index, read in this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from mahala_search.arrays import FloatArray


class FaissResolver:
    """Finds vectors in an index that keeps them; it is read again when its file has changed.

    Parameters
    ----------
    path : file of the index
    ids : file with the id of each vector in a line; None: ids are the numbers of the vectors
    """

    def __init__(self, path: str, ids: str | None = None) -> None:
        self._path, self._ids = path, ids
        self._stamp = 0
        self._index: Any = None
        self._numbers: dict[str, int] = {}

    def vectors(self, ids: Sequence[str]) -> dict[str, FloatArray]:
        """Return the vectors of those of the items that are there."""
        stamp = os.stat(self._path).st_mtime_ns
        if stamp != self._stamp:
            self._index = faiss.read_index(self._path)
            lines = range(self._index.ntotal) if self._ids is None else Path(self._ids).read_text("utf-8").splitlines()
            self._numbers = {str(line): number for number, line in enumerate(lines)}
            self._stamp = stamp
        numbers = {id: self._numbers[id] for id in ids if id in self._numbers}
        return {id: self._index.reconstruct(number).astype(np.float64) for id, number in numbers.items()}

    def close(self) -> None:
        """Let the index go."""
        self._index, self._stamp = None, 0

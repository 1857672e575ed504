"""Vectors of queries and items in a byte a number, by 64-bit keys."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala import ModelFileError
from mahala.extend import array_value
from mahala_search.adapter.memory.bonuses import Keys
from mahala_search.arrays import Arrays, FloatArray

_LARGEST = 127


class Vectors:
    """The first vector of each key, as int8 and a scale: enough to learn a map from.

    >>> vectors = Vectors(2)
    >>> vectors.add(np.array([7, 7], dtype=np.uint64), np.array([[1.0, -0.5], [9.0, 9.0]]))
    >>> vectors.of(np.array([7], dtype=np.uint64)).round(2)
    array([[ 1. , -0.5]], dtype=float32)
    """

    def __init__(self, n_features: int) -> None:
        self._rows: dict[int, int] = {}
        self._numbers = np.zeros((0, n_features), dtype=np.int8)
        self._scales = np.zeros(0)

    def add(self, keys: Keys, vectors: FloatArray) -> None:
        """Store the vectors of keys that are new."""
        for key, vector in zip(keys.tolist(), vectors, strict=True):
            if key not in self._rows:
                row = self._rows[key] = len(self._rows)
                if row == len(self._scales):
                    more = max(row, 16)
                    self._numbers = np.concatenate([self._numbers, np.zeros((more, len(vector)), dtype=np.int8)])
                    self._scales = np.concatenate([self._scales, np.zeros(more)])
                scale = float(np.abs(vector).max(initial=0.0)) / _LARGEST
                self._scales[row] = scale
                self._numbers[row] = np.round(vector / scale) if scale > 0.0 else 0.0

    def of(self, keys: Keys, unit: float = 1.0) -> NDArray[np.float32]:
        """Return the vectors of keys, divided by `unit`."""
        rows = np.array([self._rows[key] for key in keys.tolist()], dtype=np.intp)
        scales: NDArray[np.float32] = (self._scales[rows, np.newaxis] / unit).astype(np.float32)
        return self._numbers[rows] * scales

    def length(self, keys: Keys) -> float:
        """Return the root of the mean squared length of the vectors of keys."""
        rows = np.array([self._rows[key] for key in keys.tolist()], dtype=np.intp)
        squares = np.square(self._numbers[rows].astype(np.float32)).sum(axis=1)
        largest = float(self._scales[rows].max(initial=0.0)) or 1.0
        return largest * float(np.sqrt((squares * np.square(self._scales[rows] / largest)).mean()))

    def keep(self, keys: Keys) -> None:
        """Forget the vectors of all other keys."""
        rows = np.array([self._rows[key] for key in keys.tolist()], dtype=np.intp)
        self._numbers, self._scales = self._numbers[rows], self._scales[rows]
        self._rows = dict(zip(keys.tolist(), range(len(keys)), strict=True))

    def get_state(self) -> tuple[dict[str, object], Arrays]:
        """Return the vectors as a header and arrays for a model file."""
        n = len(self._rows)
        keys = np.fromiter(self._rows, np.uint64, n)
        return {}, {"keys": keys, "numbers": self._numbers[:n], "scales": self._scales[:n]}

    def set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Restore what `get_state` returned."""
        keys = array_value(arrays, "keys", np.uint64, (None,))
        self._numbers = array_value(arrays, "numbers", np.int8, (len(keys), self._numbers.shape[1]))
        self._scales = array_value(arrays, "scales", np.float64, keys.shape)
        self._rows = dict(zip(keys.tolist(), range(len(keys)), strict=True))
        if len(self._rows) < len(keys) or not (np.isfinite(self._scales) & (self._scales >= 0.0)).all():
            raise ModelFileError("the stored vectors should have different keys and finite scales of at least 0")

"""Rows of any kind on an engine, in parts if they are larger than its memory."""

import math

import numpy as np

from mahala.engine.map_descent import DeviceArrays
from mahala.support.arrays import DeviceArray, IndexArray, RealArray, StoredRows
from mahala.support.validation import is_chunked, is_tensor, to_numpy

# Bytes that are read in one piece.
PIECE_BYTES = 2**24


def read_rows(X: StoredRows, rows: slice | IndexArray) -> RealArray:
    """Return some rows of any kind in memory; row numbers are in ascending order."""
    if is_chunked(X):
        return np.asarray(X[rows].compute())
    if is_tensor(X) or isinstance(X, np.ndarray) or isinstance(rows, slice):
        return np.asarray(to_numpy(X[rows]))
    return np.asarray(X.oindex[rows])  # of Zarr


class RowParts:
    """Rows on an engine: all of them if its memory has room, else parts of random pieces, one part at a time."""

    def __init__(self, arrays: DeviceArrays, X: StoredRows, seed: int) -> None:
        self._arrays, self._X, self._seed = arrays, X, seed
        row_bytes = X.shape[1] * X.dtype.itemsize
        self._piece = max(1, PIECE_BYTES // row_bytes)
        n_pieces = -(-X.shape[0] // self._piece)
        self.n_parts = 1 if arrays.holds(X) else min(n_pieces, math.ceil(X.shape[0] * row_bytes / arrays.room()))

    def part(self, number: int) -> tuple[IndexArray, DeviceArray]:
        """Return the numbers of the rows of a part, and the rows; after n_parts parts all rows have been used once."""
        n = self._X.shape[0]
        if self.n_parts == 1:
            held = self._arrays.holds(self._X)
            return np.arange(n), self._arrays.place_rows(self._X if held else read_rows(self._X, slice(0, n)))
        turn, part = divmod(number, self.n_parts)
        starts = np.random.default_rng([self._seed, turn]).permutation(np.arange(0, n, self._piece))
        pieces = [slice(start, min(start + self._piece, n)) for start in sorted(starts[part :: self.n_parts])]
        numbers = np.concatenate([np.arange(piece.start, piece.stop) for piece in pieces])
        rows = np.empty((len(numbers), self._X.shape[1]), dtype=self._X.dtype)
        at = 0
        for piece in pieces:
            end = at + piece.stop - piece.start
            rows[at:end] = read_rows(self._X, piece)
            at = end
        return numbers, self._arrays.place_rows(rows)

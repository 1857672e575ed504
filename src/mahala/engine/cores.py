"""Sums on the cores of this machine: NumPy arrays, compiled functions, threads."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mahala.compiled.search.neighbors import nearest, nearest_by_class
from mahala.compiled.sums.pair_sums import sum_between, sum_within
from mahala.compiled.sums.softmax_sums import sum_softmax
from mahala.compiled.threads import PER_NUMBER, in_rows, n_threads, product, transposed_product
from mahala.engine.edges import EdgeGraph
from mahala.engine.hinges import RowHinges
from mahala.engine.minibatches import Minibatches
from mahala.support.arrays import IndexArray, RealArray, memory_limit

# How much of this machine's memory rows may take that are read from elsewhere.
SHARE_OF_MEMORY = 0.5


class CoreArrays:
    """The arrays of minibatches: NumPy's, in float32."""

    xp: Any = np

    def place(self, X: Any) -> Any:
        return X

    fetch = place_rows = factors = floats = place

    def product(self, A: RealArray, B: RealArray) -> Any:
        return product(A, B)

    def holds(self, X: Any) -> bool:
        return isinstance(X, np.ndarray) and (not isinstance(X, np.memmap) or X.nbytes < self.room())

    def room(self) -> float:
        return SHARE_OF_MEMORY * memory_limit(None)

    def differences(self, rows: RealArray, left: IndexArray, right: IndexArray) -> RealArray:
        result = np.empty((len(left), rows.shape[1]), dtype=np.float32)
        dtype = np.float64 if rows.dtype == np.float64 else np.float32

        def of_part(part: slice) -> None:
            minuend = rows[left[part]].astype(dtype, copy=False)
            np.subtract(minuend, rows[right[part]], out=result[part], casting="same_kind", dtype=dtype)

        in_rows(of_part, len(left), n_threads(PER_NUMBER * result.size))
        return result


class Cores:
    """The engine that is used unless another one is chosen."""

    def place(self, X: RealArray) -> RealArray:
        return X

    def fetch(self, Z: RealArray) -> RealArray:
        return Z

    def of_images(self, function: Callable[[RealArray], Any], Z: RealArray) -> Any:
        return function(Z)

    def map(self, X: RealArray, L: RealArray) -> RealArray:
        Z: RealArray = X * L if L.ndim == 1 else product(X, L.T)
        return Z

    def gradient(self, pull: RealArray, X: RealArray, *, diagonal: bool = False) -> RealArray:
        return np.asarray(np.einsum("ij,ij->j", pull, X) if diagonal else transposed_product(pull, X))

    softmax = staticmethod(sum_softmax)
    within = staticmethod(sum_within)
    between = staticmethod(sum_between)
    hinges = RowHinges
    edge_graph = EdgeGraph
    minibatches = staticmethod(partial(Minibatches, CoreArrays()))
    nearest = staticmethod(nearest)
    nearest_by_class = staticmethod(nearest_by_class)

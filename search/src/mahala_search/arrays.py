"""Array types for annotations, and what is done to arrays in several places."""

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

RealArray = NDArray[Any]  # float32 or float64
Arrays = dict[str, NDArray[Any]]  # of a model file, by name
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
IndexArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

PagePairs = tuple[IndexArray, IndexArray, FloatArray]  # see `adapter.trust.pairs.page_pairs`

A = TypeVar("A", bound=NDArray[Any])


def slices(n: int, size: int) -> Iterator[slice]:
    """Return slices of `size` that cover 0..n-1 in order; the last one may be shorter."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def read_only(array: A) -> A:
    """Make an array read-only and return it."""
    array.flags.writeable = False
    return array


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    """Return arrays under names that begin with a prefix and a dot."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def without_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """Return those of the arrays that `prefixed` named, under their former names."""
    start = f"{prefix}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}

"""Array types for annotations, blocks of rows, and checks of the memory that arrays need."""

import functools
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from scipy.sparse import csr_array, sparray, spmatrix
    from torch import Tensor

    # What public methods take as rows: arrays, lists, data frames, tensors and rows of Dask are like arrays.
    RowsLike = ArrayLike | sparray | spmatrix
    # What checks make of them.
    Rows = NDArray[Any] | csr_array
    # Rows as they are stored: in memory or a file, on a device, or in chunks.
    StoredRows = NDArray[Any] | Tensor | DaskArray
    # What a device computes with.
    DeviceArray = NDArray[Any] | Tensor
else:
    RowsLike, Rows, StoredRows, DeviceArray = ArrayLike, NDArray[Any], NDArray[Any], NDArray[Any]

Array = NDArray[Any]  # of values of any type
Arrays = dict[str, Array]  # of a model file, by name
FloatArray = NDArray[np.float64]
RealArray = Array  # float32 or float64
IntArray = NDArray[np.int64]
IndexArray = NDArray[np.intp]
SignArray = NDArray[np.int8]  # +1 and -1
BoolArray = NDArray[np.bool_]
Places = slice | IndexArray  # of rows

A = TypeVar("A", bound=Array)

# Bytes of the float64 rows that are in work at a time.
BLOCK_BYTES = 2**25


def block_size(width: int, most_bytes: int = BLOCK_BYTES, least: int = 1) -> int:
    """The number of float64 rows of this width that fit into `most_bytes`, and `least` at the least."""
    return max(least, most_bytes // (8 * max(width, 1)))


def row_blocks(n_rows: int, width: int, most_bytes: int = BLOCK_BYTES) -> Iterator[slice]:
    """Slices that cover 0..n_rows-1 in order, each of as many rows as `block_size` allows.

    >>> list(row_blocks(5, width=2, most_bytes=32))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return slices(n_rows, block_size(width, most_bytes))


def slices(n: int, size: int) -> Iterator[slice]:
    """Slices of `size` that cover 0..n-1 in order; the last one may be shorter."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def read_only(array: A) -> A:
    """Make an array read-only and return it."""
    array.flags.writeable = False
    return array


@functools.cache
def control_group_limit(root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")) -> float:
    """Return the most bytes that the control groups of this process, and those above them, permit."""
    limit = math.inf
    with suppress(OSError, ValueError):  # where there are none
        for line in groups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            folder, name = (root / "memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
            parts = path.strip("/").split("/")
            for depth in range(len(parts) + 1):  # within a container the files of its own group are at the root
                with suppress(OSError, ValueError):  # no such file, or "max"
                    limit = min(limit, float(int(folder.joinpath(*parts[:depth], name).read_text())))
    return limit


def memory_limit(max_memory: float | None) -> float:
    """Return how many bytes may be allocated: max_memory, or else what machine, control group and `ulimit -v` leave."""
    if max_memory is not None:
        return float(max_memory)
    limit = control_group_limit()
    if hasattr(os, "sysconf"):
        limit = min(limit, float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES"))
    try:
        import resource
    except ImportError:  # Windows
        return limit
    address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
    if address_space == resource.RLIM_INFINITY:
        return limit
    in_use = 0.0
    with suppress(OSError):  # where the system does not report it
        in_use = float(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return min(limit, float(address_space) - in_use)


def check_matrices(n: int, n_rows: int, n_columns: int) -> None:
    """Raise a MemoryError with advice if there is no room for n matrices of float64 whose columns are features."""
    advice = "reduce the features first, for instance with TruncatedSVD; docs/scale.md says what each learner needs"
    check_room(8.0 * n * n_rows * n_columns, None, f"learning with {n} matrices of {n_rows} × {n_columns}", advice)


def check_room(needed: float, max_memory: float | None, what: str, advice: str) -> None:
    """Raise a MemoryError, which ends with `advice`, if `what` needs more bytes than may be allocated."""
    limit = memory_limit(max_memory)
    if needed > limit:
        have = "this machine's" if max_memory is None else "max_memory ="
        raise MemoryError(f"{what} takes {needed / 2**30:.3g} GiB, more than {have} {limit / 2**30:.3g} GiB; {advice}")

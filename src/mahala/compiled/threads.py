"""Run the blocks of a computation on the cores of this machine, each with one BLAS thread.

The blocks of a sum are given to threads in an order that depends on their number only, and blocks that write to the
same rows run in different rounds: the result is the same in every run with that number of threads.
"""

import functools
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mahala.support.arrays import FloatArray, IndexArray, RealArray, slices
from mahala.support.lazily import sp
from mahala.support.limits import one_blas_thread
from mahala.support.parameters import config_context, get_config

T = TypeVar("T")

# Multiplications that take as long as giving work to a thread, measured.
DISPATCH = 2**20
# Multiplications of a matrix product that take as long as reading and writing one number.
PER_NUMBER = 8
# Up to so many pairs of rows NumPy needs about a millisecond: compiling a kernel for them would not pay.
FEW_PAIRS = 2**15

_local = threading.local()
_pools: dict[str, tuple[int, ThreadPoolExecutor, int]] = {}


def n_threads(work: float = math.inf) -> int:
    """Return how many threads a computation of so many multiplications may use.

    That is `set_config(n_threads=...)`, else OMP_NUM_THREADS, else the number of cores that the process may use; 1 in a
    thread of ours, which would otherwise wait for itself.
    """
    if getattr(_local, "is_ours", False):
        return 1
    most = get_config()["n_threads"] or _n_from_environment() or n_cores()
    # t threads take work / t + t · DISPATCH.
    return max(1, min(int(most), int(min(work / DISPATCH, 2**40) ** 0.5)))


@functools.cache
def n_cores() -> int:
    """Return the number of cores that this process may use: its affinity, within the limit of its control group."""
    from joblib import cpu_count

    return int(cpu_count())


def _n_from_environment() -> int | None:
    text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return int(text) if text.isdecimal() and int(text) > 0 else None


@contextmanager
def one_thread() -> Iterator[None]:
    """A context in which computations and BLAS use one thread."""
    with config_context(n_threads=1), one_blas_thread():
        yield


def in_threads(function: Callable[..., T], *arguments: Iterable[Any], threads: int) -> list[T]:
    """Return what the function returns for each of the arguments, in their order.

    Thread k takes the calls k, k + threads, ...; this thread is the first of them.
    """
    calls = list(zip(*arguments, strict=True))
    threads = min(threads, len(calls))

    def share(first: int) -> list[T]:
        return [function(*call) for call in calls[first::threads]]

    with one_blas_thread():
        if threads < 2:
            return [function(*call) for call in calls]
        others = [_pool(threads - 1).submit(share, first) for first in range(1, threads)]
        before, _local.is_ours = getattr(_local, "is_ours", False), True
        try:
            results = [share(0)]
        finally:
            _local.is_ours = before
            wait(others)  # what they write to must not be used before
        results += [other.result() for other in others]
    return [results[number % threads][number // threads] for number in range(len(calls))]


def in_rows(function: Callable[[slice], T], n: int, threads: int) -> list[T]:
    """Return what the function returns for each thread's share of n rows, in their order."""
    return in_threads(function, slices(n, max(1, -(-n // threads))), threads=threads)


def in_pairs_of_blocks(function: Callable[[slice, slice], T], n: int, size: int, threads: int) -> list[T]:
    """Return what the function returns for each pair of blocks of n rows, in the rounds of `pairs_of_blocks`."""
    rounds = pairs_of_blocks(n, size, threads)
    return [result for pairs in rounds for result in in_threads(function, *zip(*pairs, strict=True), threads=threads)]


def _pool(threads: int) -> ThreadPoolExecutor:
    """Return a pool of at least so many threads, of which there is one per process; threads do not survive a fork."""
    process, pool, size = _pools.get("pool", (0, None, 0))
    if pool is None or process != os.getpid() or size < threads:
        size = max(threads, n_cores())
        pool = ThreadPoolExecutor(size, "mahala", initializer=setattr, initargs=(_local, "is_ours", True))
        _pools["pool"] = os.getpid(), pool, size
    return pool


def pairs_of_blocks(n: int, size: int, threads: int) -> Iterator[list[tuple[slice, slice]]]:
    """Yield rounds of pairs of row blocks, in which each block occurs once; every pair is in one round.

    There are `size` rows in a block, or fewer, so that a round has work for each thread. One round pairs the blocks
    with themselves; the others are those of a tournament in which each plays against each.

    >>> [[(a.start, b.start) for a, b in pairs] for pairs in pairs_of_blocks(4, 1, 1)]
    [[(0, 0), (1, 1), (2, 2), (3, 3)], [(0, 3), (1, 2)], [(0, 2), (1, 3)], [(0, 1), (2, 3)]]
    """
    in_a_round = 2 * threads
    n_blocks = in_a_round * -(-n // (size * in_a_round))
    blocks = list(slices(n, -(-n // n_blocks)))
    yield [(block, block) for block in blocks]
    players: list[slice | None] = [*blocks, *([None] if len(blocks) % 2 else [])]
    half = len(players) // 2
    for _ in range(len(players) - 1):
        facing = zip(players[:half], reversed(players[half:]), strict=True)
        # The earlier block first: sums over triangles rely on it.
        yield [(a, b) if a.start < b.start else (b, a) for a, b in facing if a is not None and b is not None]
        players = [players[0], players[-1], *players[1:-1]]


def product(A: Any, B: Any) -> Any:
    """Return A @ B, with the rows of A shared among the threads; B is a matrix or a vector."""
    threads = _threads_of_product(A, B)
    if threads == 1:
        with one_blas_thread():
            return A @ B
    result = np.empty((A.shape[0], *B.shape[1:]), dtype=np.result_type(A, B))
    in_rows(lambda rows: np.matmul(A[rows], B, out=result[rows]), len(A), threads)
    return result


def transposed_product(A: Any, B: Any) -> Any:
    """Return A.T @ B, shared among the threads; B is a matrix or a vector."""
    if B.ndim > 1:
        return product(A.T, B)
    threads = _threads_of_product(A, B)
    return np.sum(in_rows(lambda rows: A[rows].T @ B[rows], len(A), threads), axis=0)


def _threads_of_product(A: Any, B: Any) -> int:
    # A product with a vector does little with each number that it reads.
    return n_threads(A.size * (B.shape[1] if B.ndim > 1 else PER_NUMBER))


def squared_norms(Z: RealArray) -> RealArray:
    """Return ‖z‖² of each row z."""
    parts = in_rows(lambda rows: np.einsum("ij,ij->i", Z[rows], Z[rows]), len(Z), n_threads(PER_NUMBER * Z.size))
    return np.concatenate(parts)


def scratch(shape: Sequence[int], dtype: DTypeLike, number: int = 0) -> NDArray[Any]:
    """Return an array with arbitrary values that the thread may use until it asks for another one of that number.

    Fresh memory costs more than the product that is written to it, the more the more threads ask for it.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    spaces = vars(_local).setdefault("spaces", {})
    space = spaces.get(number)
    if space is None or len(space) < size:
        space = spaces[number] = np.empty(size, dtype=np.uint8)
    array: RealArray = space[:size].view(dtype).reshape(shape)
    return array


def class_sums(n_classes: int, rows: RealArray, codes: IndexArray, weights: FloatArray | None) -> FloatArray:
    """Return the sum of the rows of each class, in float64."""
    values, ends = np.ones(len(rows)) if weights is None else weights, np.arange(len(rows) + 1)
    members = sp.csr_array((values, codes, ends), shape=(len(rows), n_classes))
    return np.asarray(members.T @ rows.astype(np.float64, copy=False))

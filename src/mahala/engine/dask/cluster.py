"""Sums on the workers of a Dask cluster, or by Dask's threads on one machine.

Rows X and their images Z are Dask arrays in chunks of rows. The rows stay where they are. A worker gets the images of
all rows for a sum over pairs, computes the share of its chunk with the engine that it has, and the pulls of all shares
are added up. A worker that is lost takes with it what Dask computes again from the rows' source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mahala.compiled.search.neighbors import _nearest
from mahala.compiled.sums.pair_sums import Cost
from mahala.compiled.threads import class_sums
from mahala.engine.dask.rows import (
    array_of,
    compute,
    n_workers,
    parts,
    persist,
    persist_on_cluster,
    persist_value,
    summed,
    task,
)
from mahala.engine.edges import leading_eigenvector
from mahala.engine.engine import Engine, Hinges, LeadingDirection
from mahala.engine.hinges import RowHinges
from mahala.engine.machine import machine
from mahala.engine.map_descent import DeviceArrays
from mahala.support.arrays import FloatArray, IndexArray, RealArray, Rows
from mahala.support.parameters import WORKERS, config_context, get_config
from mahala.support.validation import is_chunked, is_sparse

if TYPE_CHECKING:
    from dask.array import Array
    from dask.delayed import Delayed

A = TypeVar("A")
T = TypeVar("T")

# Tasks per worker for rows of NumPy: with more, the last task of a sum is shorter, but images are copied more often.
CHUNKS_PER_WORKER = 2

Neighbors = tuple[IndexArray, FloatArray]  # row numbers and squared distances
Wanted = list[tuple[int, bool]]  # numbers of neighbours, each with whether they are of the query's class


class DaskCluster:
    """An engine on Dask, whose workers use the engine named, or "" for the one of their own settings."""

    def __init__(self, workers_use: str = "") -> None:
        if find_spec("dask") is None:
            raise ImportError("rows or an engine of Dask need Dask: pip install 'mahala[dask]'")
        self._name = workers_use
        self._codes: tuple[IndexArray | None, Delayed] = None, None

    def place(self, X: RealArray | Array) -> Array:
        if not is_chunked(X):
            import dask.array as da

            X = X.toarray() if is_sparse(X) else X
            X = da.from_array(X, chunks=(-(-len(X) // (CHUNKS_PER_WORKER * n_workers())), -1))
        return persist_on_cluster(X)

    def fetch(self, Z: Array | Delayed) -> RealArray:
        return compute([Z])[0]  # type: ignore[no-any-return]

    def map(self, X: Array, L: RealArray) -> Array:
        call = self.call(_map)
        return persist([array_of([call(part, L) for _, part in parts(X)], X, L.shape[0])])[0]

    def gradient(self, pull: Array, X: Array, *, diagonal: bool = False) -> RealArray:
        call = self.call(_gradient)
        both = zip(parts(pull), parts(X), strict=True)
        return self.fetch(summed([call(pulls, rows, diagonal) for (_, pulls), (_, rows) in both]))

    def softmax(self, Z: Array, codes: IndexArray, rows: slice | None = None) -> tuple[float, Array]:
        return self._sum_of_shares(partial(_share, "softmax"), Z, codes)

    def within(self, Z: Array, codes: IndexArray, weights: FloatArray | None = None) -> tuple[float, Array]:
        _check_unweighted(weights)
        sizes, placed = np.bincount(codes), self._placed(codes)
        add, pull = task(class_sums), task(_within, 2)
        sums = summed([add(len(sizes), part, codes[rows], None) for rows, part in parts(Z)])
        shares = [pull(part, placed, rows, sums, sizes) for rows, part in parts(Z)]
        return _sum_and_pull([share[0] for share in shares], [share[1] for share in shares], Z)

    def between(
        self, Z: Array, codes: IndexArray, cost: Cost, weights: FloatArray | None = None, rows: slice | None = None
    ) -> tuple[float, Array]:
        _check_unweighted(weights)
        return self._sum_of_shares(partial(_share, "between"), Z, codes, cost)

    def hinges(self, codes: IndexArray, edges: IndexArray, ends: IndexArray, mu: float) -> Hinges[Array]:
        targets = persist_value((edges, ends, mu))

        def objective(Z: Array, smoothing: float) -> tuple[float, float, Array]:
            (smooth, plain), pull = self._sum_of_shares(_hinges, Z, codes, targets, smoothing)
            return float(smooth), float(plain), pull

        return objective

    def of_images(self, function: Callable[[RealArray], T], Z: Array) -> T:
        result: T = compute([task(_of_images)(function, [part for _, part in parts(Z)])])[0]
        return result

    def edge_graph(self, X: RealArray | Array, left: IndexArray, right: IndexArray) -> LeadingDirection:
        X, ends = self.place(X), persist_value((left, right))
        d, dtype = X.shape[1], X.dtype

        def leading(weights: FloatArray) -> FloatArray:
            placed = persist_value(weights.astype(dtype))

            def times(V: RealArray) -> RealArray:  # for which the images X V travel
                image, share = task(np.matmul), task(_product_share)
                images = [image(part, V.astype(dtype)) for _, part in parts(X)]
                return self.fetch(summed([share(images, ends, placed, rows, part) for rows, part in parts(X)]))

            direction = leading_eigenvector(lambda: times(np.eye(d)), times, d, dtype).astype(np.float64)
            return np.asarray(direction / np.linalg.norm(direction))

        return leading

    def arrays(self) -> DeviceArrays:
        return _on_worker(self._name, lambda engine: engine.arrays())  # type: ignore[no-any-return]

    def nearest(self, reference: Rows | Array, queries: Rows | Array, k: int) -> tuple[IndexArray, FloatArray]:
        rows = self.place(reference)
        query_rows = rows if queries is reference else self.place(queries)
        same = np.zeros(len(rows), dtype=np.intp)
        (neighbors,) = self._search(rows, query_rows, [(k, True)], np.zeros(len(query_rows), dtype=np.intp), same, None)
        return neighbors

    def nearest_by_class(
        self, X: RealArray | Array, codes: IndexArray, rows: IndexArray, n_same: int, n_other: int
    ) -> tuple[IndexArray, IndexArray]:
        X = self.place(X)
        queries = X if len(rows) == len(X) else X[rows]
        (same, _), (other, _) = self._search(X, queries, [(n_same, True), (n_other, False)], codes[rows], codes, rows)
        return same, other

    def _search(
        self,
        reference: Array,
        queries: Array,
        wanted: Wanted,
        query_codes: IndexArray,
        codes: IndexArray,
        query_rows: IndexArray | None,
    ) -> list[Neighbors]:
        """Find neighbours as `neighbors._nearest` does, for each chunk of queries in each chunk of the reference."""
        near, merge = task(_near), task(_merge)
        blocks = []
        for these, chunk in parts(queries):
            arguments = chunk, wanted, query_codes[these], None if query_rows is None else query_rows[these]
            by_chunk = [near(*arguments, part, codes[those], those) for those, part in parts(reference)]
            blocks.append(merge(by_chunk, len(reference)))
        by_kind = zip(*compute(blocks), strict=True)
        return [tuple(map(np.concatenate, zip(*kind, strict=True))) for kind in by_kind]  # type: ignore[misc]

    def _sum_of_shares(
        self, share: Callable[..., tuple[T, RealArray]], Z: Array, codes: IndexArray, *arguments: object
    ) -> tuple[T, Array]:
        """Return the sums of share(engine, Z, codes, rows, *arguments) over chunks: of values and of pulls on Z."""
        call, take = self.call(partial(_with_images, share), 2), task(getitem)
        images, placed = [part for _, part in parts(Z)], self._placed(codes)
        values, pulls = zip(*(call(images, placed, rows, *arguments) for rows, _ in parts(Z)), strict=True)
        whole = summed(pulls)
        return _sum_and_pull(values, [take(whole, rows) for rows, _ in parts(Z)], Z)

    def _placed(self, codes: IndexArray) -> Delayed:
        """Return the codes as a value that the cluster keeps, the same one in each evaluation of a fit."""
        if self._codes[0] is not codes:
            self._codes = codes, persist_value(codes.astype(np.int32))
        return self._codes[1]

    def call(self, function: Callable[..., object], n_results: int | None = None) -> Callable[..., Delayed]:
        """Return a function that Dask calls on a worker, with the worker's engine as its first argument."""
        return task(partial(_on_worker, self._name, function), n_results)


def _on_worker(name: str, function: Callable[..., T], *arguments: object) -> T:
    """Return what the function returns, given an engine of the machine on which it runs."""
    setting = get_config()["engine"]
    name = name or (setting if isinstance(setting, str) and not setting.startswith(WORKERS) else "cpu")
    with config_context(engine=name):
        return function(machine(name), *arguments)


def _check_unweighted(weights: FloatArray | None) -> None:
    if weights is not None:
        raise ValueError("sample_weight must be None with an engine of Dask: use engine='cpu' or a GPU")


def _map(engine: Engine[A], rows: RealArray, L: RealArray) -> RealArray:
    return engine.fetch(engine.map(engine.place(np.ascontiguousarray(rows)), L))


def _gradient(engine: Engine[A], pull: RealArray, rows: RealArray, diagonal: bool) -> RealArray:
    return engine.gradient(engine.place(pull), engine.place(rows), diagonal=diagonal)


def _with_images(function: Callable[..., T], engine: Engine[A], images: list[RealArray], *arguments: object) -> T:
    return function(engine, engine.place(np.concatenate(images)), *arguments)


def _share(
    name: str, engine: Engine[A], Z: A, codes: IndexArray, rows: slice, *arguments: object
) -> tuple[float, RealArray]:
    """Return the share of some rows in a sum of the engine, by its name, and its pull."""
    value, pull = getattr(engine, name)(Z, codes, *arguments, rows=rows)
    return value, engine.fetch(pull)


def _hinges(
    engine: Engine[A],
    Z: A,
    codes: IndexArray,
    rows: slice,
    targets: tuple[IndexArray, IndexArray, float],
    smoothing: float,
) -> tuple[FloatArray, RealArray]:
    smooth, plain, pull = RowHinges(codes, *targets)(engine.fetch(Z), smoothing, rows)
    return np.array([smooth, plain]), pull


def _within(
    images: RealArray, codes: IndexArray, rows: slice, sums: FloatArray, sizes: IndexArray
) -> tuple[float, RealArray]:
    left = images - (sums / sizes[:, None]).astype(images.dtype)[codes[rows]]
    pull: RealArray = left * sizes[codes[rows]].astype(images.dtype)[:, None]
    return float(np.einsum("ij,ij->", pull, left, dtype=np.float64)), pull


def _near(
    queries: RealArray,
    wanted: Wanted,
    query_codes: IndexArray,
    query_rows: IndexArray | None,
    part: RealArray,
    codes: IndexArray,
    rows: slice,
) -> list[Neighbors]:
    """Return the nearest rows of one chunk, by their numbers among all rows, and their squared distances."""
    if query_rows is not None:
        query_rows = np.where((query_rows >= rows.start) & (query_rows < rows.stop), query_rows - rows.start, len(part))
    neighbors = _nearest(part, queries, wanted, query_codes, codes, query_rows)
    return [(numbers + rows.start, squared) for numbers, squared in neighbors]


def _merge(by_chunk: list[list[Neighbors]], n: int) -> list[Neighbors]:
    """Return the nearest of those of all chunks; where there are not so many, the last numbers are n."""
    result = []
    for kind in zip(*by_chunk, strict=True):
        numbers, squared = (np.concatenate(column, axis=1) for column in zip(*kind, strict=True))
        numbers = np.where(np.isinf(squared), n, numbers)
        order = np.lexsort((numbers, squared), axis=-1)[:, : kind[0][0].shape[1]]
        result.append((np.take_along_axis(numbers, order, axis=1), np.take_along_axis(squared, order, axis=1)))
    return result


def _sum_and_pull(values: Sequence[Delayed], pulls: list[Delayed], Z: Array) -> tuple[Any, Array]:
    """Return the sum of values, and the pulls on the chunks of Z as an array that is kept."""
    total, pull = persist([summed(values), array_of(pulls, Z, Z.shape[1])])
    return compute([total])[0], pull


def _of_images(function: Callable[[RealArray], T], images: list[RealArray]) -> T:
    return function(np.concatenate(images))


def _product_share(
    images: list[RealArray], ends: tuple[IndexArray, IndexArray], weights: RealArray, rows: slice, part: RealArray
) -> RealArray:
    """Return the share of some rows in the product of Xᵀ with the Laplacian of weighted edges and images of X."""
    Z = np.concatenate(images)
    result = np.zeros_like(Z[rows])
    for heads, tails in (ends, ends[::-1]):
        chosen = np.flatnonzero((heads >= rows.start) & (heads < rows.stop))
        differences = Z[heads[chosen]] - Z[tails[chosen]]
        np.add.at(result, heads[chosen] - rows.start, (weights[chosen] * differences.T).T)
    return np.asarray(part.T @ result)

"""Rows in Dask arrays and data frames, which are never gathered. Dask itself is imported only where it is in use."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mahala.support.arrays import FloatArray, IndexArray, RealArray
from mahala.support.lazily import dask, sklearn_checks
from mahala.support.parameters import config_context, get_config

if TYPE_CHECKING:
    from dask.array import Array
    from dask.delayed import Delayed
    from distributed import Client

    from mahala.support.lazily import BaseEstimator

T = TypeVar("T")

# How many sums are added up by one task.
FAN_IN = 8


def row_chunks(X: Array, name: str = "X", n_axes: int = 2) -> Array:
    """Return a Dask array or frame as an array of real numbers in chunks of whole rows, of known lengths, not empty."""
    X = _array(X)
    if getattr(X, "ndim", None) != n_axes:
        raise ValueError(f"{name} must have {n_axes} axes, got a Dask array with {getattr(X, 'ndim', 'none')}")
    if X.dtype.kind not in "fiub" or not isinstance(X._meta, np.ndarray):
        raise ValueError(f"{name} must hold real numbers in dense chunks, got {X!r}")
    if np.isnan(X.chunks[0]).any():
        X = X.copy().compute_chunk_sizes()
    if 0 in X.chunks[0]:
        import dask.array as da

        X = da.concatenate([X.blocks[i] for i, n in enumerate(X.chunks[0]) if n] or [X])
    return X.rechunk(dict.fromkeys(range(1, n_axes), -1))


def check_features(estimator: BaseEstimator, X: Array, *, reset: bool, at_least: int = 1) -> Array:
    """Return rows as `row_chunks` does; their features are those of the estimator, or with `reset` become them.

    Their values are not read.
    """
    names = getattr(X, "_meta", None)
    sklearn_checks._check_feature_names(
        estimator, names if hasattr(names, "columns") else np.empty((0, 0)), reset=reset
    )
    X = row_chunks(X)
    sklearn_checks._check_n_features(estimator, X, reset=reset)
    if len(X) < at_least:
        raise ValueError(f"X must have at least {at_least} rows, got {len(X)}")
    return X


def compute(values: Sequence[object]) -> list[Any]:
    """Compute values of Dask together."""
    client = _client()
    if client is not None:
        results: list[Any] = client.compute(list(values), sync=True)
        return results
    return list(dask.compute(*values))


def persist(values: list[T]) -> list[T]:
    """Start to compute values of Dask; return them as values that are kept where they are computed."""
    client = _client()
    if client is None:
        return list(dask.persist(*values))
    with warnings.catch_warnings():
        # Rows of NumPy are part of the graph, and not scattered, so that they survive the loss of a worker.
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        results: list[T] = client.persist(values)
        return results


def persist_value(value: object) -> Delayed:
    """Return a value of this process as one that the cluster keeps."""
    return persist([dask.delayed(value, pure=False, traverse=False)])[0]


def persist_on_cluster(X: Array) -> Array:
    """Keep rows in the memory of a cluster's workers; on one machine they are read again for each pass."""
    return X if _client() is None else persist([X])[0]


def n_workers() -> int:
    """Return the number of workers of the cluster, or 1 without one."""
    client = _client()
    return 1 if client is None else max(1, len(client.scheduler_info(n_workers=-1)["workers"]))


def _client() -> Client | None:
    """Return the client of the cluster: that of `set_config`, or else the last one that was opened."""
    engine = get_config()["engine"]
    if engine is not None and not isinstance(engine, str):
        return engine
    try:
        return sys.modules["distributed"].default_client()
    except (KeyError, ValueError):
        return None


def map_chunks(
    function: Callable[[NDArray[Any]], object], X: Array, n_columns: int, dtype: DTypeLike | None = None
) -> Array:
    """Return the Dask array, not computed yet, of what the function returns for each chunk of rows."""
    X = _array(X).rechunk({1: -1})
    dtype = dtype or (np.float32 if X.dtype == np.float32 else np.float64)
    return X.map_blocks(function, chunks=(X.chunks[0], (n_columns,)), meta=np.empty((0, 0), dtype=dtype))


def _array(X: Array) -> Array:
    return X.to_dask_array() if hasattr(X, "to_dask_array") else X


def parts(X: Array) -> list[tuple[slice, Delayed]]:
    """Return the row numbers and the rows, not computed yet, of each chunk."""
    stops = np.cumsum(X.chunks[0]).tolist()
    pieces = X.to_delayed().ravel().tolist()
    return [(slice(stop - n, stop), piece) for stop, n, piece in zip(stops, X.chunks[0], pieces, strict=True)]


def array_of(pieces: list[Delayed], like: Array, n_columns: int) -> Array:
    """Return the Dask array of pieces with the lengths and the type of the chunks of another one."""
    import dask.array as da

    shapes = [(n, n_columns) for n in like.chunks[0]]
    return da.concatenate([da.from_delayed(*pair, like.dtype) for pair in zip(pieces, shapes, strict=True)])


def labelled_parts(X: Array, y: ArrayLike | None) -> list[tuple[Delayed, IndexArray | None]]:
    """Return the rows of each chunk, not computed yet, with their labels; chunks of a data frame have its columns.

    The partitions of a bag have the arrays of their comparisons, and the labels of pairs.
    """
    if hasattr(type(X), "foldby"):
        if y is not None:
            raise ValueError("y must be None for a bag, whose pairs have their labels in them")
        stacked = dask.delayed(_stacked, nout=2, pure=False)
        return [tuple(stacked(part)) for part in X.to_delayed()]
    (labels,) = compute([y])
    if y is not None and len(labels) != len(X):
        raise ValueError(f"y must have a label for each of the {len(X)} rows, got {len(labels)}")
    pieces = parts(row_chunks(X, n_axes=X.ndim))
    if hasattr(X, "columns"):
        import pandas as pd

        framed = dask.delayed(pd.DataFrame)
        pieces = [(rows, framed(part, columns=list(X.columns))) for rows, part in pieces]
    return [(part, None if y is None else labels[rows]) for rows, part in pieces]


def _stacked(comparisons: Iterable[tuple[ArrayLike, ...]]) -> tuple[FloatArray, IndexArray | None]:
    """Return the array of pairs (x, x2, similar) with their labels, or of triplets of vectors with None."""
    members = list(zip(*comparisons, strict=True))
    if not members:
        return np.empty((0, 2, 0)), None
    if len(members) != 3:
        raise ValueError(f"a bag must hold pairs (x, x2, similar) or triplets of vectors, got {len(members)} members")
    if np.ndim(members[2][0]):
        return np.stack([np.array(rows) for rows in members], axis=1), None
    labels = np.array(members[2])
    labels = np.where(labels, 1, -1) if labels.dtype == bool else labels
    return np.stack([np.array(rows) for rows in members[:2]], axis=1), labels


def call_for_each(
    function: Callable[..., T], calls: Sequence[tuple[object, ...]], shared: tuple[object, ...]
) -> list[T]:
    """Return function(*shared, *call) for each call, computed by Dask; what is shared is sent once."""
    sent = [dask.delayed(value, pure=False, traverse=isinstance(value, list)) for value in shared]
    run = task(function)
    return compute([run(*sent, *call) for call in calls])


def sum_over_chunks(function: Callable[..., T], X: Array, by_row: tuple[RealArray | None, ...]) -> T:
    """Return Σ function(rows, *by_row of these rows) over the chunks, added in a fixed order."""
    run = task(function)
    terms = [run(part, *(None if values is None else values[rows] for values in by_row)) for rows, part in parts(X)]
    total: T = compute([summed(terms)])[0]
    return total


def task(function: Callable[..., object], n_results: int | None = None) -> Callable[..., Delayed]:
    """Return a function that Dask calls on a worker, in one thread."""
    delayed: Callable[..., Delayed] = dask.delayed(partial(_call, function), pure=False, nout=n_results)
    return delayed


def _call(function: Callable[..., T], *arguments: object) -> T:
    # Dask runs as many tasks at once as a worker has threads.
    with config_context(n_threads=get_config()["n_threads"] or 1):
        return function(*arguments)


def summed(values: Sequence[Delayed]) -> Delayed:
    """Return the sum of values that are not computed yet, added in a fixed order by tasks of a few each."""
    add = dask.delayed(sum, pure=False)
    while len(values) > 1:
        values = [add(list(values[i : i + FAN_IN])) for i in range(0, len(values), FAN_IN)]
    return values[0]

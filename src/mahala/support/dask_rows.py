"""Rows in Dask arrays and data frames, which are never gathered. Dask itself is imported only where it is in use."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mahala.support.lazily import sklearn_checks
from mahala.support.parameters import get_config
from mahala.support.tensors import is_bag, is_dask
from mahala.support.validation import check_rows, check_scale

# How many sums are added up by one task.
FAN_IN = 8


def row_chunks(X: Any, name: str = "X", n_axes: int = 2) -> Any:
    """Return a Dask array or frame as an array of real numbers in chunks of whole rows, of known lengths, not empty."""
    X = X.to_dask_array() if hasattr(X, "to_dask_array") else X
    if X.ndim != n_axes:
        raise ValueError(f"{name} must have {n_axes} axes, got a Dask array with {X.ndim}")
    if X.dtype.kind not in "fiub" or not isinstance(X._meta, np.ndarray):
        raise ValueError(f"{name} must hold real numbers in dense chunks, got {X!r}")
    if np.isnan(X.chunks[0]).any():
        X = X.copy().compute_chunk_sizes()
    if 0 in X.chunks[0]:
        import dask.array as da

        X = da.concatenate([X.blocks[i] for i, n in enumerate(X.chunks[0]) if n] or [X])
    return X.rechunk(dict.fromkeys(range(1, n_axes), -1))


def any_rows(X: Any, name: str = "X") -> Any:
    """Return rows as `check_rows` does, or as `row_chunks` does if they are of Dask."""
    return row_chunks(X, name) if is_dask(X) else check_rows(X, name)


def check_dask_features(estimator: Any, X: Any, *, reset: bool, at_least: int = 1) -> Any:
    """Return rows of Dask as `row_chunks` does; their features are those of the estimator, or with `reset` become them.

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


def extremes(X: Any) -> tuple[Any, Any]:
    """Return the smallest and the largest value of each column; raise ValueError if a value cannot be learned from."""
    low, high = in_memory(X.min(axis=0), X.max(axis=0))
    if is_dask(X):
        if not (np.isfinite(low) & np.isfinite(high)).all():
            raise ValueError("X contains NaN or infinity; every feature must be a finite number")
        check_scale(np.stack([low, high]))
    return low, high


def in_memory(*values: Any) -> Any:
    """Return values as they are, or computed together if they are Dask's; one value alone."""
    results = computed(list(values)) if any(hasattr(value, "__dask_graph__") for value in values) else values
    return results if len(results) > 1 else results[0]


def computed(values: list[Any]) -> list[Any]:
    """Compute values of Dask together."""
    client = _client()
    if client is not None:
        results: list[Any] = client.compute(values, sync=True)
        return results
    import dask

    return list(dask.compute(*values))


def kept(values: list[Any]) -> list[Any]:
    """Start to compute values of Dask; return them as values that are kept where they are computed."""
    client = _client()
    if client is None:
        import dask

        return list(dask.persist(*values))
    with warnings.catch_warnings():
        # Rows of NumPy are part of the graph, and not scattered, so that they survive the loss of a worker.
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        results: list[Any] = client.persist(values)
        return results


def kept_on_cluster(X: Any) -> Any:
    """Keep rows in the memory of a cluster's workers; on one machine they are read again for each pass."""
    return X if _client() is None else kept([X])[0]


def n_workers() -> int:
    """Return the number of workers of the cluster, or 1 without one."""
    client = _client()
    return 1 if client is None else max(1, len(client.scheduler_info(n_workers=-1)["workers"]))


def _client() -> Any:
    """Return the client of the cluster: that of `set_config`, or else the last one that was opened."""
    given = get_config()["engine"]
    if given is not None and not isinstance(given, str):
        return given
    try:
        return sys.modules["distributed"].default_client()
    except (KeyError, ValueError):
        return None


def lazily_mapped(X: Any, function: Callable[[Any], Any], n_columns: int, dtype: Any) -> Any:
    """Return the Dask array, not computed yet, of what the function returns for each chunk of rows."""
    X = X.to_dask_array() if hasattr(X, "to_dask_array") else X
    X = X.rechunk({1: -1})
    return X.map_blocks(function, chunks=(X.chunks[0], (n_columns,)), meta=np.empty((0, 0), dtype=dtype))


def parts(X: Any) -> list[tuple[slice, Any]]:
    """Return the row numbers and the rows, not computed yet, of each chunk."""
    stops = np.cumsum(X.chunks[0]).tolist()
    own = X.to_delayed().ravel().tolist()
    return [(slice(stop - n, stop), part) for stop, n, part in zip(stops, X.chunks[0], own, strict=True)]


def array_of(pieces: list[Any], like: Any, n_columns: int) -> Any:
    """Return the Dask array of pieces with the lengths and the type of the chunks of another one."""
    import dask.array as da

    shapes = [(n, n_columns) for n in like.chunks[0]]
    return da.concatenate([da.from_delayed(own, shape, like.dtype) for own, shape in zip(pieces, shapes, strict=True)])


def parts_with_labels(X: Any, y: Any) -> list[tuple[Any, Any]]:
    """Return the rows of each chunk, not computed yet, with their labels; chunks of a data frame have its columns.

    The partitions of a bag have the arrays of their comparisons, and the labels of pairs.
    """
    y = in_memory(y)
    if is_bag(X):
        import dask

        if y is not None:
            raise ValueError("y must be None for a bag, whose pairs have their labels in them")
        stacked = dask.delayed(_stacked, nout=2, pure=False)
        return [tuple(stacked(part)) for part in X.to_delayed()]
    if y is not None and len(y) != len(X):
        raise ValueError(f"y must have a label for each of the {len(X)} rows, got {len(y)}")
    pieces = parts(row_chunks(X, n_axes=X.ndim))
    if hasattr(X, "columns"):
        import dask
        import pandas as pd

        framed = dask.delayed(pd.DataFrame)
        pieces = [(own, framed(part, columns=list(X.columns))) for own, part in pieces]
    return [(part, None if y is None else y[own]) for own, part in pieces]


def _stacked(comparisons: Any) -> tuple[Any, Any]:
    """Return the array of pairs (x, x2, similar) with their labels, or of triplets of vectors with None."""
    members = list(zip(*comparisons, strict=True))
    if not members:
        return np.empty((0, 2, 0)), None
    if len(members) != 3:
        raise ValueError(f"a bag must hold pairs (x, x2, similar) or triplets of vectors, got {len(members)} members")
    if np.ndim(members[2][0]):
        return np.stack([np.array(own) for own in members], axis=1), None
    labels = np.array(members[2])
    return np.stack([np.array(own) for own in members[:2]], axis=1), np.where(
        labels, 1, -1
    ) if labels.dtype == bool else labels


def sum_over_parts(function: Callable[..., Any], X: Any, by_row: Any = None, *arguments: Any) -> Any:
    """Return Σ function(rows, by_row of these rows, *arguments) over the chunks, added in a fixed order."""
    import dask

    call = dask.delayed(partial(_call, function), pure=False)
    own = [call(part, None if by_row is None else by_row[rows], *arguments) for rows, part in parts(X)]
    return in_memory(summed(own))


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def summed(values: Sequence[Any]) -> Any:
    """Return the sum of values that are not computed yet, added in a fixed order by tasks of a few each."""
    import dask

    add = dask.delayed(sum, pure=False)
    while len(values) > 1:
        values = [add(list(values[i : i + FAN_IN])) for i in range(0, len(values), FAN_IN)]
    return values[0]

"""Rows of any kind: in memory, tensors of PyTorch, or in chunks of Dask. Neither library is imported before its use."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from mahala.compiled.threads import in_threads, n_threads
from mahala.engine.dask import rows as lazy
from mahala.engine.dask.rows import labelled_parts as labelled_parts
from mahala.support import validation
from mahala.support.arrays import IndexArray, Rows, RowsLike, StoredRows
from mahala.support.lazily import sklearn_checks
from mahala.support.validation import check_rows, is_chunked, is_sparse, is_tensor

if TYPE_CHECKING:
    from mahala.support.lazily import BaseEstimator

T = TypeVar("T")


def as_rows(X: RowsLike, name: str = "X") -> Any:
    """Return rows as `check_rows` does; the values of chunks are not read."""
    return lazy.row_chunks(X, name) if is_chunked(X) else check_rows(X, name)


def check_features(estimator: "BaseEstimator", X: Any, *, reset: bool, at_least: int = 1) -> Any:
    """Return rows as `as_rows` does; their features are those of the estimator, or with `reset` become them."""
    check = lazy.check_features if is_chunked(X) else validation.check_features
    return check(estimator, X, reset=reset, at_least=at_least)


def refuse_chunks(X: object, requirement: str) -> None:
    """Raise ValueError with what is required with chunked rows, if X is chunked."""
    if is_chunked(X):
        raise ValueError(f"{requirement} with rows of Dask")


def computed(*values: object) -> Any:
    """Return values, computed together if some of them are not computed yet; one value alone."""
    results = lazy.compute(values) if any(map(is_chunked, values)) else values
    return results if len(results) > 1 else results[0]


def persisted(X: T) -> T:
    """Return rows; those in chunks are kept in the memory of a cluster's workers, if there is a cluster."""
    return lazy.persist_on_cluster(X) if is_chunked(X) else X


def apply_to_rows(
    function: Callable[..., object], X: StoredRows | Rows, n_columns: int, dtype: DTypeLike | None = None
) -> Any:
    """Return what the function returns for rows; for those in chunks, which are checked then, an array to compute."""
    if not is_chunked(X):
        return function(X)
    return lazy.map_chunks(lambda rows: function(check_rows(rows)), X, n_columns, dtype)


def like(result: Any, X: object) -> Any:
    """Return an array as a tensor on the device of X if that is a tensor; otherwise unchanged."""
    if not is_tensor(X):
        return result
    import torch

    return torch.as_tensor(result, device=X.device)


def parts(X: Any, *, keep: bool = False) -> list[tuple[slice, Any]]:
    """Return the numbers and the rows of each chunk, not computed yet; rows in memory are one part.

    With `keep` the chunks stay where they are computed.
    """
    if not is_chunked(X):
        return [(slice(0, len(X)), X)]
    pieces = lazy.parts(X)
    if not keep:
        return pieces
    return list(zip([rows for rows, _ in pieces], lazy.persist([part for _, part in pieces]), strict=True))


def check_stored_features(estimator: "BaseEstimator", X: Any, *, reset: bool, at_least: int = 1) -> Any:
    """Check features as `check_features` does, but return arrays, memory maps, GPU tensors and Zarr's arrays unread."""
    if not (is_tensor(X) and X.device.type != "cpu"):
        X = validation.to_numpy(X)
        numbers = getattr(getattr(X, "dtype", None), "kind", "") in "fiub" and hasattr(X, "shape")
        if is_chunked(X) or is_sparse(X) or not numbers or isinstance(X, np.ma.MaskedArray):
            return check_features(estimator, X, reset=reset, at_least=at_least)
    if len(X.shape) != 2 or X.shape[0] < at_least or X.shape[1] < 1:
        raise ValueError(f"X must be at least {at_least} rows of at least one feature, got shape {tuple(X.shape)}")
    sklearn_checks._check_feature_names(estimator, np.empty((0, 0)), reset=reset)
    sklearn_checks._check_n_features(estimator, X, reset=reset)
    return X


def gathered(X: StoredRows, *numbers: IndexArray) -> tuple[Any, ...]:
    """Return rows in memory and numbers of them: of chunked rows those that are named, numbered anew."""
    if not is_chunked(X):
        return X, *numbers
    rows, renumbered = np.unique(np.concatenate(numbers), return_inverse=True)
    return computed(X[rows]), *np.split(renumbered, len(numbers))


def for_each(function: Callable[..., T], calls: Sequence[tuple[object, ...]], *shared: object) -> list[T]:
    """Return function(*shared, *call) for each call, in threads, or where the chunks among the arguments are."""
    lists = (value for value in shared if isinstance(value, list))
    if any(map(is_chunked, chain(*calls, *lists))):
        return lazy.call_for_each(function, calls, shared)
    return in_threads(lambda call: function(*shared, *call), calls, threads=n_threads())

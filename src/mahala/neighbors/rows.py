"""Rows of a fit: weights as repeats, groups, names, and rows of Dask, of which some are drawn."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import _check_sample_weight

from mahala.data.columns.values import is_frame
from mahala.engine.inputs import computed
from mahala.support.arrays import IndexArray, RealArray, RowsLike
from mahala.support.lazily import dask
from mahala.support.validation import is_chunked, to_numpy

RowName = str | int
# Whole numbers as weights repeat rows, up to so many times the rows or in all.
MOST_REPEATS, FEW_REPEATED = 4, 10_000


def repeated(sample_weight: ArrayLike | None, n: int) -> tuple[IndexArray, RealArray]:
    """Return the numbers of the rows of positive weight, as often as whole weights say, and what remains of weights."""
    if sample_weight is None:
        return np.arange(n), np.ones(n, dtype=np.float32)
    weights = _check_sample_weight(to_numpy(sample_weight), np.empty((n, 1)), dtype=np.float64)
    if not ((weights == 0.0) | ((weights > 1e-100) & (weights < 1e100))).all():
        raise ValueError("sample_weight must hold numbers of at least 0, those above it from 1e-100 to 1e100")
    used = np.flatnonzero(weights)
    if not len(used):
        raise ValueError("sample_weight must be positive for at least one row, but all weights are zero")
    whole = (weights == np.rint(weights)).all()
    if whole and weights.sum() <= max(MOST_REPEATS * n, FEW_REPEATED):
        return np.repeat(np.arange(n), weights.astype(np.intp)), np.ones(int(weights.sum()), dtype=np.float32)
    return used, np.clip(weights[used] / weights[used].mean(), 1e-6, 1e6).astype(np.float32)


def group_codes(groups: ArrayLike, n: int) -> IndexArray:
    values = np.asarray(to_numpy(groups))
    if values.ndim != 1 or len(values) != n:
        raise ValueError(f"groups must be 1-D with a group for each of the {n} rows, got shape {values.shape}")
    return np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)[1]


def checked_names(names: Iterable[object], n: int) -> list[RowName]:
    """Return names of rows; raise ValueError unless they are texts or whole numbers that differ."""
    names = [name.item() if isinstance(name, np.generic) else name for name in list(names)]
    texts = [name for name in names if isinstance(name, str | int) and not isinstance(name, bool)]
    if len(texts) != n or len(names) != n:
        odd = [name for name in names if name not in texts]
        found = repr(odd[0]) if odd else f"{len(names)} of them"
        raise ValueError(f"names must be texts or whole numbers, one for each of the {n} rows, got {found}")
    if len(set(texts)) < n:
        twice = Counter(texts).most_common(1)[0][0]
        raise ValueError(f"names must differ, but {twice!r} is there twice")
    return texts


def row_names(X: RowsLike, n: int) -> list[RowName] | None:
    """Return the names of the rows of a data frame of pandas, or None if they are numbers from 0, or not distinct."""
    index = getattr(X, "index", None)
    if not is_frame(X) or index is None:
        return None
    names = [name.item() if isinstance(name, np.generic) else name for name in index]
    texts = all(isinstance(name, str) for name in names)
    numbers = all(isinstance(name, int) and not isinstance(name, bool) for name in names)
    if not (texts or numbers) or len(set(names)) < n or names == list(range(n)):
        return None
    return names


class Drawn(NamedTuple):
    """Rows of Dask in memory, what belongs to them, and their numbers among all."""

    X: Any
    by_row: list[Any]
    numbers: IndexArray
    n_rows: int


def drawn_rows(X: Any, by_row: tuple[Any, ...], most: int) -> Drawn:
    """Draw rows of Dask, an array or a data frame, in the same way in each run; None among `by_row` stays."""
    rows_of = X if hasattr(X, "columns") else X.rechunk({1: -1})
    pieces = np.ravel(rows_of.to_delayed()).tolist()
    lengths = computed(*map(dask.delayed(len), pieces), None)[:-1]
    ends = np.cumsum(lengths)
    n = int(ends[-1])
    values = [computed(value) if is_chunked(value) else value for value in by_row]
    chosen = np.arange(n) if n <= most else np.sort(np.random.default_rng(0).choice(n, most, replace=False))
    shares = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
    starts = ends - np.asarray(lengths)
    take = dask.delayed(_take)
    parts = computed(
        *(take(piece, share - start) for piece, share, start in zip(pieces, shares, starts, strict=True)), None
    )[:-1]
    if hasattr(X, "columns"):
        import pandas as pd

        rows = pd.concat(parts, ignore_index=True)
    else:
        rows = np.concatenate(parts)
    return Drawn(rows, [None if value is None else np.asarray(value)[chosen] for value in values], chosen, n)


def _take(rows: Any, numbers: IndexArray) -> Any:
    return rows.iloc[numbers] if hasattr(rows, "iloc") else rows[numbers]


def mapped_rows(function: Callable[[Any], Any], X: Any, n_columns: int) -> Any:
    """Return the Dask array, not computed yet, of what a function returns for each chunk of rows."""
    import dask.array as da

    if not hasattr(X, "columns"):
        X = X.rechunk({1: -1})
        return X.map_blocks(function, chunks=(X.chunks[0], (n_columns,)), meta=np.empty((0, 0)))
    run = dask.delayed(function)
    blocks = (da.from_delayed(run(part), (np.nan, n_columns), np.float64) for part in X.to_delayed())
    return da.concatenate(list(blocks))

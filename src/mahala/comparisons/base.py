"""Comparisons: the base class of pairs and triplets, which refer to rows of one X by number."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mahala.support.arrays import IndexArray
from mahala.support.validation import check_indices, check_rows, is_sparse


class Comparisons:
    """Base class of `Pairs` and `Triplets`: X, arrays with one entry per comparison, and selection among them."""

    __slots__ = ("X", "feature_names", "items")
    _arity: ClassVar[int]
    _names: ClassVar[tuple[str, ...]]  # of the arrays, in the order of the constructor
    X: Any
    feature_names: tuple[str, ...] | None  # if X was a data frame
    items: Any  # the rows that anchors are compared with, if they are not those of X

    @classmethod
    def _build(
        cls, X: Any, *columns: NDArray[Any] | None, names: tuple[str, ...] | None = None, items: Any = None
    ) -> Self:
        """Build comparisons of arguments that are valid already, at a cost that does not depend on the size of X."""
        self = object.__new__(cls)
        self._store(X, *columns, names=names, items=items)
        return self

    def _store(self, X: Any, *columns: NDArray[Any] | None, names: tuple[str, ...] | None, items: Any = None) -> None:
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "items", items)
        for name, column in zip(self._names, columns, strict=True):
            if column is not None:
                # One memory layout, so that compiled code is specialised to one type.
                column = np.ascontiguousarray(column)
                column.flags.writeable = False
            object.__setattr__(self, name, column)

    def _columns(self) -> list[NDArray[Any] | None]:
        return [getattr(self, name) for name in self._names]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        # Arrays that NumPy unpickles are writeable.
        return partial(self._build, names=self.feature_names, items=self.items), (self.X, *self._columns())

    def __len__(self) -> int:
        return len(getattr(self, self._names[0]))

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return int(self.X.shape[1])

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape that the comparisons would have as one dense array."""
        return len(self), self._arity, self.n_features

    def __getitem__(self, key: Any) -> Self:
        """Return the comparisons that a slice, integers, a mask or one integer selects, over the same X."""
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:  # as scikit-learn indexes arrays
            key = key[0]
        if not isinstance(key, slice):
            array = np.atleast_1d(np.asarray(key))
            if array.size == 0 and array.dtype.kind != "b":
                array = array.astype(np.intp)
            if isinstance(key, tuple) or array.ndim != 1 or array.dtype.kind not in "iub":
                raise IndexError(f"the key must be a slice, integers or a boolean mask, got {key!r}")
            key = array
        columns = (None if column is None else column[key] for column in self._columns())
        return self._build(self.X, *columns, names=self.feature_names, items=self.items)

    def over(self, X: Any) -> Self:
        """Return the same comparisons over another array of the same rows."""
        return self._build(X, *self._columns(), names=self.feature_names, items=self.items)

    def __repr__(self) -> str:
        kind = f"{self.X.dtype}{' CSR' if is_sparse(self.X) else ''}"
        items = "" if self.items is None else f", items of shape {self.items.shape}"
        return f"<{type(self).__name__}: {len(self)} over X of shape {self.X.shape}, {kind}{items}>"


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the column names of a data frame if all of them are strings, as scikit-learn requires; otherwise None."""
    names = tuple(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def check_columns(n_rows: tuple[int, ...], **columns: ArrayLike) -> list[IndexArray]:
    """Return the row numbers of each role, which are below the corresponding entry of n_rows."""
    # Copied, so that the caller cannot change checked row numbers later.
    pairs = zip(columns.items(), n_rows, strict=True)
    checked = [check_indices(column, n, name).copy() for (name, column), n in pairs]
    lengths = [len(column) for column in checked]
    if len(set(lengths)) > 1:
        raise ValueError(f"{', '.join(columns)} must have the same length, got {lengths}")
    return checked


def split_array(array: ArrayLike, arity: int) -> tuple[Any, list[IndexArray]]:
    """Return X and the row numbers of each role, for comparisons given as a 3-D array."""
    array = np.asarray(array)
    if array.ndim != 3 or array.shape[1] != arity:
        raise ValueError(f"array must have the shape (n, {arity}, n_features), got {array.shape}")
    n_rows = arity * len(array)
    X = check_rows(array.reshape(n_rows, array.shape[2]), "array")
    return X, [np.arange(role, n_rows, arity) for role in range(arity)]

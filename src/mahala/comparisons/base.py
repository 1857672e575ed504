"""The base class of pairs, triplets and quadruplets, and what their samplers share."""

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mahala.engine.neighbors import class_neighbors
from mahala.support.arrays import IndexArray
from mahala.support.display import as_table, paragraph
from mahala.support.parameters import Count, check_value
from mahala.support.validation import check_indices, check_rows, class_codes, is_sparse

# In a notebook.
_MOST_SHOWN = 5


class Comparisons:
    """Base class of `Pairs` and `Triplets`: X, arrays with one entry per comparison, and selection among them."""

    __slots__ = ("X", "feature_names", "items")
    _arity: ClassVar[int]  # the number of rows in a comparison
    _names: ClassVar[tuple[str, ...]]  # of the arrays, in the order of the constructor; row numbers first
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

    @classmethod
    def _checked_numbers(cls, X: Any, items: Any, *columns: ArrayLike) -> list[NDArray[Any]]:
        """Return the row numbers of each role: the first into X, the others into items, or into X if these are None."""
        n_rows = [X.shape[0]] + [(X if items is None else items).shape[0]] * (cls._arity - 1)
        # Copied, so that the caller cannot change checked row numbers later.
        roles = zip(columns, n_rows, cls._names[: cls._arity], strict=True)
        checked = [check_indices(column, n, name).copy() for column, n, name in roles]
        lengths = [len(column) for column in checked]
        if len(set(lengths)) > 1:
            raise ValueError(f"{', '.join(cls._names[: cls._arity])} must have the same length, got {lengths}")
        return checked

    @classmethod
    def _split(cls, array: ArrayLike) -> tuple[Any, list[NDArray[Any]]]:
        """Return X and the row numbers of each role, for comparisons given as a 3-D array."""
        array = np.asanyarray(array)
        if array.ndim != 3 or array.shape[1] != cls._arity:
            raise ValueError(f"array must have the shape (n, {cls._arity}, n_features), got {array.shape}")
        n_rows = cls._arity * len(array)
        X = check_rows(array.reshape(n_rows, array.shape[2]), "array")
        return X, [np.arange(role, n_rows, cls._arity) for role in range(cls._arity)]

    @classmethod
    def from_array(cls, array: ArrayLike) -> Self:
        """Build comparisons from an array of shape (n, 3 or 4, n_features), which is not copied if it is contiguous."""
        X, columns = cls._split(array)
        return cls._build(X, *columns)

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

    def rows_of(self, role: str, key: Any) -> Any:
        """Return the rows of X, or of the items for all roles but the first, that have a role in some comparisons."""
        X = self.X if self.items is None or role == self._names[0] else self.items
        return X[getattr(self, role)[key]]

    def over(self, X: Any) -> Self:
        """Return the same comparisons over another array of the same rows."""
        return self._build(X, *self._columns(), names=self.feature_names, items=self.items)

    def cycles(self, n: int, *, most_bytes: int, stop_every: int | None = None, done: int = 0) -> Iterator[Self]:
        """Yield n comparisons, going through these in cycles, in parts whose differences take at most `most_bytes`.

        With `stop_every` parts end where the number of comparisons, counted from `done`, is a multiple of it.
        """
        size = max(64, most_bytes // (8 * max(1, self.n_features)))
        stop_at = done + n
        while done < stop_at:
            start = (n - (stop_at - done)) % len(self)
            stop = min(start + size, len(self), start + stop_at - done)
            if stop_every:
                stop = min(stop, start + stop_every - done % stop_every)
            yield self[start:stop]
            done += stop - start

    def __repr__(self) -> str:
        kind = f"{self.X.dtype}{' CSR' if is_sparse(self.X) else ''}"
        items = "" if self.items is None else f", items of shape {self.items.shape}"
        return f"<{type(self).__name__}: {len(self)} over X of shape {self.X.shape}, {kind}{items}>"

    def _repr_html_(self) -> str:
        columns = {name: column for name in self._names if (column := getattr(self, name)) is not None}
        lines = [[f"{i:,}", *(str(column[i]) for column in columns.values())] for i in range(len(self))[:_MOST_SHOWN]]
        more = paragraph(f"… and {len(self) - _MOST_SHOWN:,} more") if len(self) > _MOST_SHOWN else ""
        return paragraph(repr(self)) + as_table(["", *columns], lines) + more


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the column names of a data frame if all of them are strings, as scikit-learn requires; otherwise None."""
    names = tuple(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def sort_by_class(codes: IndexArray) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Return the rows sorted by class, and for each of them the positions at which its class starts and ends."""
    size = np.bincount(codes)
    stop = np.cumsum(size)
    return np.argsort(codes, kind="stable"), np.repeat(stop - size, size), np.repeat(stop, size)


def near_rows(X: Any, y: ArrayLike, n_neighbors: int) -> tuple[IndexArray, IndexArray]:
    """Return the numbers of each row's nearest rows of its class and of others; where there are too few, n rows."""
    check_value(n_neighbors, "n_neighbors", Count)
    if is_sparse(X):
        raise ValueError("X must be dense for a search of near rows, got a sparse matrix: use X.toarray()")
    rows = X if X.dtype in (np.float32, np.float64) else X.astype(np.float32)
    return class_neighbors(np.ascontiguousarray(rows), class_codes(y, X.shape[0]), n_neighbors, n_neighbors)

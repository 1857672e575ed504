"""Pairs and triplets: comparisons between rows of one X, held as row numbers, given or drawn from classes."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal, NoReturn, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mahala.comparisons.sampling import Seed, draw_pairs, draw_triplets
from mahala.support.validation import check_indices, check_rows, check_signs, class_codes


class _Comparisons:
    """What pairs and triplets share: X, arrays with one entry a comparison, and selection among them."""

    __slots__ = ("X", "feature_names", "items")
    _arity: ClassVar[int]
    _names: ClassVar[tuple[str, ...]]  # of the arrays, in the order of the constructor
    X: Any
    feature_names: tuple[str, ...] | None  # where X was a data frame
    items: Any  # what the anchors are compared with, where it is not X itself

    @classmethod
    def _build(
        cls, X: Any, *columns: NDArray[Any] | None, names: tuple[str, ...] | None = None, items: Any = None
    ) -> Self:
        """The way in for what is checked already: a selection costs its own size, whatever the size of X."""
        self = object.__new__(cls)
        self._store(X, *columns, names=names, items=items)
        return self

    def _store(self, X: Any, *columns: NDArray[Any] | None, names: tuple[str, ...] | None, items: Any = None) -> None:
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "items", items)
        for name, column in zip(self._names, columns, strict=True):
            if column is not None:
                # One layout, so that compiled code sees one type.
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
        # NumPy's own pickling forgets that an array is read-only.
        return partial(self._build, names=self.feature_names, items=self.items), (self.X, *self._columns())

    def __len__(self) -> int:
        return len(getattr(self, self._names[0]))

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape that the comparisons would have as one dense array."""
        return len(self), self._arity, self.n_features

    def __getitem__(self, key: Any) -> Self:
        """The comparisons that a slice, numbers, a mask or one number selects, over the same X."""
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
        """The same comparisons over the same rows in another form."""
        return self._build(X, *self._columns(), names=self.feature_names, items=self.items)

    def __repr__(self) -> str:
        kind = f"{self.X.dtype}{' CSR' if sp.issparse(self.X) else ''}"
        items = "" if self.items is None else f", items of shape {self.items.shape}"
        return f"<{type(self).__name__}: {len(self)} over X of shape {self.X.shape}, {kind}{items}>"


class Pairs(_Comparisons):
    """Pairs of rows of one X, and whether the two rows of each are similar.

    X is kept as it is, in its dtype and without a copy; a selection of pairs refers to the same X.

    Parameters
    ----------
    X : array, memory map, CSR matrix or data frame of shape (n_rows, n_features)
    left, right : row numbers of each pair
    similar : booleans, or +1 for similar and -1 for dissimilar; None for pairs without labels

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0, 1], [2, 3], [5, 5]], dtype=np.uint8)
    >>> pairs = Pairs(X, left=[0, 0], right=[1, 2], similar=[True, False])
    >>> pairs
    <Pairs: 2 over X of shape (3, 2), uint8>
    >>> pairs.y
    array([ 1, -1], dtype=int8)
    >>> pairs[1:].differences()
    array([[-5., -4.]])
    """

    _arity = 2
    _names = ("left", "right", "similar")
    __slots__ = _names
    left: NDArray[np.intp]
    right: NDArray[np.intp]
    similar: NDArray[np.bool_] | None

    def __init__(self, X: Any, left: ArrayLike, right: ArrayLike, similar: ArrayLike | None = None) -> None:
        names, X = _column_names(X), check_rows(X)
        left, right = _check_columns((X.shape[0],) * 2, left=left, right=right)
        self._store(X, left, right, None if similar is None else check_signs(similar, len(left)) > 0, names=names)

    @classmethod
    def from_array(cls, array: ArrayLike, similar: ArrayLike | None = None) -> Self:
        """Pairs out of an array of shape (n, 2, n_features), which is not copied if it is contiguous."""
        X, (left, right) = _split(array, cls._arity)
        return cls._build(X, left, right, None if similar is None else check_signs(similar, len(left)) > 0)

    @classmethod
    def from_labels(
        cls,
        X: Any,
        y: ArrayLike,
        n: int | Literal["auto"] = "auto",
        *,
        balance: float | None = None,
        random_state: Seed = None,
    ) -> Self:
        """Draw distinct pairs of different rows, in random order; rows of one class are similar.

        Parameters
        ----------
        y : class of each row: numbers, strings or a Series
        n : number of pairs; "auto" is 40 c (c - 1) for c classes, or as many as there are
        balance : share of similar pairs, 0 to 1; None draws uniformly from all pairs

        Each pair has left < right, and within what `balance` asks for all pairs are equally likely.

        Examples
        --------
        >>> pairs = Pairs.from_labels([[0], [1], [5]], ["a", "a", "b"], n=2, balance=0.5, random_state=0)
        >>> pairs.left, pairs.right, pairs.similar
        (array([0, 1]), array([1, 2]), array([ True, False]))
        """
        names, X = _column_names(X), check_rows(X)
        return cls._build(X, *draw_pairs(class_codes(y, X.shape[0]), n, balance, random_state), names=names)

    @property
    def y(self) -> NDArray[np.int8] | None:
        """The labels as +1 for similar and -1 for dissimilar, or None."""
        return None if self.similar is None else np.where(self.similar, np.int8(1), np.int8(-1))

    def labelled(self, y: ArrayLike | None) -> Self:
        """These pairs with the labels y; without y those that they have, and an error where they have none."""
        if y is not None:
            similar = check_signs(y, len(self), "y") == 1
            return self._build(self.X, self.left, self.right, similar, names=self.feature_names)
        if self.similar is None:
            raise ValueError(
                "y is needed: these pairs have no labels; give y with +1 for similar and -1 for dissimilar pairs, "
                "or Pairs(..., similar=...)"
            )
        return self

    def differences(self, start: int = 0, stop: int | None = None, *, sparse: bool = False) -> Any:
        """The rows `X[left] - X[right]` of the pairs start..stop-1, computed in float64: dense, or CSR where X is."""
        block = slice(start, stop)
        left, right = self.X[self.left[block]], self.X[self.right[block]]
        if sp.issparse(self.X):
            if sparse:
                return left.astype(np.float64) - right.astype(np.float64)
            left, right = left.toarray(), right.toarray()
        return np.subtract(left, right, dtype=np.float64, order="C")


class Triplets(_Comparisons):
    """Triplets of rows: the anchor is to be nearer, or more similar, to the positive than to the negative.

    X is kept as it is, in its dtype and without a copy; a selection of triplets refers to the same X.

    Parameters
    ----------
    X : array, memory map, CSR matrix or data frame of shape (n_rows, n_features)
    anchor, positive, negative : row numbers of each triplet
    items : the rows that positive and negative number, by default X; their features may be others than those of X

    Examples
    --------
    >>> Triplets([[0.0], [1.0], [5.0]], anchor=[0, 1], positive=[1, 0], negative=[2, 2])
    <Triplets: 2 over X of shape (3, 1), float64>
    """

    _arity = 3
    _names = ("anchor", "positive", "negative")
    __slots__ = _names
    anchor: NDArray[np.intp]
    positive: NDArray[np.intp]
    negative: NDArray[np.intp]

    def __init__(self, X: Any, anchor: ArrayLike, positive: ArrayLike, negative: ArrayLike, items: Any = None) -> None:
        names, X = _column_names(X), check_rows(X)
        items = None if items is None else check_rows(items, "items")
        n_items = X.shape[0] if items is None else items.shape[0]
        columns = _check_columns((X.shape[0], n_items, n_items), anchor=anchor, positive=positive, negative=negative)
        self._store(X, *columns, names=names, items=items)

    @property
    def n_item_features(self) -> int:
        """Number of columns of the items."""
        return self.n_features if self.items is None else int(self.items.shape[1])

    @classmethod
    def from_array(cls, array: ArrayLike) -> Self:
        """Triplets out of an array of shape (n, 3, n_features), which is not copied if it is contiguous."""
        X, columns = _split(array, cls._arity)
        return cls._build(X, *columns)

    @classmethod
    def from_labels(cls, X: Any, y: ArrayLike, n: int = 100_000, *, random_state: Seed = None) -> Self:
        """Draw triplets: any row with company in its class, another row of the class, and a row of another.

        Each of the three is uniform over its choices, and triplets may repeat.

        Examples
        --------
        >>> triplets = Triplets.from_labels([[0], [1], [5]], ["a", "a", "b"], n=4, random_state=0)
        >>> triplets.negative
        array([2, 2, 2, 2])
        """
        names, X = _column_names(X), check_rows(X)
        return cls._build(X, *draw_triplets(class_codes(y, X.shape[0]), n, random_state), names=names)


def _column_names(X: Any) -> tuple[str, ...] | None:
    """The names of a data frame's columns, if they are all strings, as scikit-learn wants them."""
    names = tuple(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def _check_columns(n_rows: tuple[int, ...], **columns: ArrayLike) -> list[NDArray[np.intp]]:
    # Copied, so that nobody can write row numbers into them later that were never checked.
    pairs = zip(columns.items(), n_rows, strict=True)
    checked = [check_indices(column, n, name).copy() for (name, column), n in pairs]
    lengths = [len(column) for column in checked]
    if len(set(lengths)) > 1:
        raise ValueError(f"{', '.join(columns)} must have the same length, got {lengths}")
    return checked


def _split(array: ArrayLike, arity: int) -> tuple[Any, list[NDArray[np.intp]]]:
    """X and the row numbers of each role, for comparisons that lie one after another in a 3-D array."""
    array = np.asarray(array)
    if array.ndim != 3 or array.shape[1] != arity:
        raise ValueError(f"array must have the shape (n, {arity}, n_features), got {array.shape}")
    n_rows = arity * len(array)
    X = check_rows(array.reshape(n_rows, array.shape[2]), "array")
    return X, [np.arange(role, n_rows, arity) for role in range(arity)]

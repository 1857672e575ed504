"""Pairs of rows, given or drawn from classes, and the base class that they share with triplets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike

from mahala.engine.neighbors import class_neighbors
from mahala.support.arrays import Array, BoolArray, IndexArray, Places, Rows, RowsLike, SignArray, StoredRows
from mahala.support.display import as_table, paragraph
from mahala.support.names import RowNames, answer_columns
from mahala.support.parameters import Count, Seed, Share, check_seed, check_value
from mahala.support.tags import Labels, TagSets, are_similar, n_classes, row_labels
from mahala.support.validation import check_indices, check_rows, check_signs, is_sparse

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
    def _build(cls, X: Any, *columns: Array | None, names: tuple[str, ...] | None = None, items: Any = None) -> Self:
        """Build comparisons of arguments that are valid already, at a cost that does not depend on the size of X."""
        self = object.__new__(cls)
        self._store(X, *columns, names=names, items=items)
        return self

    def _store(self, X: Any, *columns: Array | None, names: tuple[str, ...] | None, items: Any = None) -> None:
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
    def _checked_numbers(cls, X: Rows, items: Rows | None, *columns: ArrayLike) -> list[Array]:
        """Return the row numbers of each role: the first into X, the others into items, or into X if these are None."""
        n_rows = [X.shape[0]] + [(X if items is None else items).shape[0]] * (cls._arity - 1)
        names = cls._names[: cls._arity]
        # Copied, so that the caller cannot change checked row numbers later.
        checked = [check_indices(*argument).copy() for argument in zip(columns, n_rows, names, strict=True)]
        lengths = [len(column) for column in checked]
        if len(set(lengths)) > 1:
            raise ValueError(f"{', '.join(names)} must have the same length, got {lengths}")
        return checked

    @classmethod
    def _split(cls, array: ArrayLike) -> tuple[Rows, list[Array]]:
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

    def _columns(self) -> list[Array | None]:
        return [getattr(self, name) for name in self._names]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} cannot be deleted")

    def __reduce__(self) -> tuple[object, ...]:
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

    def rows_of(self, role: str, key: Places | int) -> Any:
        """Return the rows of X, or of the items for all roles but the first, that have a role in some comparisons."""
        X = self.X if self.items is None or role == self._names[0] else self.items
        return X[getattr(self, role)[key]]

    def over(self, X: StoredRows) -> Self:
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


def column_names(X: object) -> tuple[str, ...] | None:
    """Return the column names of a data frame if all of them are strings, as scikit-learn requires; otherwise None."""
    names = tuple(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def sort_by_class(codes: IndexArray) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Return the rows sorted by class, and for each of them the positions at which its class starts and ends."""
    size = np.bincount(codes)
    stop = np.cumsum(size)
    return np.argsort(codes, kind="stable"), np.repeat(stop - size, size), np.repeat(stop, size)


class Pairs(Comparisons):
    """Pairs of rows of one X, and whether the two rows of each are similar.

    X keeps its dtype and is not copied; a selection of pairs refers to the same X.

    Parameters
    ----------
    X : array, memory map, CSR matrix or data frame of shape (n_rows, n_features)
    left, right : row numbers of each pair
    similar : booleans, or +1 for similar and -1 for dissimilar, default=None
        None is for pairs without labels.

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
    left: IndexArray
    right: IndexArray
    similar: BoolArray | None

    def __init__(self, X: RowsLike, left: ArrayLike, right: ArrayLike, similar: ArrayLike | None = None) -> None:
        names, rows = column_names(X), check_rows(X)
        columns = self._checked_numbers(rows, None, left, right)
        self._store(rows, *columns, None if similar is None else check_signs(similar, len(columns[0])) > 0, names=names)

    @classmethod
    def from_array(cls, array: ArrayLike, similar: ArrayLike | None = None) -> Self:
        """Build pairs from an array of shape (n, 2, n_features), which is not copied if it is contiguous."""
        X, (left, right) = cls._split(array)
        return cls._build(X, left, right, None if similar is None else check_signs(similar, len(left)) > 0)

    @classmethod
    def from_names(
        cls, X: RowsLike, answers: Iterable[Sequence[Hashable]], names: Iterable[Hashable] | None = None
    ) -> Self:
        """Build pairs from answers that name rows.

        Parameters
        ----------
        X : data frame of pandas whose index has the names of its rows, or other rows with `names`
        answers : tuples (left, right, similar) or (left, right) of names, or a data frame with these columns
        names : the name of each row of X, default=None

        Examples
        --------
        >>> pairs = Pairs.from_names([[0.0], [5.0]], [("oak", "fir", False)], names=["oak", "fir"])
        >>> pairs.left, pairs.right, pairs.similar
        (array([0]), array([1]), array([False]))
        """
        rows = RowNames.of(X, names)
        left, right, *similar = answer_columns(answers, "pairs")
        return cls(X, rows.rows(left), rows.rows(right), *similar)

    @classmethod
    def from_labels(
        cls,
        X: RowsLike,
        y: ArrayLike,
        n: int | Literal["auto"] = "auto",
        *,
        balance: float | None = None,
        jaccard: float = 0.0,
        random_state: Seed = None,
    ) -> Self:
        """Draw distinct pairs of different rows, in random order; rows of one class, or that share a tag, are similar.

        Parameters
        ----------
        y : class of each row: numbers, strings or a Series; or its tags: a set or list for each row, or an indicator
            matrix of 0 and 1 with a column for each tag, dense or sparse
        n : int or "auto", default="auto"
            Number of pairs; "auto" is 40 c (c - 1) for c classes or tags, or all pairs if there are fewer.
        balance : float from 0 to 1 or None, default=None
            Share of similar pairs; None draws uniformly from all pairs.
        jaccard : float from 0 to 1, default=0
            Smallest Jaccard index of the tags of similar rows: the share of the tags of either that both have. Rows
            without a shared tag are never similar.
        random_state : int, RandomState, Generator or None, default=None

        Each pair has left < right, and all pairs that agree with `balance` are equally likely.

        Examples
        --------
        >>> pairs = Pairs.from_labels([[0], [1], [5]], ["a", "a", "b"], n=2, balance=0.5, random_state=0)
        >>> pairs.left, pairs.right, pairs.similar
        (array([0, 1]), array([1, 2]), array([ True, False]))
        """
        names, rows = column_names(X), check_rows(X)
        labels = row_labels(y, rows.shape[0], jaccard)
        return cls._build(rows, *draw_pairs(labels, n, balance, random_state), names=names)

    @classmethod
    def from_neighbors(cls, X: RowsLike, y: ArrayLike, n_neighbors: int = 3, *, jaccard: float = 0.0) -> Self:
        """Pair each row with its nearest rows of its class, which are similar, and of other classes, which are not.

        y, with classes or tags, and `jaccard` are as for `from_labels`.

        Examples
        --------
        >>> pairs = Pairs.from_neighbors([[0.0], [1.0], [5.0]], ["a", "a", "b"], n_neighbors=1)
        >>> pairs.left, pairs.right, pairs.similar
        (array([0, 1, 0, 1, 2]), array([1, 0, 2, 2, 1]), array([ True,  True, False, False, False]))
        """
        names, rows = column_names(X), check_rows(X)
        both = [np.stack(neighbor_pairs(near)) for near in near_rows(rows, y, n_neighbors, jaccard)]
        similar = np.repeat([True, False], [pairs.shape[1] for pairs in both])
        return cls._build(rows, *np.hstack(both), similar, names=names)

    @property
    def y(self) -> SignArray | None:
        """The labels as +1 for similar and -1 for dissimilar, or None."""
        return None if self.similar is None else np.where(self.similar, np.int8(1), np.int8(-1))

    def labelled(self, y: ArrayLike | None) -> Self:
        """Return these pairs with the labels y (None: their own labels); raise a ValueError if there are none."""
        if y is not None:
            similar = check_signs(y, len(self), "y") == 1
            return self._build(self.X, self.left, self.right, similar, names=self.feature_names)
        if self.similar is None:
            advice = "give y with +1 for similar and -1 for dissimilar pairs, or Pairs(..., similar=...)"
            raise ValueError(f"y is needed: these pairs have no labels; {advice}")
        return self

    def differences(self, *, sparse: bool = False) -> Any:
        """Return `X[left] - X[right]` in float64; with `sparse` as CSR if X is CSR."""
        left, right = self.X[self.left], self.X[self.right]
        if is_sparse(self.X):
            if sparse:
                return left.astype(np.float64) - right.astype(np.float64)
            left, right = left.toarray(), right.toarray()
        return np.subtract(left, right, dtype=np.float64, order="C")


def neighbor_pairs(near: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Return rows and the neighbours of each, given as by `class_neighbors`, as far as there are any."""
    rows, column = np.nonzero(near < len(near))
    return rows, near[rows, column]


def near_rows(X: Rows, y: ArrayLike, n_neighbors: int, jaccard: float) -> tuple[IndexArray, IndexArray]:
    """Return the numbers of each row's nearest similar and other rows; where there are too few, n rows."""
    check_value(n_neighbors, "n_neighbors", Count)
    if is_sparse(X):
        raise ValueError("X must be dense for a search of near rows, got a sparse matrix: use X.toarray()")
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float32
    labels = row_labels(y, X.shape[0], jaccard)
    return class_neighbors(np.ascontiguousarray(X, dtype=dtype), labels, n_neighbors, n_neighbors)


def draw_pairs(
    labels: Labels,
    n: int | Literal["auto"],
    balance: float | None,
    random_state: Seed,
    *,
    name: str = "n",
    at_most: bool = False,
) -> tuple[IndexArray, IndexArray, BoolArray]:
    """Return n distinct pairs of rows, or with `at_most` as many as there are, and whether the two are similar."""
    tags = labels if isinstance(labels, TagSets) else None
    order, _, class_stop = sort_by_class(labels.codes if isinstance(labels, TagSets) else labels)
    check_value(n, name, Literal["auto"] | Count)
    check_value(balance, "balance", Share | None)
    # Each row is paired with rows that follow it when they are sorted by class: those of its own class first, then
    # those of later classes. So its partners of each kind are a range of positions; with tags, of ranks among them.
    following, end = np.arange(1, len(order) + 1), np.full(len(order), len(order))
    if balance is None:
        kinds = {"pairs": (following, end)}
    elif tags is not None:
        n_similar, none = tags.n_similar(later=True), np.zeros_like(end)
        kinds = {"similar pairs": (none, n_similar), "dissimilar pairs": (none, end - following - n_similar)}
    else:
        kinds = {"similar pairs": (following, class_stop), "dissimilar pairs": (class_stop, end)}
    available = {kind: int((stop - first).sum()) for kind, (first, stop) in kinds.items()}
    counts = _count_pairs(n, balance, n_classes(labels), available, name, at_most)

    rng = check_seed(random_state)
    drawn = {kind: _draw_positions(*kinds[kind], count, rng) for kind, count in counts.items()}
    if tags is not None and balance is not None:
        for kind, (first, ranks) in drawn.items():
            drawn[kind][1] = tags.place(first, ranks, kind == "similar pairs", later=True)
    both = np.hstack(list(drawn.values()))
    i, j = order[both[:, rng.permutation(both.shape[1])]]
    return np.minimum(i, j), np.maximum(i, j), are_similar(labels, i, j)


def _count_pairs(
    n: int | Literal["auto"], balance: float | None, n_classes: int, available: dict[str, int], name: str, at_most: bool
) -> dict[str, int]:
    """The number of pairs of each kind to draw."""

    def split(n: int) -> dict[str, int]:
        counts = [n] if balance is None else [round(n * balance), n - round(n * balance)]
        return dict(zip(available, counts, strict=True))

    def too_many(n: int) -> bool:
        return any(count > available[kind] for kind, count in split(n).items())

    if n_classes == 1 and (isinstance(n, str) or balance not in (None, 1)):
        advice = f"for pairs of one class give {name}, with balance=None or 1"
        raise ValueError(f"y must hold at least two classes, got one; {advice}")
    target = 40 * n_classes * (n_classes - 1) if isinstance(n, str) else int(n)
    at_most = at_most or isinstance(n, str)
    for kind, count in split(target).items():
        if count > available[kind] and (not at_most or available[kind] == 0):
            share = "" if balance is None else f" with balance={balance:g}"
            raise ValueError(f"{name}={n!r}{share} asks for {count} {kind}, but only {available[kind]} are available")
    if not at_most:
        return split(target)
    # The counts grow with n, so bisection finds the largest n for which there are enough pairs.
    most = min(target, sum(available.values()))
    return split(bisect_right(range(most + 1), False, key=too_many) - 1)


def _draw_positions(first: IndexArray, stop: IndexArray, n: int, rng: np.random.RandomState) -> IndexArray:
    """Draw n distinct pairs (i, j) with first[i] <= j < stop[i], in any order; the shape is (2, n)."""
    ends = np.cumsum(stop - first)
    population = int(ends[-1])
    numbers = rng.permutation(population)[:n] if 3 * n >= population else np.empty(0, dtype=np.intp)
    # In memory proportional to n: the first n distinct numbers of a uniform stream are a draw without replacement.
    while len(numbers) < n:
        numbers = np.sort(np.append(numbers, rng.randint(population, size=n - len(numbers), dtype=np.intp)))
        numbers = numbers[np.append(True, numbers[1:] > numbers[:-1])]  # np.unique hashes: ten times as long
    i = np.searchsorted(ends, numbers, side="right")
    return np.stack([i, stop[i] - (ends[i] - numbers)])

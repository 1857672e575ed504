"""Rows with several labels: their sets of tags, and which rows share tags."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mahala.support.arrays import Array, BoolArray, FloatArray, IndexArray, Places, row_blocks
from mahala.support.lazily import sp
from mahala.support.parameters import Share, check_value
from mahala.support.validation import (
    COLLECTIONS,
    as_floats,
    check_valid_sparse,
    class_codes,
    is_missing,
    is_sparse,
    to_numpy,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Sets of tags of which all pairs are held.
MOST_RELATED = 4096


class TagSets:
    """The set of tags of each row; two rows are similar if they share a tag, and enough of their tags.

    Rows with the same tags are one entry of an indicator matrix of the distinct sets, so that what is asked of all
    pairs of rows is computed for the pairs of distinct sets.

    Parameters
    ----------
    indicator : CSR matrix of shape (n_rows, n_tags), whose entries are the tags of each row
    least : the smallest Jaccard index of similar rows
    """

    def __init__(self, indicator: csr_array, least: float = 0.0) -> None:
        indicator.sort_indices()
        limits, numbers = indicator.indptr, dict[bytes, int]()
        keys = (indicator.indices[a:b].tobytes() for a, b in pairwise(limits))
        self.codes = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)
        first = np.unique(self.codes, return_index=True)[1]
        distinct = indicator[first]
        ones = np.ones(len(distinct.indices))
        self._sets = sp.csr_array((ones, distinct.indices, distinct.indptr), shape=distinct.shape)
        self._n_tags = np.diff(self._sets.indptr)
        self._least = least

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Places) -> Self:
        return type(self)(self._sets[self.codes[rows]], self._least)

    @property
    def n_classes(self) -> int:
        """The number of tags that rows have, and one more if there are rows without tags."""
        return len(np.unique(self._sets.indices)) + int((self._n_tags == 0).any())

    def copies(self) -> tuple[IndexArray, IndexArray]:
        """Return a row number and a tag for each tag of each row."""
        rows = self._sets[self.codes]
        return np.repeat(np.arange(len(self)), np.diff(rows.indptr)), rows.indices.astype(np.intp)

    def jaccard(self, left: IndexArray, right: IndexArray) -> FloatArray:
        """Return the Jaccard index of two rows each: the share of their tags that both have, 0 without tags."""
        result = np.empty(len(left))
        for block in row_blocks(len(left), 64):
            a, b = self.codes[left[block]], self.codes[right[block]]
            shared: FloatArray = self._sets[a].multiply(self._sets[b]).sum(axis=1)
            result[block] = self._index(shared, self._n_tags[a] + self._n_tags[b])
        return result

    def similar(self, left: IndexArray, right: IndexArray) -> BoolArray:
        """Return whether two rows each are similar."""
        if self._relation is None:
            return self._suffices(self.jaccard(left, right))
        return np.asarray(self._relation[self.codes[left], self.codes[right]])

    def similar_to(self, rows: Places) -> BoolArray:
        """Return which of all rows are similar to some rows."""
        codes = self.codes[rows]
        related = self._related(codes).toarray() > 0.0 if self._relation is None else self._relation[codes]
        return np.asarray(related[:, self.codes])

    def n_similar(self, *, later: bool = False) -> IndexArray:
        """Return the number of other rows that are similar to each row, or of those that are `later` in `order`.

        The numbers are in the order of `order`.
        """
        n_similar = np.empty(len(self._sizes), dtype=np.intp)
        own = np.empty(len(self._sizes), dtype=bool)
        for sets, related in self._relations(np.arange(len(self._sizes)), later=False):
            own[sets] = related[np.arange(len(sets)), sets]
            n_similar[sets] = related @ self._sizes
        if not later:
            return np.asarray((n_similar - own)[self.codes[self.order]])
        for sets, related in self._relations(np.arange(len(self._sizes)), later=True):
            n_similar[sets] = related @ self._sizes
        codes = self.codes[self.order]
        return n_similar[codes] + np.where(own[codes], self._ends[codes] - 1 - np.arange(len(self)), 0)

    def place(self, places: IndexArray, ranks: IndexArray, similar: bool, *, later: bool = False) -> IndexArray:
        """Return for each place in `order` that of its other row of a rank, from 0, among those similar to it or not.

        With `later` only rows after it count.
        """
        codes = self.codes[self.order[places]]
        result = np.empty(len(places), dtype=np.intp)
        for sets, related in self._relations(np.unique(codes), later):
            chosen = np.flatnonzero((codes >= sets[0]) & (codes <= sets[-1]))
            line, place, rank = np.searchsorted(sets, codes[chosen]), places[chosen], ranks[chosen]
            first = self._ends[sets] if later else np.zeros_like(sets)
            at = _Ranges(related, self._sizes, self._ends, first)
            if later:  # those of its own set come first; rows without tags are not similar
                own = (self._n_tags[codes[chosen]] > 0) == similar
                n_own = np.where(own, self._ends[codes[chosen]] - 1 - place, 0)
                beyond = np.flatnonzero(rank >= n_own)
                result[chosen] = place + 1 + rank
                result[chosen[beyond]] = at.place(line[beyond], (rank - n_own)[beyond], similar)
            else:  # the last row instead of the row itself
                result[chosen] = at.place(line, rank, similar)
                itself = np.flatnonzero(result[chosen] == place)
                n_kind = at.totals if similar else len(self) - at.totals
                result[chosen[itself]] = at.place(line[itself], n_kind[line[itself]] - 1, similar)
        return result

    @cached_property
    def order(self) -> IndexArray:
        """The rows, sorted by their set of tags."""
        return np.argsort(self.codes, kind="stable")

    @cached_property
    def _sizes(self) -> IndexArray:
        return np.bincount(self.codes)

    @cached_property
    def _ends(self) -> IndexArray:
        return np.cumsum(self._sizes)

    @cached_property
    def _relation(self) -> BoolArray | None:
        """Which sets are similar, if there are not too many of them."""
        n = len(self._sizes)
        return None if n > MOST_RELATED else np.asarray(self._related(np.arange(n)).toarray() > 0.0)

    def _relations(self, sets: IndexArray, later: bool) -> Iterable[tuple[IndexArray, csr_array]]:
        """Yield some of the sets and which sets, of all or of those after each, they are similar to."""
        for block in row_blocks(len(sets), 2 * len(self._sizes)):
            related = self._related(sets[block])
            if later:
                of_row = np.repeat(sets[block], np.diff(related.indptr))
                related.data[related.indices <= of_row] = 0.0
                related.eliminate_zeros()
            yield sets[block], related

    def _related(self, sets: IndexArray) -> csr_array:
        """Return a matrix with ones where some sets are similar to others."""
        shared = self._sets[sets] @ self._sets.T
        shared.sort_indices()
        total = np.repeat(self._n_tags[sets], np.diff(shared.indptr)) + self._n_tags[shared.indices]
        shared.data = self._suffices(self._index(shared.data, total)).astype(np.float64)
        shared.eliminate_zeros()
        return shared

    @staticmethod
    def _index(shared: FloatArray, total: IndexArray) -> FloatArray:
        return np.asarray(shared / np.maximum(total - shared, 1.0))

    def _suffices(self, index: FloatArray) -> BoolArray:
        return (index > 0.0) & (index >= self._least)


class _Ranges:
    """The ranges of places that the sets of a relation have, for each of its lines, and what is between them.

    Places count from `first`, at or after which all ranges are.
    """

    def __init__(self, related: csr_array, sizes: IndexArray, ends: IndexArray, first: IndexArray) -> None:
        line = np.repeat(np.arange(len(first)), np.diff(related.indptr))
        self._starts = (ends - sizes)[related.indices]
        self._summed = np.append(0, np.cumsum(sizes[related.indices]))  # the rows in all ranges before one
        self._base, self._first, self._step = self._summed[related.indptr[:-1]], first, int(ends[-1]) + 1
        self.totals = self._summed[related.indptr[1:]] - self._base
        before = self._summed[:-1] - self._base[line]
        # Rows in or between the ranges of a line, up to each; in one sorted array, which serves all searches.
        self._inside = before + sizes[related.indices] + self._step * line
        self._between = self._starts - first[line] - before + self._step * line

    def place(self, line: IndexArray, rank: IndexArray, inside: bool) -> IndexArray:
        """Return the place of a rank among the rows in the ranges of a line, or among those between them."""
        at = np.searchsorted(self._inside if inside else self._between, rank + self._step * line, side="right")
        if not inside:
            return np.asarray(self._first[line] + rank + self._summed[at] - self._base[line])
        return np.asarray(self._starts[at] + rank - (self._summed[at] - self._base[line]))


Labels = IndexArray | TagSets  # the class code of each row, or its tags


def row_labels(y: Any, n_rows: int, least: float = 0.0) -> Labels:
    """Return the class codes of rows, or their tags if they have several labels."""
    tags = read_tags(y, n_rows, least)
    return class_codes(y, n_rows) if tags is None else tags


def read_tags(y: Any, n_rows: int, least: float = 0.0) -> TagSets | None:
    """Return the tags of rows, or None if these have one label each.

    Tags are an indicator matrix, dense with at least two columns or sparse, or a collection of tags for each row.
    Nested lists of 0 and 1 only, of one length, are an indicator matrix.

    >>> read_tags([{"oak", "old"}, {"old"}, set()], 3).jaccard(np.array([0, 0]), np.array([1, 2]))
    array([0.5, 0. ])
    """
    check_value(least, "jaccard", Share)
    y = to_numpy(y)
    if is_sparse(y) or getattr(y, "ndim", 1) == 2:
        if not is_sparse(y) and y.shape[1] < 2:
            return None
        indicator = _indicator(y)
    else:
        rows = y if isinstance(y, list | tuple) else np.asarray(y)
        if isinstance(rows, np.ndarray) and (rows.dtype != object or rows.ndim != 1):
            return None
        if not any(isinstance(row, COLLECTIONS) for row in rows):
            return None
        numbers = _as_numbers(rows)
        if numbers is not None and numbers.shape[1] == 1:
            return None
        if numbers is not None and np.isin(numbers, (0, 1)).all():
            indicator = sp.csr_array(numbers)
        else:
            indicator = _of_collections(rows)
    if indicator.shape[0] != n_rows:
        raise ValueError(f"y must have tags for each of the {n_rows} rows, got {indicator.shape[0]} sets")
    return TagSets(indicator, float(least))


def are_similar(labels: Labels, left: IndexArray, right: IndexArray) -> BoolArray:
    """Return whether two rows each are of one class, or have similar tags."""
    return labels.similar(left, right) if isinstance(labels, TagSets) else labels[left] == labels[right]


def similar_to(labels: Labels, rows: Places) -> BoolArray:
    """Return which of all rows are of the class of some rows, or have tags similar to theirs."""
    return labels.similar_to(rows) if isinstance(labels, TagSets) else labels[rows][:, np.newaxis] == labels


def n_classes(labels: Labels) -> int:
    """Return the number of classes or tags of rows."""
    return labels.n_classes if isinstance(labels, TagSets) else int(labels.max()) + 1


def _indicator(y: Any) -> csr_array:
    if is_sparse(y):
        matrix = sp.csr_array(y)
        check_valid_sparse(matrix, "y")
        matrix.sum_duplicates()
    else:
        matrix = sp.csr_array(as_floats(y, "y"))
    matrix.eliminate_zeros()
    if not (matrix.data == 1).all():
        wrong = matrix.data[matrix.data != 1][0]
        advice = "a column for each tag; for tags that are numbers give a set for each row"
        raise ValueError(f"y with several columns must be an indicator matrix of 0 and 1, {advice}, got {wrong}")
    return matrix


def _as_numbers(rows: Any) -> Array | None:
    """Return nested lists of numbers, as many in each, as an array; None for others."""
    if not all(isinstance(row, list | tuple | np.ndarray) and len(row) == len(rows[0]) > 0 for row in rows):
        return None
    numbers = np.array([list(row) for row in rows])
    return numbers if numbers.ndim == 2 and numbers.dtype.kind in "biuf" else None


def _of_collections(rows: Iterable[Iterable[Hashable]]) -> csr_array:
    """Return the indicator matrix of tags that are given by row."""
    columns, indices, ends = dict[Hashable, int](), list[int](), [0]
    for number, row in enumerate(rows):
        if not isinstance(row, COLLECTIONS):
            raise ValueError(f"y must hold a set or list of tags for each row, got {row!r} for row {number}")
        try:
            tags = set(row)
        except TypeError:
            raise ValueError(f"y must hold tags, such as text or integers, got {row!r} for row {number}") from None
        if any(map(is_missing, tags)):
            raise ValueError(f"y must hold tags, such as text or integers, got a missing value for row {number}")
        # Sorted, because the order of a set of text differs between processes.
        indices += (columns.setdefault(tag, len(columns)) for tag in sorted(tags, key=repr))
        ends.append(len(indices))
    shape = len(ends) - 1, max(1, len(columns))
    return sp.csr_array((np.ones(len(indices), dtype=np.int8), np.array(indices, dtype=np.intp), ends), shape=shape)

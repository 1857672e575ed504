"""Relevance judgments of items for queries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mahala.extend import ParameterError, WholeNumber, as_floats, check_indices, check_value
from mahala_search.arrays import FloatArray, IndexArray, IntArray, read_only

# How many unknown ids a message names.
_NAMED = 5


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Judgments:
    """Relevance judgments: grades of items (rows of one table) for queries (rows of another); immutable.

    A grade above 0 means relevant, more for a larger grade, and 0 means judged and not relevant. An item that is not
    judged counts as not relevant. A query without a relevant item says nothing about a ranking: it is not among
    `judged_queries`, nothing is learned from it, and evaluations leave it out. Nothing can be learned either from a
    query for which all items are relevant with one grade: every ranking is perfect for it.

    Parameters
    ----------
    query, item : row numbers, one of each per judgment
    grade : the grade of each judgment, a finite number of at least 0
    n_queries, n_items : numbers of rows of the two tables

    The judgments are stored in the order of queries, and of items within a query. A pair that is judged twice with the
    same grade is stored once; with two grades it is an error.

    Examples
    --------
    >>> judgments = Judgments.of([(0, 2, 1.0), (0, 0, 2.0), (2, 1, 0.0)], n_queries=3, n_items=4)
    >>> judgments
    <Judgments: 3 of 4 items for 3 queries, 1 of them with a relevant item>
    >>> judgments.of_query(0)
    (array([0, 2]), array([2., 1.]))
    """

    query: IndexArray
    item: IndexArray
    grade: FloatArray
    n_queries: int
    n_items: int
    indptr: IntArray
    """Judgments of query i are those from `indptr[i]` to `indptr[i + 1] - 1`."""

    def __init__(self, query: ArrayLike, item: ArrayLike, grade: ArrayLike, n_queries: int, n_items: int) -> None:
        self._store(query, item, grade, n_queries, n_items, lambda i, j: f"query {i:.15g}, item {j:.15g}")

    def _store(
        self, query: Any, item: Any, grade: Any, n_queries: int, n_items: int, name: Callable[[Any, Any], str]
    ) -> None:
        check_value(n_queries, "n_queries", WholeNumber)
        check_value(n_items, "n_items", WholeNumber)
        query, item, grade = _numbers(query, "query"), _numbers(item, "item"), _numbers(grade, "grade")
        if not len(query) == len(item) == len(grade):
            lengths = f"{len(query)}, {len(item)} and {len(grade)}"
            raise ValueError(f"query, item and grade must have one entry per judgment, got {lengths}")

        def refuse(wrong: Any, what: str) -> None:
            if wrong.any():
                at = int(wrong.argmax())
                raise ValueError(f"judgments must have {what}, got grade {grade[at]:g} for {name(query[at], item[at])}")

        for column, n, kind in ((query, n_queries, "query"), (item, n_items, "item")):
            refuse(~((column >= 0) & (column < n)), f"{kind} row numbers from 0 to {n - 1}")
            refuse(column != np.floor(column), f"{kind} row numbers that are integers")
        query, item = query.astype(np.intp), item.astype(np.intp)
        refuse(~(np.isfinite(grade) & (grade >= 0.0)), "finite grades of at least 0")

        order = np.lexsort((item, query))
        query, item, grade = query[order], item[order], grade[order]
        again = np.zeros(len(query), dtype=bool)
        again[1:] = (query[1:] == query[:-1]) & (item[1:] == item[:-1])
        for at in np.flatnonzero(again[1:] & (grade[1:] != grade[:-1])):
            grades = f"{grade[at]:g} and {grade[at + 1]:g} for {name(query[at], item[at])}"
            raise ValueError(f"judgments must have one grade per query and item, got {grades}")
        query, item, grade = query[~again], item[~again], grade[~again]
        indptr = np.searchsorted(query, np.arange(n_queries + 1)).astype(np.int64)
        for key, array in (("query", query), ("item", item), ("grade", grade), ("indptr", indptr)):
            object.__setattr__(self, key, read_only(array))
        object.__setattr__(self, "n_queries", int(n_queries))
        object.__setattr__(self, "n_items", int(n_items))

    @classmethod
    def of(cls, qrels: Any, n_queries: int, n_items: int) -> Judgments:
        """Return judgments from any of their forms.

        Parameters
        ----------
        qrels : one of
            - triples (query row, item row, grade), as an array of shape (n, 3) or a sequence of tuples;
            - a dict {query row: {item row: grade}};
            - Judgments, which must have these numbers of queries and items.
        n_queries, n_items : numbers of queries and of items
        """
        if isinstance(qrels, Judgments):
            if (qrels.n_queries, qrels.n_items) != (n_queries, n_items):
                found = f"got {qrels.n_items} items and {qrels.n_queries} queries"
                raise ValueError(f"qrels must be judgments of {n_items} items for {n_queries} queries, {found}")
            return qrels
        array = np.asarray(list(_flat(qrels)) if isinstance(qrels, Mapping) else qrels)
        array = array if array.size else np.empty((0, 3))
        if array.ndim != 2 or array.shape[1] != 3:
            forms = "triples (query row, item row, grade), a dict {query: {item: grade}} or Judgments"
            raise ValueError(f"qrels must be {forms}, got an array of shape {array.shape}")
        if array.dtype.kind not in "biuf":
            advice = "for other ids than row numbers use Judgments.from_ids"
            raise ValueError(f"qrels must hold numbers, got dtype {array.dtype}; {advice}")
        return cls(array[:, 0], array[:, 1], array[:, 2], n_queries, n_items)

    @classmethod
    def from_ids(cls, records: Any, query_ids: Iterable[Hashable], item_ids: Iterable[Hashable]) -> Self:
        """Return judgments whose queries and items are named by ids.

        Parameters
        ----------
        records : (query id, item id, grade) of each judgment, or a dict {query id: {item id: grade}}
        query_ids, item_ids : the id of each row of the queries, and of the items

        >>> Judgments.from_ids([("q7", "b", 1)], query_ids=["q3", "q7"], item_ids=["a", "b", "c"]).query
        array([1])
        """
        records = list(_flat(records) if isinstance(records, Mapping) else records)
        for record in records:
            if len(record) != 3:
                raise ValueError(f"records must be (query id, item id, grade), got {record!r}")
        queries, items = list(query_ids), list(item_ids)
        query, item, grade = zip(*records, strict=True) if records else ((), (), ())
        rows = _rows_of(query, queries, "query"), _rows_of(item, items, "item")
        self = object.__new__(cls)
        n, m = len(queries), len(items)
        self._store(*rows, grade, n, m, lambda i, j: f"query {queries[i]!r}, item {items[j]!r}")
        return self

    def of_query(self, i: int) -> tuple[IndexArray, FloatArray]:
        """Return the judged items of query i, in ascending order, and their grades."""
        if not 0 <= i < self.n_queries:
            raise ValueError(f"i must be a query row number from 0 to {self.n_queries - 1}, got {i}")
        part = slice(self.indptr[i], self.indptr[i + 1])
        return self.item[part], self.grade[part]

    @cached_property
    def judged_queries(self) -> IndexArray:
        """The row numbers of the queries with at least one relevant item, ascending."""
        return read_only(np.unique(self.query[self.grade > 0.0]))

    def select(self, queries: ArrayLike) -> Judgments:
        """Return the judgments of some queries, row numbers or a mask: query i of the result is `queries[i]`.

        So `judgments.select(rows)` goes with `X_queries[rows]`. Items keep their numbers; a query may occur twice.
        """
        rows = np.asarray(queries)
        if rows.dtype == bool and rows.shape == (self.n_queries,):
            rows = np.flatnonzero(rows)
        rows = check_indices(rows, self.n_queries, "queries")
        counts = np.diff(self.indptr)[rows]
        entries = np.arange(counts.sum()) + np.repeat(self.indptr[rows] - (np.cumsum(counts) - counts), counts)
        query = np.repeat(np.arange(len(rows)), counts)
        return Judgments(query, self.item[entries], self.grade[entries], len(rows), self.n_items)

    def __len__(self) -> int:
        return len(self.grade)

    def __repr__(self) -> str:
        return (
            f"<Judgments: {len(self)} of {self.n_items} items for {self.n_queries} queries, "
            f"{len(self.judged_queries)} of them with a relevant item>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Arrays that NumPy unpickles are writeable.
        return Judgments, (self.query, self.item, self.grade, self.n_queries, self.n_items)


def grades_of(judgments: Judgments, query: int, items: IndexArray) -> FloatArray:
    """Return the grades of items for a query with judgments; 0 for those that are not judged."""
    judged, grades = judgments.of_query(query)
    at = np.minimum(np.searchsorted(judged, items), len(judged) - 1)
    return np.where(judged[at] == items, grades[at], 0.0)


def ndcg(ranked: FloatArray, grades: FloatArray, k: int) -> FloatArray:
    """Return the nDCG at k of a ranking, or of several in columns, from its grades and from all grades of the query."""
    ranked, best = ranked[:k], np.sort(grades)[::-1][:k]
    discounts = 1.0 / np.log2(np.arange(2, 2 + max(len(ranked), len(best))))
    result: FloatArray = discounts[: len(ranked)] @ ranked / (discounts[: len(best)] @ best)
    return result


def _numbers(values: Any, name: str) -> Any:
    array = as_floats(values, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-D, one number per judgment, got an array of shape {array.shape}")
    return array


def _flat(nested: Mapping[Any, Any]) -> Iterable[tuple[Any, Any, Any]]:
    for query, grades in nested.items():
        if not isinstance(grades, Mapping):
            raise ValueError(f"a dict of judgments must be {{query: {{item: grade}}}}, got {grades!r} for {query!r}")
        for item, grade in grades.items():
            yield query, item, grade


def _rows_of(names: Iterable[Any], ids: Sequence[Any], kind: str) -> list[int]:
    rows = {name: row for row, name in enumerate(ids)}
    if len(rows) < len(ids):
        twice = next(name for row, name in enumerate(ids) if rows[name] != row)
        raise ValueError(f"{kind}_ids must differ, got {twice!r} twice")
    unknown = list(dict.fromkeys(name for name in names if name not in rows))
    if unknown:
        rest = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        message = f"records must name ids in {kind}_ids, got unknown ones: {', '.join(map(repr, unknown[:_NAMED]))}"
        raise ParameterError(message + rest, "records", f"{kind}_ids")
    return [rows[name] for name in names]

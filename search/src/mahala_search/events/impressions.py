"""Impressions: what was shown for a query, and how people reacted to it."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mahala.extend import as_floats, check_indices, check_rows
from mahala_search.arrays import FloatArray, IndexArray


class Impression(NamedTuple):
    """One impression: a query, the vectors shown from the top, a reaction to each, and who asked."""

    query: Any
    shown: Any
    clicked: FloatArray
    query_id: Hashable
    user: Hashable


class Impressions(Sequence[Impression]):
    """Impressions of items (rows of one table) for queries (rows of another), in the order in which they happened.

    Parameters
    ----------
    queries, items : dense or CSR rows
    query : row number of the query of each impression
    shown : for each impression the row numbers of the items shown, from the top
    clicked : for each impression a reaction to each of these: True or False, or numbers, see `QueryAdapter.learn_one`
    query_ids : sequence of hashables or None, default=None
        An id of each row of `queries`; None for the row number.
    users : sequence of hashables or None, default=None
        An id of the user of each impression.

    Examples
    --------
    >>> impressions = Impressions(np.eye(2), np.eye(2), [0, 1], [[0, 1], [1]], [[False, True], [True]])
    >>> len(impressions), impressions[0].clicked
    (2, array([0., 1.]))
    """

    def __init__(
        self,
        queries: Any,
        items: Any,
        query: ArrayLike,
        shown: Sequence[Any],
        clicked: Sequence[Any],
        *,
        query_ids: Sequence[Hashable] | None = None,
        users: Sequence[Hashable] | None = None,
    ) -> None:
        # Lists are read by position; a pandas Series would be read by its labels.
        shown, clicked = list(shown), list(clicked)
        self.query_ids = None if query_ids is None else list(query_ids)
        self.users = None if users is None else list(users)
        self.queries, self.items = check_rows(queries, "queries"), check_rows(items, "items")
        self.query: IndexArray = check_indices(query, self.queries.shape[0], "query")
        for name, values in (("shown", shown), ("clicked", clicked), ("users", self.users)):
            _check_length(name, values, len(self.query), "impression")
        _check_length("query_ids", self.query_ids, self.queries.shape[0], "query")
        self.shown: list[IndexArray] = []
        self.clicked: list[FloatArray] = []
        for at in range(len(self.query)):
            where = f" of impression {at}"
            self.shown.append(check_indices(shown[at], self.items.shape[0], f"shown{where}"))
            self.clicked.append(check_reactions(clicked[at], len(self.shown[-1]), where))

    def __len__(self) -> int:
        return len(self.query)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            part = copy.copy(self)
            part.query, part.shown, part.clicked = self.query[at], self.shown[at], self.clicked[at]
            part.users = None if self.users is None else self.users[at]
            return part
        row = int(self.query[at])
        query_id = row if self.query_ids is None else self.query_ids[row]
        user = None if self.users is None else self.users[at]
        return Impression(self.queries[[row]], self.items[self.shown[at]], self.clicked[at], query_id, user)

    def __iter__(self) -> Iterator[Impression]:
        return (self[at] for at in range(len(self)))


def _check_length(name: str, values: Sequence[Any] | None, n: int, what: str) -> None:
    if values is not None and len(values) != n:
        raise ValueError(f"{name} must have one entry for each of the {n} {what} rows, got {len(values)}")


def check_reactions(clicked: Any, n_shown: int, where: str = "") -> FloatArray:
    """Return one finite number per result shown."""
    if n_shown == 0:
        raise ValueError(f"shown{where} must have at least one item, got none")
    values = as_floats(clicked, f"clicked{where}")
    if values.shape != (n_shown,):
        wanted = f"one entry for each of the {n_shown} items shown"
        raise ValueError(f"clicked{where} must have {wanted}, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"clicked{where} contains NaN or infinity; every reaction must be a finite number")
    return values

"""What became of the searches of each arm, read from the database."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from mahala_search.arrays import BoolArray, FloatArray
from mahala_search.serve.experiment.arms import LEARNED, PLAIN, Control
from mahala_search.serve.experiment.statistics import Sample
from mahala_search.serve.store.database import Database, log, searches
from mahala_search.serve.store.rows import Collection

# Entries of the log that are read at most, from its end.
_MOST_ENTRIES = 200_000


class Outcome(NamedTuple):
    """`n` searches of an arm with the same user, query and outcome.

    The outcomes: whether something was clicked, 1 / rank of the highest click or 0, and which team of a mixed ranking
    had more clicks: 1 the learned one, 0 the plain one, 0.5 both, NaN without a click.
    """

    arm: str
    user: str | None
    query: str | int | None
    n: int = 1
    clicked: float = 0.0
    reciprocal_rank: float = 0.0
    preference: float = np.nan


class Outcomes:
    """The outcomes of searches as columns."""

    def __init__(self, rows: Sequence[Outcome]) -> None:
        columns: Sequence[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(Outcome._fields)
        self.arm = np.array(columns[0], dtype=object)
        self._users = _numbered(columns[1])
        self._queries = _numbered(columns[2])
        self._n, self.clicked, self.reciprocal_rank, self.preference = (
            np.array(column, dtype=np.float64) for column in columns[3:]
        )

    def sample(self, values: FloatArray, where: NDArray[np.bool_]) -> Sample:
        """Return the sample of those of the outcomes that are chosen and not NaN; units are users."""
        where = where & ~np.isnan(values)
        named, unnamed = where & (self._users >= 0), where & (self._users < 0)
        _, users = np.unique(self._users[named], return_inverse=True)
        n, y = self._n[named], values[named]
        alone = np.repeat(values[unnamed], self._n[unnamed].astype(np.intp))
        columns = [(n, np.ones(len(alone))), (n * y, alone), (n * y * y, alone**2)]
        sums: list[FloatArray] = [np.concatenate([np.bincount(users, of), single]) for of, single in columns]
        return Sample(*sums)

    @property
    def head(self) -> BoolArray:
        """Which belong to the queries that make up the first half of the searches; a query without an id never does."""
        named = self._queries >= 0
        counts = np.bincount(self._queries[named], self._n[named])
        order = np.argsort(-counts, kind="stable")
        before = np.cumsum(counts[order]) - counts[order]
        is_head = np.zeros(len(counts) + 1, dtype=bool)  # the last one for queries without an id
        is_head[order[before < self._n.sum() / 2.0]] = True
        return is_head[self._queries]


def _numbered(values: Sequence[Any]) -> NDArray[np.intp]:
    """Return a number for each value, equal for equal ones; -1 for None."""
    numbers: dict[Any, int] = {}
    return np.array([-1 if value is None else numbers.setdefault(value, len(numbers)) for value in values], np.intp)


def read_outcomes(database: Database, collection: Collection, control: Control) -> tuple[str, Outcomes]:
    """Return where outcomes come from, and the outcomes since the control share was set.

    They are those of recorded searches and the events that name them. If no event names any, they are those of
    impressions: one that names version 0 is of the plain arm, and one of a later version of the learned arm. Before
    the first of a later version all were plain; these are not counted.
    """
    with database.reading() as connection:
        rows = list(_of_searches(connection, collection.name, control))
        if any(row.clicked for row in rows):
            return "searches", Outcomes(rows)
        impressions = list(_of_impressions(connection, collection, control))
    return ("impressions", Outcomes(impressions)) if impressions else ("searches", Outcomes(rows))


def _of_searches(connection: Any, name: str, control: Control) -> Iterator[Outcome]:
    mine = (searches.c.collection == name) & searches.c.arm.is_not(None) & (searches.c.at >= control.since)
    unclicked = sa.cast(searches.c.clicked, sa.Text) == "{}"
    key = [searches.c.arm, searches.c.user, searches.c.query_id, searches.c.query]
    # Most searches have no click: the database counts them.
    counts = sa.select(*key, sa.func.count()).where(mine, unclicked).group_by(*key)
    for arm, user, id, row, n in connection.execute(counts):
        yield Outcome(arm, user, row if id is None else id, n)
    columns = [*key, searches.c.shown, searches.c.clicked, searches.c.teams]
    for arm, user, id, row, shown, clicked, teams in connection.execute(sa.select(*columns).where(mine, ~unclicked)):
        yield outcome(arm, user, row if id is None else id, [item in clicked for item in shown], teams)


def _of_impressions(connection: Any, collection: Collection, control: Control) -> Iterator[Outcome]:
    after = collection.n_logged - _MOST_ENTRIES
    mine = (log.c.collection == collection.name) & (log.c.place > after) & (log.c.kind == "impression")
    mine &= log.c.version.is_not(None) & (log.c.at >= control.since)
    query = sa.select(log.c.user, log.c.version, log.c.body).where(mine)
    all_plain = True
    for user, version, body in connection.execute(query.order_by(log.c.place)):
        all_plain = all_plain and version == 0
        if not all_plain:
            id, clicks = body.get("query_id"), [value > 0.0 for value in body["clicked"]]
            yield outcome(PLAIN if version == 0 else LEARNED, user, body["query"] if id is None else id, clicks)


def outcome(
    arm: str, user: str | None, query: str | int | None, clicks: Sequence[bool], teams: str | None = None
) -> Outcome:
    """Return the outcome of a search by what was clicked, from the top.

    >>> outcome("mixed", "u", "q", [False, True, True], "LPL")
    Outcome(arm='mixed', user='u', query='q', n=1, clicked=1.0, reciprocal_rank=0.5, preference=0.5)
    """
    if not any(clicks):
        return Outcome(arm, user, query)
    preference = np.nan
    if teams is not None:
        won = [team for team, is_clicked in zip(teams, clicks, strict=False) if is_clicked]
        preference = (1.0 + np.sign(won.count("L") - won.count("P"))) / 2.0 if won else np.nan
    return Outcome(arm, user, query, 1, 1.0, 1.0 / (1 + clicks.index(True)), float(preference))

"""What became of the searches of each arm, read from the database."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from mahala_search.arrays import BoolArray, FloatArray, IndexArray
from mahala_search.sidecar.experiment.statistics import Sample
from mahala_search.sidecar.records import Space
from mahala_search.sidecar.store.tables import pages

# What is measured of a search.
MEASURES = ("clicks", "purchases", "revenue")
# Parts of the time, of equal length, by which a report says how a gain grew.
PARTS = 12
# A user with so many searches within a day is a program, and so is one with so many searches in all who reacted to so
# large a share of what was seen.
BOT_SEARCHES, BOT_MINIMUM, BOT_SHARE = 1000, 20, 0.9


class Outcome(NamedTuple):
    """`n` searches of an arm with the same user, query, day, part of the time and outcome.

    `preference` says which team of a mixed ranking had more reactions: 1 the first one, 0 the second one, 0.5 both
    alike, NaN without a reaction or a team. `seen` and `reacted` count items.
    """

    arm: str
    user: str | None
    query: str
    day: int
    part: int
    n: int = 1
    clicks: float = 0.0
    purchases: float = 0.0
    revenue: float = 0.0
    preference: float = np.nan
    seen: int = 0
    reacted: int = 0


class Outcomes:
    """The outcomes of searches as columns, without those of programs."""

    def __init__(self, rows: Sequence[Outcome]) -> None:
        bots = find_bots(rows)
        self.n_of_bots = sum(row.n for row in rows if row.user in bots)
        rows = [row for row in rows if row.user not in bots]
        self.arm = np.array([row.arm for row in rows], dtype=object)
        self._users, self._queries = (_numbered([getattr(row, name) for row in rows]) for name in ("user", "query"))
        self._n, self._part = (np.array([getattr(row, name) for row in rows], np.float64) for name in ("n", "part"))
        names = (*MEASURES, "preference")
        self.values = {name: np.array([getattr(row, name) for row in rows], dtype=np.float64) for name in names}

    def sample(self, measure: str, arm: str, where: BoolArray | None = None) -> Sample:
        """Return the sample of an arm, of those of the outcomes that are chosen and not NaN; units are users."""
        values = self.values[measure]
        chosen = (self.arm == arm) & ~np.isnan(values)
        if where is not None:
            chosen &= where
        named, unnamed = chosen & (self._users >= 0), chosen & (self._users < 0)
        _, users = np.unique(self._users[named], return_inverse=True)
        n = self._n[named]
        alone = np.repeat(values[unnamed], self._n[unnamed].astype(np.intp))
        columns: list[tuple[FloatArray, FloatArray]] = [(n, np.ones(len(alone))), (n * values[named], alone)]
        return Sample(*(np.concatenate([np.bincount(users, of), single]) for of, single in columns))

    def in_part(self, part: int) -> BoolArray:
        """Return which are in a part of the time, of `PARTS`."""
        return np.asarray(self._part == part)

    @property
    def head(self) -> BoolArray:
        """Which belong to the queries that make up the first half of the searches."""
        counts = np.bincount(self._queries, self._n)
        order = np.argsort(-counts, kind="stable")
        before = np.cumsum(counts[order]) - counts[order]
        is_head = np.zeros(len(counts), dtype=bool)
        is_head[order[before < self._n.sum() / 2.0]] = True
        return np.asarray(is_head[self._queries])


def find_bots(rows: Sequence[Outcome]) -> set[str]:
    """Return the users that are programs.

    >>> find_bots([Outcome("plain", "u", "q", 7, 0, n=2000), Outcome("plain", "v", "q", 7, 0, n=20)])
    {'u'}
    """
    of_day: Counter[tuple[str, int]] = Counter()
    sums: dict[str, FloatArray] = defaultdict(lambda: np.zeros(3))
    for row in rows:
        if row.user is not None:
            of_day[row.user, row.day] += row.n
            sums[row.user] += (row.n, row.n * row.seen, row.n * row.reacted)
    busy = {user for (user, _), n in of_day.items() if n >= BOT_SEARCHES}
    return busy | {user for user, (n, seen, k) in sums.items() if n >= BOT_MINIMUM and 0.0 < BOT_SHARE * seen <= k}


def _numbered(values: Sequence[Any]) -> IndexArray:
    """Return a number for each value, equal for equal ones; -1 for None."""
    numbers: dict[Any, int] = {}
    result: NDArray[np.intp] = np.array(
        [-1 if value is None else numbers.setdefault(value, len(numbers)) for value in values], np.intp
    )
    return result


def read_outcomes(connection: Any, space: Space) -> Outcomes:
    """Return the outcomes of the searches with an arm since the control share was set, of which a page was shown."""
    return Outcomes(list(_rows(connection, space)))


def _rows(connection: Any, space: Space) -> Iterator[Outcome]:
    mine = (pages.c.space == space.id) & pages.c.arm.is_not(None) & (pages.c.at >= space.settings.control.since)
    mine &= sa.cast(pages.c.ids, sa.Text) != "null"
    without = sa.cast(pages.c.reactions, sa.Text) == "{}"
    first, last = connection.execute(sa.select(sa.func.min(pages.c.at), sa.func.max(pages.c.at)).where(mine)).one()
    if first is None:
        return
    day = sa.cast(sa.func.floor(pages.c.at / 86400.0), sa.Integer).label("day")
    part = sa.cast(sa.func.floor((pages.c.at - first) * (PARTS / (1.001 * (last - first) + 1e-3))), sa.Integer)
    key = [pages.c.arm, pages.c.user, pages.c.query, day, part.label("part")]
    # Most searches have no reaction: the database counts them.
    counts = sa.select(*key, sa.func.count(), sa.func.min(pages.c.seen)).where(mine, without).group_by(*key)
    for row in connection.execute(counts):
        yield Outcome._make((*row[:-1], 0.0, 0.0, 0.0, np.nan, row[-1] or 0, 0))
    columns = [*key, pages.c.ids, pages.c.seen, pages.c.teams, pages.c.reactions]
    for row in connection.execute(sa.select(*columns).where(mine, ~without)):
        yield Outcome._make((*row[: len(key)], *measured(*row[len(key) :])))


def measured(
    ids: Sequence[str], seen: int | None, teams: str | None, reactions: Mapping[str, Mapping[str, Sequence[Any]]]
) -> tuple[int, float, float, float, float, int, int]:
    """Return what a search brought, as the last fields of `Outcome`; by item and kind: [strength, revenue, ...].

    >>> reactions = {"b": {"click": [1.0, 0.0]}, "c": {"click": [1.0, 0.0], "purchase": [3.0, 9.5]}}
    >>> measured(["a", "b", "c"], None, "ABA", reactions)
    (1, 2.0, 1.0, 9.5, 0.5, 3, 2)
    """
    chosen = {item: kinds for item, kinds in reactions.items() if any(one[0] > 0.0 for one in kinds.values())}
    every = [(kind, one) for kinds in chosen.values() for kind, one in kinds.items()]
    purchases, revenue = sum(kind == "purchase" for kind, _ in every), sum(one[1] for _, one in every)
    won = [team == "A" for item, team in zip(ids, teams or "", strict=False) if item in chosen]
    preference = (1.0 + np.sign(2 * sum(won) - len(won))) / 2.0 if won else np.nan
    n_seen = max(len(ids) if seen is None else seen, len(chosen))
    return 1, float(len(chosen)), float(purchases), float(revenue), float(preference), n_seen, len(chosen)

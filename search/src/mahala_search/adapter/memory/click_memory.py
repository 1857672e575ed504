"""What was clicked for each query: a bounded memory of clicks and of the clicks that ranks alone explain."""

from collections import OrderedDict
from collections.abc import Collection, Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln, logit

from mahala import ModelFileError
from mahala.extend import Array, Stateful, array_value, is_sparse
from mahala_search.adapter.memory.bonuses import NO_BONUS, Bonus, Bonuses, Keys
from mahala_search.adapter.memory.remembered import digest_of
from mahala_search.arrays import Arrays, BoolArray, FloatArray, IndexArray, PagePairs

# Queries that are remembered, and items of each.
QUERIES, ITEMS = 20_000, 32
# Ranks with a rate of their own; lower results have that of the last one. A rate starts as that of all ranks, which
# counts as much as this many results shown.
RANKS, PRIOR = 50, 5.0
# Distinct users of an item and query from whom on it may gain any number of places.
AGREED = 20
# The bonus of an item is the logarithm of its clicks over those expected, one more of both, from the first number to
# the second, in units of the usual difference of scores on a page.
LOWEST, HIGHEST = -1.0, 2.0
# The prior share of queries whose clicks depend on the items, which counts as this many queries: so one query moves the
# share by at most 0.01.
REPEATS, DOUBTS = 0.8, 100.0


class RankRates(Stateful):
    """How often the result at each rank is clicked, whatever it is.

    >>> rates = RankRates()
    >>> for clicked in ([1.0, 0.0], [1.0, 0.0], [0.0, 1.0]):
    ...     clicks, expected = rates.see(np.array(clicked), np.arange(2))
    >>> expected.round(2)
    array([0.44, 0.15])
    """

    FIELDS = (Array("clicks", least=0.0), Array("shown", least=0.0))

    def __init__(self) -> None:
        self.clicks, self.shown = np.zeros(RANKS), np.zeros(RANKS)

    def see(
        self, reactions: FloatArray, ranks: IndexArray | None, weight: float = 1.0, first: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Count the reactions on a page at ranks from 0; return the clicks, numbers from 0 to 1, and those expected.

        A reaction below 0 adds to the clicks expected: there should have been one. On a page without ranks, all results
        have the mean of the clicks, and nothing is counted. Without `first`, results shown were counted before.
        """
        shares = reactions / (np.abs(reactions).max() or 1.0)
        clicks, missed = np.maximum(shares, 0.0), np.maximum(-shares, 0.0)
        expected = np.full(len(clicks), clicks.mean())
        if ranks is not None:
            expected = self.of(ranks)
            counted = ranks < RANKS
            np.add.at(self.clicks, ranks[counted], weight * clicks[counted])
            np.add.at(self.shown, ranks[counted], weight * first)
        return clicks, expected * first + missed

    def of(self, ranks: IndexArray) -> FloatArray:
        """Return the rates of ranks."""
        mean = (self.clicks.sum() + 1.0) / (self.shown.sum() + 10.0)
        rates = (self.clicks + PRIOR * mean) / (self.shown + PRIOR)
        return np.asarray(rates[np.minimum(ranks, RANKS - 1)])

    def corrected(self, pairs: PagePairs, ranks: IndexArray) -> PagePairs:
        """Return the pairs on a page with weights that are corrected for the rank of the better result.

        A click counts in inverse proportion to the rate of its rank; those below the median rate count 1.
        """
        better, worse, weights = pairs
        rates = self.of(ranks)
        return better, worse, weights * np.minimum(1.0, np.median(rates) / rates[better])


class Counts(NamedTuple):
    """What was counted for pairs of queries and items: `query` has places in `queries`."""

    queries: Keys
    query: IndexArray
    items: Keys
    clicks: FloatArray
    expected: FloatArray


class ClickMemory:
    """For each query, the items that were shown: the clicks on each, and those expected from its ranks.

    An item's bonus is log((clicks + 1) / (expected + 1)), times the probability that the clicks of this query depend on
    the items. Its odds are those of all queries times the ratio of two likelihoods: of the clicks if the rate of each
    item is drawn from an exponential distribution around the expected one, and if it is the expected one. The queries
    that were not seen for the longest time are forgotten first, and of one query the items with the fewest clicks.

    >>> memory = ClickMemory()
    >>> for user in range(3):
    ...     memory.learn("jazz", np.array([7, 9], dtype=np.uint64), np.array([0.0, 1.0]), np.array([0.5, 0.25]), user)
    >>> memory.bonus("jazz").values.round(2)
    array([-0.83,  0.75])
    """

    def __init__(self, queries: int = QUERIES, items: int = ITEMS) -> None:
        self.n_queries, self.n_items = queries, items
        self._clear(0)

    def _clear(self, n: int) -> None:
        """Forget all, and make room for n queries."""
        self._rows: OrderedDict[int, int] = OrderedDict()  # of the tables, by the digest of a query
        self._keys = np.zeros((n, self.n_items), dtype=np.uint64)  # of items in ascending order
        self._counts = np.zeros((n, self.n_items, 2), dtype=np.float32)  # clicks, expected clicks
        self._sizes, self._evidence = np.zeros(n, dtype=np.int64), np.zeros(n)
        self._users: dict[int, dict[int, set[int]]] = {}  # who clicked, by query and item, up to AGREED
        self._share: float | None = None

    def __contains__(self, key: Hashable) -> bool:
        return digest_of(key) in self._rows

    def learn(
        self, key: Hashable, items: Keys, clicks: FloatArray, expected: FloatArray, user: Hashable, weight: float = 1.0
    ) -> None:
        """Count a user's clicks on items that were shown for a query, and the clicks that were expected."""
        digest = int(digest_of(key))
        row = self._row(digest)
        size = self._sizes[row]
        keys = np.union1d(self._keys[row, :size], items)
        counts = np.zeros((len(keys), 2))
        counts[np.searchsorted(keys, self._keys[row, :size])] = self._counts[row, :size]
        np.add.at(counts, np.searchsorted(keys, items), weight * np.column_stack([clicks, expected]))
        users = self._users.setdefault(digest, {})
        for item in items[clicks > 0.0].tolist():
            agreed = users.setdefault(item, set())
            if len(agreed) < AGREED:
                agreed.add(digest_of(user))
        if len(keys) > self.n_items:
            kept = np.sort(np.lexsort((counts[:, 1], counts[:, 0]))[-self.n_items :])
            for item in np.delete(keys, kept).tolist():
                users.pop(item, None)
            keys, counts = keys[kept], counts[kept]
        self._sizes[row] = size = len(keys)
        self._keys[row, :size], self._counts[row, :size] = keys, counts
        self._evidence[row], self._share = _log_odds(self._counts[row, :size].astype(np.float64)).sum(), None

    def _row(self, digest: int) -> int:
        """Return the row of a query, which is the newest then; the oldest one gives its row if there is no other."""
        row = self._rows.pop(digest, None)
        if row is None:
            row = len(self._rows)
            if row == self.n_queries:
                oldest, row = self._rows.popitem(last=False)
                self._sizes[row] = 0
                self._users.pop(oldest, None)
            elif row == len(self._sizes):
                for name in ("_keys", "_counts", "_sizes", "_evidence"):
                    table = getattr(self, name)
                    more = np.zeros((min(max(row, 16), self.n_queries - row), *table.shape[1:]), dtype=table.dtype)
                    setattr(self, name, np.concatenate([table, more]))
        self._rows[digest] = row
        return row

    def expected(self, key: Hashable) -> float:
        """Return the clicks that were expected on all items that are remembered for a query."""
        return float(self._counts[row := self._rows[digest_of(key)], : self._sizes[row], 1].sum())

    @property
    def share(self) -> float:
        """The share of queries whose clicks depend on the items."""
        if self._share is None:
            rows = np.fromiter(self._rows.values(), np.intp, len(self._rows))
            share = REPEATS
            for _ in range(10):
                sums = expit(logit(share) + self._evidence[rows]).sum()
                share = float((REPEATS * DOUBTS + sums) / (DOUBTS + len(rows)))
            self._share = share
        return self._share

    def _values(self, counts: NDArray[Any], evidence: FloatArray) -> FloatArray:
        """Return bonuses from clicks and expected clicks, and from the evidence on their queries."""
        logs = np.log1p(counts[..., 0]) - np.log1p(counts[..., 1])
        result: FloatArray = np.clip(logs, LOWEST, HIGHEST) * expit(logit(self.share) + evidence)
        return result

    def bonus(self, key: Hashable, scale: float = 1.0) -> Bonus:
        """Return the bonus of the items of a query."""
        digest = int(digest_of(key))
        if (row := self._rows.get(digest)) is None:
            return NO_BONUS
        size = self._sizes[row]
        items = self._keys[row, :size].copy()
        values = scale * self._values(self._counts[row, :size].astype(np.float64), self._evidence[row])
        return Bonus(items, values, self._is_sure(digest, items))

    def _is_sure(self, digest: int, items: Keys) -> NDArray[np.bool_]:
        users = self._users.get(digest, {})
        return np.array([len(users.get(item, ())) >= AGREED for item in items.tolist()], dtype=bool)

    def bonuses(self, scale: float) -> Bonuses:
        """Return the bonuses of all items for all queries."""
        digests, rows, held = self._table()
        values = scale * self._values(self._counts[rows].astype(np.float64), self._evidence[rows, np.newaxis])
        parts = [
            self._is_sure(digest, self._keys[row, : self._sizes[row]])
            for digest, row in zip(digests.tolist(), rows, strict=True)
        ]
        is_sure = np.concatenate([np.zeros(0, dtype=bool), *parts]).astype(np.uint8)
        stops = np.cumsum(self._sizes[rows], dtype=np.int64)
        return Bonuses(digests, stops, self._keys[rows][held], values[held].astype(np.float32), is_sure)

    def counts(self) -> Counts:
        """Return what was counted, with the queries in the order of their digests."""
        digests, rows, held = self._table()
        clicks, expected = self._counts[rows][held].astype(np.float64).T
        query = np.repeat(np.arange(len(rows)), self._sizes[rows])
        return Counts(digests, query, self._keys[rows][held], clicks, expected)

    def _table(self, by_digest: bool = True) -> tuple[Keys, IndexArray, BoolArray]:
        """Return the digests of queries, their rows, and which columns of these are in use; or by their age."""
        digests = np.fromiter(self._rows, np.uint64, len(self._rows))
        rows = np.fromiter(self._rows.values(), np.intp, len(self._rows))
        if by_digest:
            order = np.argsort(digests)
            digests, rows = digests[order], rows[order]
        return digests, rows, np.arange(self.n_items) < self._sizes[rows, np.newaxis]

    def get_state(self) -> tuple[dict[str, object], Arrays]:
        """Return the memory as a header and arrays for a model file."""
        queries, rows, held = self._table(by_digest=False)
        who = sorted(
            (query, item, user)
            for query, items in self._users.items()
            for item, users in items.items()
            for user in users
        )
        return {}, {
            "queries": queries,
            "stops": np.cumsum(self._sizes[rows], dtype=np.int64),
            "users": np.array(who, dtype=np.uint64).reshape(-1, 3),
            "items": self._keys[rows][held],
            "evidence": self._counts[rows][held],
        }

    def set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Restore what `get_state` returned."""
        queries = array_value(arrays, "queries", np.uint64, (None,))
        stops = array_value(arrays, "stops", np.int64, queries.shape)
        items = array_value(arrays, "items", np.uint64, (None,))
        evidence = array_value(arrays, "evidence", np.float32, (len(items), 2))
        lengths = np.diff(stops, prepend=0)
        most = f"{self.n_queries} queries with 1 to {self.n_items} items each"
        if len(queries) > self.n_queries or ((lengths < 1) | (lengths > self.n_items)).any():
            raise ModelFileError(f"the memory of clicks should have up to {most}")
        if lengths.sum() != len(items) or not (np.isfinite(evidence) & (evidence >= 0.0)).all():
            raise ModelFileError("the memory of clicks should have finite numbers of at least 0 for each of its items")
        if (items[1:] <= items[:-1])[np.isin(np.arange(1, len(items)), stops, invert=True)].any():
            raise ModelFileError("the memory of clicks should have the items of a query in ascending order")
        self._clear(len(queries))
        self._rows.update(zip(queries.tolist(), range(len(queries)), strict=True))
        self._sizes[:] = lengths
        held = np.arange(self.n_items) < lengths[:, np.newaxis]
        self._keys[held], self._counts[held] = items, evidence
        for row, size in enumerate(lengths.tolist()):
            self._evidence[row] = _log_odds(self._counts[row, :size].astype(np.float64)).sum()
        for query, item, user in array_value(arrays, "users", np.uint64, (None, 3)).tolist():
            self._users.setdefault(query, {}).setdefault(item, set()).add(user)


def _log_odds(counts: FloatArray) -> FloatArray:
    """Return logarithms of the likelihood of clicks at an unknown rate over that at the expected one.

    The clicks are Poisson's; the unknown rate is the expected one times a number from the exponential distribution.
    """
    clicks, expected = counts.T
    return np.asarray(expected + gammaln(clicks + 1.0) - (clicks + 1.0) * np.log1p(expected))


def item_keys(item_ids: Any, rows: Any) -> Keys:
    """Return 64 bits by which each item is told apart: by its id, or without ids by its vector.

    Integers from 0 are their own keys. Equal vectors have equal keys, whether they are dense or sparse.
    """
    n = rows.shape[0]
    if item_ids is None:
        return _vector_keys(rows)
    if not isinstance(item_ids, Collection) and not hasattr(item_ids, "__len__"):
        raise TypeError(f"item_ids must be a sequence of ids, got {type(item_ids).__name__}")
    if len(item_ids) != n:
        raise ValueError(f"item_ids must have one id for each of the {n} items, got {len(item_ids)}")
    array = np.asarray(item_ids)
    if array.ndim == 1 and array.dtype.kind in "iu" and (array >= 0).all():
        return array.astype(np.uint64)
    return np.array([digest_of(id) for id in item_ids], dtype=np.uint64)


def _vector_keys(rows: Any) -> Keys:
    """Return sums of the bits of the numbers, each times an odd number of its column, modulo 2^64."""
    odd = np.random.default_rng(0).integers(2**63, size=rows.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    if is_sparse(rows):
        csr = rows.tocsr()
        terms = _mixed(csr.data) * odd[csr.indices]
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)])
        return np.asarray(sums[csr.indptr[1:]] - sums[csr.indptr[:-1]])
    return np.asarray((_mixed(rows) * odd).sum(axis=1, dtype=np.uint64))


def _mixed(numbers: Any) -> Keys:
    """Return the bits of numbers, the high ones, in which most numbers differ, also moved to the low ones."""
    bits = (np.asarray(numbers, dtype=np.float64) + 0.0).view(np.uint64)  # + 0: the same bits for 0 and -0
    return np.asarray(bits ^ (bits >> np.uint64(29)))

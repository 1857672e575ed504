"""What was clicked for each query: a bounded memory of clicks and of the clicks that positions alone explain."""

from collections import OrderedDict
from collections.abc import Collection, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala import ModelFileError
from mahala.extend import Array, Stateful, array_value, is_sparse
from mahala_search.adapter.memory.remembered import digest_of
from mahala_search.arrays import Arrays, FloatArray, IndexArray
from mahala_search.compiled.pages import add_counts, corrected_weights, count_clicks, net_clicks

Keys = NDArray[np.uint64]

# Queries that are remembered, and items of each.
QUERIES, ITEMS = 20_000, 16
# Ranks with a rate of their own; lower results have that of the last one. A rate starts as that of all ranks, which
# counts as much as this many results shown.
RANKS, PRIOR = 50, 5.0
# The net clicks of an item are its clicks minus half of those expected at its ranks, and at least the second number. To
# count all of these drives out results that are not clicked for those that nobody has seen.
EXPECTED, LOWEST = 0.5, -0.15


class RankRates(Stateful):
    """How often the result at each rank is clicked, whatever it is.

    >>> rates = RankRates()
    >>> for clicked in ([1.0, 0.0], [1.0, 0.0], [0.0, 1.0]):
    ...     clicks, expected = rates.see(np.array(clicked))
    >>> expected.round(2)
    array([0.44, 0.15])
    """

    FIELDS = (Array("clicks", least=0.0), Array("shown"))

    def __init__(self) -> None:
        self.clicks, self.shown = np.zeros(RANKS), np.zeros(RANKS)

    def see(self, reactions: FloatArray, ranked: bool = True, weight: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """Count the reactions on a page, from the top; return the clicks, numbers from 0 to 1, and those expected.

        On a page that is not ranked all results have the mean of the clicks, and nothing is counted.
        """
        return count_clicks(reactions, ranked, weight, self.clicks, self.shown, PRIOR)

    def correct(self, n: int, better: IndexArray, weights: FloatArray) -> tuple[FloatArray, float]:
        """Return weights of pairs on a page, corrected for the rank of the better one, and their mean change.

        The page has n results. A click counts in inverse proportion to the rate of its rank, and those below the
        median rate count 1.
        """
        return corrected_weights(self.clicks, self.shown, n, PRIOR, better, weights)

    def _check(self) -> None:
        if (self.shown < self.clicks * (1.0 - 1e-9)).any():
            raise ModelFileError("'clicks' should be from 0 to the number of results 'shown' at each rank")


class Bonuses(NamedTuple):
    """The net clicks of items: those of the query with the digest `queries[i]` end at `stops[i]`."""

    queries: Keys
    stops: NDArray[np.int64]
    items: Keys
    values: NDArray[np.float32]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Bonuses":
        """Return what `_asdict` was called on; none, if the arrays are not there."""
        return cls(**arrays) if arrays else NOTHING

    def of(self, key: Hashable) -> tuple[Keys, FloatArray]:
        """Return the items of a query in ascending order, and the net clicks of each."""
        digest = np.uint64(digest_of(key))
        at = int(np.searchsorted(self.queries, digest))
        if at == len(self.queries) or self.queries[at] != digest:
            return self.items[:0], np.zeros(0)
        part = slice(int(self.stops[at - 1]) if at else 0, int(self.stops[at]))
        return self.items[part], self.values[part].astype(np.float64)


_EMPTY = np.zeros(0, dtype=np.uint64)
NOTHING = Bonuses(_EMPTY, _EMPTY.astype(np.int64), _EMPTY, _EMPTY.astype(np.float32))


class ClickMemory:
    """For each query, the items that were shown: the clicks on each, and those expected from its ranks.

    A click is evidence for an item, wherever it was. That an item was not clicked is evidence against it as far as
    others are clicked at the same rank: so what is expected is the sum of the rates of the ranks it was shown at. The
    queries that were not seen for the longest time are forgotten first, and of one query the items with the fewest
    clicks, or then with the least that was expected.

    >>> memory = ClickMemory()
    >>> memory.learn("jazz", np.array([7, 9], dtype=np.uint64), np.array([0.0, 1.0]), np.array([0.5, 0.25]))
    0.0
    >>> memory.part("jazz")
    (array([7, 9], dtype=uint64), array([[0.  , 0.5 ],
           [1.  , 0.25]], dtype=float32))
    """

    def __init__(self, queries: int = QUERIES, items: int = ITEMS) -> None:
        self.n_queries, self.n_items = queries, items
        self._clear(0)

    def _clear(self, n: int) -> None:
        """Forget all, and make room for n queries."""
        self._rows: OrderedDict[int, int] = OrderedDict()  # of the tables, by the digest of a query
        self._keys = np.zeros((n, self.n_items), dtype=np.uint64)  # of items in ascending order
        self._counts = np.zeros((n, self.n_items, 2), dtype=np.float32)
        self._sizes = np.zeros(n, dtype=np.int64)

    def learn(self, key: Hashable, items: Keys, clicks: FloatArray, expected: FloatArray, weight: float = 1.0) -> float:
        """Count clicks on different items that were shown for a query, and the clicks that were expected.

        Return how far these clicks agree with the earlier ones: the sum over the items of the clicks beyond those
        expected, now times before.
        """
        digest = digest_of(key)
        row = self._rows.pop(digest, None)
        if row is None:
            row = len(self._rows)
            if row == self.n_queries:
                row = self._rows.popitem(last=False)[1]
                self._sizes[row] = 0
            elif row == len(self._sizes):
                for name in ("_keys", "_counts", "_sizes"):
                    table = getattr(self, name)
                    more = np.zeros((min(max(row, 16), self.n_queries - row), *table.shape[1:]), dtype=table.dtype)
                    setattr(self, name, np.concatenate([table, more]))
        self._rows[digest] = row
        page = items, clicks, expected, weight
        self._sizes[row], agreement = add_counts(self._keys[row], self._counts[row], self._sizes[row], *page)
        return agreement

    def part(self, key: Hashable) -> tuple[Keys, NDArray[np.float32]]:
        """Return the items that are remembered for a query in ascending order, and the two numbers of each."""
        row = self._rows.get(digest_of(key))
        if row is None:
            return _EMPTY, np.zeros((0, 2), dtype=np.float32)
        return self._keys[row, : self._sizes[row]], self._counts[row, : self._sizes[row]]

    def net(self, key: Hashable) -> tuple[Keys, FloatArray]:
        """Return the items that are remembered for a query in ascending order, and the net clicks of each."""
        items, evidence = self.part(key)
        return items, _net(evidence)

    def net_of(self, key: Hashable, items: Keys, scale: float) -> FloatArray:
        """Return the net clicks of items for a query, times a scale; zeros, if they are not remembered."""
        row = self._rows.get(digest_of(key))
        if row is None:
            return np.zeros(len(items))
        return net_clicks(self._keys[row], self._counts[row], self._sizes[row], items, scale, EXPECTED, LOWEST)

    def bonuses(self) -> Bonuses:
        """Return the net clicks of all items for all queries."""
        arrays = self.get_state()[1]
        digests = arrays["queries"]
        order = np.argsort(digests)
        values = _net(arrays["evidence"]).astype(np.float32)
        starts = arrays["stops"] - (lengths := np.diff(arrays["stops"], prepend=0))
        rows = np.repeat(starts[order], lengths[order])
        stops = np.cumsum(lengths[order])
        rows += np.arange(len(rows)) - np.repeat(stops - lengths[order], lengths[order])
        return Bonuses(digests[order], stops, arrays["items"][rows], values[rows])

    def get_state(self) -> tuple[dict[str, object], Arrays]:
        """Return the memory as a header and arrays for a model file."""
        rows = np.fromiter(self._rows.values(), np.intp, len(self._rows))
        sizes = self._sizes[rows]
        held = np.arange(self.n_items) < sizes[:, np.newaxis]
        digests = np.fromiter(self._rows, np.uint64, len(self._rows))
        arrays = {"queries": digests, "stops": np.cumsum(sizes, dtype=np.int64)}
        return {}, arrays | {"items": self._keys[rows][held], "evidence": self._counts[rows][held]}

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


def _net(evidence: NDArray[Any]) -> FloatArray:
    """Return the net clicks of items from rows of clicks and expected clicks."""
    net: FloatArray = np.maximum(evidence @ np.array([1.0, -EXPECTED]), LOWEST)
    return net


def summed(first: tuple[Keys, FloatArray], second: tuple[Keys, FloatArray]) -> tuple[Keys, FloatArray]:
    """Return the items of both in ascending order, and the sum of the numbers of each."""
    items, inverse = np.unique(np.concatenate([first[0], second[0]]), return_inverse=True)
    sums: FloatArray = np.bincount(inverse, np.concatenate([first[1], second[1]]), len(items)).astype(np.float64)
    return items, sums


def place_values(remembered: Keys, values: NDArray[Any], items: Keys) -> FloatArray:
    """Return the values of items; 0 for those that are not `remembered`, which are in ascending order."""
    result = np.zeros((len(items), *values.shape[1:]))
    if len(remembered):
        at = np.minimum(np.searchsorted(remembered, items), len(remembered) - 1)
        same = remembered[at] == items
        result[same] = values[at[same]]
    return result


def personal_key(user: Hashable, key: Hashable) -> tuple[int, int]:
    """Return what tells a query of one user apart."""
    return digest_of(user), digest_of(key)


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

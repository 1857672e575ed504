"""Learning from judgments: a map for each of some penalties, and how much of which one is used."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mahala.evaluation import Verdict
from mahala.extend import is_sparse, judge
from mahala_search.adapter.maps.fitting import PairScores, softmax_loss
from mahala_search.arrays import FloatArray, IndexArray, slices
from mahala_search.quality.gains import CrossValidation
from mahala_search.quality.judgments import Judgments, grades_of, ndcg

# Candidates of a query, among which the relevant items are to be found, and among which maps are judged.
POOL = 256
# Scores that are in memory at a time.
SCORES = 2**22
# Penalties on the squared length of the change of the map, and shares of each map that are tried.
PENALTIES = (100.0, 10.0, 1.0)
SHARES = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
# Usual differences of scores between the first and the tenth candidate, at a contrast of 1.
CONTRAST = 4.0


class Search(NamedTuple):
    """Queries with a relevant item, the items, the candidates of each query under the plain ranking, and its row."""

    queries: FloatArray
    items: Any
    judgments: Judgments
    pool: IndexArray
    rows: IndexArray

    @classmethod
    def of(cls, queries: Any, items: Any, judgments: Judgments, k: int) -> "Search":
        """Rank the items for each of the queries that have a relevant one; at least k are candidates."""
        rows = judgments.judged_queries
        dense = dense_rows(queries[rows])
        return cls(dense, items, judgments.select(rows), candidates(dense, items, max(POOL, k)), rows)

    def gap(self) -> float:
        """Return the median difference of the first and the tenth raw score, or of the last one if there are fewer."""
        tenth = -min(10, self.pool.shape[1])
        pages = (np.sort(self.items[rows] @ x) for rows, x in zip(self.pool, self.queries, strict=True))
        return float(np.median([scores[-1] - scores[tenth] for scores in pages]))


def dense_rows(rows: Any) -> FloatArray:
    """Return rows as a dense float64 array."""
    return np.ascontiguousarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)


def candidates(mapped: FloatArray, items: Any, size: int = POOL) -> IndexArray:
    """Return the leading items of each query, in any order."""
    n = items.shape[0]
    size = min(size, n)
    pool = np.empty((len(mapped), size), dtype=np.intp)
    for block, scores in score_blocks(rough(mapped, items), items):
        pool[block] = np.argpartition(scores, n - size, axis=1)[:, n - size :]
    return pool


def score_blocks(mapped: Any, items: Any) -> Iterator[tuple[slice, Any]]:
    """Yield blocks of mapped queries and their scores of all items, so that few are in memory at a time."""
    for block in slices(len(mapped), max(1, SCORES // max(items.shape[0], 1))):
        yield block, (items @ mapped[block].T).T if is_sparse(items) else mapped[block] @ items.T


def rough(mapped: FloatArray, items: Any) -> Any:
    """Return mapped queries in the precision of the items, which is enough to find candidates.

    Each is multiplied by a power of two, which leaves its ranking as it is, so that no product with an item overflows.
    """
    scaled = np.ldexp(mapped, -exponents(mapped)[:, None])
    return scaled.astype(np.result_type(items.dtype, np.float32), copy=False)


def exponents(mapped: FloatArray) -> IndexArray:
    """Return the exponents of the powers of two by which `rough` divides mapped queries."""
    _, exponent = np.frexp(np.abs(mapped).max(axis=1, initial=0.0) * mapped.shape[1])
    return np.asarray(exponent)


class MapFit(NamedTuple):
    """How maps are fitted to the judgments of a search: a contrast of scores, and what is called after each fit."""

    search: Search
    contrast: float
    tick: Callable[[], object]

    def changes(self, rows: IndexArray) -> list[FloatArray]:
        """Return the change of the map that each penalty gives from the judgments of queries `rows`.

        For each query, the softmax of the scores of its candidates and of its relevant items is to be near the shares
        of their grades.
        """
        search = self.search
        found = [search.judgments.of_query(row) for row in rows.tolist()]
        pools = [
            np.union1d(search.pool[row], items[grades > 0.0]) for row, (items, grades) in zip(rows, found, strict=True)
        ]
        grades = [grades_of(search.judgments, row, pool) for row, pool in zip(rows.tolist(), pools, strict=True)]
        lengths = np.array([len(pool) for pool in pools])
        starts = np.cumsum(lengths) - lengths
        keys, item = np.unique(np.concatenate(pools), return_inverse=True)
        queries, items = (part.astype(np.float32) for part in (search.queries[rows], dense_rows(search.items[keys])))
        sizes = [float(np.sqrt(np.square(part).sum(axis=1).mean())) or 1.0 for part in (queries, items)]
        pairs = PairScores(queries / sizes[0], items / sizes[1], np.repeat(np.arange(len(rows)), lengths), item)
        shares = np.concatenate([part / part.sum() for part in grades])
        loss = softmax_loss(starts, pairs.of(), shares, self.contrast * sizes[0] * sizes[1])
        result = []
        for penalty in PENALTIES:
            result.append(pairs.fit(loss, penalty))
            self.tick()
        return result


def expert_values(
    search: Search, rows: IndexArray, changes: list[FloatArray], shares: FloatArray, k: int
) -> FloatArray:
    """Return the nDCG at k of the plain ranking and of each share of each change, for queries `rows`.

    The items ranked are the candidates under the raw scores and under each whole map.
    """
    queries = search.queries[rows]
    added = [queries @ change for change in changes]
    pools = search.pool[rows], *(candidates(queries + more, search.items, search.pool.shape[1]) for more in added)
    values = np.empty((len(rows), 1 + len(shares) * len(changes)))
    for i, row in enumerate(rows.tolist()):
        pool = np.unique(np.concatenate([part[i] for part in pools]))
        vectors = dense_rows(search.items[pool])
        raw = vectors @ queries[i]
        scores = np.column_stack([raw, *(raw + share * (vectors @ more[i]) for more in added for share in shares)])
        first = np.argsort(-scores, axis=0, kind="stable")[:k]
        values[i] = ndcg(grades_of(search.judgments, row, pool)[first], search.judgments.of_query(row)[1], k)
    return values


def fit_map(
    search: Search, fold_of: IndexArray, cap: float, k: int, tick: Callable[[], object]
) -> tuple[FloatArray | None, Verdict, CrossValidation]:
    """Choose a share of a map by cross-validation over queries, and fit the map to all of them.

    The plain ranking is a candidate, and the choice is made by lower bounds of the gain. Return the change of the map,
    times its share, or None if the plain ranking was chosen; the verdict, and the values by query.
    """
    fit = MapFit(search, CONTRAST / (search.gap() or 1.0), tick)
    shares = np.unique(np.minimum(SHARES, cap)) if cap > 0.0 else np.empty(0)
    n = len(search.queries)
    values = np.empty((n, 1 + len(shares) * len(PENALTIES)))
    for fold in np.unique(fold_of):
        test = np.flatnonzero(fold_of == fold)
        values[test] = expert_values(search, test, fit.changes(np.flatnonzero(fold_of != fold)), shares, k)
    decision = judge(values[np.newaxis], fold_of[np.newaxis], measure=f"nDCG@{k}", units="queries")
    by_query = CrossValidation(search.rows, values[:, 0], decision.values)
    if not decision.chosen:
        return None, decision.verdict._replace(share=0.0), by_query
    penalty, share = divmod(decision.chosen - 1, len(shares))
    change = shares[share] * fit.changes(np.arange(n))[penalty]
    return change, decision.verdict._replace(share=float(shares[share])), by_query


def counted(update: Callable[[int, str, int], object], total: int) -> Callable[[], object]:
    """Return a function that counts fits, of `total` ones, and updates a progress bar."""
    numbers = itertools.count(1)
    return lambda: update(next(numbers), "fits", total)

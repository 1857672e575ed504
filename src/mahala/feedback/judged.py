"""Learning from judgments: passes over the judged queries, with negatives from the current ranking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mahala.comparisons import Judgments
from mahala.online.aroma import CovarianceState
from mahala.online.state.dense import DenseState
from mahala.online.state.similarity import SimilarityRule
from mahala.support.arrays import FloatArray, IndexArray
from mahala.support.rows import row_blocks
from mahala.support.validation import is_sparse

Averaged = DenseState | CovarianceState  # they have the mean of all models beside the last one

# Candidates of a query, from which negatives are drawn and among which experts are judged. A ranking of all items finds
# them, at the start and in the middle of the passes.
POOL = 256
# Up to one non-zero feature in so many, mapping queries one by one is cheaper than whole matrices.
SPARSE = 5


class Search(NamedTuple):
    """Queries with a relevant item, the items, the candidates of each query under the raw ranking, and its row."""

    queries: FloatArray
    items: Any
    judgments: Judgments
    pool: IndexArray
    rows: IndexArray

    @classmethod
    def of(cls, queries: Any, items: Any, judgments: Judgments, k: int) -> Search:
        """Rank the items for each of the queries that have a relevant one; at least k are candidates."""
        rows = judgments.judged_queries
        dense = dense_rows(queries[rows])
        return cls(dense, items, judgments.select(rows), candidates(dense, items, max(POOL, k)), rows)

    def gap(self) -> float:
        """Return the median difference of the first and the tenth raw score, or of the last one if there are fewer."""
        tenth = -min(10, self.pool.shape[1])
        scores = (np.sort(self.items[own] @ x) for own, x in zip(self.pool, self.queries, strict=True))
        return float(np.median([own[-1] - own[tenth] for own in scores]))

    def size(self) -> float:
        """Return the median over queries of the length of the query times that of its first candidate."""
        first = dense_rows(self.items[self.pool[:, 0]])
        lengths = np.sqrt(np.einsum("ij,ij->i", self.queries, self.queries))
        return float(np.median(lengths * np.sqrt(np.einsum("ij,ij->i", first, first))))


def dense_rows(rows: Any) -> FloatArray:
    """Return rows as a dense float64 array."""
    return np.ascontiguousarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)


def candidates(mapped: FloatArray, items: Any, size: int = POOL) -> IndexArray:
    """Return the leading items of each query, in any order."""
    n = items.shape[0]
    size = min(size, n)
    pool = np.empty((len(mapped), size), dtype=np.intp)
    near = rough(mapped, items)
    for block in row_blocks(len(mapped), n):
        scores = (items @ near[block].T).T if is_sparse(items) else near[block] @ items.T
        pool[block] = np.argpartition(scores, n - size, axis=1)[:, n - size :]
    return pool


def rough(mapped: FloatArray, items: Any) -> Any:
    """Return mapped queries in the precision of the items, which is enough to find candidates.

    Each is multiplied by a power of two, which leaves its ranking as it is, so that no product with an item overflows.
    """
    _, exponent = np.frexp(np.abs(mapped).max(axis=1, initial=0.0) * mapped.shape[1])
    return np.ldexp(mapped, -exponent[:, None]).astype(np.result_type(items.dtype, np.float32), copy=False)


def learn(
    search: Search,
    rows: IndexArray,
    model: Averaged,
    rule: SimilarityRule,
    n_passes: int,
    n_negatives: int,
    depth: int,
    rng: np.random.Generator,
    tick: Callable[[], object],
) -> None:
    """Take steps for the judged queries `rows`, each pass in a new order.

    Each relevant item of a query is compared with `n_negatives` items of lower grades, drawn from the `depth` leading
    candidates under the mean model at the start of the pass. A step is weighted by the difference of the grades.
    """
    pool, best = search.pool[rows], float(search.judgments.grade.max())
    mapped = search.queries[rows]
    for n in range(n_passes):
        if n:
            mapped = _mapped(search.queries[rows], model)[1]
            if n == n_passes // 2 and pool.shape[1] < search.items.shape[0]:
                pool = candidates(mapped, search.items, pool.shape[1])
        near = rough(mapped, search.items)
        for i in rng.permutation(len(rows)):
            scores = search.items[pool[i]] @ near[i]
            lead = pool[i][np.argpartition(-scores, depth)[:depth] if depth < len(scores) else slice(None)]
            judged, grades = search.judgments.of_query(int(rows[i]))
            better = judged[grades > 0.0]
            given, own = _grades(lead, judged, grades), grades[grades > 0.0]
            pairs = _drawn(own, given, n_negatives, rng)
            if pairs is not None:
                positive, negative = pairs
                weights = (own[positive] - given[negative]) / best if rule.plain else np.ones(len(positive))
                vectors = dense_rows(search.items[np.concatenate([better, lead])])
                steps = positive, len(better) + negative, weights
                model.feed_query(search.queries[rows[i]], vectors, steps, rule)
            tick()


def _mapped(queries: FloatArray, model: Averaged) -> tuple[FloatArray, FloatArray]:
    """Return the queries as the last model and the mean of all models map them."""
    if SPARSE * np.count_nonzero(queries) < queries.size:
        last, mean = zip(*(model.products(x) for x in queries), strict=True)
        return np.array(last), np.array(mean)
    matrices = model.matrices()
    return queries @ matrices[0], queries @ matrices[1]


def _drawn(
    own: FloatArray, given: FloatArray, n_negatives: int, rng: np.random.Generator
) -> tuple[IndexArray, IndexArray] | None:
    """Draw negatives for each positive, from those of lower grades; None if no positive has one."""
    order = np.argsort(given, kind="stable")
    lower = np.searchsorted(given[order], own)  # for each positive, how many have lower grades
    positive = np.repeat(np.flatnonzero(lower), n_negatives)
    if not len(positive):
        return None
    positive = rng.permutation(positive)
    return positive, order[(rng.random(len(positive)) * lower[positive]).astype(np.intp)]


def _grades(items: IndexArray, judged: IndexArray, grades: FloatArray) -> FloatArray:
    """Return the grade of each of the items; 0 if it is not judged."""
    at = np.searchsorted(judged, items)
    at[at == len(judged)] = 0
    return np.where(judged[at] == items, grades[at], 0.0)


def expert_values(search: Search, rows: IndexArray, model: Averaged, experts: FloatArray, k: int) -> FloatArray:
    """Return the nDCG at k of each expert for queries `rows`.

    The items ranked are the candidates under the raw scores, the mean and the last model.
    """
    queries = search.queries[rows]
    last, mean = _mapped(queries, model)
    maps = queries, mean, last
    pools = search.pool[rows], *(candidates(mapped, search.items, search.pool.shape[1]) for mapped in maps[1:])
    k = min(k, search.items.shape[0])
    discounts = 1.0 / np.log2(np.arange(2, k + 2))
    values = np.empty((len(rows), len(experts)))
    for i, row in enumerate(rows):
        judged, grades = search.judgments.of_query(int(row))
        pool = np.unique(np.concatenate([own[i] for own in pools]))
        vectors = search.items[pool]
        scores = np.column_stack([vectors @ mapped[i] for mapped in maps]) @ experts.T
        given = _grades(pool, judged, grades)
        first = np.argsort(-scores, axis=0, kind="stable")[:k]
        ideal = np.sort(grades)[::-1][:k]
        values[i] = discounts[: len(first)] @ given[first] / (discounts[: len(ideal)] @ ideal)
    return values

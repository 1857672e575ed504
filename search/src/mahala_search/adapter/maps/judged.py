"""Learning from judgments: passes over the judged queries, and how much of what they teach is used."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mahala.evaluation import Verdict
from mahala.extend import choose as choose_by_bound
from mahala.extend import is_sparse, judge
from mahala_search.adapter.maps.deferred_map import DeferredMap
from mahala_search.arrays import FloatArray, IndexArray, slices
from mahala_search.compiled.deferred import StepRule
from mahala_search.quality.gains import CrossValidation
from mahala_search.quality.judgments import Judgments, grades_of, ndcg

# Candidates of a query, from which negatives are drawn and among which experts are judged. A ranking of all items finds
# them, at the start and in the middle of the passes.
POOL = 256
# Scores that are in memory at a time.
SCORES = 2**22
# Up to one non-zero feature in so many, mapping queries one by one is cheaper than whole matrices.
SPARSE = 5
# The largest share of a map that probably helps, but is not shown to.
MOST_UNSHOWN = 0.5


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


class Passes(NamedTuple):
    """How judged queries are learned from; the parameters are those of `QueryAdapter`."""

    n_passes: int
    n_negatives: int
    depth: int
    rng: np.random.Generator
    tick: Callable[[], object]  # called after each query

    def learn(self, search: Search, rows: IndexArray, model: DeferredMap, rule: StepRule) -> DeferredMap:
        """Take steps of a model for the judged queries `rows`, each pass in a new order; return the model.

        Each relevant item of a query is compared with `n_negatives` items of lower grades, drawn from the `depth`
        leading candidates under the mean model at the start of the pass. A step is weighted by the difference of the
        grades.
        """
        pool, best = search.pool[rows], float(search.judgments.grade.max())
        mapped = search.queries[rows]
        for n in range(self.n_passes):
            if n:
                mapped = _mapped(search.queries[rows], model)[1]
                if n == self.n_passes // 2 and pool.shape[1] < search.items.shape[0]:
                    pool = candidates(mapped, search.items, pool.shape[1])
            near = rough(mapped, search.items)
            for i in self.rng.permutation(len(rows)):
                scores = search.items[pool[i]] @ near[i]
                first = np.argpartition(-scores, self.depth)[: self.depth] if self.depth < len(scores) else slice(None)
                lead = pool[i][first]
                items, grades = search.judgments.of_query(int(rows[i]))
                better, high = items[grades > 0.0], grades[grades > 0.0]
                low = grades_of(search.judgments, int(rows[i]), lead)
                pairs = self._pairs(high, low)
                if pairs is not None:
                    positive, negative = pairs
                    weights = (high[positive] - low[negative]) / best
                    vectors = dense_rows(search.items[np.concatenate([better, lead])])
                    steps = positive, len(better) + negative, weights
                    model.feed_query(search.queries[rows[i]], vectors, steps, rule)
                self.tick()
        return model

    def _pairs(self, high: FloatArray, low: FloatArray) -> tuple[IndexArray, IndexArray] | None:
        """Draw negatives for each positive, from those of lower grades; None if no positive has one."""
        order = np.argsort(low, kind="stable")
        n_lower = np.searchsorted(low[order], high)  # for each positive, how many have lower grades
        positive = np.repeat(np.flatnonzero(n_lower), self.n_negatives)
        if not len(positive):
            return None
        positive = self.rng.permutation(positive)
        return positive, order[(self.rng.random(len(positive)) * n_lower[positive]).astype(np.intp)]


def _mapped(queries: FloatArray, model: DeferredMap) -> tuple[FloatArray, FloatArray]:
    """Return the queries as the last model and the mean of all models map them."""
    if SPARSE * np.count_nonzero(queries) < queries.size:
        last, mean = zip(*(model.products(x) for x in queries), strict=True)
        return np.array(last), np.array(mean)
    matrices = model.matrices()
    return queries @ matrices[0], queries @ matrices[1]


def expert_values(search: Search, rows: IndexArray, model: DeferredMap, experts: FloatArray, k: int) -> FloatArray:
    """Return the nDCG at k of each expert for queries `rows`.

    The items ranked are the candidates under the raw scores, the mean and the last model.
    """
    queries = search.queries[rows]
    last, mean = _mapped(queries, model)
    maps = queries, mean, last
    pools = search.pool[rows], *(candidates(mapped, search.items, search.pool.shape[1]) for mapped in maps[1:])
    values = np.empty((len(rows), len(experts)))
    for i, row in enumerate(rows.tolist()):
        pool = np.unique(np.concatenate([part[i] for part in pools]))
        vectors = search.items[pool]
        scores = np.column_stack([vectors @ mapped[i] for mapped in maps]) @ experts.T
        first = np.argsort(-scores, axis=0, kind="stable")[:k]
        values[i] = ndcg(grades_of(search.judgments, row, pool)[first], search.judgments.of_query(row)[1], k)
    return values


def counted(update: Callable[[int, str, int], object], total: int) -> Callable[[], object]:
    """Return a function that counts judged queries, of `total` ones, and updates a progress bar now and then."""
    numbers = itertools.count(1)

    def tick() -> None:
        if (done := next(numbers)) % 100 == 0:
            update(done, "judged queries", total)

    return tick


def fit_map(
    search: Search,
    passes: Passes,
    new_model: Callable[[], DeferredMap],
    rule: StepRule,
    experts: FloatArray,
    folds: int,
    k: int,
) -> tuple[int, DeferredMap | None, Verdict, CrossValidation]:
    """Choose an expert by cross-validation over queries, and learn its map from all of them.

    Expert 0 is the plain ranking, which needs no map. At most half of a map that is not shown to help is used. Return
    the number of the expert, the map if it uses one, the verdict, and the values by query.
    """

    def learned(rows: IndexArray) -> DeferredMap:
        return passes.learn(search, rows, new_model(), rule)

    n = len(search.queries)
    fold_of = passes.rng.permutation(n) % folds
    values = np.empty((n, len(experts)))
    for fold in range(folds):
        test = np.flatnonzero(fold_of == fold)
        values[test] = expert_values(search, test, learned(np.flatnonzero(fold_of != fold)), experts, k)
    decision = judge(values[np.newaxis], fold_of[np.newaxis], measure=f"nDCG@{k}", units="queries")
    chosen, verdict = decision.chosen, decision.verdict
    if verdict.kind == "probably helps":
        allowed = np.flatnonzero(experts[:, 0] >= 1.0 - MOST_UNSHOWN)
        chosen = int(allowed[choose_by_bound(values[:, allowed] - values[:, :1])])
        verdict = verdict if chosen else verdict._replace(kind="does not help", share=0.0)
    by_query = CrossValidation(search.rows, values[:, 0], decision.values)
    return chosen, learned(np.arange(n)) if chosen else None, verdict, by_query

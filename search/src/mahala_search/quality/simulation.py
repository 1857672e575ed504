"""Simulate people who click, to see what an adapter learns from them before real people are shown its results."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mahala.extend import Count, Fraction, check_row, check_rows, check_value, is_sparse, leading
from mahala_search.arrays import BoolArray, FloatArray, IndexArray
from mahala_search.quality.click_models import Clicks, click_model
from mahala_search.quality.judgments import Judgments, grades_of, ndcg
from mahala_search.quality.ranking_quality import RankingQuality, evaluate_ranking


@dataclass(frozen=True, eq=False)
class Simulation:
    """Result of :func:`simulate_clicks`; arrays have one entry per impression, except `held_out`.

    Attributes
    ----------
    k : number of items shown
    query : row number of the query
    n_clicks : number of clicks
    shown : nDCG at k of what was shown
    raw : nDCG at k of what the inner product would have shown for this query
    held_out : row numbers of the queries that were never asked
    unseen : quality on these queries after the last impression; its baseline is the inner product
    """

    k: int
    query: IndexArray
    n_clicks: IndexArray
    shown: FloatArray
    raw: FloatArray
    held_out: IndexArray
    unseen: RankingQuality

    @property
    def gain(self) -> float:
        """The mean gain in nDCG of what was shown over the inner product."""
        return float((self.shown - self.raw).mean())

    def curve(self, n_windows: int = 10) -> tuple[IndexArray, FloatArray]:
        """Return the mean gain in windows of consecutive impressions: the number of impressions at their ends, and it.

        There are at most as many windows as impressions.
        """
        check_value(n_windows, "n_windows", Count)
        parts = np.array_split(self.shown - self.raw, min(n_windows, len(self.shown)))
        return np.cumsum([len(part) for part in parts]), np.array([part.mean() for part in parts])

    def __str__(self) -> str:
        name = f"ndcg@{self.k}"
        unseen = self.unseen.gains[name]
        assert self.unseen.baseline is not None, "simulate_clicks measures the plain ranking, too"
        before, after = self.unseen.baseline[name].mean(), self.unseen[name]
        curve = " ".join(f"{gain:+.4f}" for gain in self.curve()[1])
        return (
            f"{len(self.query)} impressions of {len(np.unique(self.query))} queries, {self.n_clicks.sum()} clicks\n"
            f"shown:  {name} {self.raw.mean():.4f} -> {self.shown.mean():.4f} ({self.gain:+.4f})\n"
            f"        gain over time {curve}\n"
            f"unseen: {name} {before:.4f} -> {after:.4f} ({unseen.mean:+.4f}, {100 * self.unseen.confidence:g} % "
            f"interval {unseen.low:+.4f} to {unseen.high:+.4f}, {len(self.unseen.queries)} queries)"
        )


def simulate_clicks(
    adapter: Any,
    queries: Any,
    items: Any,
    qrels: Any,
    *,
    clicks: str | Clicks = "navigational",
    n_impressions: int = 3000,
    k: int = 10,
    test_share: float = 0.3,
    random_state: int | np.random.Generator = 0,
    progress: Callable[[int, int, str], object] | None = None,
) -> Simulation:
    """Let an adapter learn from simulated clicks, and measure what people were shown and what it learned.

    The queries with a relevant item are split at random: some are held out, and the others are asked. Each impression
    asks one of them at random, shows the first `k` items of ``adapter.rank(query, items, k, query_id=row)``, draws
    clicks from the judgments of these items, and passes them to ``adapter.learn_one``. At the end the held-out queries,
    which are embedded without a `query_id`, show what carries over to unseen queries.

    Parameters
    ----------
    adapter : a `QueryAdapter`, or an object with its methods ``embed`` and ``learn_one``, whose items
        are ranked by their inner products with ``adapter.embed(query, query_id=row)`` unless it has ``rank``, too. It
        learns in place, and may have learned before
    queries, items : dense or CSR rows of the same number of columns
    qrels : relevance judgments in any form of :meth:`mahala_search.Judgments.of`
    clicks : name of a click model (:func:`mahala_search.click_model`), or an object with its method ``click``;
        the best grade of `qrels` counts as fully relevant
    n_impressions : number of impressions
    k : number of items shown, and the cut-off of the nDCG
    test_share : share of the queries that are held out
    random_state : seed of the split, of the queries asked, and of the clicks
    progress : function of (impressions done, impressions in all, a short text), called after each impression

    >>> class Raw:
    ...     def embed(self, query, query_id=None):
    ...         return query
    ...
    ...     def learn_one(self, query, *, shown, clicked, query_id=None):
    ...         pass
    >>> rng = np.random.default_rng(0)
    >>> queries, items = rng.normal(size=(20, 4)), rng.normal(size=(50, 4))
    >>> qrels = [(i, j, 1) for i in range(20) for j in np.argsort(items @ queries[i])[-9:]]
    >>> print(simulate_clicks(Raw(), queries, items, qrels, clicks="perfect", n_impressions=30, k=5))
    30 impressions of 13 queries, 150 clicks
    shown:  ndcg@5 1.0000 -> 1.0000 (+0.0000)
            gain over time +0.0000 +0.0000 +0.0000 +0.0000 +0.0000 +0.0000 +0.0000 +0.0000 +0.0000 +0.0000
    unseen: ndcg@5 1.0000 -> 1.0000 (+0.0000, 95 % interval +0.0000 to +0.0000, 6 queries)
    """
    queries, items = check_rows(queries, "queries"), check_rows(items, "items")
    if queries.shape[1] != items.shape[1]:
        raise ValueError(f"items must have the {queries.shape[1]} columns of queries, got {items.shape[1]}")
    judgments = Judgments.of(qrels, queries.shape[0], items.shape[0])
    check_value(n_impressions, "n_impressions", Count)
    check_value(k, "k", Count)
    check_value(test_share, "test_share", Fraction)
    model = click_model(clicks) if isinstance(clicks, str) else clicks
    rng = np.random.default_rng(random_state)
    simulated, held_out = _split(judgments.judged_queries, test_share, rng)
    best = float(judgments.grade.max())
    vectors = items if is_sparse(items) else items.astype(np.float64, copy=False)

    def first_items(vector: FloatArray) -> IndexArray:
        """The first items by their inner products with a vector; of ties those with lower row numbers."""
        if len(vector) != vectors.shape[1]:
            numbers = f"{vectors.shape[1]} numbers, like the items"
            raise ValueError(f"adapter.embed must return vectors of {numbers}, got {len(vector)}")
        rows: IndexArray = leading(np.asarray(vectors @ vector)[np.newaxis], min(k, judgments.n_items))[0]
        return rows

    def served(x: FloatArray, row: int) -> IndexArray:
        if hasattr(adapter, "rank"):
            rows: IndexArray = adapter.rank(x, items, min(k, judgments.n_items), row)
            return rows
        return first_items(check_row(adapter.embed(x, query_id=row), "the result of adapter.embed"))

    def quality_of(row: int, rows: IndexArray) -> float:
        return float(ndcg(grades_of(judgments, row, rows), judgments.of_query(row)[1], k))

    query = simulated[rng.integers(len(simulated), size=n_impressions)]
    n_clicks = np.zeros(n_impressions, dtype=np.intp)
    shown, raw = np.empty(n_impressions), np.empty(n_impressions)
    by_inner_product: dict[int, float] = {}
    total = 0.0
    for at, row in enumerate(query.tolist()):
        x = check_row(queries[[row]] if is_sparse(queries) else queries[row], "query")
        if row not in by_inner_product:
            by_inner_product[row] = quality_of(row, first_items(x))
        first = served(x, row)
        shown[at], raw[at] = quality_of(row, first), by_inner_product[row]
        total += shown[at] - raw[at]
        clicked: BoolArray = np.asarray(model.click(grades_of(judgments, row, first), rng, best), dtype=bool)
        n_clicks[at] = clicked.sum()
        adapter.learn_one(x, shown=items[first], clicked=clicked, query_id=row)
        if progress is not None:
            progress(at + 1, n_impressions, f"gain {total / (at + 1):+.4f}")
    quality = evaluate_ranking(queries[held_out], items, judgments.select(held_out), adapter, k=k, random_state=rng)
    return Simulation(k, query, n_clicks, shown, raw, held_out, quality)


def _split(rows: IndexArray, test_share: float, rng: np.random.Generator) -> tuple[IndexArray, IndexArray]:
    """Split queries into those that are asked and those that are held out."""
    if len(rows) < 2:
        least = "at least 2 queries with a grade above 0, one to ask and one to hold out"
        raise ValueError(f"qrels must have {least}, got {len(rows)}")
    n_test = min(max(round(test_share * len(rows)), 1), len(rows) - 1)
    order = rng.permutation(rows)
    return np.sort(order[n_test:]), np.sort(order[:n_test])

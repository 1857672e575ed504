"""Quality of search rankings against relevance judgments, and whether a metric improves it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mahala import Metric
from mahala.extend import Count, Fraction, check_counts, check_rows, check_value, p_text, score_blocks, scores_in_blocks
from mahala_search.arrays import FloatArray, IndexArray
from mahala_search.quality.judgments import Judgments
from mahala_search.quality.paired import PairedGain, paired_gains
from mahala_search.quality.ranking import judged

_AT_K = ("ndcg", "precision", "recall", "hit")  # in the order of `judged`


@dataclass(frozen=True, eq=False)
class RankingQuality:
    """Result of :func:`evaluate_ranking`.

    The measures are "ndcg@k", "precision@k", "recall@k" and "hit@k" for each cut-off k, "mrr" and "map".

    Attributes
    ----------
    queries : row numbers of the queries that were evaluated, those with a relevant item
    n_queries, n_items : numbers of all queries and items; n_queries - len(queries) of them were left out
    values : by measure, the value of each evaluated query
    baseline : the same under the baseline, or None if there is none
    gains : by measure, the mean gain over the baseline with its interval and p-value
    confidence : level of the intervals
    """

    queries: IndexArray
    n_queries: int
    n_items: int
    values: dict[str, FloatArray]
    baseline: dict[str, FloatArray] | None
    gains: dict[str, PairedGain]
    confidence: float

    def __getitem__(self, measure: str) -> float:
        """Return the mean of a measure over the evaluated queries."""
        if measure not in self.values:
            raise KeyError(f"measure must be one of {', '.join(self.values)}, got {measure!r}")
        return float(self.values[measure].mean())

    def table(self) -> list[dict[str, Any]]:
        """Return one dictionary per measure."""
        rows: list[dict[str, Any]] = []
        for name, values in self.values.items():
            row: dict[str, Any] = {"measure": name, "mean": float(values.mean())}
            if self.baseline is not None:
                gain = self.gains[name]
                row |= {"baseline": float(self.baseline[name].mean()), "gain": gain.mean}
                row |= {"low": gain.low, "high": gain.high, "p_value": gain.p_value}
            rows.append(row)
        return rows

    def __str__(self) -> str:
        left_out = self.n_queries - len(self.queries)
        without = f" with a relevant item ({left_out} without)" if left_out else ""
        lines = [f"{len(self.queries)} queries{without}, {self.n_items} items"]
        heads = f"{'measure':<14}{'mean':>8}"
        if self.baseline is not None:
            heads += f"{'baseline':>10}{'gain':>9}   {f'{100 * self.confidence:g} % interval':<20}"
        lines.append(heads.rstrip())
        for row in self.table():
            line = f"{row['measure']:<14}{row['mean']:>8.4f}"
            if self.baseline is not None:
                interval = f"{row['low']:+.4f} to {row['high']:+.4f}"
                line += f"{row['baseline']:>10.4f}{row['gain']:>+9.4f}   {interval:<20}{p_text(row['p_value'])}"
            lines.append(line)
        return "\n".join(lines)


def evaluate_ranking(
    queries: Any,
    items: Any,
    qrels: Any,
    metric: Any = None,
    *,
    k: int | Iterable[int] = 10,
    baseline: Any = "raw",
    n_resamples: int = 10_000,
    confidence: float = 0.95,
    random_state: int | np.random.Generator = 0,
) -> RankingQuality:
    """Evaluate how well items are ranked for queries, given relevance judgments, and compare it with a baseline.

    Items with grades above 0 are relevant. The measures are those of trec_eval: nDCG at k (a gain of
    grade / log2(1 + rank), over that of the best order of all judged items), the precision and the recall among the
    first k items, whether one of these is relevant ("hit"), the reciprocal rank of the first relevant item in the whole
    ranking ("mrr") and the average precision ("map"). Items with equal scores have no order: each measure is its mean
    over all their orders, so that the order of the rows of `items` does not matter. Queries without a relevant item are
    left out.

    Parameters
    ----------
    queries, items : array or CSR matrix of shape (n_rows, n_features)
    qrels : relevance judgments
        In any form of :meth:`mahala_search.Judgments.of`.
    metric : Metric, object with ``embed``, or None, default=None
        ``embed`` maps queries to vectors whose inner products with the items are the scores. None is the inner
        products of the rows.
    k : int or iterable of int, default=10
        Cut-offs.
    baseline : "raw", a metric as above, or None, default="raw"
        "raw" is inner products, and nothing if `metric` is None. None compares with nothing.
    n_resamples : int, default=10,000
        Number of resamples for the interval and for the p-value of each gain.
    confidence : float, default=0.95
        Level of the intervals.
    random_state : int or Generator, default=0
        Seed of the resamples.

    The gain over the baseline is the mean over queries of the difference. Its interval is the paired bootstrap's
    percentile interval over queries, and its p-value is that of a paired randomization test. Both take the queries as a
    sample; neither is adjusted for the number of measures.

    >>> queries, items = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.9, 0.8], [0.0, 1.0]]
    >>> quality = evaluate_ranking(queries, items, [(0, 0, 1), (1, 1, 2), (1, 2, 1)], k=[1, 2])
    >>> print(quality)
    2 queries, 3 items
    measure           mean
    ndcg@1          0.7500
    ndcg@2          0.9299
    precision@1     1.0000
    precision@2     0.7500
    recall@1        0.7500
    recall@2        1.0000
    hit@1           1.0000
    hit@2           1.0000
    mrr             1.0000
    map             1.0000
    >>> quality["ndcg@1"]
    0.75
    """
    queries, items = check_rows(queries, "queries"), check_rows(items, "items")
    judgments = Judgments.of(qrels, queries.shape[0], items.shape[0])
    cutoffs = check_counts(k, range(0), np.iinfo(np.int64).max, "k", "the largest integer")
    check_value(n_resamples, "n_resamples", Count)
    check_value(confidence, "confidence", Fraction)
    if isinstance(baseline, str) and baseline != "raw":
        raise ValueError(f"baseline must be 'raw', None, a metric or an object with embed, got {baseline!r}")
    rows = judgments.judged_queries
    if not len(rows):
        raise ValueError("qrels must have a grade above 0, but no item is relevant to any query")
    n_queries, queries, judgments = queries.shape[0], queries[rows], judgments.select(rows)

    values = _measured(queries, items, judgments, metric, cutoffs, "metric")
    if baseline is None or (metric is None and isinstance(baseline, str)):
        return RankingQuality(rows, n_queries, items.shape[0], values, None, {}, confidence)
    baseline = None if isinstance(baseline, str) else baseline
    others = _measured(queries, items, judgments, baseline, cutoffs, "baseline")
    differences = np.column_stack([values[name] - others[name] for name in values])
    gains = paired_gains(differences, n_resamples, confidence, np.random.default_rng(random_state))
    by_name = dict(zip(values, gains, strict=True))
    return RankingQuality(rows, n_queries, items.shape[0], values, others, by_name, confidence)


def _measured(
    queries: Any, items: Any, judgments: Judgments, metric: Any, cutoffs: IndexArray, name: str
) -> dict[str, FloatArray]:
    """The measures of each query under a metric, by their names."""
    result = np.empty((judgments.n_queries, 2 + len(_AT_K) * len(cutoffs)))
    for block, scores in _scores(queries, items, metric, name):
        first, last = judgments.indptr[block.start], judgments.indptr[block.stop]
        indptr = judgments.indptr[block.start : block.stop + 1] - first
        result[block] = judged(scores, indptr, judgments.item[first:last], judgments.grade[first:last], cutoffs)
    columns = {f"{name}@{k}": 2 + len(_AT_K) * c + at for at, name in enumerate(_AT_K) for c, k in enumerate(cutoffs)}
    return {name: result[:, column] for name, column in (columns | {"mrr": 0, "map": 1}).items()}


def _scores(queries: Any, items: Any, metric: Any, name: str) -> Iterator[tuple[slice, FloatArray]]:
    if isinstance(metric, Metric):
        return scores_in_blocks(metric, queries, items)
    if metric is not None:
        if not hasattr(metric, "embed"):
            wanted = f"{name} must be a Metric, an object with embed, or None"
            raise TypeError(f"{wanted}, got {type(metric).__name__}; of a learner give its metric_")
        n_queries = queries.shape[0]
        queries = check_rows(metric.embed(queries), f"the result of {name}.embed")
        if queries.shape[0] != n_queries:
            raise ValueError(f"{name}.embed must return {n_queries} rows, one per query, got {queries.shape[0]}")
    if queries.shape[1] != items.shape[1]:
        wanted = f"the inner products of {name} need queries and items with the same number of columns"
        raise ValueError(f"{wanted}, got {queries.shape[1]} and {items.shape[1]}")
    return score_blocks(queries, items, None, distances=False)

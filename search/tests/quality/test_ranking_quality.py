"""Measures of rankings against every order of ties, against their definitions, and their comparison with a baseline."""

from __future__ import annotations

import os
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import mahala.metric.matrices
from mahala import PA, BilinearMetric, MahalanobisMetric
from mahala_search import Judgments, evaluate_ranking
from mahala_search.quality.paired import PairedGain


def definitions(ranked: Any, k: int) -> list[float]:
    """nDCG, precision, recall and hit at k, reciprocal rank and average precision of grades in the order of a ranking.

    They are those of trec_eval.
    """
    discounts = 1 / np.log2(np.arange(2, len(ranked) + 2))
    ideal = (np.sort(ranked)[::-1] * discounts)[:k].sum()
    relevant = ranked > 0
    places = np.flatnonzero(relevant) + 1
    hits = relevant[:k].sum()
    average = np.mean(np.arange(1, len(places) + 1) / places)
    dcg = (ranked * discounts)[:k].sum()
    return [dcg / ideal, hits / k, hits / relevant.sum(), hits > 0, 1 / places[0], average]


def slow(scores: Any, grades: Any, k: int) -> list[float]:
    """The means of the measures over every order of ties."""
    every = [
        definitions(grades[list(order)], k)
        for order in permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    return np.mean(every, axis=0).tolist()


@st.composite
def collections(draw: Any) -> tuple[Any, Any, Any]:
    """Queries and few items with whole numbers, so that scores tie exactly, zero vectors and duplicates; and grades."""
    n, m, d = draw(st.integers(1, 4)), draw(st.integers(1, 6)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.sampled_from([0, 1, 2]))
    queries, items = rng.integers(-spread, spread + 1, (n, d)), rng.integers(-spread, spread + 1, (m, d))
    if draw(st.booleans()):
        items = items[rng.integers(0, max(1, m // 2), m)]
    grades = rng.choice([-1, 0, 1, 2, 3.5], (n, m))  # -1: not judged
    grades[0, 0] = 1
    form = draw(st.sampled_from([np.float64, np.float32, sp.csr_array]))
    if form is sp.csr_array:
        return sp.csr_array(queries.astype(float)), sp.csr_array(items.astype(float)), grades
    return queries.astype(form), items.astype(form), grades


def judgments_of(grades: Any) -> Judgments:
    query, item = np.nonzero(grades >= 0)
    return Judgments(query, item, grades[query, item], *grades.shape)


@given(collections(), st.lists(st.integers(1, 8), min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_measures_are_means_over_the_orders_of_ties(case: Any, k: list[int], seed: int) -> None:
    queries, items, grades = case
    quality = evaluate_ranking(queries, items, judgments_of(grades), k=k)
    expected_rows = np.flatnonzero((grades > 0).any(axis=1))
    assert quality.queries.tolist() == expected_rows.tolist()
    assert quality.n_queries == len(grades)
    scores = np.asarray((queries @ items.T).toarray() if sp.issparse(queries) else queries @ items.T)
    for at, row in enumerate(expected_rows):
        for cut in k:
            expected = slow(scores[row], np.maximum(grades[row], 0), cut)
            names = [f"ndcg@{cut}", f"precision@{cut}", f"recall@{cut}", f"hit@{cut}", "mrr", "map"]
            np.testing.assert_allclose([quality.values[name][at] for name in names], expected, rtol=1e-12, atol=1e-15)
    order = np.random.default_rng(seed).permutation(items.shape[0])
    again = evaluate_ranking(queries, items[order], judgments_of(grades[:, order]), k=k)
    for name, values in quality.values.items():
        np.testing.assert_allclose(again.values[name], values, rtol=1e-12, atol=1e-15)


def collection(n: int = 40, m: int = 300, d: int = 8, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    queries, items = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    scores = queries @ items.T + rng.normal(scale=2.0, size=(n, m))
    grades = np.digitize(scores, np.quantile(scores, [0.9, 0.97, 0.99])).astype(float)
    grades[(grades == 0) & (rng.random((n, m)) < 0.8)] = -1
    grades[3] = 0  # no relevant item
    grades[4] = 1  # all of them
    return queries, items, judgments_of(grades)


@pytest.mark.parametrize("k", [5, 20])
def test_measures_of_many_items_are_their_definitions(k: int) -> None:
    queries, items, judgments = collection()
    M = np.random.default_rng(1).normal(size=(8, 8))
    quality = evaluate_ranking(queries, items, judgments, BilinearMetric(M), k=[5, 20], baseline=None)
    grades = np.zeros((len(queries), len(items)))
    grades[judgments.query, judgments.item] = judgments.grade
    order = np.argsort(-(queries @ M @ items.T), axis=1)
    expected = [definitions(grades[query, order[query]], k) for query in quality.queries]
    names = [f"ndcg@{k}", f"precision@{k}", f"recall@{k}", f"hit@{k}", "mrr", "map"]
    for name, values in zip(names, np.transpose(expected), strict=True):
        np.testing.assert_allclose(quality.values[name], values, rtol=1e-10, atol=1e-12, err_msg=name)


def test_every_kind_of_metric_is_evaluated() -> None:
    queries, items, judgments = collection()
    M = np.random.default_rng(1).normal(size=(8, 8))

    class Adapter:
        def embed(self, rows: Any) -> Any:
            return rows @ M

    bilinear = evaluate_ranking(queries, items, judgments, BilinearMetric(M), baseline=Adapter())
    for name, values in bilinear.values.items():
        np.testing.assert_allclose(values, bilinear.baseline[name], rtol=1e-12)
        assert bilinear.gains[name] == PairedGain(0.0, 0.0, 0.0, 1.0)
    raw = evaluate_ranking(queries, items, judgments)
    assert raw.baseline is None
    assert raw.gains == {}
    same = evaluate_ranking(queries, items, judgments, BilinearMetric(np.eye(8)))
    np.testing.assert_array_equal(same.values["ndcg@10"], raw.values["ndcg@10"])
    unit = items / np.linalg.norm(items, axis=1, keepdims=True)  # where the nearest have the largest inner products
    distance = evaluate_ranking(queries, unit, judgments, MahalanobisMetric.euclidean(8))
    np.testing.assert_allclose(distance.values["map"], distance.baseline["map"], rtol=1e-12)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, items, judgments = collection()
    whole = evaluate_ranking(queries, items, judgments, k=[3, 30])
    monkeypatch.setattr(mahala.metric.matrices, "BLOCK_BYTES", 8 * 300 * 7)
    parts = evaluate_ranking(queries, items, judgments, k=[3, 30])
    for name, values in whole.values.items():
        np.testing.assert_allclose(parts.values[name], values, rtol=1e-12)


def test_queries_without_relevant_items_are_left_out_and_counted() -> None:
    queries, items, judgments = collection()
    quality = evaluate_ranking(queries, items, judgments)
    assert 3 not in quality.queries
    assert len(quality.queries) == quality.n_queries - 1
    assert "39 queries with a relevant item (1 without), 300 items" in str(quality)
    every = quality.queries.tolist().index(4)
    assert [quality.values[name][every] for name in ("ndcg@10", "map", "mrr", "hit@10", "precision@10")] == [1.0] * 5


def test_gains_over_a_baseline() -> None:
    queries, items, judgments = collection()
    spoiled = BilinearMetric(np.diag([-1.0, 1, 1, 1, 1, 1, 1, 1]))
    quality = evaluate_ranking(queries, items, judgments, None, baseline=spoiled, confidence=0.9)
    for name, gain in quality.gains.items():
        assert gain.mean == pytest.approx(quality[name] - quality.baseline[name].mean())
        assert gain.low <= gain.mean <= gain.high
    gain = quality.gains["ndcg@10"]
    assert 0 < gain.low < gain.high
    assert gain.p_value < 0.01
    reverse = evaluate_ranking(queries, items, judgments, spoiled, confidence=0.9)
    assert reverse.gains["ndcg@10"].mean == -gain.mean
    text = str(reverse).splitlines()
    assert text[1] == "measure           mean  baseline     gain   90 % interval"
    assert text[2].startswith(
        f"ndcg@10         {reverse['ndcg@10']:.4f}    {quality['ndcg@10']:.4f}  {-gain.mean:+.4f}"
    )
    assert reverse.table()[0]["p_value"] == reverse.gains["ndcg@10"].p_value
    again = evaluate_ranking(queries, items, judgments, spoiled, confidence=0.9)
    assert again.gains == reverse.gains
    assert evaluate_ranking(queries, items, judgments, spoiled, random_state=1).gains != reverse.gains


def test_one_query_has_no_spread() -> None:
    quality = evaluate_ranking([[1.0]], [[1.0], [2.0]], [(0, 0, 1)], BilinearMetric([[-1.0]]), n_resamples=99)
    assert quality.gains["mrr"] == PairedGain(0.5, 0.5, 0.5, 1.0)


def test_cranfield_has_the_quality_that_others_measured() -> None:
    folder = os.environ.get("MAHALA_DATA")
    if folder is None:
        pytest.skip("MAHALA_DATA is not set")
    data = np.load(os.path.join(folder, "cranfield_emb.npz"))
    queries, items = data["Q"].astype(np.float32), data["X"].astype(np.float32)
    assert evaluate_ranking(queries, items, data["qrels"])["ndcg@10"] == pytest.approx(0.34, abs=0.005)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"k": 0}, ValueError, "k must be one or several integers of at least 1"),
        ({"n_resamples": 0}, ValueError, "n_resamples must be an integer of at least 1"),
        ({"confidence": 1.0}, ValueError, "confidence must be a number between 0 and 1"),
        ({"baseline": "euclidean"}, ValueError, "baseline must be 'raw', None, a metric or an object with embed"),
        ({"metric": PA()}, TypeError, "metric must be a Metric, an object with embed, or None, got PA; of a learner"),
        ({"baseline": 3, "metric": BilinearMetric(np.eye(2))}, TypeError, "baseline must be a Metric, an object with"),
        ({"qrels": [(0, 0, 0)]}, ValueError, "qrels must have a grade above 0"),
        ({"qrels": [(0, 3, 1)]}, ValueError, "item row numbers from 0 to 2"),
        ({"queries": [[1.0], [2.0]]}, ValueError, "the inner products of metric need .* got 1 and 2"),
        ({"queries": [[1.0, np.nan]]}, ValueError, "queries contains NaN"),
        ({"metric": BilinearMetric(np.ones((2, 3)))}, ValueError, "has 2 features, but this metric .* of 3"),
    ],
)
def test_wrong_arguments_are_refused(options: Any, kind: Any, message: str) -> None:
    arguments = {"queries": [[1.0, 0.0], [0.0, 1.0]], "items": np.ones((3, 2)), "qrels": [(0, 0, 1)]} | options
    with pytest.raises(kind, match=message):
        evaluate_ranking(**arguments)


def test_wrong_embeddings_are_refused() -> None:
    class Adapter:
        def embed(self, rows: Any) -> Any:
            return rows[:1, :1] if self.short else rows[:, :1]

        short = False

    arguments = np.eye(2), np.ones((3, 2)), [(0, 0, 1), (1, 0, 1)]
    with pytest.raises(ValueError, match=r"the inner products of metric need .* got 1 and 2"):
        evaluate_ranking(*arguments, Adapter())
    Adapter.short = True
    with pytest.raises(ValueError, match=r"metric.embed must return 2 rows, one per query, got 1"):
        evaluate_ranking(*arguments, Adapter())

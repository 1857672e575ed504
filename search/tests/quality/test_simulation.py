"""Simulated impressions, with adapters that learn nothing and one that learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from mahala import BilinearMetric
from mahala_search import QueryAdapter, evaluate_ranking
from mahala_search.quality.simulation import Simulation, simulate_clicks

D = 6


class Fixed:
    """Map queries by a fixed matrix, and note every call."""

    def __init__(self, M: Any = None) -> None:
        self.M = np.eye(D) if M is None else M
        self.embedded: list[Any] = []
        self.learned: list[Any] = []

    def embed(self, query: Any, query_id: Any = None) -> Any:
        self.embedded.append((query, query_id))
        return query @ self.M

    def learn_one(self, query: Any, *, shown: Any, clicked: Any, query_id: Any = None) -> None:
        self.learned.append((query, shown, clicked, query_id))


class Perceptron(Fixed):
    """Move towards clicked items and away from the others."""

    def learn_one(self, query: Any, *, shown: Any, clicked: Any, query_id: Any = None) -> None:
        if clicked.any() and not clicked.all():
            self.M = self.M + 0.02 * np.outer(query, shown[clicked].mean(axis=0) - shown[~clicked].mean(axis=0))


def collection(n: int = 60, m: int = 200, seed: int = 0) -> tuple[Any, Any, Any]:
    """Items that are relevant where another map than the identity has large scores, in two grades."""
    rng = np.random.default_rng(seed)
    queries, items = rng.normal(size=(n, D)), rng.normal(size=(m, D))
    scores = queries @ (np.eye(D) + 0.5 * rng.normal(size=(D, D))) @ items.T
    grades = np.digitize(scores, np.quantile(scores, [0.95, 0.99]))
    grades[5] = 0
    return queries, items, [(i, j, grades[i, j]) for i, j in np.argwhere(grades > 0)]


def test_what_is_passed_to_the_adapter() -> None:
    queries, items, qrels = collection()
    M = np.random.default_rng(1).normal(size=(D, D))
    adapter = Fixed(M)
    calls: list[tuple[int, int, str]] = []
    result = simulate_clicks(
        adapter,
        queries,
        items,
        qrels,
        n_impressions=50,
        k=7,
        test_share=0.25,
        progress=lambda *call: calls.append(call),
    )
    grades = {(i, j): grade for i, j, grade in qrels}
    rows, ranked = result.query, np.argsort(-queries @ M @ items.T, axis=1)[:, :7]
    assert 5 not in rows
    assert len(adapter.learned) == len(rows) == 50
    for row, (query, shown, clicked, query_id) in zip(rows, adapter.learned, strict=True):
        np.testing.assert_array_equal(query, queries[row])
        np.testing.assert_array_equal(shown, items[ranked[row]])
        assert (clicked.dtype, clicked.shape, query_id) == (bool, (7,), row)
    assert result.n_clicks.tolist() == [clicked.sum() for _, _, clicked, _ in adapter.learned]
    assert [query_id for _, query_id in adapter.embedded[:-1]] == rows.tolist()
    held_out, query_id = adapter.embedded[-1]
    assert query_id is None
    assert len(held_out) == len(result.unseen.queries) == round(0.25 * len({i for i, _ in grades}))
    assert not {tuple(row) for row in held_out} & {tuple(queries[row]) for row in rows}
    assert [call[:2] for call in calls] == [(at + 1, 50) for at in range(50)]
    assert calls[-1][2] == f"gain {result.gain:+.4f}"


def test_what_is_recorded_is_the_quality_of_the_adapter() -> None:
    queries, items, qrels = collection()
    M = np.random.default_rng(1).normal(size=(D, D))
    result = simulate_clicks(Fixed(M), queries, items, qrels, n_impressions=80, k=7)
    expected = evaluate_ranking(queries, items, qrels, BilinearMetric(M), k=7)
    at = np.searchsorted(expected.queries, result.query)
    np.testing.assert_allclose(result.shown, expected.values["ndcg@7"][at], rtol=1e-12)
    np.testing.assert_allclose(result.raw, expected.baseline["ndcg@7"][at], rtol=1e-12)
    assert result.gain == pytest.approx((result.shown - result.raw).mean())
    at = np.searchsorted(expected.queries, result.held_out)
    np.testing.assert_allclose(result.unseen.values["ndcg@7"], expected.values["ndcg@7"][at], rtol=1e-12)
    assert not set(result.held_out) & set(result.query)


@pytest.mark.parametrize("clicks", ["perfect", "informational"])
def test_an_adapter_that_learns_gains(clicks: str) -> None:
    result = simulate_clicks(Perceptron(), *collection(), clicks=clicks, n_impressions=1000)
    ends, gains = result.curve(5)
    assert ends.tolist() == [200, 400, 600, 800, 1000]
    assert gains.mean() == pytest.approx(result.gain)
    assert gains[-1] > gains[0]
    assert gains[-1] > 0.05
    assert result.unseen.gains["ndcg@10"].low > 0.0


def test_an_adapter_that_learns_from_an_adversary_loses() -> None:
    result = simulate_clicks(Perceptron(), *collection(), clicks="adversarial", n_impressions=300)
    assert result.gain < -0.05
    assert result.unseen.gains["ndcg@10"].high < 0.0
    assert (result.n_clicks == 1).all()


def test_the_query_adapter_gains() -> None:
    adapter = QueryAdapter(random_state=0)
    result = simulate_clicks(adapter, *collection(), clicks="perfect", n_impressions=500)
    assert adapter.n_impressions_ == 500
    assert result.shown[0] == result.raw[0]  # before it has learned anything
    assert result.curve(5)[1][-1] > 0.05
    assert result.unseen.gains["ndcg@10"].low > 0.0


def test_nothing_learned_is_nothing_gained() -> None:
    result = simulate_clicks(Fixed(), *collection(), n_impressions=40)
    np.testing.assert_array_equal(result.shown, result.raw)
    assert result.unseen.gains["ndcg@10"].mean == 0.0
    text = str(result)
    assert text.startswith(
        f"40 impressions of {len(set(result.query.tolist()))} queries, {result.n_clicks.sum()} clicks\n"
    )
    assert "(+0.0000, 95 % interval +0.0000 to +0.0000" in text


def test_the_seed_decides_everything() -> None:
    def run(seed: int) -> Simulation:
        return simulate_clicks(Perceptron(), *collection(), n_impressions=60, random_state=seed)

    first, again, other = run(0), run(0), run(1)
    np.testing.assert_array_equal(first.query, again.query)
    np.testing.assert_array_equal(first.shown, again.shown)
    assert first.unseen.gains == again.unseen.gains
    assert first.query.tolist() != other.query.tolist()


def test_sparse_rows_and_fewer_items_than_are_shown() -> None:
    queries, items, qrels = collection(m=8)
    dense = simulate_clicks(Perceptron(), queries, items, qrels, n_impressions=50)
    assert dense.unseen.n_items == 8

    class Dense(Perceptron):
        def learn_one(self, query: Any, *, shown: Any, clicked: Any, query_id: Any = None) -> None:
            super().learn_one(query, shown=shown.toarray(), clicked=clicked)

    sparse = simulate_clicks(Dense(), sp.csr_array(queries), sp.csr_array(items), qrels, n_impressions=50)
    np.testing.assert_allclose(sparse.shown, dense.shown, rtol=1e-12)
    assert sparse.unseen["map"] == pytest.approx(dense.unseen["map"])


def test_clicks_of_ones_own() -> None:
    class Top:
        def click(self, grades: Any, rng: Any, best: float = 1.0) -> Any:
            assert best == 2.0
            return np.arange(len(grades)) == 0

    result = simulate_clicks(Fixed(), *collection(), clicks=Top(), n_impressions=10)
    assert result.n_clicks.tolist() == [1] * 10
    assert len(result.curve(50)[0]) == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clicks": "lazy"}, "name of a click model must be one of"),
        ({"n_impressions": 0}, "n_impressions must be an integer of at least 1"),
        ({"k": 0}, "k must be an integer of at least 1"),
        ({"test_share": 1.0}, "test_share must be a number between 0 and 1"),
        ({"qrels": [(0, 0, 1)]}, "at least 2 queries with a grade above 0, one to ask and one to hold out, got 1"),
        ({"items": np.ones((200, D + 1))}, "items must have the 6 columns of queries, got 7"),
        ({"adapter": Fixed(np.ones((D, 2)))}, "adapter.embed must return vectors of 6 numbers, like the items, got 2"),
    ],
)
def test_wrong_arguments_are_refused(options: Any, message: str) -> None:
    queries, items, qrels = collection()
    arguments = {"adapter": Fixed(), "queries": queries, "items": items, "qrels": qrels, "n_impressions": 5} | options
    with pytest.raises(ValueError, match=message):
        simulate_clicks(**arguments)

"""The route that reranks: candidates of another engine, their signals in the log, and what is learned from them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fastapi.testclient", reason="FastAPI is not installed: pip install 'mahala-search'")

from fastapi.testclient import TestClient

from mahala_search import QueryAdapter
from mahala_search.serve import Client
from mahala_search.serve.http.app import create_app
from mahala_search.serve.learning.learners import Learners
from mahala_search.serve.service import Service
from mahala_search.serve.store.files import export, restore
from mahala_search.serve.store.rows import LogEntry

from .conftest import N_ITEMS, WIDTH, new_items, wait_for

NEW = new_items()
BASE = "/v1/collections/c"
QUERY = [1.0] * WIDTH


@pytest.fixture
def service(tmp_path):
    with Service(tmp_path / "mahala.db", learn=False) as service:
        service.create("c", width=WIDTH)
        service.put_items("c", [item._asdict() | {"vector": item.vector.tolist()} for item in NEW])
        yield service


@pytest.fixture
def client(service):
    http = TestClient(create_app(service), base_url="http://127.0.0.1")
    return Client(collection="c", http=http, attempts=1)


def candidate(id, score, /, **signals):
    return {"id": id, "score": score, "signals": signals}


def entries(n=150, seed=0):
    """Impressions in which the items with the lowest price are clicked."""
    rng = np.random.default_rng(seed)
    for at in range(n):
        shown, price = rng.permutation(N_ITEMS)[:6].tolist(), rng.exponential(20.0, size=6)
        signals = {"score": np.sort(rng.random(6))[::-1].tolist(), "price": [*price[:5].tolist(), None]}
        clicked = (price <= np.sort(price)[1]).astype(float).tolist()
        yield LogEntry("impression", shown, clicked, query=at % N_ITEMS, signals=signals)


def learn(service, n=150):
    """Learn from entries, and serve what was learned; return the same adapter, fed directly."""
    learners, adapter = Learners({"adapter": {}}, None), QueryAdapter()
    vectors = service.served("c").index.vectors
    for place, entry in enumerate(entries(n), start=1):
        service.store.append("c", [entry])
        learners.learn(list(service.store.read_log("c", place - 1, 1)), vectors)
        query, shown = vectors([entry.query])[0], vectors(entry.shown)
        adapter.learn_one(query, shown, entry.clicked, item_ids=entry.shown, signals=entry.signals)
    return learners, adapter


def serve_learned(service, learners):
    from safetensors.numpy import load

    from mahala_search.adapter.maps.query_maps import QueryMaps
    from mahala_search.serve.index.served_collection import ServedModel

    maps = QueryMaps.from_arrays(load(learners.parts()["adapter"][1]))
    service.served("c").model = ServedModel(7, maps, {})


def test_nothing_learned_keeps_the_order_of_the_engine(client):
    given = [candidate("i3", 2.5, bm25=1.0), candidate("elsewhere", 2.0, bm25=None), candidate("i1", 1.0)]
    answer = client.rerank(given, vector=QUERY)
    assert (answer["version"], answer["arm"]) == (0, None)
    assert [(one["id"], one["position"]) for one in answer["results"]] == [("i3", 0), ("elsewhere", 1), ("i1", 2)]
    assert [one["id"] for one in client.rerank(given[::-1], item="i2", k=2)["results"]] == ["i3", "elsewhere"]


def test_learned_signals_rank_as_the_adapter_does(service, client):
    learners, adapter = learn(service)
    assert adapter.signal_weights_["price"] < -0.5
    serve_learned(service, learners)
    rng = np.random.default_rng(9)
    rows, scores, price = rng.permutation(N_ITEMS)[:6].tolist(), np.arange(6.0)[::-1], rng.exponential(20.0, size=6)
    given = [candidate(f"i{row}", s, price=p) for row, s, p in zip(rows, scores, price.tolist(), strict=True)]
    given[2] = candidate("unknown", scores[2], price=price[2]) | {"vector": NEW[rows[2]].vector.tolist()}
    answer = client.rerank(given, vector=QUERY)
    order, expected = adapter.rerank(
        QUERY, np.array([NEW[row].vector for row in rows]), {"score": scores, "price": price}, item_ids=rows
    )
    assert answer["version"] == 7
    assert [one["position"] for one in answer["results"]] == order.tolist() != list(range(6))
    np.testing.assert_allclose([one["score"] for one in answer["results"]], expected, rtol=1e-4, atol=1e-5)


def test_events_and_impressions_bring_their_signals_to_the_log(service, client, tmp_path):
    given = [candidate("i1", 3.0, age=5.0), candidate("gone", 2.0, age=9.0), candidate("i2", 1.0)]
    answer = client.rerank(given, vector=QUERY)
    client.event(answer["search_id"], "i2")
    client.impressions(
        [{"query": {"item": "i5"}, "shown": ["i1", "gone", "i2", "i3"], "clicked": ["i2"],
          "signals": {"score": [4, 3, 2, 1], "age": [None, 1.0, 2.0, 3.0]}}]
    )  # fmt: skip
    wait_for(lambda: len(list(service.store.read_log("c"))) == 2, 5.0)
    by_event, by_body = service.store.read_log("c")
    assert by_event.signals == {"score": [3.0, 1.0], "age": [5.0, None]}
    assert (by_event.shown, by_event.clicked) == ([1, 2], [0.0, 1.0])
    assert by_body.signals == {"score": [4.0, 2.0, 1.0], "age": [None, 2.0, 3.0]}
    assert export(service.store, "c", tmp_path / "export") == 2
    restore(service.store, "again", tmp_path / "export")
    assert [entry.signals for entry in service.store.read_log("again")] == [by_event.signals, by_body.signals]


def test_the_plain_arm_keeps_the_order_of_the_engine(service, client):
    learners, _ = learn(service, 60)
    service.configure("c", {"control": {"share": 0.5}})
    serve_learned(service, learners)
    given = [candidate(f"i{at}", 0.6 - at / 10, price=50.0 - 9.0 * at) for at in range(6)]
    answers = [client.rerank(given, vector=QUERY, user=f"u{at}") for at in range(20)]
    orders = {answer["arm"]: [one["position"] for one in answer["results"]] for answer in answers}
    assert orders.keys() == {"plain", "learned"}
    assert orders["plain"] == list(range(6)) != orders["learned"]


@pytest.mark.parametrize(
    ("route", "change", "message"),
    [
        ("rerank", {"candidates": []}, "candidates"),
        ("rerank", {"candidates": [candidate("i1", 1.0)] * 2}, "candidates must have each id once"),
        ("rerank", {"candidates": [{"id": "i1"}]}, "score"),
        ("rerank", {"candidates": [candidate("i1", 1.0, score=2.0)]}, "'score' beside their signals"),
        ("rerank", {"candidates": [candidate("i1", 1.0, similarity=2.0)]}, "must not have 'similarity'"),
        ("rerank", {"candidates": [candidate("i1", 1.0, price="cheap")]}, "price"),
        ("rerank", {"candidates": [candidate("i1", 1e200)]}, "from -1e100 to 1e100"),
        ("rerank", {"candidates": [candidate(f"i{i}", 1.0, **{f"s{i}": 1.0}) for i in range(32)]}, "at most 32 names"),
        ("rerank", {"candidates": [candidate("x", 1.0) | {"vector": [1.0]}]}, r"candidates[0].vector must have 6"),
        ("impressions", {"shown": ["i1"], "clicked": [], "signals": {"bm25": [1.0]}}, "signals must have 'score'"),
        ("impressions", {"shown": ["i1"], "clicked": [], "signals": {"score": [1, 2]}}, "one number for each of 1"),
    ],
)
def test_bad_requests_are_refused(client, route, change, message):
    answer = client._http.post(f"{BASE}/{route}", json={"query": {"item": "i2"}} | change)
    assert answer.status_code == 422
    assert message in answer.text

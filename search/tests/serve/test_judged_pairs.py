"""Single judged pairs: kept in the log, compared with earlier ones of the same query and user, learned from once."""

from __future__ import annotations

import numpy as np
import pytest

import mahala_search
from mahala_search.serve.http.app import create_app
from mahala_search.serve.index.served_collection import MOST
from mahala_search.serve.learning.learners import DEFAULT, Learners
from mahala_search.serve.searches import feedback_entry
from mahala_search.serve.service import Service
from mahala_search.serve.store import files

from .conftest import WIDTH, new_items

TestClient = pytest.importorskip("fastapi.testclient", reason="httpx is not installed").TestClient


@pytest.fixture
def service(tmp_path):
    with Service(tmp_path / "mahala.db", learn=False) as service:
        service.create("c", width=WIDTH)
        service.put_items("c", [item._asdict() for item in new_items()])
        yield service


@pytest.fixture
def client(service):
    with TestClient(create_app(service), base_url="http://127.0.0.1") as http:
        yield mahala_search.serve.Client(collection="c", http=http)


def logged(service):
    return [(entry.kind, list(entry.shown), list(entry.clicked)) for entry in service.store.read_log("c")]


def test_a_pair_is_compared_with_the_other_verdicts_of_its_user_and_query(service, client):
    client.pair(item="i0", other="i1", similar=True, user="a")
    client.pair(item="i0", other="i2", similar=True, user="a")
    client.pair(item="i0", other="i3", similar=False, user="b")  # another user
    client.pair(item="i9", other="i3", similar=False, user="a")  # another query
    client.pair(item="i0", other="i3", similar=False, user="a")
    client.pair(item="i0", other="i1", similar=False, user="a")  # on second thoughts
    client.pair(item="i0", other="i4", similar=True, user="a")
    assert logged(service) == [
        ("pair", [1], [1.0]),
        ("pair", [2], [1.0]),
        ("pair", [3], [0.0]),
        ("pair", [3], [0.0]),
        ("pair", [3, 1, 2], [0.0, 1.0, 1.0]),
        ("pair", [1, 2], [0.0, 1.0]),
        ("pair", [4, 3, 1], [1.0, 0.0, 0.0]),
    ]


def test_queries_are_known_by_id_or_vector_and_the_latest_items_are_compared(service, client):
    vector = [0.5] * WIDTH
    for at in range(1, MOST + 4):
        client.pair(vector=vector, other=f"i{at}", similar=False)
    client.pair(vector=vector, other="i20", similar=True)
    client.pair(vector=vector, id="q", other="i21", similar=True)
    client.pair(item="i0", id="q", other="i22", similar=False)
    assert [rows for _, rows, _ in logged(service)[-3:]] == [[20, *range(4, MOST + 4)], [21], [22, 21]]


def test_batches_retries_and_other_processes(service, client, tmp_path):
    body = [{"query": {"item": "i0"}, "other": f"i{at}", "similar": at == 1} for at in (1, 2)]
    assert client._append("/comparisons", body, "k") == [1, 2]
    client.pair(item="i0", other="i3", similar=False)
    assert client._append("/comparisons", body, "k") == [1, 2]  # though there is more to compare with by now
    assert [rows for _, rows, _ in logged(service)] == [[1], [2, 1], [3, 1]]
    with pytest.raises(mahala_search.serve.client.ServiceError, match="was used before"):
        client._append("/comparisons", [body[0] | {"similar": False}, body[1]], "k")
    with Service(tmp_path / "mahala.db", learn=False) as other:
        entry = feedback_entry(other, "c", "pair", other.resolve("c", {"item": "i0"}), ["i4"], [1.0])
        assert (entry.shown, entry.clicked) == ([4, 2, 3], [1.0, 0.0, 0.0])


def test_a_forgotten_user_is_not_compared_with(service, client):
    for user, similar in (("a", True), ("b", True)):
        client.pair(item="i0", other="i1", similar=similar, user=user)
    assert client.forget_user("a") == 1
    service.refresh()
    client.pair(item="i0", other="i2", similar=False, user="a")
    client.pair(item="i0", other="i2", similar=False, user="b")
    assert [rows for _, rows, _ in logged(service)] == [[1], [2], [2, 1]]


@pytest.mark.parametrize(
    "body",
    [
        {"other": "i1"},
        {"similar": True},
        {"other": "i1", "similar": True, "grades": {"i2": 1}},
        {"other": "i0", "similar": True},
        {"other": "i1", "similar": "perhaps"},
    ],
)
def test_what_is_not_a_pair_is_refused(client, body):
    with pytest.raises(mahala_search.serve.client.ServiceError) as refused:
        client._append("/comparisons", {"query": {"item": "i0"}, **body}, None)
    assert refused.value.status in (404, 422)


def test_an_exported_log_of_pairs_is_the_same_and_learns_the_same(service, client, tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(40):
        query, other = rng.choice(8, size=2, replace=False)
        client.pair(item=f"i{query}", other=f"i{other}", similar=bool(rng.integers(2)), user="a")
    files.export(service.store, "c", tmp_path / "folder")
    files.restore(service.store, "copy", tmp_path / "folder")
    service.refresh()
    states = []
    for name in ("c", "copy"):
        learners = Learners(DEFAULT, None)
        for entry in service.store.read_log(name):
            learners.learn([entry], lambda rows: service.store.vectors("c", rows))
        states.append(learners.adapters["adapter"].to_bytes())
        assert learners.adapters["adapter"].n_learned_ > 10
    assert states[0] == states[1]


def test_judged_pairs_make_the_ranking_of_other_queries_better(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6))
    truth = X * np.array([3.0, 2.0, 1.0, 0.2, 0.2, 0.2]) @ X.T
    np.fill_diagonal(truth, -np.inf)
    wanted = truth >= np.sort(truth, axis=1)[:, -10:-9]
    with Service(tmp_path / "mahala.db", learn=False) as service:
        service.create("c", width=6)
        service.put_items("c", [{"id": f"i{at}", "vector": x} for at, x in enumerate(X)])
        learners = Learners(DEFAULT, None)
        queries = [service.resolve("c", {"item": f"i{at}"}) for at in range(40)]
        for at in range(1000):
            row, query = at % 40, queries[at % 40]
            shown = service.served("c").index.search(query.vector, 30, leave_out=row)
            other = shown[int(rng.integers(30))]  # people judge what they are shown
            similar = bool(wanted[row, other.row])
            entry = feedback_entry(service, "c", "pair", query, [other.id], [float(similar)], user=f"u{row}")
            learners.learn([entry], lambda rows: X[list(rows)])
    adapter = learners.adapters["adapter"]

    def share(embed):
        scores = np.array([X @ embed(X[row]) for row in range(100, 150)])
        scores[np.arange(50), np.arange(100, 150)] = -np.inf
        found = np.argsort(-scores, axis=1)[:, :10]
        return wanted[np.arange(100, 150)[:, None], found].mean()

    assert share(adapter.embed) > share(lambda x: x) + 0.05

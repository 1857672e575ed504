"""Events: searches are recorded, and clicks that come later are joined with what was shown."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("fastapi.testclient", reason="FastAPI is not installed: pip install 'mahala[serve]'")

from fastapi.testclient import TestClient

from mahala.serve import Client
from mahala.serve.http.app import create_app
from mahala.serve.service import Service
from mahala.serve.store import group_commit
from mahala.serve.store.searches import Search, add_searches, delete_old_searches, read_searches

from .conftest import WIDTH, new_items, wait_for

BASE = "/v1/collections/c"
ITEMS = [item._asdict() | {"vector": item.vector.tolist()} for item in new_items()]


@pytest.fixture
def service(tmp_path):
    with Service(tmp_path / "mahala.db", learn=False) as service:
        service.create("c", width=WIDTH)
        service.put_items("c", ITEMS)
        yield service


@pytest.fixture
def client(service):
    http = TestClient(create_app(service), base_url="http://127.0.0.1")
    return Client(collection="c", http=http, attempts=1)


def recorded(store, *ids):
    with store.database.reading() as connection:
        return read_searches(connection, "c", ids)


def test_searches_are_recorded_in_the_background(service, client):
    by_item, by_vector = client.search(item="i3", k=4, user="u"), client.search(vector=[1.0] * WIDTH, k=2, id="q")
    ids = [by_item.search_id, by_vector.search_id]
    wait_for(lambda: len(recorded(service.store, *ids)) == 2, 5.0)
    one, other = (recorded(service.store, *ids)[id] for id in ids)
    assert (one.shown, one.query, one.vector, one.user, one.version) == (by_item.ids, 3, None, "u", 0)
    assert (other.shown, other.query, other.vector.tolist()) == (by_vector.ids, None, [1.0] * WIDTH)
    assert (other.query_id, other.user, other.arm, other.clicked) == ("q", None, None, {})
    assert abs(other.at - time.time()) < 60.0
    assert service.forget_user("c", "u") == 1
    assert list(recorded(service.store, *ids)) == ids[1:]


def test_a_search_does_not_fail_if_it_cannot_be_recorded(service, client, monkeypatch):
    def gone(*_):
        raise OSError("gone")

    monkeypatch.setattr(service.store, "append_all", gone)
    monkeypatch.setattr(group_commit, "WAITING", 1)
    for _ in range(5):
        assert client.search(item="i3").search_id


def test_old_searches_and_searches_beyond_a_number_are_deleted(store):
    now = time.time()
    with store.database.writing() as connection:
        add_searches(connection, "c", [Search(f"s{age}", ["i1"], 0, at=now - 100.0 * age) for age in range(10)])
        add_searches(connection, "c", [Search("s9", ["i2"], 1, at=now)])  # not written again
    names = [f"s{age}" for age in range(10)]
    assert recorded(store, "s9")["s9"].shown == ["i1"]
    assert delete_old_searches(store.database, kept=750.0) == 2
    assert sorted(recorded(store, *names)) == names[:8]
    assert delete_old_searches(store.database, most=3) == 5
    assert sorted(recorded(store, *names)) == names[:3]
    assert delete_old_searches(store.database) == 0
    store.drop("c")
    assert recorded(store, *names) == {}

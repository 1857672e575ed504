"""Events: searches are recorded, and clicks that come later are joined with what was shown."""

from __future__ import annotations

import json
import time

import pytest

pytest.importorskip("fastapi.testclient", reason="FastAPI is not installed: pip install 'mahala-search'")

from fastapi.testclient import TestClient

from mahala_search.events.joining import NOT_SHOWN, UNKNOWN_SEARCH, Reaction
from mahala_search.serve import Client
from mahala_search.serve.client import ServiceError
from mahala_search.serve.http.app import create_app
from mahala_search.serve.searches import import_events
from mahala_search.serve.service import Service
from mahala_search.serve.store import group_commit
from mahala_search.serve.store.database import Unknown
from mahala_search.serve.store.searches import Events, Search, add_searches, delete_old_searches, read_searches

from .conftest import WIDTH, new_items, wait_for

ITEMS = [item._asdict() | {"vector": item.vector.tolist()} for item in new_items()]


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


def test_forgetting_a_user_leaves_nothing_behind(service, client):
    """Neither a search that waits to be written, nor a click on the results of another user's search."""
    found = client.search(item="i3", k=4, user="u")
    client.event(found.search_id, found.ids[0], user="u")
    client.event(found.search_id, found.ids[1], user="v")
    waiting = client.search(item="i4", k=4, user="v")
    assert service.forget_user("c", "v") == 2
    after = recorded(service.store, found.search_id, waiting.search_id)
    assert {id: list(search.clicked) for id, search in after.items()} == {found.search_id: found.ids[:1]}


def test_a_search_does_not_fail_if_it_cannot_be_recorded(service, client, monkeypatch):
    def gone(*_):
        raise OSError("gone")

    monkeypatch.setattr(service.store, "append_all", gone)
    monkeypatch.setattr(group_commit, "WAITING", 4)
    for _ in range(5):
        assert client.search(item="i3").search_id


def test_old_searches_and_searches_beyond_a_number_are_deleted(store):
    now = time.time()
    with store.database.writing() as connection:
        add_searches(connection, "c", [Search(f"s{age}", ["i1"], 0, at=now - 100.0 * age) for age in range(10)])
        add_searches(connection, "c", [Search("s9", ["i2"], 1, at=now)])  # not written again
    names = [f"s{age}" for age in range(10)]
    assert recorded(store, "s9")["s9"].shown == ["i1"]
    assert delete_old_searches(store.database, seconds=750.0) == 2
    assert sorted(recorded(store, *names)) == names[:8]
    assert delete_old_searches(store.database, most=3) == 5
    assert sorted(recorded(store, *names)) == names[:3]
    assert delete_old_searches(store.database) == 0
    with store.database.writing() as connection:
        aged = [Search(arm, ["i1"], 0, arm=arm, at=now - age) for arm, age in (("plain", 8e6), ("learned", 7e6))]
        add_searches(connection, "c", [Search("in no arm", ["i1"], 0, at=now - 7e6), *aged])
    assert delete_old_searches(store.database) == 2  # a search in an experiment is kept for 90 days
    assert list(recorded(store, "in no arm", "plain", "learned")) == ["learned"]
    store.drop("c")
    assert recorded(store, *names) == {}


def test_old_searches_are_deleted_as_fast_as_new_ones_come(service, client, monkeypatch):
    deletions = []
    monkeypatch.setattr(group_commit, "delete_old_searches", lambda _: deletions.append(1) or group_commit.DELETED)
    monkeypatch.setattr(group_commit, "_DELETING_MORE", 0.0)
    service.writer._deletion = 0.0
    for n in (1, 2):
        client.search(item="i3")
        wait_for(lambda n=n: len(deletions) == n, 5.0)


def test_a_click_is_joined_with_what_was_shown(service, client):
    found = client.search(item="i3", k=4, user="u")
    rows = [int(id[1:]) for id in found.ids]
    assert client.event(found.search_id, found.ids[2]) == 1
    assert client.event(found.search_id, found.ids[0], "purchase", user="v") == 2
    first, second = service.store.read_log("c")
    assert (first.kind, first.query, first.shown, first.clicked) == ("impression", 3, rows, [0.0, 0.0, 1.0, 0.0])
    assert (first.user, first.version, second.user) == ("u", 0, "v")
    assert (second.shown, second.clicked) == ([*rows[:2], rows[3]], [3.0, 0.0, 0.0])  # not the one clicked before
    assert client.event(found.search_id, found.ids[2]) == 1  # once more
    assert client.event(found.search_id, found.ids[2], "dwell", seconds=99) == 1  # says no more than the click
    assert client.event(found.search_id, found.ids[2], "purchase") == 3
    assert len(list(service.store.read_log("c"))) == 3


def test_a_batch_is_reported_event_by_event(service, client):
    one, other = client.search(item="i3", k=3), client.search(vector=[1.0] * WIDTH, k=3)
    service.delete_items("c", [one.ids[1]])
    at = time.time() - 3600.0
    events = [
        {"search_id": one.search_id, "item": one.ids[0], "timestamp": at, "user": "u"},
        {"search_id": other.search_id, "item": other.ids[2], "type": "purchase"},
        {"search_id": one.search_id, "item": one.ids[1]},
        {"search_id": one.search_id, "item": one.ids[2], "type": "dwell", "seconds": 2},
        {"search_id": "nobody", "item": "i1"},
        {"search_id": one.search_id, "item": one.ids[2], "timestamp": time.time() + 9999},
        {"search_id": one.search_id, "item": one.ids[0], "type": "add_to_cart", "user": "u", "timestamp": at + 1},
    ]
    answer = client.events(events)
    assert answer["places"] == [1, 2, None, None, None, None, 1]
    problems = {problem["entry"]: (problem["status"], problem["reason"]) for problem in answer["problems"]}
    assert list(problems) == [2, 3, 4, 5]
    assert problems[2] == ("ignored", NOT_SHOWN)
    assert problems[3][0] == "ignored"
    assert problems[4] == ("ignored", UNKNOWN_SEARCH)
    assert problems[5][0] == "refused"
    entry = next(service.store.read_log("c"))
    assert (entry.clicked, entry.at, entry.user) == ([2.0, 0.0], pytest.approx(at + 1), "u")
    assert client.events(events)["places"] == answer["places"]  # again, after no answer came


def test_an_event_in_another_process_finds_the_search(service, client, tmp_path):
    with Service(tmp_path / "mahala.db", learn=False) as other:
        elsewhere = Client(collection="c", http=TestClient(create_app(other), base_url="http://127.0.0.1"))
        found = client.search(item="i3", k=3)
        assert elsewhere.event(found.search_id, found.ids[1]) == 1


UBI = [
    {"query_id": "q1", "client_id": "u", "user_query": "four", "query_response_id": "r", "application": "shop",
     "query_response_hit_ids": ["i1", "i2", "i3"], "timestamp": "2026-11-01T12:00:00.000Z"},
    {"query_id": "q1", "client_id": "u", "action_name": "item_click", "timestamp": "2026-11-01T12:00:09Z",
     "event_attributes": {"object": {"object_id": "i2", "object_id_field": "sku"}, "position": {"ordinal": 1}}},
]  # fmt: skip
METARANK = [
    {"event": "ranking", "id": "q1", "timestamp": "1793534400000", "user": "u", "session": "s",
     "fields": [{"name": "query", "value": "four"}],
     "items": [{"id": "i1"}, {"id": "i2", "relevancy": 2.0}, {"id": "i3"}]},
    {"event": "interaction", "id": "e", "ranking": "q1", "timestamp": 1793534409000, "user": "u", "type": "click",
     "item": "i2"},
]  # fmt: skip
NATIVE = [
    {"search_id": "q1", "query": {"text": "four"}, "shown": ["i1", "i2", "i3"], "user": "u", "timestamp": 1793534400},
    {"search_id": "q1", "item": "i2", "user": "u", "timestamp": 1793534409.0},
]


@pytest.mark.parametrize("events", [UBI, METARANK[::-1], NATIVE])
def test_events_of_other_systems_are_taken_as_they_are(service, client, events):
    service.encoders["c"] = lambda text: [float(len(text))] * WIDTH
    answer = client.events(events)
    assert (sorted(answer["places"], key=str), answer["problems"]) == ([1, None], [])
    (entry,) = service.store.read_log("c")
    assert (entry.shown, entry.clicked, entry.user, entry.at) == ([1, 2, 3], [0.0, 1.0, 0.0], "u", 1793534409.0)
    assert (entry.query_id, entry.vector.tolist()) == ("four", [4.0] * WIDTH)


@pytest.mark.parametrize("vector", [[{}], [10**400] * WIDTH, [[1], 2], ["1"] * WIDTH, [True] * WIDTH])
def test_a_query_that_is_no_list_of_numbers_is_refused_in_words(client, vector):
    shown = {"search_id": "s", "shown": ["i1", "i2"], "query": {"vector": vector}}
    problem = client.events([shown, {"search_id": "x", "item": "i1"}])["problems"][0]
    assert (problem["status"], problem["reason"]) == ("refused", "query.vector must be a list of numbers")


def test_a_text_without_an_encoder_is_refused_in_words(service, client):
    answer = client.events([UBI[0], {"search_id": "x", "item": "i1"}])
    assert answer["problems"][0]["status"] == "refused"
    assert "needs an encoder" in answer["problems"][0]["reason"]
    assert client.events([UBI[0] | {"query_attributes": {"vector": [2.0] * WIDTH}}, UBI[1]])["places"] == [None, 1]
    (entry,) = service.store.read_log("c")
    assert (entry.query_id, entry.vector.tolist()) == ("four", [2.0] * WIDTH)


def test_impressions_and_comparisons_with_stale_items_do_not_fail(service, client):
    service.delete_items("c", ["i2"])
    query = {"item": "i0"}
    impressions = [
        {"query": query, "shown": ["i1", "i2", "i3"], "clicked": ["i3"]},
        {"query": query, "shown": ["i1", "i2", "i3"], "clicked": ["i2"]},
        {"query": {"item": "i2"}, "shown": ["i1", "i3"], "clicked": ["i3"]},
        {"query": query, "shown": ["i1", "i3"], "clicked": ["i3"]},
    ]
    answer = client._call("POST", "/impressions", impressions)
    assert answer["places"] == [1, None, None, 2]
    statuses = [(problem["entry"], problem["status"]) for problem in answer["problems"]]
    assert statuses == [(0, "accepted"), (1, "ignored"), (2, "ignored")]
    assert [entry.shown for entry in service.store.read_log("c")] == [[1, 3], [1, 3]]
    assert client.comparison(item="i0", better="i2", worse="i1") is None
    assert client.pair(item="i0", other="i2", similar=True) is None
    assert client.judgment(item="i0", grades={"i1": 2.0, "i2": 1.0, "i3": 0.0}) == 3


def test_searches_of_several_users_in_a_file_are_not_taken_for_others(service):
    shown = [{"search_id": id, "shown": ["i1", "i2"], "query": {"item": "i3"}} for id in ("s", "s:1")]
    clicks = [{"search_id": id, "item": item, "user": item} for id, item in (("s", "i1"), ("s", "i2"), ("s:1", "i1"))]
    lines = [json.dumps(event) for event in shown + clicks]
    for expected in ((3, 0), (0, 3)):
        done = import_events(service, "c", lines, None, {})
        assert (done.written, done.there, done.ignored.total()) == (*expected, 0)


def test_a_collection_that_another_process_dropped_is_unknown(service, client, monkeypatch):
    monkeypatch.setattr(service, "refresh", lambda: None)
    service.store.drop("c")
    event, impression = {"search_id": "s", "item": "i1"}, {"item": "i3", "shown": ["i1", "i2"], "clicked": ["i1"]}
    for send in (lambda: client.events([event]), lambda: client.impression(**impression)):
        with pytest.raises(ServiceError, match="no collection 'c'"):
            send()


def test_events_are_written_whole_or_not_at_all(store, monkeypatch):
    """A transaction that fails at its last statement leaves nothing of a batch, which can be sent again."""
    batch = Events([Search("s", ["i1", "i2"], 0)], [Reaction("s", "i2", 1.0, None, 9.0)])
    with monkeypatch.context() as patched:
        patched.setattr("mahala_search.serve.store.searches.searches", None)
        with pytest.raises(AttributeError):
            store.append_all([("c", batch)])
    assert recorded(store, "s") == {}
    assert list(store.read_log("c")) == []
    assert store.append_all([("c", batch), ("c", batch)]) == [[1], [1]]
    assert store.append_all([("c", batch)]) == [[1]]
    assert recorded(store, "s")["s"].clicked == {"i2": [1.0, 1]}
    (error,) = store.append_all([("x", batch)])
    assert isinstance(error, Unknown)

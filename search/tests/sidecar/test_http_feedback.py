"""What people saw and did, over HTTP: shown, events, tokens, keys, and forget."""

from __future__ import annotations

import time

import pytest

from mahala_search.sidecar.http.bodies import encoded
from mahala_search.sidecar.records import key_of

from .http_sidecar import BASE, embedded, http_of, make, opened, query, vector, wait_for

IDS = ["d0", "d1", "d2"]


@pytest.fixture
def sidecar(tmp_path):
    with opened(tmp_path) as sidecar:
        make(sidecar)
        yield sidecar


@pytest.fixture
def http(sidecar):
    with http_of(sidecar) as http:
        yield http


def progress(sidecar, name="s"):
    return sidecar.store.progress(sidecar.space(name).space.id)


def with_key(sidecar, http, role, space="s"):
    """Return headers with a new key."""
    id = sidecar.space(space).space.id if space else ""
    return {"Authorization": f"Bearer {sidecar.keys.create(role, id)[1]}"}


def post(http, path, body, expected=202, **options):
    answer = http.post(f"{BASE}{path}", json=body, **options)
    assert answer.status_code == expected, answer.text
    return answer.json()


VECTORS = {id: encoded(vector(at)) for at, id in enumerate(IDS)}


def test_shown_names_what_is_missing_and_the_log_has_a_page_when_it_is_there(sidecar, http):
    (result,) = embedded(http, query(id="tent", user="u"))
    shown = {"search_id": result["search_id"], "ids": IDS, "seen": 2}
    assert post(http, "/shown", shown)["missing"] == IDS[:2]  # what was not seen is not learned from
    assert progress(sidecar)["logged"] == 0
    click = post(http, "/events", {"search_id": result["search_id"], "item": "d1", "type": "click"})
    assert (click["accepted"], click["problems"]) == (1, [])
    post(http, "/shown", shown | {"vectors": VECTORS})
    assert progress(sidecar)["logged"] > 0
    logged = progress(sidecar)["logged"]
    post(http, "/events", {"search_id": result["search_id"], "item": "d1", "type": "click"})
    post(http, "/shown", shown | {"vectors": VECTORS})
    assert progress(sidecar)["logged"] == logged  # once, however often it comes


def test_searches_of_a_client_come_with_what_was_shown(sidecar, http):
    def shown(id):
        search = {"query": query(id="tent", user="u"), "version": 3, "at": time.time()}
        return {"search_id": id, "ids": IDS, "vectors": VECTORS, "search": search}

    answer = post(http, "/shown", [shown("c1"), shown("c2"), shown("c1")])
    assert (answer["accepted"], answer["missing"]) == (3, [])
    assert progress(sidecar)["logged"] == 2
    assert post(http, "/events", {"search_id": "c2", "item": "d2"})["accepted"] == 1


@pytest.mark.parametrize(
    "events",
    [
        [
            {"query_id": "q1", "user_query": "tent", "client_id": "u1", "query_response_hit_ids": IDS,
             "query_attributes": {"vector": [1.0, 0.0, 0.0, 0.0]}, "timestamp": "2026-11-01T12:00:00Z"},
            {"query_id": "q1", "action_name": "click", "client_id": "u1", "timestamp": "2026-11-01T12:00:09Z",
             "event_attributes": {"object": {"object_id": "d1"}, "position": {"ordinal": 2}}},
        ],
        [
            {"event": "ranking", "id": "q1", "user": "u1", "timestamp": "1793534400000",
             "items": [{"id": id, "relevancy": 1.0 - at / 4} for at, id in enumerate(IDS)],
             "fields": [{"name": "query", "value": "tent"}, {"name": "vector", "value": [1.0, 0.0, 0.0, 0.0]}]},
            {"event": "interaction", "id": "e1", "ranking": "q1", "item": "d1", "type": "click",
             "user": "u1", "timestamp": "1793534409000"},
        ],
    ],
    ids=["ubi", "metarank"],
)  # fmt: skip
def test_events_of_other_tools_are_joined(sidecar, http, events):
    answer = post(http, "/events", events)
    assert (answer["accepted"], answer["problems"]) == (2, [])
    assert set(answer["missing"]) == set(IDS)
    post(http, "/shown", {"search_id": "q1", "ids": IDS, "vectors": VECTORS})
    id = sidecar.space("s").space.id
    wait_for(lambda: sidecar.store.read_log(id, 0, 10))  # a busy machine stores it a moment later
    assert sidecar.store.read_log(id, 0, 10)[0].user == key_of(sidecar.store.salt(id), "u1")


def test_each_entry_that_is_not_taken_is_named(http):
    (result,) = embedded(http, query())
    id = result["search_id"]
    post(http, "/shown", {"search_id": id, "ids": IDS})
    events = [
        {"search_id": id, "item": "d0"},
        {"search_id": id, "item": "d9"},
        {"search_id": "nobody", "item": "d0"},
        {"search_id": id, "item": "d0", "type": "hover"},
        {"search_id": id, "item": "d0", "value": "5"},
        {"search_id": id, "item": "d0", "colour": 1},
    ]
    answer = post(http, "/events", events)
    assert answer["accepted"] == 1
    assert [(one["entry"], one["status"]) for one in answer["problems"]] == [
        (1, "ignored"), (2, "ignored"), (3, "ignored"), (4, "refused"), (5, "refused"),
    ]  # fmt: skip
    assert post(http, "/events", events[1])["accepted"] == 0
    assert "value" in post(http, "/events", events[4], 422)["detail"]


def test_a_browser_needs_tokens_and_votes_once_for_an_item(sidecar):
    with http_of(sidecar, keys=True) as http:
        write, browser = (with_key(sidecar, http, role) for role in ("write", "browser"))
        answer = http.post(f"{BASE}/embed", json={"queries": [query(id="q", user="u")]}, headers=write).json()
        token, id = answer["results"][0]["token"], answer["results"][0]["search_id"]
        assert http.post(f"{BASE}/embed", json={"queries": [query()]}, headers=browser).status_code == 403
        for path, body in (
            ("/shown", {"search_id": id, "ids": IDS}),
            ("/shown", {"token": token, "ids": IDS, "vectors": VECTORS}),
            ("/events", {"search_id": id, "item": "d0"}),
            ("/events", {"token": token + "x", "item": "d0"}),
            ("/events", {"token": token, "item": "d0", "user": "another"}),
            ("/events", {"token": token, "item": "d0", "revenue": 1000.0}),
        ):
            post(http, path, body, 422, headers=browser)
        assert post(http, "/shown", {"token": token, "ids": IDS}, headers=browser)["accepted"] == 1
        post(http, "/shown", {"search_id": id, "ids": IDS, "vectors": VECTORS}, headers=write)
        before = progress(sidecar)["logged"]
        for _ in range(25):
            post(http, "/events", {"token": token, "item": "d2"}, headers=browser)
        entries = sidecar.store.read_log(sidecar.space("s").space.id, before, 100)
        assert [max(one.values) for one in entries] == [1.0]
        assert {one.user for one in entries} == {key_of(sidecar.store.salt(sidecar.space("s").space.id), "u")}


def test_tokens_and_keys_are_those_of_a_space_also_if_its_name_comes_again(sidecar):
    make(sidecar, "t")
    with http_of(sidecar, keys=True) as http:
        write = with_key(sidecar, http, "write")
        (result,) = http.post(f"{BASE}/embed", json={"queries": [query()]}, headers=write).json()["results"]
        other = {"json": {"queries": [query()]}, "headers": write}
        assert http.post("/v1/spaces/t/embed", **other).status_code == 403
        of_other = with_key(sidecar, http, "browser", "t")
        event = {"json": {"token": result["token"], "item": "d0"}, "headers": of_other}
        assert http.post("/v1/spaces/t/events", **event).status_code == 422
        admin = with_key(sidecar, http, "admin", None)
        assert http.delete(BASE, headers=admin).status_code == 200
        assert http.put(BASE, json={"width": 4}, headers=admin).status_code == 200
        assert http.post(f"{BASE}/embed", **other).status_code in (401, 403)
        own = with_key(sidecar, http, "browser")
        event["headers"] = own
        answer = http.post(f"{BASE}/events", **event)
        assert (answer.status_code, answer.json()["detail"]) == (422, "the token was not made for this space")


def test_roles_permit_what_those_before_them_do(sidecar):
    routes = {
        "read": [("GET", BASE, None), ("GET", f"{BASE}/served", None), ("GET", "/v1/spaces", None)],
        "write": [("POST", f"{BASE}/embed", {"queries": [query()]}), ("GET", f"{BASE}/model", None)],
        "admin": [("PUT", f"{BASE}/served", {"version": None}), ("POST", f"{BASE}/forget", {"user": "u"})],
    }
    with http_of(sidecar, keys=True) as http:
        assert http.get(BASE).status_code == 401
        assert http.get("/health").status_code == http.get("/ready").status_code == 200
        for level, role in enumerate(("browser", "read", "write", "admin")):
            headers = with_key(sidecar, http, role)
            for needed, (of_role, requests) in enumerate(routes.items(), start=1):
                for method, path, body in requests:
                    status = http.request(method, path, json=body, headers=headers).status_code
                    assert (status == 403) == (level < needed), (role, of_role, path, status)


def test_a_key_of_a_space_sees_this_space_only(sidecar):
    make(sidecar, "t")
    with http_of(sidecar, keys=True) as http:
        headers = with_key(sidecar, http, "admin")
        assert [one["name"] for one in http.get("/v1/spaces", headers=headers).json()] == ["s"]
        for path in ("/v1/spaces/t", "/v1/spaces/none", "/metrics"):
            assert http.get(path, headers=headers).status_code == 403, path
        assert http.put("/v1/spaces/new", json={"width": 4}, headers=headers).status_code == 403
        assert http.post(f"{BASE}/successor", json={"space": "t"}, headers=headers).status_code == 403


def test_a_space_of_another_encoder_succeeds_one(sidecar, http):
    assert http.put("/v1/spaces/next", json={"width": 3}).status_code == 200
    assert post(http, "/successor", {"space": "next"}, 200)["successor"] == "next"
    assert sidecar.store.salt(sidecar.space("next").space.id) == sidecar.store.salt(sidecar.space("s").space.id)
    assert "no such space" in post(http, "/successor", {"space": "none"}, 404)["detail"]


def test_forget_removes_a_person_and_a_repeated_request_does_not_bring_it_back(sidecar, http):
    search = {"query": query(id="tent", user="u"), "at": time.time()}
    shown = {"search_id": "c1", "ids": IDS, "vectors": VECTORS, "search": search}
    post(http, "/shown", shown)
    (result,) = embedded(http, query(id="tent", user="u"))
    post(http, "/shown", {"search_id": result["search_id"], "ids": IDS})
    assert post(http, "/forget", {"user": "u"}, 200)["n"] == 2
    space = sidecar.space("s").space
    assert sidecar.store.read_log(space.id, 0, 10) == []
    post(http, "/shown", shown)
    post(http, "/shown", {"token": result["token"], "ids": IDS})
    assert sidecar.store.read_log(space.id, 0, 10) == []
    assert post(http, "/forget", {"user": "u"}, 200)["n"] == 0


def test_a_path_with_a_line_break_is_that_of_nothing(sidecar, http):
    before = sidecar.store.spaces()
    for path in (f"{BASE}%0A", f"{BASE}%0A/served", f"{BASE}/served%0A", f"{BASE}%00"):
        for method in ("GET", "PUT", "DELETE"):
            assert http.request(method, path, json={"version": 0}).status_code == 404, path
    assert sidecar.store.spaces() == before


def test_within_a_request_the_order_is_free_and_one_item_is_one_vote(sidecar, http):
    make(sidecar, "free")
    space = sidecar.space("free").space.id
    events = [{"search_id": "f", "item": "d1", "type": type} for type in ("click", "like", "purchase")]
    shown = {"search_id": "f", "query": {"vector": vector(0).tolist()}, "shown": ["d1", "d2"], "seen": 9}
    assert http.post("/v1/spaces/free/events", json=[*events, shown]).json()["accepted"] == 4
    sidecar.store.add_vectors(space, {id: vector(1) for id in ("d1", "d2")})
    http.post("/v1/spaces/free/events", json={"search_id": "f", "item": "d1", "type": "watch", "value": 9.0})
    assert [entry.values for entry in sidecar.store.read_log(space, 0, 9)] == [[3.0, 0.0]]


def test_texts_are_stored_only_by_choice(sidecar, http):
    make(sidecar, "t", texts=True)
    for name in ("s", "t"):
        embedded(http, query(text="secret words"), base=f"/v1/spaces/{name}")
    without, with_texts = (sidecar.space(name).space.id for name in ("s", "t"))

    def texts():
        with sidecar.store.database.reading() as connection:
            rows = connection.exec_driver_sql("SELECT space, text FROM search_queries").all()
        return {row[0]: row[1] for row in rows}

    wait_for(lambda: with_texts in texts())
    assert (texts()[without], texts()[with_texts]) == (None, "secret words")

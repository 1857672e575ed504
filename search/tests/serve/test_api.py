"""The HTTP API: what it answers, and what it refuses in words."""

from __future__ import annotations

import json
import logging
import re

import numpy as np
import pytest
from starlette.testclient import TestClient

import mahala_search
from mahala_search.serve.client import ServiceError
from mahala_search.serve.http import guard as guards
from mahala_search.serve.http.app import create_app
from mahala_search.serve.http.guard import ServerSettings
from mahala_search.serve.http.schemas import COLLECTION
from mahala_search.serve.service import Service
from mahala_search.serve.store.database import Unavailable
from mahala_search.serve.store.keys import Keys

from .conftest import WIDTH, changed_rows, new_items, wait_for

LOCAL = "http://127.0.0.1:8417"
BASE = "/v1/collections/c"
ITEMS = [item._asdict() | {"vector": item.vector.tolist()} for item in new_items()]
SEARCH = {"query": {"item": "i0"}}
IMPRESSION = {"query": {"item": "i0"}, "shown": ["i1", "i2"], "clicked": ["i2"]}


@pytest.fixture
def service(tmp_path):
    with Service(tmp_path / "mahala.db", learn=False) as service:
        service.create("c", width=WIDTH)
        service.put_items("c", ITEMS)
        yield service


def http_of(service, **settings):
    return TestClient(create_app(service, ServerSettings(**settings)), base_url=LOCAL, raise_server_exceptions=False)


@pytest.fixture
def http(service):
    return http_of(service)


@pytest.fixture
def client(http):
    return mahala_search.serve.Client(collection="c", http=http, attempts=1)


def test_search_finds_the_largest_inner_products(client):
    X, x = np.array([item["vector"] for item in ITEMS]), np.linspace(-1.0, 1.0, WIDTH)
    found = client.search(vector=x.tolist(), k=7)
    assert found.ids == [f"i{row}" for row in np.argsort(-X @ x, kind="stable")[:7]]
    assert found.version == 0
    assert [result.score for result in found.results] == pytest.approx(np.sort(X @ x)[::-1][:7], rel=1e-5)
    assert client.search(item="i3", k=40).ids == [f"i{row}" for row in np.argsort(-X @ X[3], kind="stable") if row != 3]


def test_filters_and_ties(client):
    assert all(int(id[1:]) % 2 for id in client.search(item="i1", filter={"even": False}, k=100).ids)
    assert client.search(item="i1", filter={"number": {"gte": 5, "lte": 6}}).ids in (["i5", "i6"], ["i6", "i5"])
    assert client.search(item="i1", filter={"even": 1}).ids == []  # true is not 1
    zeros = [{"id": f"z{at}", "vector": [0.0] * WIDTH, "payload": {"zero": True}} for at in range(9)]
    client.put_items(zeros)
    assert client.search(item="i1", filter={"zero": True}, k=5).ids == [f"z{at}" for at in range(5)]


def test_items_are_added_changed_and_deleted_while_it_runs(client):
    far = [9.0] * WIDTH
    client.put_items([{"id": "new", "vector": far, "payload": {"a": [1]}}, {"id": "i3", "vector": far}])
    assert client.search(vector=far, k=2).ids == ["new", "i3"]
    assert client.item("new")["payload"] == {"a": [1]}
    assert client.delete_items(["new", "nobody"]) == 1
    assert client.search(vector=far, k=1).ids == ["i3"]
    with pytest.raises(ServiceError, match="no item 'new'"):
        client.item("new")


def test_lists_of_searches_and_impressions(http):
    answers = http.post(f"{BASE}/search", json=[SEARCH, SEARCH | {"k": 1, "plain": True}]).json()
    assert [len(answer["results"]) for answer in answers] == [10, 1]
    assert answers[1]["plain"] == answers[1]["results"]
    assert http.post(f"{BASE}/impressions", json=[IMPRESSION] * 3).json() == {"places": [1, 2, 3], "problems": []}


def test_a_retry_is_counted_once(http):
    def send(body, key="abc"):
        return http.post(f"{BASE}/impressions", json=body, headers={"Idempotency-Key": key})

    assert send(IMPRESSION).json() == send(IMPRESSION).json() == {"places": [1], "problems": []}
    assert send(IMPRESSION, "other").json()["places"] == [2]
    answer = send(IMPRESSION | {"clicked": ["i1"]})
    assert (answer.status_code, answer.json()["status"]) == (409, 409)
    assert "used before" in answer.json()["detail"]


def test_the_log_is_exported_as_it_came(client, service):
    client.impression(item="i0", shown=["i1", "i2"], clicked=["i2"], user="u", version=0)
    client.comparison(vector=[1.0] * WIDTH, better="i4", worse="i5", id="q")
    client.judgment(item="i1", grades={"i4": 2.0, "i5": -1.0})
    lines = [json.loads(line) for line in client.log()]
    assert [line["kind"] for line in lines] == ["impression", "comparison", "judgment"]
    assert [line["shown"] for line in lines] == [[1, 2], [4, 5], [4, 5]]
    assert [line["clicked"] for line in lines] == [[0.0, 1.0], [1.0, 0.0], [2.0, -1.0]]
    assert lines[0]["user"] == "u"
    assert lines[1]["query"] == [1.0] * WIDTH


DEEP = '{"a":' * 3000 + "1" + "}" * 3000
HOSTILE = [
    ("POST", "/search", "{", 422),
    ("POST", "/search", "[]", 422),
    ("POST", "/search", "null", 422),
    ("POST", "/search", DEEP, (400, 422)),
    ("POST", "/search", json.dumps(SEARCH | {"filter": json.loads('{"a":' * 40 + "1" + "}" * 40)}), 422),
    ("POST", "/search", '{"query": {"vector": [NaN, 1, 1, 1, 1, 1]}}', 422),
    ("POST", "/search", '{"query": {"vector": [1e999, 1, 1, 1, 1, 1]}}', 422),
    ("POST", "/search", '{"query": {"vector": [1e300, 1, 1, 1, 1, 1]}}', 422),
    ("POST", "/search", '{"query": {"vector": [1, 2]}}', 422),
    ("POST", "/search", '{"query": {"vector": []}}', 422),
    ("POST", "/search", json.dumps({"query": {"vector": [0.0] * 20_000}}), 422),
    ("POST", "/search", json.dumps({"query": {"text": "x" * 2000}}), 422),
    ("POST", "/search", '{"query": {"text": "no encoder"}}', 422),
    ("POST", "/search", '{"query": {}}', 422),
    ("POST", "/search", '{"query": {"item": "i0", "vector": [1,1,1,1,1,1]}}', 422),
    ("POST", "/search", '{"query": {"item": "i0"}, "k": 0}', 422),
    ("POST", "/search", '{"query": {"item": "i0"}, "k": 1000000}', 422),
    ("POST", "/search", '{"query": {"item": "i0"}, "unknown": 1}', 422),
    ("POST", "/search", '{"query": {"item": "i0"}, "filter": {"number": {"$gt": 1}}}', 422),
    ("POST", "/search", '{"query": {"item": "i0"}, "filter": {"number": {"gte": [1]}}}', 422),
    ("POST", "/search", json.dumps([SEARCH] * 65), 422),
    ("POST", "/search", '{"query": {"item": "x\\u0000"}}', 422),
    ("POST", "/search", '{"query": {"item": "\\ud800"}}', 422),
    ("POST", "/search", json.dumps({"query": {"item": "'; DROP TABLE mahala_items; --"}}), 404),
    ("POST", "/search", json.dumps({"query": {"item": "../../etc/passwd"}}), 404),
    ("POST", "/search", b"\xff\xfe", (400, 422)),
    ("GET", "/search", None, 405),
    ("PATCH", "/items", None, 405),
    ("POST", "/impressions", json.dumps(IMPRESSION | {"clicked": ["i9"]}), 422),
    ("POST", "/impressions", json.dumps(IMPRESSION | {"shown": ["i1", "i1"], "clicked": []}), 422),
    ("POST", "/impressions", json.dumps(IMPRESSION | {"shown": []}), 422),
    ("POST", "/impressions", json.dumps(IMPRESSION | {"clicked": None, "reactions": [1.0]}), 422),
    ("POST", "/impressions", json.dumps(IMPRESSION | {"user": "x" * 1000}), 422),
    ("POST", "/events", "{}", 422),
    ("POST", "/events", "[]", 422),
    ("POST", "/events", "[1]", 422),
    ("POST", "/events", json.dumps([{"search_id": "s", "item": "i1"}] * 501), 422),
    ("POST", "/events", '{"search_id": "s", "item": "i1", "unknown": 1}', 422),
    ("POST", "/events", '{"search_id": "s", "item": "i1", "timestamp": "tomorrow"}', 422),
    ("POST", "/events", '{"search_id": "s", "item": "i1", "timestamp": 1e300}', 422),
    ("POST", "/events", '{"search_id": "s", "item": "i1", "value": NaN}', 422),
    ("POST", "/events", '{"search_id": "\\u0000", "item": "i1"}', 422),
    ("POST", "/events", '{"search_id": "s", "shown": ["i1"], "query": {"text": "no encoder"}}', 422),
    ("POST", "/events", '{"event": "nonsense"}', 422),
    ("POST", "/events", '{"query_id": "q", "query_response_hit_ids": ["i1"]}', 422),
    ("POST", "/impressions", json.dumps([IMPRESSION] * 501), 422),
    ("POST", "/comparisons", json.dumps({"query": {"item": "i0"}, "better": "i1"}), 422),
    ("POST", "/comparisons", json.dumps({"query": {"item": "i0"}, "better": "i1", "worse": "i1"}), 422),
    ("PUT", "/items", json.dumps([{"id": "a", "vector": [1.0]}]), 422),
    ("PUT", "/items", json.dumps([ITEMS[0], ITEMS[0]]), 422),
    ("PUT", "/items", json.dumps([ITEMS[0] | {"payload": {"a": "x" * 70_000}}]), 422),
    ("PUT", "/items", '[{"id": "a", "vector": [1,1,1,1,1,1], "payload": {"a": NaN}}]', 422),
    ("PUT", "/items", '[{"id": "a", "vector": [1,1,1,1,1,1], "payload": {"a": "\\u0000"}}]', 422),
    ("POST", "/search", '{"query": {"item": "i0"}, "k": true}', 422),
    ("POST", "/search", '{"query": {"item": "i0"}, "k": "5"}', 422),
    ("POST", "/search", '{"query": {"vector": ["1", 1, 1, 1, 1, 1]}}', 422),
    ("POST", "/impressions", json.dumps(IMPRESSION | {"version": 10**15}), 422),
    ("POST", "/impressions", json.dumps(IMPRESSION | {"version": "0"}), 422),
    ("PUT", "", json.dumps({"width": WIDTH}), 409),
    ("GET", "/items?start=-1", None, 422),
    ("GET", f"/items?start={10**30}", None, 422),
    ("GET", "/items?n=5.0", None, 422),
    ("GET", "/items/..%2F..%2Fetc%2Fpasswd", None, 404),
    ("PUT", "/versions/served", '{"version": 99}', 404),
    ("PUT", "/model", '{"learners": {"a": {"learner": {"name": "warm_up"}}}}', 422),
    ("PUT", "/model", '{"learners": {"a": {"cap": 7}}}', 422),
    ("PUT", "/model", '{"learners": {"a": {"nonsense": 1}}}', 422),
    ("PUT", "/model", '{"nonsense": 1}', 422),
    ("DELETE", "/users/nobody", None, 404),
]


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory):
    """A client of a service that no hostile request changes."""
    with Service(tmp_path_factory.mktemp("serve") / "mahala.db", learn=False) as service:
        service.create("c", width=WIDTH)
        service.put_items("c", ITEMS)
        yield http_of(service)
        assert service.search("c", {"item": "i0"}, k=40)[1]
        assert list(service.store.collections()) == ["c"]
        assert service.store.collections()["c"].n_logged == 0
        assert len(changed_rows(service.store)) == len(ITEMS)


@pytest.mark.parametrize(("method", "path", "body", "status"), HOSTILE)
def test_hostile_requests_are_refused_in_words(unharmed, method, path, body, status):
    answer = unharmed.request(method, BASE + path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (status if isinstance(status, tuple) else (status,)), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == answer.status_code
    assert told["detail"]
    assert not re.search(r"function-|islice|Value error|list\[", answer.text), answer.text
    assert len(answer.content) < 5000


def test_messages_name_the_field(http):
    def detail(path, body):
        return http.post(BASE + path, json=body).json()["detail"]

    assert detail("/search", SEARCH | {"k": True}) == "body.k: Input should be a valid integer"
    assert detail("/search", [SEARCH, 3]) == "body.1: Input should be a valid object"
    assert detail("/impressions", [IMPRESSION | {"clicked": ["i9"]}]) == (
        "body.0: clicked must be among the items shown, got 'i9'"
    )
    assert detail("/impressions", IMPRESSION | {"version": 10**15}) == (
        "version must be that of a search: 0 to 0, got 1000000000000000"
    )


def test_media_types_and_methods(http):
    answer = http.post(f"{BASE}/search", content="a=1", headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert (answer.status_code, answer.json()["status"]) == (415, 415)
    assert "application/json" in answer.json()["detail"]
    for path, allowed in (
        ("/items", "GET, HEAD, PUT"),
        ("/search", "POST"),
        ("", "DELETE, PUT"),
        ("/items/i1", "GET, HEAD"),
    ):
        answer = http.patch(BASE + path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    answer = http.head(f"{BASE}/items")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == http.get(f"{BASE}/items").headers["content-length"]


def test_unknown_places_are_problems_too(http):
    for path, status in (("/nope", 404), ("/v1/collections/x/model", 404), ("/v1/collections/..%2fx/model", 404)):
        answer = http.get(path)
        assert (answer.status_code, answer.json()["status"]) == (status, status)
    for name in ("UPPER", "a b", "x" * 65, "é"):
        assert http.put(f"/v1/collections/{name}", json={"width": 2}).status_code == 422


def test_large_bodies_are_refused_before_they_are_read(service):
    http = http_of(service, largest=10_000)
    assert http.post(f"{BASE}/search", content=b"x" * 20_000).status_code == 413

    def parts():
        for _ in range(20):
            yield b" " * 1000

    answer = http.post(f"{BASE}/search", content=parts(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["status"]) == (413, 413)


def test_payloads_come_back_as_text_that_no_browser_runs(client, http):
    bad = {"title": "<script>alert(1)</script>", "escape": "\x1b[31m", "sql": "'); DROP TABLE mahala_log; --"}
    client.put_items([{"id": "<img src=x>", "vector": [1.0] * WIDTH, "payload": bad}])
    assert client.item("<img src=x>")["payload"] == bad
    answer = http.get(f"{BASE}/items")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_other_sites_and_other_hosts_are_refused_without_keys(http, service):
    def status(headers, http=http):
        return http.post(f"{BASE}/search", json=SEARCH, headers=headers).status_code

    assert status({"Origin": "http://evil.example"}) == 403
    for host in ("evil.example", "evil.example:8417", "127.0.0.1.evil.example", ""):
        assert status({"Host": host}) == 400
    for host in ("localhost", "127.0.0.1:9", "[::1]:8417"):
        assert status({"Host": host}) == 200
    assert status({"Origin": LOCAL}) == 200
    assert "access-control-allow-origin" not in http.get("/health", headers={"Origin": "http://evil.example"}).headers
    named = http_of(service, origins=("https://shop.example",))
    assert status({"Origin": "https://shop.example"}, named) == 200
    answer = named.options(
        f"{BASE}/search", headers={"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
    )
    assert answer.headers["access-control-allow-origin"] == "https://shop.example"


def test_roles(service, monkeypatch):
    monkeypatch.setattr("mahala_search.serve.store.keys._FRESH", 0.0)
    http, keys = http_of(service, host="0.0.0.0"), Keys(service.store.database)
    tokens = {role: keys.create(role) for role in ("read", "feedback", "admin")}

    def status(path, body, token, method="POST"):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return http.request(method, BASE + path, json=body, headers=headers).status_code

    hover = {"search_id": "s", "item": "i1", "type": "hover"}  # which is ignored
    rows = [("/search", SEARCH, "POST"), ("/impressions", IMPRESSION, "POST"), ("/items", ITEMS[:1], "PUT")]
    rows.append(("/events", hover, "POST"))
    expected = {"read": [200, 403, 403, 403], "feedback": [200, 201, 403, 200], "admin": [200, 201, 200, 200]}
    for role, token in tokens.items():
        assert [status(path, body, token, method) for path, body, method in rows] == expected[role]
    for wrong in (None, "x", "mahala_00000000_x", tokens["admin"] + "x", "mahala_%_%"):
        assert {status(path, body, wrong, method) for path, body, method in rows} == {401}
    assert {status(path, {"no": "body"}, None, method) for path, _, method in rows} == {401}  # before it is parsed
    assert http.get("/health").status_code == 200
    assert http.get("/metrics").status_code == 401
    assert keys.revoke(tokens["read"].split("_")[1])
    assert status("/search", SEARCH, tokens["read"]) == 401
    with service.store.database.reading() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM mahala_keys").all()
    assert not any(token.split("_", 2)[2] in str(rows) for token in tokens.values())


def test_a_key_of_one_user_cannot_invent_others(service):
    http, keys = http_of(service, keys=True), Keys(service.store.database)
    token = keys.create("feedback", one_user=True)
    headers = {"Authorization": f"Bearer {token}"}
    http.post(f"{BASE}/impressions", json=IMPRESSION | {"user": "x"}, headers=headers)
    search = {"search_id": "s", "query": {"item": "i0"}, "shown": ["i1", "i2"], "user": "x"}
    http.post(f"{BASE}/events", json=[search, {"search_id": "s", "item": "i2", "user": "y"}], headers=headers)
    assert [entry.user for entry in service.store.read_log("c")] == [f"key:{token.split('_')[1]}"] * 2


def test_rate_limits(service, monkeypatch):
    now = 100.0
    monkeypatch.setattr(guards.time, "monotonic", lambda: now)
    http = http_of(service, rate=2.0)
    codes = [http.post(f"{BASE}/search", json=SEARCH).status_code for _ in range(6)]
    assert codes == [200] * 4 + [429] * 2
    now += 1.0
    codes = [http.post(f"{BASE}/search", json=SEARCH).status_code for _ in range(3)]
    assert codes == [200, 200, 429]


def test_a_database_that_is_gone_is_told(http, service, monkeypatch):
    def gone(*_):
        raise Unavailable("the database cannot be used: it is gone")

    monkeypatch.setattr(service.store, "append_all", gone)
    answer = http.post(f"{BASE}/impressions", json=IMPRESSION)
    assert (answer.status_code, answer.json()["detail"]) == (503, "the database cannot be used: it is gone")
    assert http.post(f"{BASE}/search", json=SEARCH).status_code == 200  # from memory
    monkeypatch.setattr(service.store, "collections", gone)
    wait_for(lambda: service.problem is not None)
    assert http.get("/ready").status_code == 503


def test_logs_hold_no_vectors_and_no_keys(service, caplog, monkeypatch):
    http, token = http_of(service, keys=True), Keys(service.store.database).create("read")
    with caplog.at_level(logging.DEBUG):
        headers = {"Authorization": f"Bearer {token}"}
        http.post(f"{BASE}/search", json={"query": {"vector": [0.1234567] * WIDTH}}, headers=headers)
        monkeypatch.setattr(service, "search", lambda *_, **__: 1 / 0)
        http.post(f"{BASE}/search", json={"query": {"vector": [0.1234567] * WIDTH}}, headers=headers)
    own = [record.getMessage() for record in caplog.records if record.name.startswith("mahala")]
    assert any(" 200 " in text for text in own)
    assert any("ZeroDivisionError" in text for text in own)
    assert "0.1234567" not in caplog.text
    assert token.split("_", 2)[2] not in caplog.text


def test_metrics_and_openapi(http):
    http.post(f"{BASE}/search", json=SEARCH)
    http.get("/invented/path")
    text = http.get("/metrics").text
    assert 'mahala_requests_total{method="POST",route="/v1/collections/{name}/search",status="200"} 1.0\n' in text
    assert 'mahala_request_seconds_bucket{le="+Inf",route="/v1/collections/{name}/search"} 1.0\n' in text
    assert 'mahala_items{collection="c"} 40.0\n' in text
    for gauge in ("graph_items", "log_entries", "served_version", "learned_entries"):
        assert f'mahala_{gauge}{{collection="c"}} 0.0\n' in text
    assert "mahala_learns 0.0\n" in text
    assert "invented" not in text
    schema = http.get("/openapi.json").json()
    assert {
        f"/v1/collections/{{name}}/{part}"
        for part in ("search", "impressions", "comparisons", "items", "model", "versions", "explain", "question")
    } <= set(schema["paths"])
    assert schema["components"]["schemas"]["ImpressionBody"]["examples"]
    assert schema["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    operations = [one for methods in schema["paths"].values() for one in methods.values()]
    assert all(
        "schema" in next(iter(one["responses"][code]["content"].values()))
        for one in operations
        for code in one["responses"]
    )
    search = schema["paths"][f"{COLLECTION}/search"]["post"]["responses"]
    assert set(search) == {"200", "400", "403", "404", "413", "415", "422", "429", "503"}
    assert http.get("/docs").status_code == 404  # it would load scripts from elsewhere


@pytest.mark.parametrize("headers", [{}, {"Cookie": "a=b"}], ids=["quick", "by FastAPI"])
def test_both_ways_of_a_request_answer_the_same(http, headers):
    """Cookies make a request take FastAPI's way, others take that of `QuickRoute`."""
    bodies = [IMPRESSION, [IMPRESSION] * 2, IMPRESSION | {"shown": []}, IMPRESSION | {"version": True}, []]
    answers = [http.post(f"{BASE}/impressions", json=body, headers=headers) for body in bodies]
    assert [answer.status_code for answer in answers] == [201, 201, 422, 422, 422]
    assert [answer.json().get("places") for answer in answers] == [[1], [2, 3], None, None, None]
    for key, status in (("k", 201), ("", 422), ("é".encode("latin-1"), 422), ("x" * 201, 422)):
        answer = http.post(f"{BASE}/impressions", json=IMPRESSION, headers=headers | {"Idempotency-Key": key})
        assert answer.status_code == status
    for body, status in ((SEARCH | {"k": "5"}, 422), (SEARCH | {"k": 3, "filter": {"even": True}}, 200)):
        assert http.post(f"{BASE}/search", json=body, headers=headers).status_code == status
    assert http.post(f"/v1/collections/{'x' * 65}/search", json=SEARCH, headers=headers).status_code == 422

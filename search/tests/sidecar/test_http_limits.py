"""What the HTTP interface refuses, how it says so, and what it does under load."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import socket
import subprocess
import sys
import threading
import time
from unittest.mock import Mock

import httpx
import pytest

from mahala_search.sidecar.http import server
from mahala_search.sidecar.http.app import create_app
from mahala_search.sidecar.http.bodies import encoded
from mahala_search.sidecar.http.guard import ServerSettings
from mahala_search.sidecar.records import Unavailable, Written

from .http_sidecar import BASE, http_of, make, opened, query, running, vector, wait_for

HEAD = b"POST /v1/spaces/s/embed HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("sidecar")) as sidecar:
        make(sidecar)
        yield sidecar


@pytest.fixture
def http(sidecar):
    with http_of(sidecar) as http:
        yield http


WRONG = [
    ("/embed", {"queries": [{"vector": ["1", 0, 0, 0]}]}, "queries.0.vector.0"),
    ("/embed", {"queries": [{"vector": [True, 0, 0, 0]}]}, "queries.0.vector.0"),
    ("/embed", {"queries": [{"vector": [1, 0]}]}, "4 numbers, got 2"),
    ("/embed", {"queries": [{"f32": encoded(vector(0))[:-6]}]}, "base64"),
    ("/embed", {"queries": [{"f32": "AAAAAAAAAAAAAAAAAADAfw=="}]}, "finite"),
    ("/embed", {"queries": [{}]}, "one of vector and f32"),
    ("/embed", {"queries": [query(colour=1)]}, "colour"),
    ("/embed", {"queries": [query(id=7)]}, "queries.0.id"),
    ("/embed", {"queries": [query(user="a\0b")]}, "queries.0.user"),
    ("/embed", {"queries": []}, "queries"),
    ("/shown", {"search_id": "x", "ids": ["a", "a"]}, "once"),
    ("/shown", {"search_id": "x", "ids": ["a"], "seen": 1.5}, "seen"),
    ("/shown", {"search_id": "x", "ids": ["a"], "positions": [1, 2]}, "positions"),
    ("/shown", {"ids": ["a"]}, "search_id"),
    ("/shown", {"search_id": "x\n", "ids": ["a"]}, "search_id"),
    ("/rerank", {"query": query(), "candidates": [{"id": "a", "score": "1"}]}, "candidates.0.score"),
    ("/rerank", {"query": query(), "candidates": [{"id": "a", "score": 1}] * 2}, "once"),
    ("/forget", {"user": ""}, "user"),
    ("", {"width": 4, "resolver": {"kind": "qdrannt"}}, "kind of a resolver must be one of qdrant"),
]


@pytest.mark.parametrize(("path", "body", "words"), WRONG)
def test_what_is_wrong_is_said(http, path, body, words):
    answer = http.request("POST" if path else "PUT", f"{BASE}{path}", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert words in answer.text
    assert answer.json()["title"]


def test_bodies_that_are_no_json_and_paths_that_are_nothing(http):
    types = {"Content-Type": "application/json"}
    for body in (b"", b"{", b"\xff", b'{"queries": [{"vector": [NaN, 0, 0, 0]}]}', b"[" * 5000, b'"\\ud800"'):
        assert http.post(f"{BASE}/embed", content=body, headers=types).status_code in (400, 422)
    assert http.post(f"{BASE}/embed", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert http.get("/v1/spaces/none").status_code == http.get("/nothing").status_code == 404
    refused = http.delete(f"{BASE}/embed")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    assert http.put("/v1/spaces/A%20b", json={"width": 4}).status_code == 422
    assert http.put(BASE, json={"width": 5}).status_code == 409
    assert http.head(BASE).status_code == 200


def test_settings_that_are_left_out_stay(sidecar, http):
    base = "/v1/spaces/settings"
    resolver = {"kind": "qdrant", "url": "http://127.0.0.1:6333", "collection": "c", "api_key": "secret"}
    body = {"width": 4, "encoder": "e1", "resolver": resolver, "control": {"share": 0.1}}
    first = http.put(base, json=body)
    assert first.status_code == 200
    assert "secret" not in first.text
    assert http.put(base, json={"width": 4, "encoder": "e1", "retention": 30.0}).status_code == 200
    settings = sidecar.space("settings").space.settings
    assert (settings.resolver, settings.control.share, settings.retention) == (resolver, 0.1, 30.0)
    since = settings.control.since
    http.put(base, json=body)
    assert sidecar.space("settings").space.settings.control.since == since > 0.0
    http.put(base, json=body | {"control": {"share": 0.2}})
    assert sidecar.space("settings").space.settings.control.since > since
    http.delete(base)


def test_answers_have_the_headers_of_security(sidecar):
    with http_of(sidecar, origins=("https://shop.example",)) as http:
        answer = http.get(BASE)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        preflight = {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
        allowed = http.options(f"{BASE}/events", headers=preflight)
        assert allowed.headers["access-control-allow-origin"] == "https://shop.example"
        foreign = {"Origin": "https://other.example"}
        assert http.post(f"{BASE}/forget", json={"user": "u"}, headers=foreign).status_code == 403
        assert http.get(BASE, headers={"Host": "other.example"}).status_code == 400


def test_the_store_that_fails_is_told_at_once_and_what_is_here_is_served(sidecar, http, monkeypatch):
    def locked(*arguments):
        raise Unavailable("the database is locked")

    monkeypatch.setattr(sidecar.store, "spaces", locked)
    started = time.monotonic()
    wait_for(lambda: http.get("/ready").status_code == 503)
    assert time.monotonic() - started < 1.0
    assert http.get("/ready").json()["detail"] == "the database is locked"
    assert http.get("/health").status_code == 200
    assert http.post(f"{BASE}/embed", json={"queries": [query()]}).status_code == 200
    monkeypatch.undo()
    wait_for(lambda: http.get("/ready").status_code == 200)


def test_large_bodies_and_wrong_keys_are_refused(sidecar):
    with http_of(sidecar, largest=1000) as http:
        assert http.post(f"{BASE}/embed", content=b"x" * 1001).status_code == 413
        parts, types = iter([b"x" * 600] * 2), {"Content-Type": "application/json"}  # whose length is not stated
        assert http.post(f"{BASE}/embed", content=parts, headers=types).status_code == 413
    with http_of(sidecar, keys=True) as http:
        for wrong in ("mahala_0000_wrong", "mahala__", "é", "x" * 300):
            answer = http.get(BASE, headers={"Authorization": f"Bearer {wrong}".encode()})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert http.get(BASE, headers=bearer(sidecar.keys.create("read")[1])).status_code == 200


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


def test_keys_are_read_before_they_are_used_and_hold_while_the_database_is_away(tmp_path):
    database = tmp_path / "search.db"
    with opened(tmp_path) as sidecar, http_of(sidecar, keys=True) as http:
        make(sidecar)
        key, text = sidecar.keys.create("write")
        sidecar.refresh()
        database.rename(tmp_path / "away.db")
        wait_for(lambda: http.get("/ready").status_code == 503)
        for path, body in (("/embed", {"queries": [query()]}), ("/events", {"search_id": "s", "item": "a"})):
            assert http.post(BASE + path, json=body, headers=bearer(text)).status_code in (200, 202)
        assert http.get(BASE, headers=bearer("mahala_0000_wrong")).status_code == 503  # it may be a new one
        assert http.get(BASE).status_code == 401
        (tmp_path / "away.db").rename(database)
        wait_for(lambda: http.get("/ready").status_code == 200)
        assert sidecar.keys.revoke(key.id)
        wait_for(lambda: http.get(BASE, headers=bearer(text)).status_code == 401, seconds=2.0)


def test_a_flood_of_wrong_keys_is_no_flood_of_reads(tmp_path, monkeypatch):
    with opened(tmp_path) as sidecar:
        read, reads = sidecar.keys.read, []
        monkeypatch.setattr(sidecar.keys, "read", lambda: (reads.append(0), read()))
        transport = httpx.ASGITransport(create_app(sidecar, ServerSettings(keys=True)))

        async def flood():
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                wrong = [http.get(BASE, headers=bearer("mahala_0000_wrong")) for _ in range(200)]
                good = http.get("/v1/spaces", headers=bearer(sidecar.keys.create("read")[1]))  # it was just made
                return await asyncio.gather(*wrong, good)

        started = time.monotonic()
        *wrong, good = asyncio.run(flood())
        assert ({answer.status_code for answer in wrong}, good.status_code) == ({401}, 200)
        assert len(reads) <= 2 + 25 * (time.monotonic() - started)


@pytest.mark.parametrize(("starting", "code"), [(-1.0, "ten"), (600.0, "the server processes end with the code 1")])
def test_a_server_ends_by_failures_only_if_none_of_its_processes_has_ever_run(monkeypatch, starting, code):
    processes = []

    def process(**options):
        if len(processes) == 10:
            sys.exit("ten")
        processes.append(Mock(sentinel=len(processes), exitcode=1))
        return processes[-1]

    monkeypatch.setattr(server, "_STARTING", starting)
    monkeypatch.setattr(server, "_PAUSE", 0.0)
    monkeypatch.setattr(server, "_exit_on_sigterm", Mock())
    monkeypatch.setattr(server, "wait", lambda sentinels: sentinels[1:])  # the first one runs
    monkeypatch.setattr(server.multiprocessing, "get_context", lambda kind: Mock(Process=process))
    with pytest.raises(SystemExit, match=code):
        server.run_processes(2, print, Mock())


def connect(address, data=b""):
    connection = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=5.0)
    connection.sendall(data)
    return connection


def test_an_aborted_upload_is_one_line_of_the_log(sidecar, caplog):
    with running(sidecar) as address, caplog.at_level(logging.WARNING):
        connect(address, HEAD + b"Content-Length: 100\r\n\r\n{").close()
        wait_for(lambda: caplog.records)
    assert [record.getMessage() for record in caplog.records] == [
        "POST '/v1/spaces/s/embed': the client has gone before the end of the body"
    ]


def test_too_many_requests_at_once_are_refused_and_health_is_answered(sidecar, monkeypatch):
    free, entered = threading.Event(), []

    async def held(space, works):
        entered.append(space)
        while not free.is_set():
            await asyncio.sleep(0.01)
        return [Written(True)] * len(works), False

    monkeypatch.setattr(sidecar.writer, "submit", held)
    with http_of(sidecar, at_once=2) as http:
        body, answers = {"search_id": "x", "ids": ["a"]}, []
        threads = [
            threading.Thread(target=lambda: answers.append(http.post(f"{BASE}/shown", json=body).status_code))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        try:
            wait_for(lambda: len(entered) == 2)
            refused = http.get(BASE)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert http.get("/health").status_code == http.get("/ready").status_code == 200
        finally:
            free.set()
        for thread in threads:
            thread.join()
        assert answers == [202, 202]


def test_the_document_describes_every_route(sidecar, http):
    document = http.get("/openapi.json").json()
    assert json.loads(json.dumps(document)) == document
    paths = document["paths"]
    assert {"/v1/spaces/{space}/embed", "/v1/spaces/{space}/events", "/ready"} <= paths.keys()
    for operations in paths.values():
        for operation in operations.values():
            assert operation["summary"].endswith(".")
            assert any(status.startswith("2") for status in operation["responses"])
    embed = paths["/v1/spaces/{space}/embed"]["post"]
    assert embed["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/EmbedBody"}
    assert embed["parameters"][0]["name"] == "space"
    assert embed["security"] == [{"key": []}, {}]


CONFIG = """
seed = 0
workers = 1
[headers]
Authorization = "Bearer {key}"
[generation]
max-examples = 10
database = "none"
[checks.positive_data_acceptance]
enabled = false
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 409, 413, 415, 422]
[phases.stateful]
enabled = false
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("schemathesis") is None, reason="schemathesis is not installed")
def test_schemathesis_finds_nothing(sidecar, tmp_path):
    key = sidecar.keys.create("admin")[1]
    (tmp_path / "schemathesis.toml").write_text(CONFIG.format(key=key), encoding="utf-8")
    with running(sidecar, keys=True) as address:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{address}/openapi.json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[:20_000]

"""What the service does under load, with slow or wrong clients, and when its database is gone or its disk is full."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import threading
import time

import numpy as np
import pytest
import sqlalchemy as sa
import uvicorn
from starlette.testclient import TestClient

from mahala_search.serve.http import guard as guards
from mahala_search.serve.http import middleware, protocol, server
from mahala_search.serve.http.app import create_app
from mahala_search.serve.http.guard import Buckets, ServerSettings
from mahala_search.serve.http.routes import search
from mahala_search.serve.store import group_commit
from mahala_search.serve.store.collection_store import Store
from mahala_search.serve.store.database import Unavailable
from mahala_search.serve.store.keys import Keys

from .conftest import WIDTH, wait_for
from .test_api import BASE, IMPRESSION, SEARCH, http_of

HEAD = b"POST /v1/collections/c/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@contextlib.contextmanager
def running(service, **settings):
    """Yield the port of a server that runs in a thread, and its app."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        app = create_app(service, ServerSettings(**settings))
        process = uvicorn.Server(server.configuration(app))
        thread = threading.Thread(target=process.run, args=([bound],))
        thread.start()
        wait_for(lambda: process.started)
        try:
            yield bound.getsockname()[1], app
        finally:
            process.should_exit = True
            thread.join()


def connect(port, data=b""):
    connection = socket.create_connection(("127.0.0.1", port), timeout=5.0)
    connection.sendall(data)
    return connection


def read(connection):
    """Return what comes until the server closes the connection."""
    with connection:
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_slow_headers_and_bodies_are_cut(service, monkeypatch):
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.3)
    monkeypatch.setattr(middleware, "BODY_SECONDS", 0.3)
    with running(service) as (port, _):
        half, body = connect(port, HEAD), connect(port, HEAD + b"Content-Length: 100\r\n\r\n{")
        drops, good = connect(port, HEAD), connect(port, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answer = b""
        while not answer.endswith(b"}"):
            answer += good.recv(65_536)
        assert b"200 OK" in answer
        started = time.monotonic()
        with contextlib.suppress(ConnectionError):  # a byte now and then does not help
            while time.monotonic() < started + 2.0:
                drops.sendall(b"X")
                time.sleep(0.05)
        assert time.monotonic() < started + 1.5
        drops.close()
        assert read(half) == b""
        assert b" 408 " in read(body)
        good.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")  # between requests there is more time
        assert b"200 OK" in good.recv(65_536)
        good.close()


def test_headers_without_end_are_cut(service):
    with running(service) as (port, _), contextlib.suppress(ConnectionError):  # or a reset
        assert read(connect(port, HEAD + b"X-A: " + b"a" * 70_000)) == b""


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux closes such connections")
def test_a_client_that_reads_nothing_does_not_keep_its_answer_in_memory(monkeypatch):
    monkeypatch.setattr(server, "UNREAD", 300)
    with server.bind("127.0.0.1", 0) as bound, connect(bound.getsockname()[1]), bound.accept()[0] as answering:
        answering.settimeout(10.0)
        with pytest.raises(TimeoutError, match="Connection timed out"):  # by the system
            answering.sendall(bytes(2**26))


def test_an_aborted_upload_is_one_line_of_the_log(service, caplog):
    with running(service) as (port, _), caplog.at_level(logging.WARNING):
        connect(port, HEAD + b"Content-Length: 100\r\n\r\n{").close()
        wait_for(lambda: caplog.records)
        time.sleep(0.1)
    assert [record.getMessage() for record in caplog.records] == [
        "POST '/v1/collections/c/search': the client has gone after 1 bytes of the body"
    ]
    assert caplog.records[0].exc_info is None


def test_too_many_requests_at_once_are_refused_and_health_is_answered(service, monkeypatch):
    free, entered = threading.Event(), threading.Semaphore(0)

    def encoder(text):
        entered.release()
        assert free.wait(20.0)
        return np.ones(WIDTH)

    service.encoders["c"] = encoder
    body = {"query": {"text": "x"}}
    with TestClient(create_app(service, ServerSettings(at_once=2)), base_url="http://127.0.0.1") as http:
        answers = []
        threads = [
            threading.Thread(target=lambda: answers.append(http.post(f"{BASE}/search", json=body))) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for _ in threads:
            entered.acquire()
        refused = http.post(f"{BASE}/search", json=SEARCH)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        started = time.monotonic()
        assert http.get("/health").status_code == http.get("/ready").status_code == 200
        assert time.monotonic() < started + 0.1
        free.set()
        for thread in threads:
            thread.join()
        assert [answer.status_code for answer in answers] == [200, 200]
        monkeypatch.setattr(search, "MOST_SEARCHES", 3)
        assert http.post(f"{BASE}/search", json=[SEARCH] * 3).status_code == 200
        assert http.post(f"{BASE}/search", json=[SEARCH] * 4).status_code == 503


def test_health_is_answered_before_requests_that_wait(service):
    n, begun, seen = 50, [], []

    async def app(scope, receive, send):
        (seen if scope["path"] == "/health" else begun).append(len(begun))

    async def receive():
        return {"type": "http.request", "body": b""}

    async def main():
        load = middleware.Load(n, lambda: None)
        envelope = middleware.BoundedRequests(app, middleware.Metrics(service), largest=10, load=load)
        scope = {"type": "http", "method": "GET", "headers": []}
        calls = [envelope(scope | {"path": path}, receive, None) for path in [*["/other"] * n, "/health"]]
        tasks = [asyncio.ensure_future(call) for call in calls]
        asyncio.get_running_loop().call_later(0.0, tasks[n - 2].cancel)  # its turn is that of others
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())
    assert seen == [middleware.TURN]
    assert begun == list(range(n - 1))


def test_requests_are_refused_before_they_are_parsed_if_too_many_wait(service, monkeypatch):
    for name, status in (("REFUSAL", b"503"), ("HEALTH", b"200")):  # to tell them from other answers
        monkeypatch.setattr(protocol, name, getattr(protocol, name).replace(status, b"599"))
    body = json.dumps(SEARCH).encode()
    post = HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    with running(service) as (port, app), connect(port) as connection, connection.makefile("rb") as lines:

        def statuses(*requests):
            for request in requests:
                connection.sendall(request)
                head = [line.lower() for line in iter(lines.readline, b"\r\n")]
                (length,) = (line for line in head if line.startswith(b"content-length"))
                lines.read(int(length.split()[1]))
                yield int(head[0].split()[1])

        health = HEAD.replace(b"POST /v1/collections/c/search", b"GET /health") + b"\r\n"
        assert list(statuses(post, health)) == [200, 200]
        app.state.load.n_reading = -app.state.load.at_once  # as if so many had begun
        monkeypatch.setattr(protocol, "TURN", -1)
        ready = health.replace(b"health", b"ready")
        assert list(statuses(post, post, health, ready, health)) == [599, 599, 599, 200, 599]
        assert b" 599 " in read(connect(port, health[:-2] + b"Connection: close\r\n\r\n"))
        app.state.load.n_reading = 0
        assert list(statuses(post)) == [200]
        metrics = TestClient(app, base_url="http://127.0.0.1").get("/metrics").text
        assert 'mahala_requests_total{method="POST",route="none",status="503"} 2.0' in metrics


def test_many_connections_are_accepted_in_one_turn_of_the_loop(service, monkeypatch):
    turns = []

    async def slow_turns(server):  # as they are in a flood
        while not server.should_exit:
            turns.append(time.sleep(0.05))
            await asyncio.sleep(0.0)

    monkeypatch.setattr(uvicorn.Server, "main_loop", slow_turns)
    with running(service) as (port, _), contextlib.ExitStack() as stack:
        n_turns = len(turns)
        clients = [stack.enter_context(connect(port, WHOLE)) for _ in range(60)]
        assert all(b"HTTP/1.1 " in client.recv(65_536) for client in clients)
        assert len(turns) - n_turns < 30


WHOLE = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (WHOLE, True),
        (WHOLE[:-1], False),
        (WHOLE + b"P", False),
        (WHOLE[:30], False),
        (WHOLE.replace(b"POST", b"GET"), False),
        (WHOLE.replace(b"Content-Length", b"X"), False),
        (WHOLE.replace(b"\r\nCont", b"\r\nConnection: close\r\nCont"), False),
        (WHOLE.replace(b"\r\nCont", b"\r\nContent-Length: 3\r\nCont"), False),
    ],
)
def test_a_whole_post(data, expected):
    assert protocol.is_whole_post(data) == expected


def test_a_full_queue_of_the_log_is_refused(service, monkeypatch):
    monkeypatch.setattr(group_commit, "WAITING", 4)
    http = http_of(service)
    for _ in range(2):  # what is written leaves the queue
        assert http.post(f"{BASE}/impressions", json=[IMPRESSION] * 4).status_code == 201
    answer = http.post(f"{BASE}/impressions", json=[IMPRESSION] * 5)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert service.store.collections()["c"].n_logged == 8


def test_bodies_in_memory_are_bounded(service, monkeypatch):
    monkeypatch.setattr(middleware, "BODY_BYTES", 50)
    part = HEAD + b"Connection: close\r\nContent-Length: 100\r\n\r\n" + b" " * 40
    with running(service) as (port, _):
        first = connect(port, part)
        time.sleep(0.1)
        assert b" 503 " in read(connect(port, part))
        first.sendall(b" " * 60)
        assert b" 422 " in read(first)


def test_repeated_wrong_keys_are_told_to_wait_and_right_ones_are_not(service, monkeypatch):
    now = 100.0
    monkeypatch.setattr(guards.time, "monotonic", lambda: now)
    monkeypatch.setattr(guards, "_WRONG_AT_ONCE", 3)
    http, token = http_of(service, keys=True), Keys(service.store.database).create("read")

    def send(token):
        return http.post(f"{BASE}/search", json=SEARCH, headers={"Authorization": f"Bearer {token}"})

    answers = [send(f"mahala_00000000_{at}") for at in range(5)]
    assert [answer.status_code for answer in answers] == [401] * 3 + [429] * 2
    assert answers[-1].headers["retry-after"] == "5"
    assert send(token).status_code == 200
    assert http.post(f"{BASE}/search", json=SEARCH).status_code == 401  # without a key
    now += 5.0
    assert [send("x").status_code for _ in range(2)] == [401, 429]


def test_buckets_are_bounded(monkeypatch):
    monkeypatch.setattr(guards, "_COUNTED", 2)
    buckets = Buckets(rate=1e-9, size=1.0)
    refused = [name for name in ("a", "b", "a", "c", "a", "b") if buckets.take(name) > 0.0]
    assert refused == ["a", "a"]  # b was forgotten when c came
    assert len(buckets._levels) == 2


def test_a_database_file_that_is_deleted_is_noticed(service, tmp_path, caplog):
    http, path = http_of(service), tmp_path / "mahala.db"
    path.rename(tmp_path / "elsewhere.db")
    answer = http.post(f"{BASE}/impressions", json=IMPRESSION)
    assert answer.status_code == 503
    assert f"{path} was deleted or replaced" in answer.json()["detail"]
    wait_for(lambda: http.get("/ready").status_code == 503)
    assert "was deleted or replaced" in caplog.text
    assert not path.exists()  # nor is it made again
    with pytest.raises(Unavailable, match="there is no file"):
        Store(path, create=False)
    assert http.post(f"{BASE}/search", json=SEARCH).status_code == 200  # from memory
    path.write_bytes(b"")
    assert http.post(f"{BASE}/impressions", json=IMPRESSION).status_code == 503
    os.replace(tmp_path / "elsewhere.db", path)
    assert http.post(f"{BASE}/impressions", json=IMPRESSION).status_code == 201
    wait_for(lambda: http.get("/ready").status_code == 200)


def test_a_full_disk_shows_until_there_is_room(service, caplog, monkeypatch):
    http, engine, pages = http_of(service), service.store.database.engine, 1

    def limit(connection, record, proxy):
        connection.execute(f"PRAGMA max_page_count={pages}")

    sa.event.listen(engine, "checkout", limit)
    wide = IMPRESSION | {"query": {"vector": [1.0] * WIDTH, "id": "x" * 200}}
    assert http.post(f"{BASE}/impressions", json=[wide] * 500).json()["detail"].endswith("the disk is full")
    assert http.get("/ready").status_code == 503
    assert "the disk is full" in http.get(f"{BASE}/model").json()["problem"]
    assert caplog.text.count("the disk is full") == 1
    pages = 10**6
    monkeypatch.setattr(group_commit, "_PAUSE", 0.0)
    wait_for(lambda: http.get("/ready").status_code == 200)
    assert http.get(f"{BASE}/model").json()["problem"] is None


def test_processes_that_fail_as_they_start_are_not_started_for_ever(monkeypatch):
    monkeypatch.setattr(server, "_PAUSE", 0.0)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")  # restored afterwards
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with socket.socket() as bound, pytest.raises(SystemExit, match="end with the code 1 as soon as they start"):
            # A function of this file would be imported with all that the tests need.
            server.run_processes(1, sys.exit, bound)
    finally:
        signal.signal(signal.SIGTERM, handler)

"""The client: retries that are counted once, and errors in words."""

from __future__ import annotations

import httpx
import pytest

from mahala_search.serve import client as module
from mahala_search.serve.client import Client, ServiceError


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """The seconds for which the client would have waited."""
    seconds = []
    monkeypatch.setattr(module.time, "sleep", seconds.append)
    return seconds


def client_of(answers, **options):
    """Return a client of a service with these answers, and the requests that it sends."""
    requests, left = [], list(answers)

    def answer(request):
        requests.append(request)
        own = left.pop(0)
        if isinstance(own, Exception):
            raise own
        return own

    http = httpx.Client(base_url="http://127.0.0.1:1", transport=httpx.MockTransport(answer))
    return Client(collection="c", http=http, **options), requests


def test_a_request_without_an_answer_is_sent_again_with_its_key():
    lost, busy = httpx.ReadError("reset"), httpx.Response(503, json={"detail": "busy"})
    client, requests = client_of([lost, busy, httpx.Response(201, json={"places": [7]})])
    assert client.impression(item="a", shown=["b"], clicked=["b"]) == 7
    assert len({request.headers["Idempotency-Key"] for request in requests}) == 1
    assert [request.url.path for request in requests] == ["/v1/collections/c/impressions"] * 3


def test_what_is_refused_is_told_and_not_sent_again():
    client, requests = client_of([httpx.Response(422, json={"detail": "k: too large"})])
    with pytest.raises(ServiceError, match="k: too large") as caught:
        client.search(item="a", k=10**6)
    assert (caught.value.status, len(requests)) == (422, 1)
    client, _ = client_of([httpx.Response(502, text="<html>bad gateway</html>")])
    with pytest.raises(ServiceError, match="bad gateway"):
        client.model()


def test_it_waits_as_long_as_the_service_says(waits):
    stated = ("2", "3600", "Wed, 21 Oct 2026 07:28:00 GMT")
    busy = [httpx.Response(429, json={"detail": "busy"}, headers={"Retry-After": one}) for one in stated]
    client, _ = client_of([*busy, httpx.Response(200, json={"learned": 1})], attempts=4)
    assert client.model() == {"learned": 1}
    assert waits == [2, 5, 0.4]


def test_after_some_attempts_the_error_is_raised():
    client, requests = client_of([httpx.ConnectError("refused")] * 3, attempts=2)
    with pytest.raises(httpx.ConnectError):
        client.model()
    assert len(requests) == 2


def test_keys_are_sent_and_ids_are_quoted():
    client, requests = client_of([httpx.Response(200, json={"id": "a/b?"})], key="mahala_1_2")
    client.item("a/b?")
    assert requests[0].headers["Authorization"] == "Bearer mahala_1_2"
    assert requests[0].url.raw_path.endswith(b"/items/a%2Fb%3F")


def test_waiting_ends():
    client, _ = client_of([httpx.Response(200, json={"learned": 1})] * 3)
    with pytest.raises(TimeoutError, match="learned up to 1, not 2"):
        client.wait(2, seconds=0.0)

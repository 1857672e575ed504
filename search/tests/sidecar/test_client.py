"""The Python client: it embeds in process, sends in the background, and never fails a search."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import httpx
import numpy as np
import pytest

from mahala_search.adapter.trust.signals import SignalWeights
from mahala_search.sidecar.client import Client, ServiceError
from mahala_search.sidecar.demo.run import SPACE
from mahala_search.sidecar.http.bodies import encoded
from mahala_search.sidecar.records import Control

from .http_sidecar import WIDTH, embedded, http_of, make, opened, publish, query, running, vector, wait_for

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


def client_of(http, **more):
    return Client(space="s", http=http, refresh=60.0, **more)


class Down(httpx.BaseTransport):
    """A sidecar that does not answer."""

    def handle_request(self, request):
        raise httpx.ConnectError("nobody is there")


ACCEPTED = {"accepted": 1, "stored": True, "missing": [], "problems": []}


def answering(*answers):
    """Return an `httpx.Client` that gives answers in turn, the last one for ever, and the entries that it sends."""
    left, bodies = list(answers), []

    def answer(request):
        if request.method == "GET":
            return httpx.Response(404, json={"detail": "no model"})
        bodies.extend(json.loads(request.content))
        answer = left.pop(0) if len(left) > 1 else left[0]
        if answer is None:
            raise ArithmeticError("nobody thought of it")
        return answer if isinstance(answer, httpx.Response) else httpx.Response(202, json=answer)

    return httpx.Client(transport=httpx.MockTransport(answer), base_url="http://sidecar"), bodies


def test_without_a_name_the_space_is_that_of_the_demo(sidecar, http):
    make(sidecar, SPACE)
    with Client(http=http) as client:
        assert client.call("GET")["name"] == SPACE


def test_it_embeds_as_the_sidecar_does(sidecar, http):
    make(sidecar, control=Control(0.3))
    publish(
        sidecar,
        new=np.random.default_rng(0).normal(size=(WIDTH, WIDTH)),
        remembered={"tent": {"d9": 0.5}},
        agreed=False,
    )
    with client_of(http) as client:
        for at in range(20):
            more = {"id": "tent" if at % 2 else None, "user": f"u{at}"}
            own = client.embed(vector(0), **more)
            (there,) = embedded(http, query(**more))
            np.testing.assert_allclose(own.vector, there["vector"], rtol=1e-6)
            assert own.boosts == {one["id"]: one["add"] for one in there["boosts"]}
            assert own.held == [one["id"] for one in there["boosts"] if one["places"] == 5]
            assert (own.arm, own.version) == (there["arm"], 1)


@pytest.mark.parametrize(("agreed", "place"), [(False, 10), (True, 0)])
def test_an_item_gains_five_places_until_users_agree_however_a_page_is_reordered(sidecar, http, agreed, place):
    weights = SignalWeights(["score", "similarity"], np.array([0.0, 9.0]), np.ones(2))
    publish(sidecar, remembered={"tent": {"d15": 9.0}}, agreed=agreed, signals=weights)
    candidates = [{"id": f"d{at}", "score": 1.0 - 0.01 * at, "f32": encoded(vector(1))} for at in range(20)]
    with client_of(http) as client:
        search = client.embed(vector(0), "tent")
        order = search.order({one["id"]: one["score"] for one in candidates})
        (boost,) = embedded(http, query(id="tent"))[0]["boosts"]
        reranked, _ = client.rerank(vector(0), candidates, id="tent")
    assert (order.index("d15"), reranked.index("d15")) == (place, place)
    assert boost == {"id": "d15", "add": 9.0, "places": None if agreed else 5}
    assert [id for id in order if id != "d15"] == [one["id"] for one in candidates if one["id"] != "d15"]


@pytest.mark.parametrize(("arm", "axis"), [("plain", 0), ("control", 0), ("variant b", 1), (None, 1)])
def test_the_base_of_a_comparison_of_the_team_gets_its_own_vector_and_no_boosts(sidecar, http, arm, axis):
    make(sidecar, control=Control(0.0, "team"))
    publish(sidecar, remembered={"tent": {"d9": 0.5}})
    with client_of(http) as client:
        new, known = (client.embed(vector(0), id, arm=arm) for id in (None, "tent"))
    assert (new.vector.tolist(), new.arm) == (vector(axis).tolist(), arm)
    assert list(known.boosts) == ["d9"] * axis


def test_ids_that_are_numbers_are_taken_as_their_text(sidecar, http):
    publish(sidecar, remembered={"17": {"d9": 0.5}})
    with client_of(http) as client:
        search = client.embed(vector(0), 17, user=np.int64(5), text=3.5)
        client.shown(search, [1, np.int64(2)], vectors={1: vector(1), 2: vector(2)})
        client.event(search, 2)
        assert client.flush()
    assert sidecar.store.read_log(sidecar.space("s").space.id, 0, 10)[-1].ids == ["1", "2"]
    assert list(search.boosts) == ["d9"]
    assert [search.made["query"][name] for name in ("id", "user", "text")] == ["17", "5", "3.5"]
    assert client.dropped == 0


def test_a_newer_model_is_taken_and_an_equal_one_is_not_sent_again(sidecar, http):
    with client_of(http) as client:
        assert client.embed(vector(0)).vector.tolist() == vector(0).tolist()
        publish(sidecar)
        assert (client.refresh(), client.refresh()) == (1, 1)
        assert client.embed(vector(0)).vector.tolist() == vector(1).tolist()
        publish(sidecar, new=np.eye(WIDTH))
    with Client(space="s", http=http, refresh=0.05) as client:
        publish(sidecar)
        wait_for(lambda: client.embed(vector(0)).version == 3)


def test_what_was_shown_and_done_arrives_with_the_vectors_that_are_missing(sidecar, http):
    asked = []

    def vectors(ids):
        asked.append(ids)
        return {id: vector(IDS.index(id)) for id in ids}

    with client_of(http, vectors=vectors) as client:
        search = client.embed(vector(0), "tent", user="u")
        client.shown(search, IDS, seen=3)
        client.event(search, "d1")
        client.event(search.id, "d2", "purchase", revenue=9.5)
        assert client.flush()
    assert asked == [IDS]
    space = sidecar.space("s").space
    entries = sidecar.store.read_log(space.id, 0, 10)
    assert {one.search_id for one in entries} == {search.id}
    best = {id: max(v for one in entries for i, v in zip(one.ids, one.values, strict=True) if i == id) for id in IDS}
    assert (best["d0"], best["d1"], best["d2"]) == (0.0, 1.0, 3.0)
    assert client.dropped == 0


def test_what_was_seen_stays_when_vectors_are_sent(sidecar, http):
    with client_of(http, vectors=lambda ids: {id: vector(IDS.index(id)) for id in ids}) as client:
        client.shown(client.embed(vector(0)), IDS, seen=2, positions=[4, 5, 6])
        assert client.flush()
    (entry,) = sidecar.store.read_log(sidecar.space("s").space.id, 0, 10)
    assert (entry.ids, entry.positions) == (IDS[:2], [4, 5])


def test_without_the_sidecar_searches_go_on_and_the_queue_is_bounded():
    http = httpx.Client(transport=Down(), base_url="http://127.0.0.1")
    with Client(space="s", http=http, queue=10) as client:
        started = time.monotonic()
        for at in range(30):
            search = client.embed(vector(0), user=f"u{at}")
            assert (search.vector.tolist(), search.boosts, search.arm) == (vector(0).tolist(), {}, None)
            client.shown(search, IDS)
        assert client.rerank(vector(0), [{"id": "a", "score": 1.0}, {"id": "b", "score": 2.0}]) == (["b", "a"], None)
        assert time.monotonic() - started < 1.0
        assert client.dropped >= 19
        started = time.monotonic()
        client.close(0.1)
        assert time.monotonic() - started < 1.0


HTML = httpx.Response(200, text="<html>We will be back soon.</html>")


@pytest.mark.parametrize("answer", [*map(httpx.Response, (302, 408, 429, 500, 502, 503, 504)), HTML, None])
def test_what_did_not_reach_the_sidecar_is_sent_again(answer, monkeypatch):
    monkeypatch.setattr("mahala_search.sidecar.client._PAUSE", 0.01)
    http, bodies = answering(answer, ACCEPTED)
    with client_of(http) as client:
        client.event("search", "d1")
        assert client.flush()
    assert [body["item"] for body in bodies] == ["d1", "d1"]
    assert client.dropped == 0


@pytest.mark.parametrize("answer", [httpx.Response(302), HTML])
def test_a_page_of_a_proxy_does_not_fail_a_search(answer):
    http, _ = answering(answer)
    with client_of(http) as client:
        assert client.rerank(vector(0), [{"id": "a", "score": 1.0}, {"id": "b", "score": 2.0}]) == (["b", "a"], None)
        with pytest.raises((ServiceError, ValueError)):
            client.call("POST", "/forget", {"user": "u"})


def test_an_entry_that_is_no_json_is_not_sent_for_ever(http):
    with client_of(http) as client:
        client.event("search", "d1", user={"u"})
        client.event("search", "d1", value=np.nan)
        assert client.flush()
    assert client.dropped == 2


FORKED = """
import os, sys, numpy, mahala_search

client = mahala_search.Client(sys.argv[1], "s", vectors=lambda ids: {id: numpy.ones(4) for id in ids})
with client._change:  # it is locked in the child, and something waits
    client.shown(client.embed(numpy.ones(4), user="parent"), ["d0"])
    child = os.fork()
if child == 0:
    assert not client._queue
    client.shown(client.embed(numpy.ones(4), user="child"), ["d1"])
else:
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_sends_what_is_its_own_and_both_send_the_rest_when_they_end(sidecar):
    make(sidecar)
    with running(sidecar) as address:
        subprocess.run([sys.executable, "-c", FORKED, address], check=True, timeout=60.0)
    entries = sidecar.store.read_log(sidecar.space("s").space.id, 0, 10)
    assert sorted(one.ids for one in entries) == [["d0"], ["d1"]]


def test_an_entry_that_is_refused_does_not_take_the_others_with_it(sidecar, http):
    with client_of(http) as client:
        search = client.embed(vector(0))
        with client._change:  # they go in one request
            client._queue.append(("/shown", {"search_id": "x", "ids": []}))
            client.shown(search, IDS)
        assert client.flush()
        client.event(search, "d0")
        assert client.flush()
    assert client.dropped == 1
    assert sidecar.store.counts(sidecar.space("s").space.id) == {}


def test_entries_that_the_sidecar_does_not_count_are_logged_and_counted(sidecar, http, caplog):
    with caplog.at_level("WARNING", "mahala_search.client"), client_of(http) as client:
        search = client.embed(vector(0))
        client.shown(search, IDS)
        with client._change:  # they go in one request
            for at in range(9):
                client.event(f"search {at % 2}", "d0")
            client.event(search, "d0")
        assert client.flush()
    assert client.dropped == 9
    (line,) = caplog.messages
    assert line.startswith("the sidecar did not take 9 entries: the search is unknown")


def test_errors_of_calls_have_the_words_of_the_sidecar(http):
    with client_of(http) as client, pytest.raises(ServiceError, match="must have 4 numbers") as error:
        client.call("POST", "/embed", {"queries": [{"f32": encoded(np.ones(3))}]})
    assert error.value.status == 422


def test_rankings_are_mixed_for_the_mixed_arm(sidecar, http):
    make(sidecar, control=Control(0.5, "interleave"))
    publish(sidecar)
    with client_of(http) as client:
        search = next(one for at in range(99) if (one := client.embed(vector(0), user=f"u{at}")).arm == "mixed")
        ids, teams = client.interleave(search, ["a", "b"], ["c", "d"], k=3)
        client.shown(search, ids, teams=teams)
        assert client.flush()
    assert len(ids) == len(teams) == 3


def test_a_page_in_the_spool_of_the_sidecar_is_sent_once_more_with_all_vectors():
    http, bodies = answering({**ACCEPTED, "stored": False, "missing": []})
    with client_of(http, vectors=lambda ids: {id: vector(1) for id in [*IDS, *ids] if id != "unknown"}) as client:
        client.shown("search", [*IDS, "unknown"], seen=2, vectors={"d0": vector(0)})
        assert client.flush()
    first, again = bodies
    assert first["vectors"] == {"d0": encoded(vector(0))}
    assert again == first | {"vectors": {**first["vectors"], "d1": encoded(vector(1)), "d2": encoded(vector(1))}}

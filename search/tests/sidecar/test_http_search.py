"""Searches over HTTP: embed, rerank, interleave, and the model."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest
from safetensors.numpy import load

from mahala_search.sidecar.http import search, tokens
from mahala_search.sidecar.http.bodies import encoded
from mahala_search.sidecar.records import Control, Unavailable, key_of
from mahala_search.sidecar.serving import Served

from .http_sidecar import BASE, WIDTH, embedded, http_of, make, opened, publish, query, vector, wait_for


@pytest.fixture
def sidecar(tmp_path):
    with opened(tmp_path) as sidecar:
        make(sidecar)
        yield sidecar


@pytest.fixture
def http(sidecar):
    with http_of(sidecar) as http:
        yield http


def test_before_anything_is_learned_a_query_gets_its_own_vector_back(http):
    (result,) = embedded(http, {"vector": [3.0, 4.0, 0.0, 0.0], "id": "tent", "user": "u"})
    assert result["vector"].tolist() == [3.0, 4.0, 0.0, 0.0]
    assert (result["arm"], result["boosts"]) == (None, [])
    assert result["search_id"] is not None


def test_queries_are_mapped_and_known_ones_have_boosts(sidecar, http):
    version = publish(sidecar, remembered={"tent": {"d9": 0.5, "d1": -0.25}})
    assert http.post(f"{BASE}/embed", json={"queries": [query()]}).json()["version"] == version == 1
    results = embedded(http, query(id="tent"), query(id="boat"), query(), query(text="tent"))
    assert [int(result["vector"].argmax()) for result in results] == [1, 1, 1, 1]
    assert [result["boosts"] for result in results[1:3]] == [[], []]
    assert (
        results[0]["boosts"]
        == results[3]["boosts"]
        == [{"id": "d9", "add": 0.5, "places": None}, {"id": "d1", "add": -0.25, "places": None}]
    )


@pytest.mark.parametrize(("similarity", "length", "boost"), [("cosine", 1.0, 0.25), ("dot", 6.0, 0.5)])
def test_by_the_cosine_vectors_have_the_length_one_and_boosts_fit_to_it(sidecar, http, similarity, length, boost):
    make(sidecar, "t", similarity=similarity)
    publish(sidecar, "t", new=2.0 * np.eye(WIDTH), remembered={"tent": {"d9": 0.5}})
    (result,) = embedded(http, {"vector": [3.0, 0.0, 0.0, 0.0], "id": "tent"}, base="/v1/spaces/t")
    assert result["vector"].tolist() == [length, 0.0, 0.0, 0.0]
    assert result["boosts"] == [{"id": "d9", "add": boost, "places": None}]


def test_the_control_arm_gets_its_own_vector_and_no_boosts(sidecar, http):
    make(sidecar, control=Control(0.5))
    assert embedded(http, query(user="u0"))[0]["arm"] is None  # nothing is learned yet: there is nothing to compare
    publish(sidecar, remembered={"tent": {"d9": 0.5}})
    results = embedded(http, *[query(id="tent", user=f"u{at}") for at in range(40)])
    by_arm = {arm: [one for one in results if one["arm"] == arm] for arm in ("learned", "plain")}
    assert min(map(len, by_arm.values())) > 10
    assert all(one["boosts"] == [] and one["vector"][0] == 1.0 for one in by_arm["plain"])
    assert all(one["boosts"] != [] and one["vector"][1] == 1.0 for one in by_arm["learned"])
    again = embedded(http, *[query(id="tent", user=f"u{at}") for at in range(40)])
    assert [one["arm"] for one in again] == [one["arm"] for one in results]


def test_arms_of_the_team_are_taken_as_they_are(sidecar, http):
    make(sidecar, control=Control(mode="team"))
    publish(sidecar)
    arms = ["plain", "control", "learned", "B", None]
    results = embedded(http, *[query(arm=arm) for arm in arms])
    assert [one["arm"] for one in results] == arms
    assert [int(one["vector"].argmax()) for one in results] == [0, 0, 1, 1, 1]


def test_a_pinned_version_is_served_and_one_that_is_lost_falls_to_plain_with_an_alert(sidecar, http):
    for _ in range(2):
        publish(sidecar)
    answer = http.put(f"{BASE}/served", json={"version": 1}).json()
    assert (answer["version"], answer["pinned"]) == (1, 1)
    assert [one["version"] for one in answer["versions"]] == [2, 1]
    assert http.put(f"{BASE}/served", json={"version": 7}).status_code == 404
    assert http.put(f"{BASE}/served", json={"version": 0}).json()["version"] == 0
    assert embedded(http, query())[0]["vector"][0] == 1.0
    http.put(f"{BASE}/served", json={"version": 1})
    with sidecar.store.database.writing() as connection:
        for table in ("search_checkpoints", "search_models"):
            connection.exec_driver_sql(f"DELETE FROM {table} WHERE version = 1")
    publish(sidecar)
    assert http.get(f"{BASE}/served").json()["version"] == 0
    assert "pinned" in http.get("/ready").json()["alerts"]["s"]
    assert 'mahala_alert{space="s"} 1.0' in http.get("/metrics").text
    assert http.put(f"{BASE}/served", json={"version": None}).json()["version"] == 3
    assert http.get("/ready").json()["alerts"] == {}


def test_another_process_sees_that_a_space_was_made_again(sidecar, http, tmp_path):
    publish(sidecar, remembered={"tent": {"d9": 0.5}})
    with opened(tmp_path) as other, http_of(other) as elsewhere:
        assert embedded(elsewhere, query(id="tent"))[0]["boosts"] != []
        assert http.delete(BASE).status_code == 200
        make(sidecar)
        wait_for(lambda: other.space("s").space.id == sidecar.space("s").space.id)
        (result,) = embedded(elsewhere, query(id="tent"))
        assert (result["boosts"], result["vector"].tolist()) == ([], vector(0).tolist())
        shown = {"search_id": result["search_id"], "ids": ["d9"]}
        assert http.post(f"{BASE}/shown", json=shown).json()["accepted"] == 1


def test_a_search_that_cannot_be_written_goes_on_without_an_id(sidecar, http, monkeypatch):
    async def locked(space, works):
        raise Unavailable("locked")

    monkeypatch.setattr(sidecar.writer, "record", locked)
    (result,) = embedded(http, query())
    assert (result["search_id"], result["token"]) == (None, None)

    async def slow(space, works):
        await asyncio.sleep(5.0)

    monkeypatch.setattr(sidecar.writer, "record", slow)
    monkeypatch.setattr(search, "WAIT", 0.15)
    started = time.monotonic()
    assert embedded(http, query())[0]["search_id"] is None
    assert time.monotonic() - started < 1.0

    async def spooled(space, works):
        return False

    monkeypatch.setattr(sidecar.writer, "record", spooled)  # a click on another host could come before it
    assert embedded(http, query())[0]["search_id"] is None
    answer = http.post(f"{BASE}/rerank", json={"query": query(), "candidates": [{"id": "a", "score": 1.0}]})
    assert (answer.status_code, answer.json()["search_id"]) == (200, None)


def test_queries_without_a_record_are_no_searches(sidecar, http):
    results = embedded(http, *[query(at % WIDTH) for at in range(20)], record=False)
    assert {one["search_id"] for one in results} == {None}
    assert np.array_equal([one["vector"] for one in results], [vector(at % WIDTH) for at in range(20)])
    assert sidecar.store.progress(sidecar.space("s").space.id)["logged"] == 0


def test_many_queries_of_one_request_are_as_one_by_one(sidecar, http):
    rng = np.random.default_rng(0)
    publish(sidecar, new=rng.normal(size=(WIDTH, WIDTH)))
    queries = [{"f32": encoded(row)} for row in rng.normal(size=(30, WIDTH))]
    together = embedded(http, *queries)
    for one, alone in zip(together, queries, strict=True):
        np.testing.assert_allclose(one["vector"], embedded(http, alone)[0]["vector"], rtol=1e-5)


def test_the_model_is_a_file_for_clients_and_is_not_sent_again(sidecar, http):
    plain = http.get(f"{BASE}/model")
    assert load(plain.content) == {}
    publish(sidecar, remembered={"tent": {"d9": 0.5}})
    answer = http.get(f"{BASE}/model", headers={"If-None-Match": plain.headers["etag"]})
    assert answer.status_code == 200
    served = Served.from_bytes(answer.content)
    mapped, _ = served.embed(vector(0)[np.newaxis])
    assert mapped.tolist() == [vector(1).tolist()]
    assert served.boosts(vector(0), served.query_key("tent", None)) == [("d9", 0.5, None)]
    tag = answer.headers["etag"]
    again = http.get(f"{BASE}/model", headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    make(sidecar, control=Control(0.1))  # the arms are a part of it
    assert http.get(f"{BASE}/model", headers={"If-None-Match": tag}).status_code == 200


def candidates(*scores, **more):
    return [{"id": f"d{at}", "score": score, **more} for at, score in enumerate(scores)]


def test_rerank_keeps_the_order_of_the_engine_until_signals_are_learned(sidecar, http):
    body = {"query": query(id="tent", user="u"), "candidates": candidates(0.1, 0.9, 0.5), "k": 2}
    answer = http.post(f"{BASE}/rerank", json=body).json()
    assert [(one["id"], one["position"]) for one in answer["results"]] == [("d1", 1), ("d2", 2)]
    assert answer["version"] == 0
    # What was shown is known by that: a click is joined, and only with what was shown.
    clicks = [{"search_id": answer["search_id"], "item": item} for item in ("d1", "d0")]
    done = http.post(f"{BASE}/events", json=clicks).json()
    assert done["accepted"] == 1
    assert [(one["entry"], one["reason"]) for one in done["problems"]] == [
        (1, "the item was not shown for this search")
    ]


def test_rerank_mixes_both_orders_in_the_mixed_arm(sidecar, http):
    make(sidecar, control=Control(0.5, "interleave"))
    publish(sidecar)
    body = {"candidates": candidates(0.3, 0.2, 0.1)}
    answers = [http.post(f"{BASE}/rerank", json=body | {"query": query(user=f"u{at}")}).json() for at in range(20)]
    mixed = [answer for answer in answers if answer["arm"] == "mixed"]
    assert mixed
    assert all(sorted(answer["teams"]) in (["A", "A", "B"], ["A", "B", "B"]) for answer in mixed)
    assert all(answer["teams"] is None for answer in answers if answer["arm"] == "learned")


def test_interleave_mixes_two_rankings_for_a_search(http):
    body = {"search_id": "x1", "a": ["a", "b"], "b": ["c", "a"], "k": 3}
    answer = http.post(f"{BASE}/interleave", json=body).json()
    assert sorted(answer["ids"]) == ["a", "b", "c"]
    assert len(answer["teams"]) == 3
    assert http.post(f"{BASE}/interleave", json=body).json() == answer
    for wrong in ({"a": ["a"]}, {"a": ["a"], "b": []}, {}):
        assert http.post(f"{BASE}/interleave", json={"search_id": "x1", **wrong}).status_code == 422


def test_a_token_says_all_that_is_known_of_a_search(sidecar, http):
    (result,) = embedded(http, query(id="tent", user="u17"))
    current = sidecar.space("s")
    search = tokens.read(current.secret, result["token"], time.time())
    key = key_of(sidecar.store.salt(current.space.id), "u17")
    assert (search.id, search.user, search.query.key) == (
        result["search_id"], key, key_of(sidecar.store.salt(current.space.id), "tent"),
    )  # fmt: skip
    assert "u17" not in result["token"]
    for wrong in ("", "a.b", result["token"][:-2], result["token"].replace(".", "A."), "é.ü"):
        with pytest.raises(tokens.Refused, match="not made"):
            tokens.read(current.secret, wrong, time.time())
    with pytest.raises(tokens.Refused, match="expired"):
        tokens.read(current.secret, result["token"], time.time() + 2 * tokens.LIFETIME)

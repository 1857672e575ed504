"""Learning from the log: exactly once, beside what is served, and again without what was forgotten."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from mahala_search.sidecar.learning import learning as module
from mahala_search.sidecar.learning.learner import SpaceLearner, new_adapter
from mahala_search.sidecar.learning.learning import Learning
from mahala_search.sidecar.learning.process import LearnerProcess
from mahala_search.sidecar.records import Query, Reaction, Search, Settings, Shown, key_of
from mahala_search.sidecar.store.checkpoints import Checkpoints, LeaseLost
from mahala_search.sidecar.store.store import Store

WIDTH = 4
USERS = ["1" * 32, "2" * 32]


@pytest.fixture
def space(store):
    return store.create("films", Settings(WIDTH))


def fill(store, space, n, seed=0, user=None):
    """Write pages, each with a click."""
    rng = np.random.default_rng(seed)
    vectors = {f"i{at}": rng.normal(size=WIDTH) for at in range(30)}
    works = []
    for at in range(n):
        ids, id = [f"i{item}" for item in rng.permutation(30)[:6]], f"{seed}-{at}"
        query = Query(f"q{rng.integers(9)}", rng.normal(size=WIDTH))
        works.append(Search(id, query, user or USERS[at % 2]))
        works.append(
            Shown(id, ids, vectors=vectors, signals={"score": rng.normal(size=6).tolist()} if at % 2 else None)
        )
        works.append(Reaction(id, ids[int(rng.integers(6))], "click", 1.0))
    (result,) = store.write([(space.id, works)])
    assert not isinstance(result, Exception)


def learned(store, checkpoints):
    """Learn until there is nothing to learn; return what has learned."""
    learning = Learning(store, checkpoints)
    while True:
        learning.step()
        progress = [store.progress(space.id) for space in store.spaces().values()]
        if all(one["learned"] == one["logged"] for one in progress):
            return learning


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    monkeypatch.setattr(module, "_TIMES", 0.0)


@pytest.fixture
def checkpoints(store):
    return Checkpoints(store.database, 60.0)


def test_what_is_learned_is_what_the_log_has(store, space, checkpoints):
    fill(store, space, 150)
    learning = learned(store, checkpoints)
    learning.close()
    whole = SpaceLearner({}, 0)
    entries = store.read_log(space.id, 0, 1000)
    for entry in entries:
        whole.learn([entry], store.item_vectors(space.id, entry.ids))
    newest, served = checkpoints.newest(space.id), store.served(space.id)
    assert (newest.place, newest.state) == (150, whole.state())
    assert (served.maps, list(served.names)) == whole.maps()
    assert set(served.names) <= {id for entry in entries for id in entry.ids}
    assert served.status["impressions"] == 150
    assert store.served(space.id, served.version) is None


def test_learning_continues_where_the_state_is_and_what_is_served_does_not_go_back(
    store, space, checkpoints, monkeypatch
):
    monkeypatch.setattr(module, "_BLOCK", 40)
    fill(store, space, 100)
    learned(store, checkpoints)  # the last version has no state
    before = store.served(space.id)
    assert checkpoints.newest(space.id).place < before.place == 100
    again = Learning(store, checkpoints)
    while checkpoints.newest(space.id).place < 100:
        again.step()
        assert store.served(space.id).place == 100
    assert store.served(space.id).maps == before.maps


def test_a_space_that_is_made_again_has_a_learner_of_its_own(store, space, checkpoints):
    fill(store, space, 40)
    learning = learned(store, checkpoints)
    store.drop("films")
    again = store.create("films", space.settings)
    fill(store, again, 3, seed=1)
    while store.progress(again.id)["learned"] < 3:
        learning.step()
    assert store.served(again.id).status["impressions"] == 3
    assert store.served(space.id).version == 0


def test_forgetting_is_learned_beside_what_is_served(store, space, checkpoints, monkeypatch):
    fill(store, space, 60)
    learning = learned(store, checkpoints)
    learning.close()
    monkeypatch.setattr(module, "_BLOCK", 3)
    before = store.served(space.id)
    assert store.forget(space.id, USERS[0]) == 30
    served = []
    while (progress := store.progress(space.id))["learned"] < progress["logged"]:
        served.append(store.served(space.id))
        learning.step()
    assert {one.version for one in served} == {before.version}  # and is never pruned
    assert served[-1].maps == before.maps
    after = store.served(space.id)
    alone = SpaceLearner({}, 1)
    for entry in store.read_log(space.id, 0, 1000):
        alone.learn([entry], store.item_vectors(space.id, entry.ids))
    assert (after.maps, after.status["impressions"]) == (alone.maps()[0], 30)
    assert {one.status["generation"] for one in store.versions(space.id)} == {1}


def test_new_clicks_are_learned_while_a_forgotten_user_is_unlearned(store, space, checkpoints, monkeypatch):
    fill(store, space, 60)
    learning = learned(store, checkpoints)
    monkeypatch.setattr(module, "_BLOCK", 2)
    monkeypatch.setattr(module, "_REBUILT", 1)
    store.forget(space.id, USERS[0])
    learning.step()
    fill(store, space, 2, seed=5)
    generations = set()
    while store.served(space.id).place < 62:
        learning.step()
        generations.add(store.served(space.id).status["generation"])
    assert generations <= {0, 1}


def test_after_all_was_forgotten_nothing_is_left_to_learn_or_to_serve(store, space, checkpoints):
    fill(store, space, 5, user=USERS[0])
    learning = learned(store, checkpoints)
    store.forget(space.id, USERS[0])
    for _ in range(3):
        learning.step()
    progress = store.progress(space.id)
    assert (progress["learned"], progress["logged"]) == (5, 5)
    assert store.served(space.id).maps == b""


def test_a_pinned_version_is_kept_and_one_that_is_lost_falls_to_plain(store, space, checkpoints):
    fill(store, space, 4)
    learning = learned(store, checkpoints)
    pinned = store.served(space.id)
    store.pin(space.id, pinned.version)
    for seed in range(1, 40):
        fill(store, space, 1, seed)
        learned_to = store.progress(space.id)["logged"]
        while store.progress(space.id)["learned"] < learned_to:
            learning.step()
    assert len(store.versions(space.id)) < 20
    assert store.served(space.id) == pinned
    store.forget(space.id, USERS[0])
    while (progress := store.progress(space.id))["learned"] < progress["logged"]:
        learning.step()
    lost = store.served(space.id, pinned.version)
    assert (lost.version, lost.maps) == (0, b"")
    assert f"version {pinned.version} is pinned" in lost.problem
    store.pin(space.id, None)
    assert store.served(space.id).version > pinned.version
    store.pin(space.id, 0)
    assert (store.served(space.id).version, store.served(space.id).problem) == (0, None)


def test_other_parameters_are_learned_from_the_whole_log(store, space, checkpoints):
    fill(store, space, 20)
    learning = learned(store, checkpoints)
    store.configure("films", replace(space.settings, learner={"cap": 0.0}))
    while (progress := store.progress(space.id))["learned"] < progress["logged"]:
        learning.step()
    assert store.served(space.id).status["impressions"] == 20
    assert learning._learned[space.id].current.adapter.cap == 0.0


def test_a_learner_that_cannot_be_made_is_told_and_others_learn(store, space, checkpoints):
    bad = store.create("bad", Settings(WIDTH, learner={"learner": {"name": "none"}}))
    fill(store, bad, 2)
    fill(store, space, 2)
    learning = Learning(store, checkpoints)
    while store.progress(space.id)["learned"] < 2:
        learning.step()
    assert "the learner cannot be made" in learning.problems["bad"]
    with pytest.raises(ValueError, match="cannot be made"):
        new_adapter({"caps": 1})


def test_a_space_that_cannot_be_learned_is_told_and_stops_no_other(store, space, checkpoints, monkeypatch):
    other, read = store.create("before", Settings(WIDTH)), store.read_log
    for one in (space, other):
        fill(store, one, 10)

    def failing(id, after, limit):
        if id == other.id:
            raise IndexError("no such place")
        return read(id, after, limit)

    monkeypatch.setattr(store, "read_log", failing)
    learning = Learning(store, checkpoints)
    learning.step()
    assert (store.progress(space.id)["learned"], learning.problems) == (10, {"before": "no such place"})
    store.set_problems(learning.problems)
    assert [one.problem for one in store.spaces().values()] == ["no such place", None]
    store.set_problems({})
    assert [one.problem for one in store.spaces().values()] == [None, None]


def test_positions_are_the_ranks_that_are_learned(store, space):
    vectors, query = {id: np.ones(WIDTH) for id in "ab"}, Query("q", np.ones(WIDTH))
    store.write([(space.id, [Search("s", query), Shown("s", ["a", "b"], positions=[11, 3], vectors=vectors)])])
    learner = SpaceLearner({}, 0)
    learner.learn(store.read_log(space.id, 0, 9), vectors)
    assert np.flatnonzero(learner.adapter._rates.shown).tolist() == [2, 10]


def test_without_the_lease_nothing_is_written(store, space, checkpoints):
    fill(store, space, 10)
    learning = Learning(store, checkpoints)
    learning.step()
    with store.writing() as connection:
        connection.exec_driver_sql("UPDATE search_lease SET holder = 'other', fence = fence + 1")
    with pytest.raises(LeaseLost):
        checkpoints.write(space.id, learning.fence, place=9, generation=0, names=[], status={}, state=b"", maps=b"")
    n = len(store.versions(space.id))
    fill(store, space, 10, seed=1)
    for _ in range(3):
        learning.step()
    assert len(store.versions(space.id)) == n


def test_pages_are_copied_to_the_successor_and_learned_there_once_it_has_their_vectors(
    store, space, checkpoints, monkeypatch
):
    monkeypatch.setattr(module, "_SETTLED", -1.0)
    fill(store, space, 30)
    old = Search("old", Query("q0", None), at=time.time() - 40.0 * 86400.0)
    store.write([(space.id, [Shown("old", ["i0"], search=old)])])
    pinned = store.create("next", Settings(WIDTH + 1, retention=30.0))
    store.pin(pinned.id, 0)
    store.succeed("films", "next")
    successor = store.spaces()["next"]
    assert successor.pinned == 0  # it serves once that is wanted
    assert key_of(store.salt(successor.id), "u") == key_of(store.salt(space.id), "u")
    learning = learned(store, checkpoints)
    wait = store.progress(successor.id)
    assert (wait["logged"], wait["waiting"], wait["missing"]) == (0, 30, 30)
    items, queries = (
        {id: np.arange(WIDTH + 1.0) for id in ids}
        for ids in (store.missing(successor.id, 99), [f"q{at}" for at in range(9)])
    )
    store.add_vectors(successor.id, items, queries=queries)
    while store.progress(successor.id)["learned"] < 30:
        learning.step()
    assert store.served(successor.id).version == 0
    store.pin(successor.id, None)
    assert store.served(successor.id).status["impressions"] == 30
    with store.reading() as connection:
        arms = connection.exec_driver_sql(
            f"SELECT DISTINCT arm FROM search_pages WHERE space = '{successor.id}'"
        ).fetchall()
    assert arms == [(None,)]  # no report counts them


def test_the_process_starts_once_there_is_something_to_learn_and_again_when_it_is_killed(tmp_path, capfd):
    store = Store(tmp_path / "mahala.db")
    space = store.create("films", Settings(WIDTH))
    process = LearnerProcess(str(tmp_path / "mahala.db"), seconds=1.0)
    time.sleep(1.2)
    assert process.child is None
    fill(store, space, 20)
    store.create("bad", Settings(WIDTH, learner={"caps": 1}))
    wait_for(lambda: process.child is not None)
    killed = process.child
    killed.kill()
    wait_for(lambda: store.progress(space.id)["learned"] == 20)
    assert process.child is not killed
    child = process.child
    process.close()
    assert child.returncode == 0
    assert capfd.readouterr().err.count("learning waits for bad: the learner cannot be made") > 0
    assert store.served(space.id).status["impressions"] == 20
    assert Checkpoints(store.database).newest(space.id).place == 20
    store.close()


def wait_for(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)

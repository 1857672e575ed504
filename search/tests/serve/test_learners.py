"""Learning from the log: exactly once, whatever happens between."""

from __future__ import annotations

import contextlib
import functools
import json
import time
from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy as sa
from sklearn.metrics import ndcg_score

from mahala.saved_estimator import learner_from_bytes
from mahala.stream.stream import Learned, Stream
from mahala_search import QueryAdapter
from mahala_search.serve.learning import learners as module
from mahala_search.serve.learning.learners import Learners, Learning
from mahala_search.serve.store import checkpoints as checkpoints_module
from mahala_search.serve.store.checkpoints import Checkpoints, LeaseLost
from mahala_search.serve.store.collection_store import Store
from mahala_search.serve.store.database import Unavailable, Unknown, lease, models
from mahala_search.serve.store.rows import LogEntry

from .conftest import WIDTH, entries, new_items

SHADOWS = {
    "adapter": {"user_cap": 20, "random_state": 0},
    "cautious": {"cap": 0.5, "random_state": 0},
    "ogd": {"learner": {"name": "OGD"}, "random_state": 0},
}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    monkeypatch.setattr(module, "_TIMES", 0.0)
    monkeypatch.setattr(module, "_STATES", 0.0)


def process(store, seconds=3.0):
    """Return what learns in another process of the service."""
    return Learning(store, Checkpoints(store.database, seconds))


def learn_all(own):
    while own.step() < module.IDLE:
        pass


def states(store):
    version, parts = Checkpoints(store.database).newest("c", store.collections()["c"].generation)
    return version.place, version.status, parts


@pytest.fixture
def whole(store, tmp_path):
    """What is learned without a stop."""
    store.configure("c", {"learners": SHADOWS})
    store.append("c", entries(90))
    learn_all(process(store))
    return states(store)


def test_learning_does_not_depend_on_where_it_was_stopped(whole, tmp_path, monkeypatch):
    """Every process dies after some steps, with what it learned since its last checkpoint; the last one is equal."""
    monkeypatch.setattr(module, "_BLOCK", 7)
    other = Store(tmp_path / "other.db")
    other.create("c", width=WIDTH, settings={"learners": SHADOWS})
    other.put_items("c", new_items())
    rng = np.random.default_rng(1)
    given = entries(90)
    while given:
        n = int(rng.integers(1, 30))
        other.append("c", given[:n])
        given = given[n:]
        own = process(other, seconds=0.0)
        if rng.random() < 0.5:  # learned, and lost before the checkpoint
            monkeypatch.setattr(own.checkpoints, "write", lambda *_, **__: 0)
        own.step()
    learn_all(process(other, seconds=0.0))
    assert states(other) == whole
    other.close()


def test_the_model_is_that_of_mahala_stream_over_the_same_log(store, whole, tmp_path):
    items = store.vectors("c", range(40)).astype(np.float32)
    lines = []
    for entry in store.read_log("c"):
        query = entry.query if entry.vector is None else entry.vector.tolist()
        line = {"query": query, "shown": entry.shown, "clicked": entry.clicked}
        lines.append(json.dumps(line | {"query_id": entry.query_id, "user": entry.user}).encode() + b"\n")
    stream = Stream(tmp_path / "m.safetensors", module.new_learner(SHADOWS["adapter"]), items=items, n_features=WIDTH)
    assert all(isinstance(result, Learned) for result in stream.learn(lines))
    adapter = learner_from_bytes(whole[2]["adapter"])  # which knows items by their rows, not by their vectors
    assert stream.learner.trust_ == adapter.trust_
    np.testing.assert_array_equal(stream.learner.metric_.matrix, adapter.metric_.matrix)


def test_learners_are_compared_on_the_same_entries(whole):
    place, told, parts = whole
    assert place == 90
    assert set(parts) == set(told["learners"]) == set(SHADOWS)
    assert [(one["of"], one["over"]) for one in told["differences"]] == [
        ("adapter", "cautious"),
        ("adapter", "ogd"),
        ("cautious", "ogd"),
    ]
    first = told["differences"][0]
    assert first["low"] <= first["mean"] <= first["high"]
    assert told["refused"] == 0


def test_what_was_foreseen_is_told():
    X = np.array([item.vector for item in new_items()], dtype=np.float64)
    logged = [replace(one, kind="judgment" if at % 3 == 0 else "impression") for at, one in enumerate(entries(80))]
    learners, reference = Learners({"adapter": SHADOWS["adapter"]}, None), QueryAdapter(**SHADOWS["adapter"])
    right, judged = [], []
    for entry in logged:
        query = X[entry.query] if entry.vector is None else entry.vector
        shown, grades = X[list(entry.shown)], np.array(entry.clicked)
        scores = [shown @ reference.embed(query, entry.query_id), shown @ query]
        apart = np.maximum(np.subtract.outer(grades, grades), 0.0)
        if entry.kind == "judgment" and grades.any():
            judged.append(np.subtract(*(ndcg_score([grades], [own]) for own in scores)))
        given = {
            "query_id": entry.query_id,
            "user": entry.user,
            "item_ids": entry.shown,
            "ranked": entry.kind == "impression",
        }
        share = reference.learn_one(query, shown, grades, **given)
        if apart.any():
            plain = (apart * (np.subtract.outer(scores[1], scores[1]) > 0.0)).sum() / apart.sum()
            right.append([share, plain])
        learners.learn([entry], lambda rows: X[list(rows)])
    told = learners.status()["learners"]["adapter"]
    assert told["foreseen"]["n"] == len(right)
    assert [told["foreseen"]["served"], told["foreseen"]["plain"]] == pytest.approx(np.mean(right, axis=0))
    assert told["gains"]["judged"]["n"] == len(judged) > 20
    assert told["gains"]["judged"]["mean"] == pytest.approx(np.mean(judged))
    assert told["gains"]["judged"]["low"] < told["gains"]["judged"]["mean"] < told["gains"]["judged"]["high"]
    assert told["gains"]["new"] == told["gain"]
    assert sum(told["gains"][kind]["n"] for kind in ("new", "known")) == len(right)


def test_one_process_learns_and_another_takes_over(store):
    one, other = process(store), process(store)
    store.append("c", entries(5))
    learn_all(one)
    assert one.fence is not None
    assert other.step() == module.IDLE
    assert other.fence is None
    one.checkpoints.give_up_lease()
    store.append("c", entries(9)[5:])
    while other.fence is None:  # it asks again after a third of the time for which a lease holds
        other.step()
        time.sleep(0.05)
    learn_all(other)
    assert other.fence == one.fence + 1
    assert states(store)[0] == 9


def test_a_process_that_lost_the_lease_without_noticing_writes_nothing(store):
    """Its clock stood still, or it was suspended: the number of the lease tells."""
    one, other = process(store, seconds=0.0), process(store, seconds=0.0)
    store.append("c", entries(5))
    learn_all(one)
    learn_all(other)
    before = states(store)
    with pytest.raises(LeaseLost):
        one.checkpoints.write("c", one.fence, place=1, generation=0, ready=True, status={}, parts={})
    assert states(store) == before


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(checkpoints_module, "_PIECE", 500)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("loss", ["killed", "lease taken"])
def test_pieces_of_a_model_are_no_version_without_its_place(store, monkeypatch, loss):
    one, other = process(store, seconds=0.0), process(store, seconds=0.0)
    store.append("c", entries(5))
    learn_all(one)
    before = states(store)
    store.append("c", entries(9)[5:])
    pauses = []

    def after_two_pieces(_):
        pauses.append(1)
        if len(pauses) == 2 and loss == "killed":
            raise KeyboardInterrupt
        if len(pauses) == 2:
            other.checkpoints.take_lease()

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints_module.time, "sleep", after_two_pieces)
        with contextlib.suppress(KeyboardInterrupt):
            one.step()
    assert len(pauses) == 2
    assert states(store) == before
    learn_all(other)
    fresh = module.Learners(module.DEFAULT, None)
    for entry in store.read_log("c"):
        fresh.learn([entry], lambda rows: store.vectors("c", rows))
    assert states(store)[2] == {"adapter": fresh.adapters["adapter"].to_bytes()}
    with store.database.reading() as connection:
        assert set(connection.scalars(sa.select(models.c.version))) == {1, 2}


@pytest.mark.usefixtures("small_pieces")
def test_a_disk_that_is_full_while_a_model_is_written_costs_nothing(store):
    own = process(store)
    store.append("c", entries(20))
    with store.database.reading() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()

    def limit(connection, *_, most=pages):
        connection.execute(f"PRAGMA max_page_count={most}")

    sa.event.listen(store.database.engine, "checkout", limit)
    with pytest.raises(Unavailable, match="the disk is full"):
        learn_all(own)
    assert Checkpoints(store.database).newest("c", 0) is None
    sa.event.remove(store.database.engine, "checkout", limit)
    sa.event.listen(store.database.engine, "checkout", functools.partial(limit, most=10**6))
    learn_all(own)
    assert states(store)[0] == 20


def test_a_lease_from_the_future_has_expired(store):
    """The clock of the database was set back."""
    one, other = process(store), process(store)
    assert one.checkpoints.take_lease() is not None
    with store.database.writing() as connection:
        connection.execute(lease.update().values(expires=lease.c.expires + 3600.0))
    assert other.checkpoints.take_lease() is not None


def test_a_forgotten_user_leaves_no_trace(store, tmp_path):
    store.append("c", entries(60))
    learn_all(process(store, seconds=0.0))
    served = Checkpoints(store.database).served("c", "adapter")
    assert store.forget_user("c", "u1") > 0
    assert Checkpoints(store.database).served("c", "adapter")[0] == served[0]  # until it is learned again
    own = process(store, seconds=0.0)
    learn_all(own)
    without = [entry for entry in entries(60) if entry.user != "u1"]
    fresh = module.Learners(module.DEFAULT, None)
    for entry in without:
        fresh.learn([entry], lambda rows: store.vectors("c", rows))
    assert states(store)[2]["adapter"] == fresh.adapters["adapter"].to_bytes()
    versions = Checkpoints(store.database).versions("c")
    assert {version.generation for version in versions} == {1}


def test_when_the_only_user_is_forgotten_the_plain_ranking_is_served(store):
    store.append("c", [LogEntry("impression", [0, 1], [1.0, 0.0], query=2, user="u")])
    learn_all(process(store, seconds=0.0))
    assert Checkpoints(store.database).served("c", "adapter")[1] is not None
    store.forget_user("c", "u")
    learn_all(process(store, seconds=0.0))
    assert Checkpoints(store.database).served("c", "adapter")[1] is None


def test_versions_are_pinned_and_pruned(store):
    checkpoints = Checkpoints(store.database)
    for at in range(20):
        store.append("c", entries(20)[at : at + 1])
        learn_all(process(store, seconds=0.0))
        if at == 2:
            checkpoints.pin("c", 3)
    kept = [version.version for version in checkpoints.versions("c")]
    assert kept[0] == 20
    assert 3 in kept
    assert len(kept) < 15
    assert checkpoints.served("c", "adapter")[0].version == 3
    checkpoints.pin("c", None)
    assert checkpoints.served("c", "adapter")[0].version == 20
    with pytest.raises(Unknown, match="no version 99"):
        checkpoints.pin("c", 99)


def test_versions_without_states_are_served_and_learned_again(store, monkeypatch):
    """A process that is killed goes back to the last states, and what is served does not go back."""
    monkeypatch.setattr(module, "_STATES", 1e9)
    first, given = process(store, seconds=0.0), entries(60)
    for start in range(0, 40, 4):
        store.append("c", given[start : start + 4])
        first.step()
    checkpoints = Checkpoints(store.database)
    assert (checkpoints.newest("c", 0)[0].place, checkpoints.versions("c")[0].place) == (4, 40)
    monkeypatch.setattr(module, "_BLOCK", 16)
    second = process(store, seconds=0.0)
    second.step()
    assert checkpoints.served("c", "adapter")[0].place == 40
    store.append("c", given[40:])
    learn_all(second)
    second.step()  # nothing is left to learn: the states are written
    version, states = checkpoints.newest("c", 0)
    fresh = Learners(module.DEFAULT, None)
    fresh.learn(list(store.read_log("c")), functools.partial(store.vectors, "c"))
    assert (version.place, states) == (60, {"adapter": fresh.adapters["adapter"].to_bytes()})

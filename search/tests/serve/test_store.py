"""The store: items, an append-only log, and what it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sqlite3
import threading

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from mahala_search.serve.store import collection_store, database
from mahala_search.serve.store.appends import KeyReused
from mahala_search.serve.store.collection_store import BLOCK, Store
from mahala_search.serve.store.database import Unavailable, Unknown, about
from mahala_search.serve.store.files import export
from mahala_search.serve.store.group_commit import GroupCommit
from mahala_search.serve.store.rows import LogEntry, NewItem

from .conftest import SYNCHRONOUS, WIDTH, changed_rows, entries, new_items


def plain(entry):
    return entry.kind, entry.query, list(entry.shown), list(entry.clicked), entry.query_id, entry.user, entry.key


def appended(writer, own):
    return asyncio.run(writer.append("c", own))


def test_entries_are_read_as_they_were_written(store):
    given = entries(30)
    assert store.append("c", given) == list(range(1, 31))
    read = list(store.read_log("c"))
    assert [plain(entry) for entry in read] == [plain(entry) for entry in given]
    assert [entry.place for entry in store.read_log("c", after=28)] == [29, 30]
    for one, other in zip(read, given, strict=True):
        assert (one.vector is None) == (other.vector is None)
        assert one.vector is None or (one.vector == other.vector).all()


def test_what_is_acknowledged_is_on_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "_SYNCHRONOUS", SYNCHRONOUS)
    store = Store(tmp_path / "mahala.db")
    with store.database.writing() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    store.close()


def test_a_key_is_counted_once(store):
    one, two = entries(2)
    assert store.append("c", [one, two, one]) == [1, 2, 1]
    assert store.append("c", [two, entries(3)[2]]) == [2, 3]
    other = LogEntry("impression", [1, 2], [1.0, 0.0], query=1, key="k0")
    with pytest.raises(KeyReused, match="'k0' was used before"):
        store.append("c", [other])
    assert store.collections()["c"].n_logged == 3


def test_a_group_is_written_whole_or_not_at_all(store):
    store.append("c", entries(1))
    other = LogEntry("impression", [1, 2], [1.0, 0.0], query=1, key="k0")
    with pytest.raises(KeyReused):
        store.append("c", [entries(5)[4], other])
    assert [entry.key for entry in store.read_log("c")] == ["k0"]


def test_items_change_and_the_rows_of_the_log_stay(store):
    n = len(new_items())
    store.put_items("c", [NewItem("i3", np.ones(WIDTH), {"new": True}), NewItem("z", np.zeros(WIDTH), {})])
    assert store.delete_items("c", ["i4", "nobody"]) == 1
    rows = {number: (id, vector, live) for number, id, vector, _, live, _ in changed_rows(store)}
    assert len(rows) == n + 2
    assert {number for number, (*_, live) in rows.items() if not live} == {3, 4}
    assert rows[n][0] == "i3"
    assert rows[3][1] == pytest.approx(new_items()[3].vector, abs=0.0)
    with pytest.raises(ValueError, match="different ids"):
        store.put_items("c", [new_items(1)[0]] * 2)


def test_changes_are_read_in_blocks(store):
    many = [NewItem(f"m{at}", np.zeros(WIDTH), {}) for at in range(BLOCK + 5)]
    before = store.collections()["c"].change
    store.put_items("c", many)
    assert [id for _, id, *_ in changed_rows(store, before)] == [item.id for item in many]


def test_an_export_has_the_last_state_of_a_row_that_changes_meanwhile(store, tmp_path, monkeypatch):
    monkeypatch.setattr(collection_store, "BLOCK", 10)
    read = store.changed_blocks

    def changed_blocks(name, after):
        for block in read(name, after):
            yield block
            store.delete_items(name, ["i0"])

    monkeypatch.setattr(store, "changed_blocks", changed_blocks)
    export(store, "c", tmp_path)
    items = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    assert [item["id"] for item in items] == [item.id for item in new_items()]
    assert [item["live"] for item in items] == [False] + [True] * (len(items) - 1)


def test_threads_that_write_at_once_get_places_without_gaps(store):
    writer = GroupCommit(store)
    places = []

    def write(seed):
        for entry in entries(20, seed):
            own = LogEntry(entry.kind, entry.shown, entry.clicked, query=0, key=f"{seed}/{entry.key}")
            places.extend(appended(writer, [own]))

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert sorted(places) == list(range(1, 81))
    with pytest.raises(Unavailable, match="stopping"):
        appended(writer, entries(1))


def test_a_full_disk_is_told_in_words_and_acknowledges_nothing(store):
    writer = GroupCommit(store)
    store.append("c", entries(1))

    def limit(connection, record, proxy):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")

    sa.event.listen(store.database.engine, "checkout", limit)
    long = [LogEntry("impression", [1] * 1000, [0.0] * 1000, query=1) for _ in range(200)]
    with pytest.raises(Unavailable, match="the disk is full"):
        appended(writer, long)
    sa.event.remove(store.database.engine, "checkout", limit)
    sa.event.listen(
        store.database.engine, "checkout", lambda connection, *_: connection.execute("PRAGMA max_page_count=1000000")
    )
    assert appended(writer, entries(2)[1:]) == [2]
    assert store.collections()["c"].n_logged == 2
    writer.close()


def test_a_database_that_others_have_locked_is_waited_for_and_then_told(store, monkeypatch):
    with contextlib.closing(sqlite3.connect(store.database.name, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with monkeypatch.context() as patched:
            patched.setattr(database, "_WAIT", 0.05)
            with pytest.raises(Unavailable, match="database is locked"):
                store.append("c", entries(1))
        assert changed_rows(store)[0][1] == "i0"  # reading does not need the lock
        waiting = threading.Thread(target=store.append, args=("c", entries(1)))
        waiting.start()
        other.execute("COMMIT")
        waiting.join()
    assert store.append("c", entries(2)[1:]) == [2]


def test_an_unknown_collection_and_a_newer_database_are_refused(store, tmp_path):
    with pytest.raises(Unknown, match="no collection 'x'"):
        store.append("x", entries(1))
    with pytest.raises(ValueError, match="already"):
        store.create("c", width=2, settings={})
    with store.database.writing() as connection:
        connection.execute(about.update().values(schema=99))
    with pytest.raises(ValueError, match="version 99"):
        Store(tmp_path / "mahala.db")


def test_a_dropped_collection_is_gone(store):
    store.append("c", entries(3))
    store.drop("c")
    assert store.collections() == {}
    assert list(store.read_log("c")) == changed_rows(store) == []


def test_the_log_is_that_of_a_list_without_repeated_keys(store):
    names = (f"h{number}" for number in itertools.count())

    @given(st.lists(st.lists(st.integers(0, 6), max_size=4), max_size=6))
    def check(batches):
        name, expected = next(names), []
        store.create(name, width=WIDTH, settings={})
        for batch in batches:
            expected += [key for key in dict.fromkeys(f"k{at}" for at in batch) if key not in expected]
            places = store.append(name, [entries(7)[at] for at in batch])
            assert places == [expected.index(f"k{at}") + 1 for at in batch]
        assert [entry.key for entry in store.read_log(name)] == expected

    check()

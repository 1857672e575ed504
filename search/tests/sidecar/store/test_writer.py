"""The writer, and every fault of the database under it: locked, deleted, full, slow."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from mahala_search.sidecar.records import Query, Reaction, Search, Shown, Unavailable, key_of
from mahala_search.sidecar.store.spool import Spool
from mahala_search.sidecar.store.store import Store
from mahala_search.sidecar.store.writer import Writer


def page(id, *clicked, user=None):
    """Return a search, what was shown for it, and clicks."""
    vectors = {item: np.ones(2) for item in "abc"}
    search = Search(id, Query("q", np.ones(2), "tents"), user)
    return [search, Shown(id, list("abc"), vectors=vectors), *(Reaction(id, item, "click", 1.0) for item in clicked)]


def places(store, space):
    return [(one.search_id, list(one.values)) for one in store.read_log(space.id, 0, 10_000)]


def wait_for(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def writer(store, tmp_path):
    writer = Writer(store, tmp_path / "spool")
    yield writer
    writer.close()


def timed(writer, *args):
    """Return what `submit` returns or raises, and the seconds that it took."""
    started = time.monotonic()
    try:
        result = asyncio.run(writer.submit(*args))
    except Unavailable as error:
        result = error
    return result, time.monotonic() - started


@pytest.fixture
def patient(monkeypatch):
    monkeypatch.setattr("mahala_search.sidecar.store.writer._PATIENCE", 10.0)


def test_many_groups_are_written_together(store, space, writer, patient):
    async def many():
        return await asyncio.gather(*(writer.submit(space.id, page(f"s{at}", "a")) for at in range(300)))

    results = asyncio.run(many())
    assert all(is_stored and [one.new for one in written] == [True] * 3 for written, is_stored in results)
    assert len(places(store, space)) == 300
    assert writer.status() == {"queued": 0, "spooled": 0}


def test_a_malformed_group_and_a_space_that_is_gone_fail_alone(space, writer, patient):
    async def three():
        wrong = [Search("w", Query("q", np.array([1.0, np.nan])))]
        groups = (space.id, wrong), ("gone", page("s")), (space.id, page("s"))
        return await asyncio.gather(*(writer.submit(*one) for one in groups), return_exceptions=True)

    bad, gone, good = asyncio.run(three())
    assert ("2 finite numbers" in str(bad), "no such space" in str(gone), good[1]) == (True, True, True)


class Locked:
    """Another process that has the lock of the database."""

    def __init__(self, store):
        self.connection = sqlite3.connect(store.database.name, isolation_level=None, check_same_thread=False)

    def __enter__(self):
        self.connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, *_):
        self.connection.rollback()
        self.connection.close()


def test_a_search_waits_for_no_transaction_and_is_joined(store, space, writer, monkeypatch):
    write, begun, blocked = store.write, threading.Event(), threading.Event()

    def wait(batch):
        begun.set()
        blocked.wait(5.0)
        return write(batch)

    monkeypatch.setattr(store, "write", wait)
    search, *rest = page("s", "a")

    async def search_and_click():
        before = asyncio.create_task(writer.submit(space.id, page("before")))
        await asyncio.to_thread(begun.wait, 5.0)
        assert await writer.record(space.id, [search])
        after = asyncio.create_task(writer.submit(space.id, rest))
        await asyncio.sleep(0)
        blocked.set()
        return await asyncio.gather(before, after)

    assert [is_stored for _, is_stored in asyncio.run(search_and_click())] == [True] * 2
    assert places(store, space) == [("before", [0.0] * 3), ("s", [1.0, 0.0, 0.0])]


def test_what_came_to_another_process_of_the_host_is_written_first(store, space, writer, tmp_path):
    other = Writer(store, tmp_path / "spool")
    for at in range(20):
        search, shown, click = page(f"s{at}", "a")
        assert asyncio.run(writer.record(space.id, [search]))
        for process, work in ((other, shown), (writer, click)):
            assert asyncio.run(process.submit(space.id, [work]))[0][0].ignored is None
    with Locked(store):  # the order in which they came remains
        wait_for(lambda: writer.problem and other.problem)
        assert not asyncio.run(writer.record(space.id, page("lost")[:1]))
        for at in range(20):
            search, shown, click = page(f"t{at}", "a")
            asyncio.run(writer.submit(space.id, [replace(shown, search=search)]))
            asyncio.run(other.submit(space.id, [click]))
    wait_for(lambda: not len(writer._spool))
    other.close()
    clicked = {id for id, values in places(store, space) if values == [1.0, 0.0, 0.0]}
    assert clicked == {f"{letter}{at}" for letter in "st" for at in range(20)}


def test_a_locked_store(store, space, writer):
    store.write([(space.id, page("before"))])
    with Locked(store):
        started = time.monotonic()
        (written, is_stored), seconds = timed(writer, space.id, page("first", "a"))
        assert ([one.new for one in written], is_stored) == ([True] * 3, False)
        assert seconds < 0.25
        wait_for(lambda: writer.problem is not None, 1.0)
        assert time.monotonic() - started < 1.0  # /ready tells
        assert timed(writer, space.id, page("second"))[0][1] is False
        assert timed(writer, space.id, [Reaction("first", "b", "click", 1.0)])[0][1] is False
        assert places(store, space) == [("before", [0.0] * 3)]
    wait_for(lambda: writer.problem is None and not len(writer._spool))
    assert {id for id, _ in places(store, space)} == {"before", "first", "second"}
    assert sum(sum(values) for id, values in places(store, space) if id == "first") == 2.0
    wait_for(lambda: asyncio.run(writer.submit(space.id, page("after")))[1])


def test_a_locked_store_is_told_without_a_request(store, space, writer):
    with Locked(store):
        wait_for(lambda: writer.problem is not None, 1.0)
    wait_for(lambda: writer.problem is None, 4.0)


def test_a_deleted_store(store, space, writer, tmp_path):
    hidden = tmp_path / "hidden.db"
    (tmp_path / "mahala.db").rename(hidden)
    result, seconds = timed(writer, space.id, page("s"))
    assert (result[1], seconds < 0.25) == (False, True)
    wait_for(lambda: "was deleted or replaced" in (writer.problem or ""), 1.0)
    hidden.rename(tmp_path / "mahala.db")
    wait_for(lambda: places(store, space) != [])


def test_a_full_store(store, space, writer):
    with store.database.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()

    def limit(driver, record):
        driver.execute(f"PRAGMA max_page_count={pages}")

    import sqlalchemy as sa

    sa.event.listen(store.database.engine, "connect", limit)
    store.database.engine.dispose()
    results = []
    for at in range(60):
        result, seconds = timed(writer, space.id, page(f"{at}-{'x' * 40}", "a"))
        results.append(result[1])
        assert seconds < 0.25
    assert (True in results, results[-1]) == (True, False)
    wait_for(lambda: "full" in (writer.problem or ""), 1.0)
    sa.event.remove(store.database.engine, "connect", limit)
    store.database.engine.dispose()
    wait_for(lambda: writer.problem is None and not len(writer._spool))
    assert sorted({id for id, _ in places(store, space)}) == sorted(f"{at}-{'x' * 40}" for at in range(60))


def test_a_slow_store(store, space, writer, monkeypatch):
    write = store.write
    monkeypatch.setattr(store, "write", lambda batch: (time.sleep(1.0), write(batch))[1])
    result, seconds = timed(writer, space.id, page("s"))
    assert (result[1], seconds < 0.25) == (False, True)
    wait_for(lambda: writer.problem is not None, 1.0)
    monkeypatch.undo()
    wait_for(lambda: writer.problem is None and not len(writer._spool))
    assert places(store, space) == [("s", [0.0] * 3)]  # once, although it was in the queue and in the spool


def test_what_waits_for_others_that_are_written_is_not_spooled(store, space, writer, monkeypatch):
    write = store.write
    monkeypatch.setattr("mahala_search.sidecar.store.writer.MOST", 1)
    monkeypatch.setattr(store, "write", lambda batch: (time.sleep(0.1), write(batch))[1])

    async def several():
        return await asyncio.gather(*(writer.submit(space.id, page(f"s{at}")) for at in range(4)))

    assert [is_stored for _, is_stored in asyncio.run(several())] == [True] * 4


def test_a_full_spool_is_refused_at_once(store, space, tmp_path):
    writer = Writer(store, tmp_path / "spool")
    writer._spool = Spool(tmp_path / "small", most_bytes=2**15)
    with Locked(store):
        results = [timed(writer, space.id, page(f"s{at}") * 9) for at in range(20)]
    refused = [one for one, _ in results if isinstance(one, Unavailable)]
    assert 1 < len(refused) < 20
    assert "is full" in str(refused[0])
    assert max(seconds for _, seconds in results) < 0.25
    wait_for(lambda: not len(writer._spool))
    assert timed(writer, space.id, page("after"))[0][1]
    writer.close()


def test_a_spool_brings_back_what_was_put_in(space, tmp_path):
    other = Shown("t", ["é"], 1, [3], "L", {}, {"price": [None]}, Search("t", Query("k", None)))
    works = [*page("s", "a", user="u"), other]
    spool, groups = Spool(tmp_path / "spool"), []
    threads = [threading.Thread(target=spool.append, args=(space.id, works)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spool.replay(groups.extend)
    assert (len(groups), len(spool)) == (20, 0)
    assert repr(groups[7]) == repr((space.id, works))
    spool.close()


def test_what_a_process_that_was_killed_has_left_is_written(store, space, tmp_path):
    code = """if True:
        import os, signal, sys
        from mahala_search.sidecar.records import Query, Search, Shown
        from mahala_search.sidecar.store.spool import Spool
        spool = Spool(sys.argv[1])
        spool.append(sys.argv[2], [Search("s", Query("q", None)), Shown("s", ["a"])])
        os.kill(os.getpid(), signal.SIGKILL)
    """
    path = str(tmp_path / "spool")
    assert subprocess.run([sys.executable, "-c", code, path, space.id]).returncode == -signal.SIGKILL
    writer = Writer(store, path)
    wait_for(lambda: store.missing(space.id, 9) == ["a"])
    writer.close()
    assert sorted(one.name for one in tmp_path.iterdir() if "spool" in one.name) == ["spool", "spool.lock"]


def test_what_cannot_be_written_does_not_stop_what_comes_later(store, space, writer, monkeypatch):
    write = Store.write

    def refuse(self, batch):
        if any(works and getattr(works[0], "id", "") == "poison" for _, works in batch):
            raise RuntimeError("a fault of our own")
        return write(self, batch)

    monkeypatch.setattr(Store, "write", refuse)
    for id in ("poison", "s"):
        writer._spool.append(space.id, page(id))
    wait_for(lambda: not len(writer._spool))
    assert places(store, space) == [("s", [0.0] * 3)]


def test_what_was_spooled_before_its_user_was_forgotten_is_not_written(store, space, writer):
    user = key_of(store.salt(space.id), "u")
    with Locked(store):
        assert timed(writer, space.id, page("s", "a", user=user))[0][1] is False
    store.forget(space.id, user)  # whether the spool was replayed before that, or comes later
    wait_for(lambda: not len(writer._spool))
    assert places(store, space) == []


def test_works_that_cannot_be_read_are_dropped_and_a_deleted_spool_acknowledges_nothing(store, space, writer, tmp_path):
    with writer._spool._appender as connection:
        connection.execute("INSERT INTO works (line) VALUES (?)", (b'["s", [["Search", {"colour": 1}]]]',))
    writer._spool.append(space.id, page("s", "a"))
    wait_for(lambda: places(store, space) == [("s", [1.0, 0.0, 0.0])])
    (tmp_path / "spool").unlink()
    with pytest.raises(Unavailable, match="it was deleted or replaced"):
        writer._spool.append(space.id, page("lost"))
    assert timed(writer, space.id, page("t"))[0][1]  # the database itself can be written


def test_a_damaged_spool_is_named_and_a_backlog_goes_before_what_comes(store, space, tmp_path, monkeypatch):
    (tmp_path / "damaged").write_bytes(b"no database" * 500)
    with pytest.raises(ValueError, match=r"damaged cannot be used .* move it away"):
        Spool(tmp_path / "damaged")
    spool = Spool(tmp_path / "spool")
    for at in range(150):
        spool.append(space.id, page(f"s{at}"))
    spool.close()
    write = store.write
    monkeypatch.setattr(store, "write", lambda batch: (time.sleep(0.1), write(batch))[1])
    writer = Writer(store, tmp_path / "spool")
    assert not timed(writer, space.id, page("t"))[0][1]  # it does not wait for all of them
    wait_for(lambda: len(places(store, space)) == 151)
    writer.close()

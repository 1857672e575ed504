"""The same store in a Postgres server, which several hosts share."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest

from mahala_search.sidecar.records import Query, Reaction, Search, Settings, Shown, Unavailable
from mahala_search.sidecar.store.checkpoints import Checkpoints
from mahala_search.sidecar.store.store import Store
from mahala_search.sidecar.store.writer import Writer

from .test_reference import run_machine
from .test_writer import page, timed, wait_for


@pytest.fixture
def space(postgres):
    return postgres.create("films", Settings(width=2))


def test_the_store_does_what_the_reference_does(postgres):
    run_machine(postgres, 0.5)


def test_writers_at_once_get_places_without_gaps(postgres_server, postgres, space):
    def write(name):
        store = Store(postgres_server.address)
        for at in range(10):
            shown = Shown(
                "shared",
                ["a", "b"],
                vectors=dict.fromkeys("ab", np.ones(2)),
                search=Search("shared", Query("q", np.ones(2))),
            )
            store.write([(space.id, [*page(f"{name}-{at}", "a"), shown, Reaction("shared", "a", "click", 1.0)])])
        store.close()

    threads = [threading.Thread(target=write, args=(name,)) for name in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = postgres.read_log(space.id, 0, 100)
    assert [one.place for one in entries] == list(range(1, 32))  # 30 pages, and the one that all have shown


def test_a_host_without_the_lease_cannot_write_a_model(postgres, space):
    one, other = (Checkpoints(postgres.database, 60.0) for _ in range(2))
    fence = one.take_lease()
    assert other.take_lease() is None
    model = {"place": 0, "generation": 0, "names": ["é"], "status": {}, "state": b"s" * 10**6, "maps": b"m"}
    assert one.write(space.id, fence, **model) == 1
    assert postgres.served(space.id).maps == b"m"
    assert one.newest(space.id).state == b"s" * 10**6


def test_the_server_goes_and_comes_back(postgres_server, postgres, space, tmp_path):
    writer = Writer(postgres, tmp_path / "spool")
    wait_for(lambda: writer.problem is None)
    postgres_server.stop()
    try:
        result, seconds = timed(writer, space.id, page("s", "a"))
        assert (result[1], seconds < 0.3) == (False, True)
        wait_for(lambda: writer.problem is not None, 1.0)
        with pytest.raises(Unavailable, match="the database cannot be used"):
            postgres.spaces()
    finally:
        postgres_server.start()
    wait_for(lambda: [one.search_id for one in postgres.read_log(space.id, 0, 9)] == ["s"])
    wait_for(lambda: asyncio.run(writer.submit(space.id, page("after")))[1])
    writer.close()


def test_a_server_that_stands_still(postgres_server, postgres, space, tmp_path):
    writer = Writer(postgres, tmp_path / "spool")
    postgres.write([(space.id, page("before"))])
    started = time.monotonic()
    postgres_server.pause()
    try:
        result, seconds = timed(writer, space.id, page("s", "a"))
        assert (result[1], seconds < 0.3) == (False, True)
        wait_for(lambda: writer.problem is not None, 1.0)
        assert time.monotonic() - started < 1.0
    finally:
        postgres_server.resume()
    wait_for(lambda: [one.search_id for one in postgres.read_log(space.id, 0, 9)] == ["before", "s"])
    writer.close()

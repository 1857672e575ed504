"""The same store and the same learning in a Postgres server, which the tests start in a folder for temporary files."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from mahala_search.events.joining import Reaction
from mahala_search.serve.client import Client
from mahala_search.serve.experiment.report import control_report
from mahala_search.serve.service import Service
from mahala_search.serve.store.appends import KeyReused
from mahala_search.serve.store.collection_store import Store
from mahala_search.serve.store.database import Unavailable
from mahala_search.serve.store.keys import Keys
from mahala_search.serve.store.searches import Events, Search, delete_old_searches
from processes import COMMAND, Program

from .conftest import WIDTH, changed_rows, entries, new_items, wait_for

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'mahala-search[postgres]'")
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
INITDB = str(PROGRAMS[-1]) if PROGRAMS else shutil.which("initdb")
pytestmark = pytest.mark.skipif(INITDB is None, reason="Postgres is not installed: its package is postgresql")


class Server:
    """A Postgres server on a socket in a folder of its own; root starts it as nobody, since Postgres refuses root."""

    def __init__(self, folder: Path, initdb: str = INITDB) -> None:
        self.folder, self.data, self.initdb = folder, folder / "data", initdb
        self.user = {"user": "nobody"} if os.geteuid() == 0 else {}
        if self.user:
            shutil.chown(folder, "nobody")
        command = [initdb, "-D", self.data, "-U", "mahala", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, **self.user)
        self.address = f"postgresql://mahala@/postgres?host={folder}"
        self.start()

    def start(self):
        program = Path(self.initdb).with_name("postgres")
        command = [program, "-D", self.data, "-k", self.folder, "-c", "listen_addresses="]
        self.process = subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.user
        )
        for _ in range(200):
            if (self.folder / ".s.PGSQL.5432").exists() and self.answers():
                return
            time.sleep(0.05)
        raise RuntimeError("Postgres does not start")

    def answers(self):
        import psycopg

        try:
            psycopg.connect(self.address).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


@pytest.fixture(scope="module")
def server():
    # A short path: that of a socket may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        server = Server(Path(folder))
        yield server
        server.stop()


@pytest.fixture
def store(server):
    store = Store(server.address)
    for name in store.collections():
        store.drop(name)
    store.create("c", width=WIDTH, settings={})
    store.put_items("c", new_items())
    yield store
    store.close()


def test_items_and_log(store):
    given = entries(30)
    assert store.append("c", given) == list(range(1, 31))
    assert store.append("c", given[5:7]) == [6, 7]
    with pytest.raises(KeyReused):
        store.append("c", [given[1].__class__("impression", [1, 2], [1.0, 0.0], query=1, key="k0")])
    read = list(store.read_log("c"))
    assert [(one.key, one.shown, one.clicked) for one in read] == [(one.key, one.shown, one.clicked) for one in given]
    store.put_items("c", [new_items()[3]])
    assert store.delete_items("c", ["i4"]) == 1
    assert [row for row, *_ in changed_rows(store, 41)] == [3, 40, 4]
    token = Keys(store.database).create("read")
    assert Keys(store.database).find(token).role == "read"


def test_searches_count_for_the_control_share(store):
    store.configure("c", {"control": {"share": 0.5}})
    searches = [Search(f"s{at}", ["i0", "i1"], 0, arm="plain", clicked={"i1": (1.0, 1)} if at else {}) for at in (0, 1)]
    store.append_all([], [("c", search) for search in searches])
    arm = control_report(store.database, store.collection("c"))["arms"]["plain"]
    assert (arm["searches"], arm["click_rate"]["mean"], arm["mrr"]["mean"]) == (2, 0.5, 0.25)


def test_events_are_joined_with_searches(store):
    store.append_all([], [("c", Search("r", ["i3"], 0, user="u")), ("gone", Search("r", ["i3"], 0))])
    batch = Events([Search("s", ["i1", "i2"], vector=np.ones(WIDTH))], [Reaction("s", "i2", 1.0, "u", 9.0)])
    assert store.append_all([("c", batch), ("c", batch)]) == [[1], [1]]
    assert store.append_all([("c", Events([], [Reaction("r", "i3", 1.0, None, 9.0)]))]) == [[2]]
    assert [(one.shown, one.clicked, one.user) for one in store.read_log("c")] == [
        ([1, 2], [0, 1], "u"),
        ([3], [1], "u"),
    ]
    assert delete_old_searches(store.database, most=1) == 1
    assert store.forget_user("c", "u") == 2


def test_writers_at_once_get_places_without_gaps(server, store):
    places = []

    def write(seed):
        own = Store(server.address)
        for entry in entries(10, seed):
            places.extend(own.append("c", [type(entry)(entry.kind, entry.shown, entry.clicked, query=0)]))
        own.close()

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(places) == list(range(1, 41))


def test_two_processes_serve_one_learns_and_the_server_goes_and_comes_back(server, store):
    with Service(server.address, lease_seconds=1.0) as one, Service(server.address, lease_seconds=1.0) as other:
        last = asyncio.run(other.writer.append("c", entries(20)))[-1]
        wait_for(lambda: one.served("c").status()["learned"] == other.served("c").status()["learned"] == last)
        assert [own.learns for own in (one, other)].count(True) == 1
        server.stop()
        with pytest.raises(Unavailable, match="the database cannot be used"):
            asyncio.run(one.writer.append("c", entries(21)[20:]))
        assert one.search("c", {"item": "i0"})[1]  # from memory
        wait_for(lambda: one.problem is not None)
        server.start()
        wait_for(lambda: one.problem is None)
        (place,) = asyncio.run(one.writer.append("c", entries(21)[20:]))
        assert place == last + 1
        wait_for(lambda: one.served("c").status()["learned"] == other.served("c").status()["learned"] == place)
        assert one.search("c", {"item": "i0"}) == other.search("c", {"item": "i0"})


def test_several_server_processes_share_a_database(server, store, tmp_path):
    serve = "serve", "--database", server.address, "--workers", "2", "--port", "0"
    with Program(COMMAND, *serve, folder=tmp_path) as program:
        address = program.stdout.readline().strip()
        with Client(address, "c", timeout=60.0, attempts=5) as client:
            found = client.search(item="i3", k=3, user="u")
            assert client.event(found.search_id, found.ids[1]) == 1  # whichever process recorded the search
            assert len({client.impression(item="i1", shown=["i2", "i3"], clicked=["i3"]) for _ in range(8)}) == 8
            assert client.wait(9, 60.0)["learned"] == 9  # one process learns for all
        program.send(signal.SIGTERM)
        program.stdout.read(), program.stderr.read()
        assert program.wait() == 0

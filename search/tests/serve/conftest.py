"""A small collection and entries of its log, which the tests of the service share."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed: pip install 'mahala-search'")

from mahala_search.serve.store import database
from mahala_search.serve.store.collection_store import Store
from mahala_search.serve.store.rows import LogEntry, NewItem

WIDTH, N_ITEMS = 6, 40
SYNCHRONOUS = database._SYNCHRONOUS  # as it is outside of tests


def new_items(n=N_ITEMS, seed=0):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(n, WIDTH)).astype(np.float32)
    return [NewItem(f"i{at}", vector, {"number": at, "even": at % 2 == 0}) for at, vector in enumerate(vectors)]


def changed_rows(store, after=0):
    """Return the rows of the collection that changed: number, id, vector, payload, live, change."""
    return [row for block in store.changed_blocks("c", after) for row in zip(*block, strict=True)]


def entries(n, seed=0):
    """Return impressions of all forms: by row and by vector, with and without ids and users, graded or not."""
    rng = np.random.default_rng(seed)
    result = []
    for at in range(n):
        shown = rng.permutation(N_ITEMS)[:5].tolist()
        clicked = [float(value) for value in rng.integers(0, 2 + at % 2, size=5)]
        own = {"query": int(rng.integers(N_ITEMS))}
        if at % 3 == 0:
            own = {"vector": rng.normal(size=WIDTH).astype(np.float32).astype(np.float64)}
        own |= {"query_id": f"q{at % 7}"} if at % 4 else {}
        result.append(
            LogEntry("impression", shown, clicked, user=f"u{at % 3}" if at % 5 else None, key=f"k{at}", **own)
        )
    return result


@pytest.fixture
def service(tmp_path):
    """A service over a small collection; it does not learn."""
    from mahala_search.serve.service import Service

    with Service(tmp_path / "mahala.db", learn=False) as service:
        service.create("c", width=WIDTH)
        service.put_items("c", [item._asdict() for item in new_items()])
        yield service


def wait_for(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def served(service, **settings):
    """Serve in a thread; yield the address."""
    import uvicorn

    from mahala_search.serve.http.app import create_app
    from mahala_search.serve.http.guard import ServerSettings
    from mahala_search.serve.page.pages import pages

    bound = socket.create_server(("127.0.0.1", 0))
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    app = create_app(service, ServerSettings(**settings), pages())
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture(autouse=True, scope="session")
def _unsynchronised():
    """Let SQLite not wait for the disk, which takes longer than all the rest; no test cuts the power."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(database, "_SYNCHRONOUS", "OFF")
        yield


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "mahala.db")
    store.create("c", width=WIDTH, settings={})
    store.put_items("c", new_items())
    yield store
    store.close()

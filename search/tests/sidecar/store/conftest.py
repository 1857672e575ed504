"""A store with a space of vectors of two numbers."""

from __future__ import annotations

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

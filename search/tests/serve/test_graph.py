"""Graphs of large collections: candidates that are scored exactly, built in the background, kept in a file."""

from __future__ import annotations

import logging
import sys
import threading

import numpy as np
import pytest

from mahala_search.serve.index.graph import extended, read_graph, write_graph
from mahala_search.serve.index.item_index import payload_filter
from mahala_search.serve.service import Service
from mahala_search.serve.store.rows import NewItem

from .conftest import wait_for
from .test_item_index import best, filled, pairs

N, WIDTH, K = 3000, 16, 10


@pytest.fixture
def faiss():
    return pytest.importorskip("faiss", reason="FAISS is not installed: pip install 'mahala-search[ann]'")


def vectors(n=N, seed=0):
    """Return rows near a space of few dimensions, as embeddings are."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) @ np.random.default_rng(9).normal(size=(4, WIDTH)) + 0.2 * rng.normal(size=(n, WIDTH))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def items(X, first=0):
    return [{"id": f"i{first + at}", "vector": x, "payload": {"odd": at % 2}} for at, x in enumerate(X)]


def graph_of(service):
    return service.served("c").index.graph


@pytest.fixture
def graphed(faiss, tmp_path):
    """A file of a database, an index of its rows, and their graph."""
    X = vectors()
    store, index = filled(tmp_path, X, [{"odd": at % 2, "one": at == 7} for at in range(N)])
    index.graph = extended(index, None, threading.Event())
    yield store, index, X
    store.close()


def test_nearly_all_of_the_best_are_found_for_learned_queries_too(graphed):
    _, index, X = graphed
    live = np.ones(N, dtype=bool)
    rng = np.random.default_rng(1)
    for scale in (0.0, 0.3, 0.3):  # the same graph, whatever is learned
        M = np.eye(WIDTH) + scale * rng.normal(size=(WIDTH, WIDTH))
        for query in vectors(20, seed=2).astype(np.float64) @ M:
            wanted = best(X, live, query, K)
            assert len(set(pairs(index.search(query, K))) & set(wanted)) >= K - 1


def test_deleted_rows_are_not_found_and_later_ones_are(graphed):
    store, index, X = graphed
    query = X[0].astype(np.float64)
    gone = [one.row for one in index.search(query, 5)]
    store.delete_items("c", [f"i{row}" for row in gone])
    store.put_items("c", [NewItem("new", 2.0 * X[0], {}), NewItem("again", 2.0 * X[0], {})])
    index.refresh(store)
    found = index.search(query, K)
    assert [one.id for one in found[:2]] == ["new", "again"]  # equal ones in the order of their rows
    assert not set(gone) & {one.row for one in found}
    assert [one.id for one in index.search(query, 1, leave_out=N)] == ["again"]


def test_filters_that_leave_few_are_exact(graphed):
    _, index, X = graphed
    rng = np.random.default_rng(3)
    query = rng.normal(size=WIDTH)
    found = index.search(query, K, payload_filter({"odd": 1}))
    assert len(set(pairs(found)) & set(best(X, np.arange(N) % 2 == 1, query, K))) >= K - 1
    assert [one.row for one in index.search(query, K, payload_filter({"one": True}))] == [7]
    assert pairs(index.search(query, N + 1)) == best(X, np.ones(N, dtype=bool), query, N)


def test_a_file_is_read_only_if_it_is_whole_and_of_these_rows(graphed, tmp_path):
    _, index, X = graphed
    path = tmp_path / "a.graph"
    assert read_graph(path, index) is None
    write_graph(path, index, index.graph)
    known = read_graph(path, index)
    query = np.random.default_rng(4).normal(size=WIDTH)
    assert sorted(known.nearest(query, 50)) == sorted(index.graph.nearest(query, 50))
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], b"", b"[" + whole[1:]):
        path.write_bytes(damaged)
        assert read_graph(path, index) is None
    turned = bytearray(whole)
    turned[len(whole) // 2] ^= 1
    path.write_bytes(turned)
    assert read_graph(path, index) is None
    path.write_bytes(whole)
    (tmp_path / "other").mkdir()
    for others in (X[:100], -X):
        store, other = filled(tmp_path / "other", others)
        assert read_graph(path, other) is None
        store.drop("c")
        store.close()


def test_a_service_builds_extends_and_keeps_graphs(faiss, tmp_path):
    path, X = tmp_path / "mahala.db", vectors()
    with Service(path, learn=False, graph_beyond=N - 1) as service:
        service.create("c", width=WIDTH)
        service.put_items("c", items(X[: N - 1]))
        assert service.served("c").status()["graph"] == 0
        service.put_items("c", items(X[N - 1 :], N - 1))
        wait_for(lambda: graph_of(service) is not None)
        assert service.served("c").status()["graph"] == N
        first = graph_of(service)
        service.put_items("c", items(-X[:100], N))
        wait_for(lambda: graph_of(service).n == N + 100)
        assert (first.n, graph_of(service).last) == (N, N + 99)  # the one from before stays as it is
    file = tmp_path / "mahala.db.c.graph"
    written = file.stat().st_mtime_ns
    with Service(path, learn=False, graph_beyond=N - 1) as service:
        wait_for(lambda: graph_of(service) is not None)
        assert graph_of(service).n == N + 100
        assert file.stat().st_mtime_ns == written  # it was read
        service.delete_items("c", [f"i{at}" for at in range(60)])
        assert len(service.search("c", {"vector": X[0].tolist()}, K)[1]) == K
        service.delete_items("c", [f"i{at}" for at in range(60, 200)])
        wait_for(lambda: graph_of(service) is None)  # there are few again
        service.drop("c")
        assert not file.exists()


def test_a_graph_of_deleted_rows_is_built_again(faiss, tmp_path):
    X = vectors(600)
    with Service(tmp_path / "mahala.db", learn=False, graph_beyond=100) as service:
        service.create("c", width=WIDTH)
        service.put_items("c", items(X))
        wait_for(lambda: graph_of(service) is not None)
        service.delete_items("c", [f"i{at}" for at in range(400)])
        wait_for(lambda: graph_of(service).n == 200)


def test_without_faiss_all_items_are_read(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with (
        caplog.at_level(logging.WARNING, "mahala_search.serve"),
        Service(tmp_path / "mahala.db", learn=False, graph_beyond=10) as service,
    ):
        service.create("c", width=WIDTH)
        service.put_items("c", items(vectors(20)))
        wait_for(lambda: "pip install 'mahala-search[ann]'" in caplog.text)
        assert service.search("c", {"item": "i0"}, 3)[1]
        assert graph_of(service) is None

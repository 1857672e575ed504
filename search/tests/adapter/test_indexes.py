"""`embed` in real indexes: rankings are those of brute force.

The libraries are optional; tests of those that are not installed are skipped. The one of pgvector needs a server, which
the environment variable PGVECTOR_DSN names.
"""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import mahala_search

D, N_ITEMS, N_JUDGED, K = 12, 300, 30, 10


def library(name, extra="indexes"):
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install 'mahala[{extra}]'")


class World:
    """Items of length one, queries that are not, and an adapter."""

    def __init__(self):
        rng = np.random.default_rng(3)
        items = rng.normal(size=(N_ITEMS, D))
        self.items = (items / np.linalg.norm(items, axis=1, keepdims=True)).astype(np.float32)
        self.vectors = rng.normal(size=(N_ITEMS, D)).astype(np.float32)  # of the texts, if they are queries
        self.queries = self.vectors[N_JUDGED:60]
        taste = np.where(np.arange(D) < 3, 3.0, 0.3)
        wanted = np.argsort(-(self.vectors * taste) @ self.items.T, axis=1)
        self.qrels = [(i, j, 1) for i in range(N_JUDGED) for j in wanted[i, :5]]
        self.adapter = mahala_search.QueryAdapter(random_state=0).fit(self.vectors[:N_JUDGED], self.items, self.qrels)
        self.best = self.adapter.metric_.rank(self.queries, self.items, K)


@pytest.fixture(scope="module")
def world():
    return World()


def test_the_map_changes_rankings(world):
    raw = np.argsort(-world.queries @ world.items.T, axis=1)[:, :K]
    assert not (raw == world.best).all(axis=1).any()
    assert np.array_equal(world.adapter.rank(world.queries, world.items, K), world.best)


def test_faiss(world):
    faiss = library("faiss")
    index = faiss.IndexFlatIP(D)
    index.add(world.items)
    _, result = index.search(world.adapter.embed(world.queries).astype(np.float32), K)
    assert np.array_equal(result, world.best)


def test_usearch(world):
    index = library("usearch.index").Index(ndim=D, metric="ip", dtype="f32")
    index.add(np.arange(N_ITEMS), world.items)
    result = index.search(world.adapter.embed(world.queries).astype(np.float32), K, exact=True)
    assert np.array_equal(result.keys, world.best)


@pytest.mark.parametrize("distance", ["DOT", "COSINE", "EUCLID"])
def test_qdrant_under_any_distance_since_the_items_have_length_one(world, distance):
    models = library("qdrant_client.models")
    from qdrant_client import QdrantClient

    client = QdrantClient(":memory:")
    vectors = models.VectorParams(size=D, distance=models.Distance[distance])
    client.create_collection("items", vectors_config=vectors)
    client.upsert("items", [models.PointStruct(id=i, vector=row.tolist()) for i, row in enumerate(world.items)])
    for query, best in zip(world.queries, world.best, strict=True):
        result = client.query_points("items", query=world.adapter.embed(query).tolist(), limit=K).points
        assert [point.id for point in result] == best.tolist()
    client.close()


def test_pgvector_literals_keep_every_digit(world):
    for query in world.queries:
        vector = world.adapter.embed(query) * 1e-9  # with exponents
        literal = str(vector.tolist())
        assert set(literal) <= set("[]0123456789.,- e")
        assert np.array_equal(json.loads(literal), vector)


def test_pgvector(world):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install psycopg")
    if not os.environ.get("PGVECTOR_DSN"):
        pytest.skip("PGVECTOR_DSN, which names a Postgres server with pgvector, is not set")
    with psycopg.connect(os.environ["PGVECTOR_DSN"]) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        cursor.execute(f"CREATE TEMP TABLE items (id integer, embedding vector({D}))")
        cursor.executemany(
            "INSERT INTO items VALUES (%s, %s)", [(i, str(x.tolist())) for i, x in enumerate(world.items)]
        )
        for query, best in zip(world.queries, world.best, strict=True):
            literal = str(world.adapter.embed(query).tolist())
            cursor.execute("SELECT id FROM items ORDER BY embedding <#> %s::vector LIMIT %s", [literal, K])
            assert [number for (number,) in cursor] == best.tolist()


def test_torch_linear_layer_with_the_weights_of_the_metric(world):
    torch = library("torch", "sentence-transformers")
    M = world.adapter.metric_.matrix
    layer = torch.nn.Linear(*M.shape, bias=False)
    layer.weight.data = torch.tensor(M.T, dtype=torch.float32)
    mapped = layer(torch.tensor(world.queries)).detach().numpy()
    assert np.array_equal(np.argsort(-mapped @ world.items.T, axis=1)[:, :K], world.best)

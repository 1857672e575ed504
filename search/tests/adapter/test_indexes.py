"""`embed` in real indexes, and `adapt_queries` on real embedding models: rankings are those of brute force.

The libraries are optional; tests of those that are not installed are skipped. The one of pgvector needs a server, which
the environment variable PGVECTOR_DSN names.
"""

from __future__ import annotations

import asyncio
import json
import os

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import mahala_search

D, N_ITEMS, N_JUDGED, K = 12, 300, 30, 10
TEXTS = [str(i) for i in range(N_ITEMS)]


def library(name, extra="indexes"):
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install 'mahala[{extra}]'")


class World:
    """Items of length one, queries that are not, and an adapter that knows some of them by their texts."""

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
        for _ in range(3):
            for i in range(10):
                shown = np.argsort(-self.items @ self.vectors[i])[:K]
                self.adapter.learn_one(self.vectors[i], self.items[shown], np.arange(K) < 2, query_id=TEXTS[i])
        self.best = self.adapter.metric_.rank(self.queries, self.items, K)


@pytest.fixture(scope="module")
def world():
    return World()


def test_the_map_changes_rankings(world):
    raw = np.argsort(-world.queries @ world.items.T, axis=1)[:, :K]
    assert not (raw == world.best).all(axis=1).any()
    assert np.array_equal(world.adapter.rank(world.queries, world.items, K), world.best)


# ------------------------------------------------------------------------------------------------------------ indexes


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


# ----------------------------------------------------------------------------------------------------------- wrappers


def langchain_model(world):
    library("langchain_core")
    from langchain_core.embeddings import Embeddings

    class Lookup(Embeddings):
        def embed_documents(self, texts):
            return [world.items[int(text)].tolist() for text in texts]

        def embed_query(self, text):
            return world.vectors[int(text)].tolist()

    return Lookup()


def llama_index_model(world):
    library("llama_index.core")
    from llama_index.core.embeddings import BaseEmbedding

    class Lookup(BaseEmbedding):
        def _get_text_embedding(self, text):
            return world.items[int(text)].tolist()

        def _get_query_embedding(self, query):
            return world.vectors[int(query)].tolist()

        async def _aget_query_embedding(self, query):
            return self._get_query_embedding(query)

    return Lookup(model_name="lookup", embed_batch_size=7)


def sentence_transformer(world):
    library("sentence_transformers", "sentence-transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    words = Tokenizer(WordLevel({text: i for i, text in enumerate(TEXTS)}, unk_token="0"))
    return SentenceTransformer(modules=[StaticEmbedding(words, world.vectors)], device="cpu", similarity_fn_name="dot")


def test_langchain_queries_are_mapped_and_documents_are_not(world):
    model = mahala_search.adapt_queries(langchain_model(world), world.adapter)
    assert model.embed_documents(TEXTS) == world.items.tolist()
    assert asyncio.run(model.aembed_documents(TEXTS[:3])) == world.items[:3].tolist()
    for i in (0, 40):  # known and new
        mapped = world.adapter.embed(world.vectors[i], query_id=TEXTS[i]).tolist()
        assert model.embed_query(TEXTS[i]) == asyncio.run(model.aembed_query(TEXTS[i])) == pytest.approx(mapped)


def test_langchain_store_ranks_as_brute_force_does(world):
    model = mahala_search.adapt_queries(langchain_model(world), world.adapter)
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(model)
    store.add_texts(TEXTS)
    for i, best in enumerate(world.best, start=N_JUDGED):
        assert [int(result.page_content) for result in store.similarity_search(TEXTS[i], k=K)] == best.tolist()


def test_llama_index_queries_are_mapped_and_documents_are_not(world):
    model = mahala_search.adapt_queries(llama_index_model(world), world.adapter)
    assert (model.model_name, model.embed_batch_size) == ("lookup", 7)
    assert model.get_text_embedding_batch(TEXTS) == world.items.tolist()
    assert model.get_text_embedding("5") == world.items[5].tolist()
    assert asyncio.run(model.aget_text_embedding("5")) == world.items[5].tolist()
    assert asyncio.run(model.aget_text_embedding_batch(TEXTS[:9])) == world.items[:9].tolist()
    for i in (0, 40):
        mapped = world.adapter.embed(world.vectors[i], query_id=TEXTS[i]).tolist()
        assert model.get_query_embedding(TEXTS[i]) == pytest.approx(mapped)
        assert asyncio.run(model.aget_query_embedding(TEXTS[i])) == pytest.approx(mapped)


def test_llama_index_retriever_ranks_as_brute_force_does(world):
    model = mahala_search.adapt_queries(llama_index_model(world), world.adapter)
    from llama_index.core import VectorStoreIndex
    from llama_index.core.schema import TextNode

    retriever = VectorStoreIndex([TextNode(text=text) for text in TEXTS], embed_model=model).as_retriever(
        similarity_top_k=K
    )
    for i, best in enumerate(world.best[:10], start=N_JUDGED):
        assert [int(result.node.text) for result in retriever.retrieve(TEXTS[i])] == best.tolist()


def test_wrapped_models_follow_the_adapter(world):
    adapter = mahala_search.QueryAdapter(random_state=0)
    model = langchain_model(world)
    adapter.learn_one(world.vectors[0], world.items[:5], [0, 0, 1, 0, 0])
    wrapped = mahala_search.adapt_queries(model, adapter)
    before = wrapped.embed_query("1")
    adapter.fit(world.vectors[:N_JUDGED], world.items, world.qrels)
    assert not np.allclose(wrapped.embed_query("1"), before)


def test_sentence_transformer_maps_queries_only_and_survives_a_file(world, tmp_path):
    base = sentence_transformer(world)
    model = mahala_search.adapt_queries(base, world.adapter)
    model.save_pretrained(str(tmp_path))
    texts = TEXTS[N_JUDGED:60]
    from sentence_transformers import SentenceTransformer

    for each in model, SentenceTransformer(str(tmp_path), device="cpu"):
        mapped = each.encode_query(texts)
        np.testing.assert_allclose(mapped, world.adapter.embed(world.queries), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(each.encode_query(texts[0]), mapped[0], rtol=1e-6)
        assert np.array_equal(np.argsort(-mapped @ world.items.T, axis=1)[:, :K], world.best)
        for documents in each.encode_document(texts), each.encode(texts):
            assert np.array_equal(documents, base.encode(texts))
        assert each.similarity_fn_name == "dot"


def test_sentence_transformer_of_another_width_is_refused(world):
    model = sentence_transformer(world)
    model.truncate_dim = D // 2
    with pytest.raises(ValueError, match="model must give all of the adapter's 12 features, got 6"):
        mahala_search.adapt_queries(model, world.adapter)


def test_torch_linear_layer_with_the_weights_of_the_metric(world):
    torch = library("torch", "sentence-transformers")
    M = world.adapter.metric_.matrix
    layer = torch.nn.Linear(*M.shape, bias=False)
    layer.weight.data = torch.tensor(M.T, dtype=torch.float32)
    mapped = layer(torch.tensor(world.queries)).detach().numpy()
    assert np.array_equal(np.argsort(-mapped @ world.items.T, axis=1)[:, :K], world.best)


def test_adapt_queries_says_what_it_takes(world):
    with pytest.raises(TypeError, match=r"model must be one of langchain_core's Embeddings, .*, got object"):
        mahala_search.adapt_queries(object(), world.adapter)
    with pytest.raises(TypeError, match="adapter must be a QueryAdapter, got BilinearMetric"):
        mahala_search.adapt_queries(object(), world.adapter.metric_)
    with pytest.raises(NotFittedError):
        mahala_search.adapt_queries(object(), mahala_search.QueryAdapter())

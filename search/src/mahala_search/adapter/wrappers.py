"""adapt_queries: an embedding model of another library, with its queries mapped by an adapter."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mahala_search.adapter.query_adapter import QueryAdapter


def adapt_queries(model: Any, adapter: QueryAdapter) -> Any:
    """Return an embedding model of the same library that maps queries by an adapter and leaves documents as they are.

    Wrapped LangChain and LlamaIndex models ask the adapter for every query, so they follow what it learns. The text of
    a query is its id: give `learn_one` the text as `query_id`, and queries that are known are served as such. A
    SentenceTransformer gets the map for new queries as weights, a copy that `save_pretrained` writes to its files and
    that is loaded without mahala; it needs `encode_query` and `encode_document`, and `encode` alone maps nothing.

    Parameters
    ----------
    model : LangChain `Embeddings`, LlamaIndex `BaseEmbedding` or `SentenceTransformer`
    adapter : QueryAdapter that has learned from vectors of this model
    """
    if not isinstance(adapter, QueryAdapter):
        raise TypeError(f"adapter must be a QueryAdapter, got {type(adapter).__name__}")
    adapter._check_fitted()
    # A model's class tells its library without importing the other two.
    for kind in type(model).__mro__:
        if wrap := _WRAPPERS.get((kind.__module__.split(".")[0], kind.__name__)):
            return wrap(model, adapter)
    kinds = ", ".join(f"{library}'s {name}" for library, name in _WRAPPERS)
    raise TypeError(f"model must be one of {kinds}, got {type(model).__name__}: call adapter.embed on its vectors")


def _langchain(model: Any, adapter: QueryAdapter) -> Any:
    from langchain_core.embeddings import Embeddings

    class AdaptedEmbeddings(Embeddings):
        def embed_documents(self, texts: list[str]) -> Any:
            return model.embed_documents(texts)

        def embed_query(self, text: str) -> list[float]:
            return _mapped(adapter, model.embed_query(text), text)

        async def aembed_documents(self, texts: list[str]) -> Any:
            return await model.aembed_documents(texts)

        async def aembed_query(self, text: str) -> list[float]:
            return _mapped(adapter, await model.aembed_query(text), text)

    return AdaptedEmbeddings()


def _llama_index(model: Any, adapter: QueryAdapter) -> Any:
    from llama_index.core.embeddings import BaseEmbedding

    # The public methods of the model are called, so that its cache, limits and callbacks still work.
    class AdaptedEmbedding(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> Any:
            return model.get_text_embedding(text)

        def _get_text_embeddings(self, texts: list[str]) -> Any:
            return model.get_text_embedding_batch(texts)

        def _get_query_embedding(self, query: str) -> list[float]:
            return _mapped(adapter, model.get_query_embedding(query), query)

        async def _aget_text_embedding(self, text: str) -> Any:
            return await model.aget_text_embedding(text)

        async def _aget_text_embeddings(self, texts: list[str]) -> Any:
            return await model.aget_text_embedding_batch(texts)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return _mapped(adapter, await model.aget_query_embedding(query), query)

    return AdaptedEmbedding(model_name=model.model_name, embed_batch_size=model.embed_batch_size)


def _mapped(adapter: QueryAdapter, vector: list[float], text: str) -> list[float]:
    mapped: list[float] = adapter.embed(np.asarray(vector, dtype=float), query_id=text).tolist()
    return mapped


def _sentence_transformers(model: Any, adapter: QueryAdapter) -> Any:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Dropout, Router

    n, width = adapter.n_features_in_, model.get_embedding_dimension()
    if n != width or model.truncate_dim is not None:
        raise ValueError(f"model must give all of the adapter's {n} features, got {width} or a model with truncate_dim")
    weight = torch.tensor(adapter.metric_.matrix.T, dtype=model.dtype)
    query = Dense(n, n, bias=False, activation_function=None, init_weight=weight)
    # A route needs a module; one that drops nothing is the identity.
    router = Router({"query": [query], "document": [Dropout(0.0)]}, default_route="document")
    names = ("device", "prompts", "default_prompt_name", "similarity_fn_name")
    return SentenceTransformer(modules=[*model, router], **{name: getattr(model, name) for name in names})


_WRAPPERS: dict[tuple[str, str], Callable[[Any, QueryAdapter], Any]] = {
    ("langchain_core", "Embeddings"): _langchain,
    ("llama_index", "BaseEmbedding"): _llama_index,
    ("sentence_transformers", "SentenceTransformer"): _sentence_transformers,
}

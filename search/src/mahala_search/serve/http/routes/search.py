"""The routes that search: /v1/collections/{name}/search, explain, and rerank, for the results of another engine."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from fastapi import Body as Given
from fastapi import Depends, FastAPI
from pydantic import Field, FiniteFloat, Tag, model_validator
from starlette.responses import JSONResponse

from mahala_search.adapter.trust.signals import SIGNALS
from mahala_search.serve.http import responses
from mahala_search.serve.http.guard import Guard, Visit, user_of
from mahala_search.serve.http.quick_route import QuickRoute
from mahala_search.serve.http.schemas import (
    COLLECTION,
    FORM,
    PAGE,
    Body,
    Id,
    Name,
    Payload,
    QueryBody,
    SignalName,
    Vector,
)
from mahala_search.serve.index.causes import RECENT, causes
from mahala_search.serve.index.item_index import Found
from mahala_search.serve.searches import Reranked, listed_signals, reranked, search_in_arm
from mahala_search.serve.service import Service
from mahala_search.serve.store.database import Unavailable
from mahala_search.serve.store.keys import ApiKey
from mahala_search.serve.store.rows import SignalLists

# Searches that wait or run, in all requests, beyond which more are refused.
MOST_SEARCHES = 256
_SEARCH = {"query": {"text": "spicy noodle soup"}, "k": 5, "filter": {"diet": "vegan"}}
_CANDIDATES = [
    {"id": "Salmorejo", "score": 9.1, "signals": {"popularity": 120, "age": 3.5}},
    {"id": "Tarator", "score": 7.4, "signals": {"popularity": 310, "age": None}},
]
_RERANK = {"query": {"item": "Gazpacho"}, "candidates": _CANDIDATES, "user": "u17"}


class SearchBody(Body, json_schema_extra={"examples": [_SEARCH]}):
    """A search. With `plain`, the plain ranking is returned as well."""

    query: QueryBody
    k: Annotated[int, Field(ge=1, le=1000)] = 10
    filter: Payload | None = None
    plain: bool = False
    user: Id | None = None


class ExplainBody(Body):
    """A query and an item that was found for it; `n` contributions are returned at most."""

    query: QueryBody
    item: Id
    n: Annotated[int, Field(ge=1, le=100)] = 5


class CandidateBody(Body):
    """A result of another engine: its score there, other signals, and a vector if the collection does not have it."""

    id: Id
    score: FiniteFloat
    signals: Annotated[dict[SignalName, FiniteFloat | None], Field(max_length=SIGNALS - 1)] = Field(
        default_factory=dict
    )
    vector: Vector | None = None


class RerankBody(Body, json_schema_extra={"examples": [_RERANK]}):
    """A query, and the candidates for it in the order of the engine; the k best of them are returned, or all."""

    query: QueryBody
    candidates: Annotated[list[CandidateBody], Field(min_length=1, max_length=PAGE)]
    k: Annotated[int, Field(ge=1, le=PAGE)] = PAGE
    user: Id | None = None

    @model_validator(mode="after")
    def _check(self) -> RerankBody:
        if len({one.id for one in self.candidates}) < len(self.candidates):
            raise ValueError("candidates must have each id once")
        return self


Searches = Annotated[
    Annotated[SearchBody, Tag("one")] | Annotated[list[SearchBody], Field(min_length=1, max_length=64), Tag("list")],
    FORM,
]


def _listed(found: list[Found]) -> list[dict[str, Any]]:
    return [{"id": one.id, "score": one.score, "payload": one.payload} for one in found]


def add_search(app: FastAPI, service: Service, guard: Guard) -> None:
    key_of = Depends(guard.needs("read"))
    # As many at once as there are cores: more would only slow each other down.
    searchers = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="mahala-search")
    n_waiting = 0

    def answer(name: str, body: SearchBody, user: str | None) -> dict[str, Any]:
        query = service.resolve(name, body.query.model_dump())

        def ranking(plain: bool) -> tuple[int, list[Found]]:
            return service.search(name, query, body.k, body.filter, plain, user)

        # Who sees both rankings is in no arm.
        search, found = search_in_arm(service, name, user, query, body.k, ranking, compared=not body.plain)
        search["results"] = _listed(found)
        if body.plain:
            search["plain"] = _listed(service.search(name, query, body.k, body.filter, plain=True)[1])
        return search

    async def search(
        name: Name, body: Annotated[Searches, Given()], key: ApiKey = key_of, visit: Visit = None
    ) -> JSONResponse:
        """Find the best items for a query, or for each of a list of queries; events can name the `search_id`."""
        nonlocal n_waiting
        searches = body if isinstance(body, list) else [body]
        if n_waiting + len(searches) > MOST_SEARCHES:
            raise Unavailable(f"{n_waiting} searches wait already: try again later")
        n_waiting += len(searches)
        try:
            users = [user_of(key, one.user, visit) for one in searches]
            run = asyncio.get_running_loop().run_in_executor
            answers = await run(searchers, lambda: [answer(name, *one) for one in zip(searches, users, strict=True)])
        finally:
            n_waiting -= len(searches)
        return JSONResponse(answers if isinstance(body, list) else answers[0])

    searched: Any = responses.Searched | list[responses.Searched]
    options: dict[str, Any] = {"methods": ["POST"], "tags": ["search"], "response_model": searched}
    app.router.add_api_route(f"{COLLECTION}/search", search, route_class_override=QuickRoute, **options)

    @app.post(f"{COLLECTION}/explain", tags=["search"], response_model=responses.Explanation)
    def explain(name: Name, body: ExplainBody, key: ApiKey = key_of, visit: Visit = None) -> Any:
        """Say how the score of an item comes about: how much is plain, how much is learned, by what and by whom."""
        query, served = service.resolve(name, body.query.model_dump()), service.served(name)
        row, model, index = service.row(name, body.item), served.model, served.index
        entries = service.store.read_log(name, max(0, model.place - RECENT), RECENT) if model.version else []
        user = user_of(key, None, visit)
        people = {"causes": causes(entries, index, query, row, body.n, user)}
        return {"version": model.version, "item": body.item, **served.explain(query, row, body.n, user), **people}

    @app.post(f"{COLLECTION}/rerank", tags=["search"], response_model=responses.RerankedList)
    def rerank(name: Name, body: RerankBody, key: ApiKey = key_of, visit: Visit = None) -> dict[str, Any]:
        """Order the results of another engine by its scores and learned signals; events can name the `search_id`."""
        user, query = user_of(key, body.user, visit), service.resolve(name, body.query.model_dump())
        candidates = [dict(one) for one in body.candidates]

        def ranking(plain: bool) -> tuple[int, list[Reranked]]:
            version, found = reranked(service, name, query, candidates, plain, user)
            return version, found[: body.k]

        def signals_of(found: list[Reranked]) -> SignalLists:
            return listed_signals([candidates[one.position] for one in found])

        search, found = search_in_arm(service, name, user, query, body.k, ranking, signals_of=signals_of)
        return {**search, "results": found}

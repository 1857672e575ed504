"""The routes that search: /v1/collections/{name}/search and explain."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from fastapi import Body as Given
from fastapi import FastAPI
from pydantic import Field
from starlette.responses import JSONResponse

from mahala.serve.http.guard import Guard
from mahala.serve.http.schemas import COLLECTION, SEARCHES, Body, Id, Name, Payload, QueryBody
from mahala.serve.index.item_index import Found
from mahala.serve.service import Service

_EXAMPLE = {"query": {"item": "numpy.mean"}, "k": 5, "filter": {"library": "scipy"}}


class SearchBody(Body, json_schema_extra={"examples": [_EXAMPLE]}):
    """A search. With `plain`, the plain ranking is returned as well."""

    query: QueryBody
    k: Annotated[int, Field(ge=1, le=1000)] = 10
    filter: Payload | None = None
    plain: bool = False


class ExplainBody(Body):
    """A query and an item that was found for it; `n` contributions are returned at most."""

    query: QueryBody
    item: Id
    n: Annotated[int, Field(ge=1, le=100)] = 5


Searches = SearchBody | Annotated[list[SearchBody], Field(min_length=1, max_length=SEARCHES)]


def add_search(app: FastAPI, service: Service, guard: Guard) -> None:
    """Add the routes that search to an app."""
    reader = guard.route("search", "read")
    # As many at once as there are cores: more would only slow each other down.
    searchers = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="mahala-search")

    @app.post(f"{COLLECTION}/search", **reader)
    async def search(name: Name, given: Annotated[Searches, Given()]) -> JSONResponse:
        """Find the best items for a query, or for each of a list of queries."""

        def answers() -> list[dict[str, Any]]:
            return [_search(service, name, one) for one in (given if isinstance(given, list) else [given])]

        found = await asyncio.get_running_loop().run_in_executor(searchers, answers)
        return JSONResponse(found if isinstance(given, list) else found[0])

    @app.post(f"{COLLECTION}/explain", **reader)
    def explain(name: Name, given: ExplainBody) -> dict[str, Any]:
        """Say how the score of an item comes about: how much is plain, how much is learned, and by what."""
        query, served = service.resolve(name, given.query.model_dump()), service.served(name)
        row = service.row(name, given.item)
        return {"version": served.model.version, "item": given.item, **served.explain(query, row, given.n)}


def _search(service: Service, name: str, given: SearchBody) -> dict[str, Any]:
    query = service.resolve(name, given.query.model_dump())
    version, found, plain = service.compared(name, query, given.k, given.filter, given.plain)
    answer: dict[str, Any] = {"version": version, "results": [_result(one) for one in found]}
    return answer | ({"plain": [_result(one) for one in plain]} if given.plain else {})


def _result(found: Found) -> dict[str, Any]:
    return {"id": found.id, "score": found.score, "payload": found.payload}

"""The routes of collections, their items, search in them, and what was learned: /v1/collections."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from fastapi import Body as Given
from fastapi import Depends, FastAPI, Query
from pydantic import Field, Tag
from starlette.responses import FileResponse, JSONResponse, StreamingResponse

from mahala.serve.http import responses
from mahala.serve.http.guard import Guard, Visit, user_of
from mahala.serve.http.quick_route import QuickRoute
from mahala.serve.http.schemas import (
    COLLECTION,
    FORM,
    ITEMS,
    WIDEST,
    Body,
    Id,
    Name,
    Number,
    Payload,
    QueryBody,
    UserId,
    Vector,
    Version,
)
from mahala.serve.index.causes import RECENT, causes
from mahala.serve.index.item_index import Found
from mahala.serve.searches import search_in_arm
from mahala.serve.service import Service
from mahala.serve.store.checkpoints import Version as KeptVersion
from mahala.serve.store.database import Unavailable
from mahala.serve.store.files import image_file, log_lines
from mahala.serve.store.keys import ApiKey

# Searches that wait or run, in all requests, beyond which more are refused.
MOST_SEARCHES = 256
_ITEM = {"id": "alien", "vector": [0.1, 0.9], "payload": {"year": 1979}}
_SEARCH = {"query": {"text": "spicy noodle soup"}, "k": 5, "filter": {"diet": "vegan"}}


class ItemBody(Body, json_schema_extra={"examples": [_ITEM]}):
    """An item: its id, its vector, and what is shown and filtered by."""

    id: Id
    vector: Vector
    payload: Payload = Field(default_factory=dict)


class CollectionBody(Body):
    """A new collection: the number of numbers in a vector, and the learners."""

    width: Annotated[int, Field(ge=1, le=WIDEST)]
    settings: Payload = Field(default_factory=dict)


class IdsBody(Body):
    """Ids of items."""

    ids: Annotated[list[Id], Field(min_length=1, max_length=ITEMS)]


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


class VersionBody(Body):
    """The version to serve: one that is kept, 0 for the plain ranking, or null for the newest."""

    version: Version | None


Items = Annotated[list[ItemBody], Field(min_length=1, max_length=ITEMS)]
Searches = Annotated[
    Annotated[SearchBody, Tag("one")] | Annotated[list[SearchBody], Field(min_length=1, max_length=64), Tag("list")],
    FORM,
]


def _listed(found: list[Found]) -> list[dict[str, Any]]:
    return [{"id": one.id, "score": one.score, "payload": one.payload} for one in found]


def add_search(app: FastAPI, service: Service, guard: Guard) -> None:
    """Add the routes that search to an app."""
    key_of = Depends(guard.needs("read"))
    # As many at once as there are cores: more would only slow each other down.
    searchers = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="mahala-search")
    n_waiting = 0

    def answer(name: str, given: SearchBody, user: str | None) -> dict[str, Any]:
        query = service.resolve(name, given.query.model_dump())

        def ranking(plain: bool) -> tuple[int, list[Found]]:
            return service.search(name, query, given.k, given.filter, plain, user)

        # Who sees both rankings is in no arm.
        search, found = search_in_arm(service, name, user, query, given.k, ranking, compared=not given.plain)
        search["results"] = _listed(found)
        if given.plain:
            search["plain"] = _listed(service.search(name, query, given.k, given.filter, plain=True)[1])
        return search

    async def search(
        name: Name, given: Annotated[Searches, Given()], key: ApiKey = key_of, visit: Visit = None
    ) -> JSONResponse:
        """Find the best items for a query, or for each of a list of queries; events can name the `search_id`."""
        nonlocal n_waiting
        searches = given if isinstance(given, list) else [given]
        if n_waiting + len(searches) > MOST_SEARCHES:
            raise Unavailable(f"{n_waiting} searches wait already: try again later")
        n_waiting += len(searches)
        try:
            users = [user_of(key, one.user, visit) for one in searches]
            run = asyncio.get_running_loop().run_in_executor
            answers = await run(searchers, lambda: [answer(name, *one) for one in zip(searches, users, strict=True)])
        finally:
            n_waiting -= len(searches)
        return JSONResponse(answers if isinstance(given, list) else answers[0])

    searched: Any = responses.Searched | list[responses.Searched]
    options: dict[str, Any] = {"methods": ["POST"], "tags": ["search"], "response_model": searched}
    app.router.add_api_route(f"{COLLECTION}/search", search, route_class_override=QuickRoute, **options)

    @app.post(f"{COLLECTION}/explain", tags=["search"], response_model=responses.Explanation)
    def explain(name: Name, given: ExplainBody, key: ApiKey = key_of, visit: Visit = None) -> Any:
        """Say how the score of an item comes about: how much is plain, how much is learned, by what and by whom."""
        query, served = service.resolve(name, given.query.model_dump()), service.served(name)
        row, model, index = service.row(name, given.item), served.model, served.index
        entries = service.store.read_log(name, max(0, model.place - RECENT), RECENT) if model.version else []
        user = user_of(key, None, visit)
        people = {"causes": causes(entries, index, query, row, given.n, user)}
        return {"version": model.version, "item": given.item, **served.explain(query, row, given.n, user), **people}


def add_items(app: FastAPI, service: Service, guard: Guard) -> None:
    """Add the routes of collections and items to an app."""
    reader, admin = guard.route("items", "read"), guard.route("items", "admin")

    def about(name: str) -> dict[str, Any]:
        served = service.served(name)
        sizes = {"width": served.collection.width, "items": len(served.index)}
        more = {"images": name in service.images, "examples": service.examples.get(name, [])}
        return {"name": name, **sizes, "text": name in service.encoders, **more}

    @app.get("/v1/collections", **reader, response_model=list[responses.CollectionSummary])
    def collections() -> list[dict[str, Any]]:
        """List the collections."""
        return [about(name) for name in service.names()]

    @app.put(
        COLLECTION, **admin, status_code=201, response_model=responses.CollectionSummary, responses=responses.CONFLICT
    )
    def create(name: Name, given: CollectionBody) -> dict[str, Any]:
        """Make an empty collection."""
        service.create(name, width=given.width, settings=given.settings)
        return about(name)

    @app.delete(COLLECTION, **admin, response_model=responses.Dropped)
    def drop(name: Name) -> dict[str, str]:
        """Remove a collection with its items, its log and its models."""
        service.drop(name)
        return {"dropped": name}

    @app.get(f"{COLLECTION}/items", **reader, response_model=responses.ItemList)
    def items(
        name: Name,
        start: Annotated[Number, Query(ge=0, le=2**53)] = 0,
        n: Annotated[Number, Query(ge=1, le=1000)] = 100,
        like: Annotated[str, Query(max_length=256)] = "",
    ) -> dict[str, Any]:
        """List items in their order, with the number of all; or only those with `like` in their ids or titles."""
        index = service.served(name).index
        return {"n": len(index), "items": [one.shown() for one in index.items(start, n, like)]}

    @app.put(f"{COLLECTION}/items", **admin, response_model=responses.Count)
    def put(name: Name, given: Items) -> dict[str, int]:
        """Add items; each replaces the one with the same id."""
        return {"n": service.put_items(name, [one.model_dump() for one in given])}

    @app.post(f"{COLLECTION}/items/delete", **admin, response_model=responses.Count)
    def delete(name: Name, given: IdsBody) -> dict[str, int]:
        """Delete items."""
        return {"n": service.delete_items(name, given.ids)}

    @app.get(f"{COLLECTION}/images/{{file:path}}", **reader, response_class=FileResponse, responses=responses.IMAGE)
    def image(name: Name, file: str) -> FileResponse:
        """Return an image of the folder that was given with the items."""
        service.served(name)
        path, media_type = image_file(service.images.get(name), file)
        return FileResponse(path, media_type=media_type)

    @app.get(f"{COLLECTION}/items/{{id:path}}", **reader, response_model=responses.ItemWithVector)
    def item(name: Name, id: str) -> dict[str, Any]:
        """Return an item with its vector."""
        index, row = service.served(name).index, service.row(name, id)
        return {**index.item(row).shown(), "vector": index.vector(row).tolist()}


def add_models(app: FastAPI, service: Service, guard: Guard) -> None:
    """Add the routes of what was learned to an app."""
    reader, admin = guard.route("models", "read"), guard.route("models", "admin")

    @app.get(f"{COLLECTION}/model", **reader, response_model=responses.Status)
    def model(name: Name) -> dict[str, Any]:
        """Return what is served, the status of each learner, and which one is ahead."""
        return service.status(name)

    @app.put(f"{COLLECTION}/model", **admin, response_model=responses.Status)
    def configure(name: Name, given: Annotated[Payload, Given()]) -> dict[str, Any]:
        """Change which learners there are and which one is served; new learners learn from the whole log."""
        service.configure(name, given)
        return service.status(name)

    @app.get(f"{COLLECTION}/spectrum", **reader, response_model=responses.Spectrum)
    def spectrum(name: Name, n: Annotated[Number, Query(ge=1, le=1000)] = 24) -> dict[str, Any]:
        """Return the largest singular values of M - I: how far the served maps are from the plain ranking."""
        served = service.served(name)
        return {"version": served.model.version, **served.spectrum(n)}

    @app.get(f"{COLLECTION}/versions", **reader, response_model=list[KeptVersion])
    def versions(name: Name) -> list[KeptVersion]:
        """List the versions that are kept, the newest first."""
        return service.versions(name)

    @app.put(f"{COLLECTION}/versions/served", **admin, response_model=responses.Status)
    def pin(name: Name, given: VersionBody) -> dict[str, Any]:
        """Roll back to a version that is kept, or follow the newest; learning continues."""
        service.pin(name, given.version)
        return service.status(name)

    @app.get(f"{COLLECTION}/control", **reader, response_model=responses.ControlReport)
    def control(name: Name) -> dict[str, Any]:
        """Return what people did with the learned ranking and with the plain one, and the difference."""
        return service.reports.of(service.served(name).collection)

    @app.delete(f"{COLLECTION}/users/{{user:path}}", **admin, response_model=responses.Count)
    def forget(name: Name, user: UserId) -> dict[str, int]:
        """Delete a user's entries from the log and searches, and learn again without them."""
        return {"n": service.forget_user(name, user)}

    @app.get(f"{COLLECTION}/log", **admin, response_class=StreamingResponse, responses=responses.LINES)
    def log(name: Name) -> StreamingResponse:
        """Return the log in JSON Lines."""
        service.served(name)
        return StreamingResponse(log_lines(service.store, name), media_type="application/jsonl")

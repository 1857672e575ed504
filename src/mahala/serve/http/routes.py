"""The routes of the API, /v1/collections/..."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from fastapi import Body as Given
from fastapi import Cookie, Depends, FastAPI, Header, Path, Query
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, JSONResponse, StreamingResponse

from mahala.serve.http import bodies
from mahala.serve.http.direct import direct
from mahala.serve.http.guard import Guard
from mahala.serve.http.images import image_file
from mahala.serve.index.searching import Found
from mahala.serve.learning.judged_pairs import pair_entry
from mahala.serve.learning.questions import question
from mahala.serve.service import Service, Unknown
from mahala.serve.store.checks import VISIT, VISIT_ID
from mahala.serve.store.keys import Key
from mahala.serve.store.records import Entry

Name = Annotated[str, Path(max_length=64, examples=["demo"])]
Retry = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]
# The page sets this cookie, so that what is done in one visit counts as done by one user.
Visit = Annotated[str | None, Cookie(alias=VISIT, pattern=f"^{VISIT_ID.pattern}$")]
Searches = bodies.SearchBody | Annotated[list[bodies.SearchBody], Field(min_length=1, max_length=bodies.SEARCHES)]
Impressions = (
    bodies.ImpressionBody | Annotated[list[bodies.ImpressionBody], Field(min_length=1, max_length=bodies.BATCH)]
)
Comparisons = (
    bodies.ComparisonBody | Annotated[list[bodies.ComparisonBody], Field(min_length=1, max_length=bodies.BATCH)]
)
# Impressions or comparisons of one request that are turned into entries without a thread.
_AT_ONCE = 10
Items = Annotated[list[bodies.ItemBody], Field(min_length=1, max_length=bodies.ITEMS)]


def add_routes(app: FastAPI, service: Service, guard: Guard) -> None:
    """Add the routes of the API to an app."""
    _add_search(app, service, guard)
    _add_feedback(app, service, guard)
    _add_questions(app, service, guard)
    _add_items(app, service, guard)
    _add_models(app, service, guard)


def _add_search(app: FastAPI, service: Service, guard: Guard) -> None:
    reader = [Depends(guard.reader)]
    # As many at once as can be computed at once: more would only slow each other down.
    searchers = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="mahala-search")

    async def search(name: Name, given: Annotated[Searches, Given()]) -> JSONResponse:
        """Find the best items for a query, or for each of a list of queries."""

        def answers() -> list[dict[str, Any]]:
            return [_search(service, name, one) for one in (given if isinstance(given, list) else [given])]

        found = await asyncio.get_running_loop().run_in_executor(searchers, answers)
        return JSONResponse(found if isinstance(given, list) else found[0])

    own: dict[str, Any] = {
        "tags": ["search"],
        "methods": ["POST"],
        "route_class_override": direct(guard.reader, Searches),
    }
    app.router.add_api_route("/v1/collections/{name}/search", search, **own)

    @app.post("/v1/collections/{name}/explain", tags=["search"], dependencies=reader)
    def explain(name: Name, given: bodies.ExplainBody) -> dict[str, Any]:
        """Say how the score of an item comes about: how much is plain, how much is learned, and by what."""
        query, served = service.resolve(name, given.query.model_dump()), service.served(name)
        row = service.row(name, given.item)
        return {"version": served.model.version, "item": given.item, **served.explain(query, row, given.n)}


def _search(service: Service, name: str, given: bodies.SearchBody) -> dict[str, Any]:
    query = service.resolve(name, given.query.model_dump())
    version, found, plain = service.compared(name, query, given.k, given.filter, given.plain)
    answer: dict[str, Any] = {"version": version, "results": [_told(one) for one in found]}
    return answer | ({"plain": [_told(one) for one in plain]} if given.plain else {})


def _told(found: Found) -> dict[str, Any]:
    return {"id": found.id, "score": found.score, "payload": found.payload}


def _add_feedback(app: FastAPI, service: Service, guard: Guard) -> None:
    teacher = Depends(guard.teacher)

    async def impressions(
        name: Name, given: Annotated[Impressions, Given()], key: Key = teacher, retry: Retry = None, visit: Visit = None
    ) -> JSONResponse:
        """Write what was shown and clicked to the log; the answer comes when it is on the disk."""

        def entry(one: bodies.ImpressionBody, own: str | None) -> Entry:
            query = service.resolve(name, one.query.model_dump())
            more = {"user": _user(key, one.user, visit), "version": one.version, "key": own}
            return service.entry(name, "impression", query, one.shown, one.values(), **more)

        return await _append(service, name, given, entry, key, retry)

    async def comparisons(
        name: Name, given: Annotated[Comparisons, Given()], key: Key = teacher, retry: Retry = None, visit: Visit = None
    ) -> JSONResponse:
        """Write to the log which of two items is more like a query, whether one is like it, or grades of items."""

        def entry(one: bodies.ComparisonBody, own: str | None) -> Entry:
            query, shown = service.resolve(name, one.query.model_dump()), one.shown()
            more = {"user": _user(key, one.user, visit), "version": one.version, "key": own}
            if one.other is not None:
                return pair_entry(service, name, query, one.other, bool(one.similar), **more)
            kind = "comparison" if one.grades is None else "judgment"
            return service.entry(name, kind, query, list(shown), list(shown.values()), **more)

        return await _append(service, name, given, entry, key, retry)

    for endpoint, body in ((impressions, Impressions), (comparisons, Comparisons)):
        path = f"/v1/collections/{{name}}/{endpoint.__name__}"
        own: dict[str, Any] = {
            "tags": ["feedback"],
            "status_code": 201,
            "route_class_override": direct(guard.teacher, body),
        }
        app.router.add_api_route(path, endpoint, methods=["POST"], **own)


def _user(key: Key, user: str | None, visit: str | None) -> str | None:
    """Return who did something: a key that is one user, the user that was named, or a visit of the page."""
    if visit is not None and not VISIT_ID.fullmatch(visit):
        raise ValueError(f"the cookie {VISIT} must be one that the page has set")
    if key.one_user:
        return f"key:{key.id}"
    return f"visit:{visit}" if user is None and visit is not None else user


def _add_questions(app: FastAPI, service: Service, guard: Guard) -> None:
    @app.get("/v1/collections/{name}/question", tags=["feedback"], dependencies=[Depends(guard.teacher)])
    def ask(name: Name) -> dict[str, Any]:
        """Ask which of two items is more like a third one, where the answer teaches most; comparisons are answers."""
        served = service.served(name)
        query, left, right = ({"id": one.id, "payload": one.payload} for one in question(served))
        return {"version": served.model.version, "query": query, "left": left, "right": right}


async def _append(service: Service, name: str, given: Any, entry: Any, key: Key, retry: str | None) -> JSONResponse:
    ones = given if isinstance(given, list) else [given]
    if retry is not None and not (0 < len(retry) <= 200 and retry.isascii() and retry.isprintable()):
        raise ValueError("the header Idempotency-Key must be printable ASCII, 200 characters at most")

    def entries() -> list[Entry]:
        keys = [None if retry is None else f"{key.id}:{retry}:{at}" for at in range(len(ones))]
        return [entry(one, own) for one, own in zip(ones, keys, strict=True)]

    # In a thread, if a text is to be encoded or the database to be asked; it takes longer than all the rest.
    at_once = len(ones) <= _AT_ONCE and service.served(name).index.holds(id for one in ones for id in one.ids())
    at_once = at_once and not any(one.waits() for one in ones)
    own = entries() if at_once else await run_in_threadpool(entries)
    return JSONResponse({"places": await service.appended(name, own)}, 201)


def _add_items(app: FastAPI, service: Service, guard: Guard) -> None:
    reader, admin = [Depends(guard.reader)], [Depends(guard.admin)]

    @app.get("/v1/collections", tags=["items"], dependencies=reader)
    def collections() -> list[dict[str, Any]]:
        """List the collections."""
        return [_collection(service, name) for name in service.names()]

    @app.put("/v1/collections/{name}", tags=["items"], dependencies=admin, status_code=201)
    def create(name: Name, given: bodies.CollectionBody) -> dict[str, Any]:
        """Make an empty collection."""
        service.create(name, width=given.width, settings=given.settings)
        return _collection(service, name)

    @app.delete("/v1/collections/{name}", tags=["items"], dependencies=admin)
    def drop(name: Name) -> dict[str, str]:
        """Remove a collection with its items, its log and its models."""
        service.drop(name)
        return {"dropped": name}

    @app.get("/v1/collections/{name}/items", tags=["items"], dependencies=reader)
    def items(
        name: Name,
        start: Annotated[int, Query(ge=0)] = 0,
        n: Annotated[int, Query(ge=1, le=1000)] = 100,
        like: Annotated[str, Query(max_length=256)] = "",
    ) -> Any:
        """List items in their order, with the number of all; or only those with `like` in their ids or titles."""
        index = service.served(name).index
        listed = [{"id": one.id, "payload": one.payload} for one in index.items(start, n, like)]
        return {"n": len(index), "items": listed}

    @app.put("/v1/collections/{name}/items", tags=["items"], dependencies=admin)
    def put(name: Name, given: Items) -> dict[str, int]:
        """Add items, or change those whose ids are known."""
        return {"n": service.put_items(name, [one.model_dump() for one in given])}

    @app.post("/v1/collections/{name}/items/delete", tags=["items"], dependencies=admin)
    def delete(name: Name, given: bodies.IdsBody) -> dict[str, int]:
        """Delete items."""
        return {"n": service.delete_items(name, given.ids)}

    @app.get("/v1/collections/{name}/images/{file:path}", tags=["items"], dependencies=reader)
    def image(name: Name, file: str) -> FileResponse:
        """Return an image of the folder that was given with the items."""
        service.served(name)
        return FileResponse(*image_file(service.images.get(name), file))

    @app.get("/v1/collections/{name}/items/{id:path}", tags=["items"], dependencies=reader)
    def item(name: Name, id: str) -> dict[str, Any]:
        """Return an item with its vector."""
        served, row = service.served(name), service.row(name, id)
        found = served.index.item(row)
        return {"id": found.id, "payload": found.payload, "vector": served.index.vector(row).tolist()}


def _collection(service: Service, name: str) -> dict[str, Any]:
    own = service.served(name)
    about = {"name": name, "width": own.collection.width, "items": len(own.index)}
    return about | {"text": name in service.encoders, "images": name in service.images}


def _add_models(app: FastAPI, service: Service, guard: Guard) -> None:
    reader, admin = [Depends(guard.reader)], [Depends(guard.admin)]

    @app.get("/v1/collections/{name}/model", tags=["models"], dependencies=reader)
    def model(name: Name) -> dict[str, Any]:
        """Say what is served, what each learner says of itself, and which one is ahead."""
        return service.told(name)

    @app.put("/v1/collections/{name}/model", tags=["models"], dependencies=admin)
    def configure(name: Name, given: Annotated[bodies.Payload, Given()]) -> dict[str, Any]:
        """Change which learners there are and which one is served; new learners learn from the whole log."""
        service.configure(name, given)
        return service.told(name)

    @app.get("/v1/collections/{name}/spectrum", tags=["models"], dependencies=reader)
    def spectrum(name: Name, n: Annotated[int, Query(ge=1, le=1000)] = 24) -> dict[str, Any]:
        """Return the largest singular values of M - I: how far the served maps are from the plain ranking."""
        served = service.served(name)
        return {"version": served.model.version, **served.spectrum(n)}

    @app.get("/v1/collections/{name}/versions", tags=["models"], dependencies=reader)
    def versions(name: Name) -> list[dict[str, Any]]:
        """List the versions that are kept, the newest first."""
        return [version._asdict() for version in service.versions(name)]

    @app.put("/v1/collections/{name}/versions/served", tags=["models"], dependencies=admin)
    def pin(name: Name, given: bodies.VersionBody) -> dict[str, Any]:
        """Roll back to a version that is kept, or follow the newest; learning continues."""
        service.pin(name, given.version)
        return service.told(name)

    @app.delete("/v1/collections/{name}/users/{user:path}", tags=["models"], dependencies=admin)
    def forget(name: Name, user: str) -> dict[str, int]:
        """Delete what a user did from the log, and learn again without it."""
        n = service.forget_user(name, user)
        if n == 0:
            raise Unknown(f"there is nothing of a user {user[:64]!r} in the log of {name!r}")
        return {"n": n}

    @app.get("/v1/collections/{name}/log", tags=["models"], dependencies=admin)
    def log(name: Name) -> StreamingResponse:
        """Return the log in JSON Lines."""
        from mahala.serve.store.transfer import log_lines

        service.served(name)
        return StreamingResponse(log_lines(service, name), media_type="application/jsonl")

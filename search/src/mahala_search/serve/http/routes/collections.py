"""The routes of collections, their items, and what was learned: /v1/collections."""

from typing import Annotated, Any

from fastapi import Body as Given
from fastapi import FastAPI, Query
from pydantic import Field
from starlette.responses import FileResponse, StreamingResponse

from mahala_search.serve.http import responses
from mahala_search.serve.http.guard import Guard
from mahala_search.serve.http.schemas import (
    COLLECTION,
    WIDEST,
    Body,
    Id,
    Name,
    Number,
    Payload,
    UserId,
    Vector,
    Version,
)
from mahala_search.serve.service import Service
from mahala_search.serve.store.checkpoints import Version as KeptVersion
from mahala_search.serve.store.files import image_file, log_lines

# Items of one request at most.
ITEMS = 1000
_ITEM = {"id": "alien", "vector": [0.1, 0.9], "payload": {"year": 1979}}


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


class VersionBody(Body):
    """The version to serve: one that is kept, 0 for the plain ranking, or null for the newest."""

    version: Version | None


Items = Annotated[list[ItemBody], Field(min_length=1, max_length=ITEMS)]


def add_items(app: FastAPI, service: Service, guard: Guard) -> None:
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
    def create(name: Name, body: CollectionBody) -> dict[str, Any]:
        """Make an empty collection."""
        service.create(name, width=body.width, settings=body.settings)
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
    def put(name: Name, body: Items) -> dict[str, int]:
        """Add items; each replaces the one with the same id."""
        return {"n": service.put_items(name, [one.model_dump() for one in body])}

    @app.post(f"{COLLECTION}/items/delete", **admin, response_model=responses.Count)
    def delete(name: Name, body: IdsBody) -> dict[str, int]:
        """Delete items."""
        return {"n": service.delete_items(name, body.ids)}

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
    reader, admin = guard.route("models", "read"), guard.route("models", "admin")

    @app.get(f"{COLLECTION}/model", **reader, response_model=responses.Status)
    def model(name: Name) -> dict[str, Any]:
        """Return what is served, the status of each learner, and which one is ahead."""
        return service.status(name)

    @app.put(f"{COLLECTION}/model", **admin, response_model=responses.Status)
    def configure(name: Name, body: Annotated[Payload, Given()]) -> dict[str, Any]:
        """Change which learners there are and which one is served; new learners learn from the whole log."""
        service.configure(name, body)
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
    def pin(name: Name, body: VersionBody) -> dict[str, Any]:
        """Roll back to a version that is kept, or follow the newest; learning continues."""
        service.pin(name, body.version)
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

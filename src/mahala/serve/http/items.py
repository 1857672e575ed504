"""The routes of collections and their items: /v1/collections, and items and images of each."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query
from pydantic import Field
from starlette.responses import FileResponse

from mahala.serve.http.guard import Guard
from mahala.serve.http.schemas import COLLECTION, ITEMS, WIDEST, Body, Id, Name, Payload, Vector
from mahala.serve.service import Service
from mahala.serve.store.item_files import image_file

_EXAMPLE = {"id": "alien", "vector": [0.1, 0.9], "payload": {"year": 1979}}


class ItemBody(Body, json_schema_extra={"examples": [_EXAMPLE]}):
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


Items = Annotated[list[ItemBody], Field(min_length=1, max_length=ITEMS)]


def add_items(app: FastAPI, service: Service, guard: Guard) -> None:
    """Add the routes of collections and items to an app."""
    reader, admin = guard.route("items", "read"), guard.route("items", "admin")

    def about(name: str) -> dict[str, Any]:
        served = service.served(name)
        sizes = {"width": served.collection.width, "items": len(served.index)}
        return {"name": name, **sizes, "text": name in service.encoders, "images": name in service.images}

    @app.get("/v1/collections", **reader)
    def collections() -> list[dict[str, Any]]:
        """List the collections."""
        return [about(name) for name in service.names()]

    @app.put(COLLECTION, **admin, status_code=201)
    def create(name: Name, given: CollectionBody) -> dict[str, Any]:
        """Make an empty collection."""
        service.create(name, width=given.width, settings=given.settings)
        return about(name)

    @app.delete(COLLECTION, **admin)
    def drop(name: Name) -> dict[str, str]:
        """Remove a collection with its items, its log and its models."""
        service.drop(name)
        return {"dropped": name}

    @app.get(f"{COLLECTION}/items", **reader)
    def items(
        name: Name,
        start: Annotated[int, Query(ge=0)] = 0,
        n: Annotated[int, Query(ge=1, le=1000)] = 100,
        like: Annotated[str, Query(max_length=256)] = "",
    ) -> dict[str, Any]:
        """List items in their order, with the number of all; or only those with `like` in their ids or titles."""
        index = service.served(name).index
        listed = [{"id": one.id, "payload": one.payload} for one in index.items(start, n, like)]
        return {"n": len(index), "items": listed}

    @app.put(f"{COLLECTION}/items", **admin)
    def put(name: Name, given: Items) -> dict[str, int]:
        """Add items; each replaces the one with the same id."""
        return {"n": service.put_items(name, [one.model_dump() for one in given])}

    @app.post(f"{COLLECTION}/items/delete", **admin)
    def delete(name: Name, given: IdsBody) -> dict[str, int]:
        """Delete items."""
        return {"n": service.delete_items(name, given.ids)}

    @app.get(f"{COLLECTION}/images/{{file:path}}", **reader)
    def image(name: Name, file: str) -> FileResponse:
        """Return an image of the folder that was given with the items."""
        service.served(name)
        path, media_type = image_file(service.images.get(name), file)
        return FileResponse(path, media_type=media_type)

    @app.get(f"{COLLECTION}/items/{{id:path}}", **reader)
    def item(name: Name, id: str) -> dict[str, Any]:
        """Return an item with its vector."""
        index, row = service.served(name).index, service.row(name, id)
        return {"id": id, "payload": index.item(row).payload, "vector": index.vector(row).tolist()}

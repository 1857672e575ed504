"""The routes of what was learned: model, spectrum, versions, users and log of /v1/collections/{name}."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body as Given
from fastapi import FastAPI, Query
from starlette.responses import StreamingResponse

from mahala.serve.http.guard import Guard
from mahala.serve.http.schemas import COLLECTION, Body, Name, Payload, VersionNumber
from mahala.serve.service import Service
from mahala.serve.store.database import Unknown
from mahala.serve.store.transfer import log_lines


class VersionBody(Body):
    """The version to serve: one that is kept, 0 for the plain ranking, or null for the newest."""

    version: VersionNumber | None


def add_models(app: FastAPI, service: Service, guard: Guard) -> None:
    """Add the routes of what was learned to an app."""
    reader, admin = guard.route("models", "read"), guard.route("models", "admin")

    @app.get(f"{COLLECTION}/model", **reader)
    def model(name: Name) -> dict[str, Any]:
        """Return what is served, the status of each learner, and which one is ahead."""
        return service.served(name).status()

    @app.put(f"{COLLECTION}/model", **admin)
    def configure(name: Name, given: Annotated[Payload, Given()]) -> dict[str, Any]:
        """Change which learners there are and which one is served; new learners learn from the whole log."""
        service.configure(name, given)
        return service.served(name).status()

    @app.get(f"{COLLECTION}/spectrum", **reader)
    def spectrum(name: Name, n: Annotated[int, Query(ge=1, le=1000)] = 24) -> dict[str, Any]:
        """Return the largest singular values of M - I: how far the served maps are from the plain ranking."""
        served = service.served(name)
        return {"version": served.model.version, **served.spectrum(n)}

    @app.get(f"{COLLECTION}/versions", **reader)
    def versions(name: Name) -> list[dict[str, Any]]:
        """List the versions that are kept, the newest first."""
        return [version._asdict() for version in service.versions(name)]

    @app.put(f"{COLLECTION}/versions/served", **admin)
    def pin(name: Name, given: VersionBody) -> dict[str, Any]:
        """Roll back to a version that is kept, or follow the newest; learning continues."""
        service.pin(name, given.version)
        return service.served(name).status()

    @app.delete(f"{COLLECTION}/users/{{user:path}}", **admin)
    def forget(name: Name, user: str) -> dict[str, int]:
        """Delete a user's entries from the log, and learn again without them."""
        n = service.forget_user(name, user)
        if n == 0:
            raise Unknown(f"there is nothing of a user {user[:64]!r} in the log of {name!r}")
        return {"n": n}

    @app.get(f"{COLLECTION}/log", **admin)
    def log(name: Name) -> StreamingResponse:
        """Return the log in JSON Lines."""
        service.served(name)
        return StreamingResponse(log_lines(service.store, name), media_type="application/jsonl")

"""The routes of spaces, of what they serve, and of their report."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from mahala_search.sidecar.http import bodies
from mahala_search.sidecar.http.api import Api, Call
from mahala_search.sidecar.records import Control, Settings, Unknown
from mahala_search.sidecar.service import Current, Sidecar


def add_spaces(api: Api) -> None:
    """Add the routes."""
    space = "/v1/spaces/{space}"
    api.add("GET", "/v1/spaces", "read", spaces)
    api.add("GET", space, "read", status_of_space)
    api.add("PUT", space, "admin", put_space)
    api.add("DELETE", space, "admin", drop_space)
    api.add("GET", f"{space}/served", "read", served_version)
    api.add("PUT", f"{space}/served", "admin", serve_version)
    api.add("GET", f"{space}/report", "read", report)
    api.add("POST", f"{space}/successor", "admin", succeed)


def about(sidecar: Sidecar, current: Current) -> dict[str, Any]:
    """Return what is to be known of a space; secrets of its resolver are left out."""
    space, settings = current.space, asdict(current.space.settings)
    if settings["resolver"] is not None:
        settings["resolver"] = {"kind": settings["resolver"].get("kind")}
    return {
        "name": space.name,
        "settings": settings,
        "version": current.served.version,
        "pinned": space.pinned,
        "problem": current.problem,
        "successor": space.successor,
        "status": current.status,
        "progress": sidecar.store.progress(space.id),
        "counts": sidecar.store.counts(space.id),
    }


def spaces(call: Call) -> list[dict[str, Any]]:
    """List the spaces that the key may read."""
    permitted = [one for one in call.sidecar.spaces() if call.key.space in ("", one.space.id)]
    return [about(call.sidecar, one) for one in permitted]


def status_of_space(call: Call) -> dict[str, Any]:
    """Return the settings of a space, what is served, and how far learning is."""
    return about(call.sidecar, call.space)


def put_space(call: Call, body: bodies.SpaceBody) -> dict[str, Any]:
    """Make a space, or change its settings; those that are left out stay."""
    name, sidecar = call.name, call.sidecar
    try:
        before = call.space.space.settings
    except Unknown:
        call.check_all()
        before = Settings(body.width, body.similarity, body.encoder)
    given: dict[str, Any] = {field: getattr(body, field) for field in body.model_fields_set}
    if given.get("resolver") is not None:
        from mahala_search.sidecar.resolvers.base import check_kind

        check_kind(given["resolver"])
    if "control" in given:
        given["control"] = Control(body.control.share, body.control.mode)
    return about(sidecar, sidecar.put(name, replace(before, **given)))


def drop_space(call: Call) -> dict[str, int]:
    """Remove a space with all that was written for it, and its keys."""
    call.sidecar.store.drop(call.space.space.name)
    call.sidecar.refresh()
    return {"n": 1}


def served_version(call: Call) -> dict[str, Any]:
    """Return the version that is served, and those that are kept."""
    current = call.space
    kept = call.sidecar.store.versions(current.space.id)
    return {
        "version": current.served.version,
        "pinned": current.space.pinned,
        "problem": current.problem,
        "versions": [
            {"version": one.version, "place": one.place, "created": one.created, "status": one.status} for one in kept
        ],
    }


def serve_version(call: Call, body: bodies.ServedBody) -> dict[str, Any]:
    """Serve a version that is kept, 0 for the plain ranking, or null for the newest; learning continues."""
    call.sidecar.store.pin(call.space.space.id, body.version)
    call.sidecar.refresh()
    return served_version(call)


def report(call: Call) -> dict[str, Any]:
    """Return what people did with each ranking, and the difference in `?value=`: clicks, purchases or revenue."""
    return call.sidecar.report(call.space, call.request.query_params.get("value", "clicks"))


def succeed(call: Call, body: bodies.SuccessorBody) -> dict[str, Any]:
    """Let an empty space learn, with another encoder, what was learned in this one."""
    call.check_all()
    call.sidecar.store.succeed(call.name, body.space)
    call.sidecar.refresh()
    return about(call.sidecar, call.space)

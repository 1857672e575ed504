"""The routes of spaces, of what they serve, of their report, and of keys."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from starlette.exceptions import HTTPException

from mahala_search.sidecar.http.api import Api, Call
from mahala_search.sidecar.http.bodies import (
    Count,
    KeyBody,
    KeyEntry,
    NewKey,
    ServedBody,
    SpaceBody,
    SpaceStatus,
    SuccessorBody,
    Versions,
)
from mahala_search.sidecar.records import Control, Settings, Unknown
from mahala_search.sidecar.service import Current, Sidecar

# What a report is about; the first one by default.
VALUES = ("clicks", "purchases", "revenue")


def add_spaces(api: Api) -> None:
    """Add the routes."""
    space = "/v1/spaces/{space}"
    api.add("GET", "/v1/spaces", "read", list[SpaceStatus], spaces)
    api.add("GET", space, "read", SpaceStatus, status_of_space)
    api.add("PUT", space, "admin", SpaceStatus, put_space)
    api.add("DELETE", space, "admin", Count, drop_space)
    api.add("GET", f"{space}/served", "read", Versions, served_version)
    api.add("PUT", f"{space}/served", "admin", Versions, serve_version)
    api.add("GET", f"{space}/report", "read", dict[str, Any], report, choices={"value": VALUES})
    api.add("POST", f"{space}/successor", "admin", SpaceStatus, succeed)
    api.add("GET", "/v1/keys", "admin", list[KeyEntry], list_keys)
    api.add("POST", "/v1/keys", "admin", NewKey, create_key, status=201)
    api.add("DELETE", "/v1/keys/{key}", "admin", Count, revoke_key)


def about(sidecar: Sidecar, current: Current) -> SpaceStatus:
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


def spaces(call: Call) -> list[SpaceStatus]:
    """List the spaces that the key may read."""
    permitted = [one for one in call.sidecar.spaces() if call.key.space in ("", one.space.id)]
    return [about(call.sidecar, one) for one in permitted]


def status_of_space(call: Call) -> SpaceStatus:
    """Return the settings of a space, what is served, and how far learning is."""
    return about(call.sidecar, call.space)


def put_space(call: Call, body: SpaceBody) -> SpaceStatus:
    """Make a space, or change its settings; those that are left out stay."""
    name, sidecar = call.parameter, call.sidecar
    try:
        before = call.space.space.settings
    except Unknown:
        _check_all(call)
        before = Settings(body.width, body.similarity, body.encoder)
    given: dict[str, Any] = {field: getattr(body, field) for field in body.model_fields_set}
    if "control" in given:
        given["control"] = Control(body.control.share, body.control.mode)
    return about(sidecar, sidecar.put(name, replace(before, **given)))


def drop_space(call: Call) -> Count:
    """Remove a space with all that was written for it, and its keys."""
    call.sidecar.store.drop(call.space.space.name)
    call.sidecar.refresh()
    return {"n": 1}


def served_version(call: Call) -> Versions:
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


def serve_version(call: Call, body: ServedBody) -> Versions:
    """Serve a version that is kept, 0 for the plain ranking, or null for the newest; learning continues."""
    call.sidecar.store.pin(call.space.space.id, body.version)
    call.sidecar.refresh()
    return served_version(call)


def report(call: Call) -> dict[str, Any]:
    """Return what people did with the learned ranking and with the plain one, and the difference."""
    return call.sidecar.report(call.space, call.choice("value", VALUES))


def succeed(call: Call, body: SuccessorBody) -> SpaceStatus:
    """Let an empty space learn, with another encoder, what was learned in this one."""
    _check_all(call)
    call.sidecar.store.succeed(call.space.space.id, body.space)
    call.sidecar.refresh()
    return about(call.sidecar, call.space)


def list_keys(call: Call) -> list[KeyEntry]:
    """List the keys, without their texts."""
    _check_all(call)
    return [{**key._asdict(), "created": created} for key, created in call.sidecar.keys.all()]  # type: ignore[typeddict-item]


def create_key(call: Call, body: KeyBody) -> NewKey:
    """Make a key, which cannot be shown again."""
    _check_all(call)
    space = "" if body.space is None else call.sidecar.space(body.space).space.id
    key, text = call.sidecar.keys.create(body.role, space)
    return {"id": key.id, "role": key.role, "space": key.space, "key": text}


def revoke_key(call: Call) -> Count:
    """Revoke a key; all processes refuse it after two seconds."""
    _check_all(call)
    if not call.sidecar.keys.revoke(call.parameter):
        raise Unknown(f"there is no key {call.parameter[:16]!r}")
    return {"n": 1}


def _check_all(call: Call) -> None:
    """Refuse a key that is that of one space."""
    if call.key.space:
        raise HTTPException(403, "this needs a key of all spaces, and this one is that of one space")

"""What people saw and did: shown, events, and forget."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from starlette.concurrency import run_in_threadpool

from mahala_search.events.formats import Ignored, read_event
from mahala_search.events.formats import Shown as ReadShown
from mahala_search.sidecar.http import tokens
from mahala_search.sidecar.http.api import Api, Call
from mahala_search.sidecar.http.bodies import OneOrList, ShownBody, UserBody, decoded
from mahala_search.sidecar.http.search import search_of
from mahala_search.sidecar.records import Query, Search, Shown, Work
from mahala_search.sidecar.service import Current

Events = OneOrList[dict[str, Any]]
# What a browser may say of itself: how much something is worth, others decide.
_BY_BROWSER = {"token", "item", "type", "seconds", "timestamp", "id"}
# Entries of a request that are read without a thread.
_AT_ONCE = 100
_NEEDS_TOKEN = "a token is needed: this key is for browsers, or has the role read"


def add_feedback(api: Api) -> None:
    """Add the routes."""
    api.add("POST", "/v1/spaces/{space}/shown", "browser", shown, status=202)
    api.add("POST", "/v1/spaces/{space}/events", "browser", events, status=202)
    api.add("POST", "/v1/spaces/{space}/forget", "admin", forget)


async def shown(call: Call, body: OneOrList[ShownBody]) -> dict[str, Any]:
    """Take what was shown for searches; the answer names the items whose vectors are missing."""
    current, bodies = call.space, body if isinstance(body, list) else [body]

    def read(one: ShownBody) -> Shown:
        search, id = None, one.search_id
        if one.token is not None:
            search = tokens.read(current.secret, one.token, time.time())
            id = search.id
        elif call.trusted and one.search is not None:
            made = search_of(current, one.search.query, "search.query", at=min(one.search.at, time.time()))
            search = Search(str(id), made.query, made.user, one.search.query.arm, one.search.version, made.at)
        elif not call.trusted:
            raise tokens.Refused(_NEEDS_TOKEN)
        if one.vectors and not call.trusted:
            raise tokens.Refused("vectors of items are not taken from browsers")
        checked, given = current.served.vector, one.vectors.items()
        vectors = {id: checked(decoded(text, at := f"vectors.{id}"), at) for id, text in given}
        return Shown(str(id), one.ids, one.seen, one.positions, one.teams, vectors, search=search)

    return await _accepted(call, current, bodies, read)


async def events(call: Call, body: Events) -> dict[str, Any]:
    """Take what people did with what was shown: own events, those of OpenSearch's UBI, or those of Metarank."""
    current, records = call.space, body if isinstance(body, list) else [body]

    def read(record: dict[str, Any]) -> Work:
        token, search = record.pop("token", None), None
        if token is not None:
            search = tokens.read(current.secret, str(token), time.time())
            record["search_id"] = search.id
        elif not call.trusted:
            raise tokens.Refused(_NEEDS_TOKEN)
        event = read_event(record)
        if isinstance(event, ReadShown):
            if search is not None:
                raise ValueError("what was shown for a token goes to /shown")
            return _shown(current, event)
        user = search.user if search is not None else current.served.user_key(event.user)
        return replace(event, user=user)

    if not call.trusted:
        for record in records:
            if unknown := sorted(record.keys() - _BY_BROWSER):
                raise ValueError(f"an event with a token has no field {unknown[0]!r:.80}")
    return await _accepted(call, current, records, read)


def _shown(current: Current, event: ReadShown) -> Shown:
    """Return what was shown by an event, with the search, if it is not known yet."""
    served, query = current.served, event.query
    vector = None if query.get("vector") is None else served.vector(query["vector"], "query.vector")
    text = query.get("text")
    id = query.get("id") or query.get("item") or text
    if id is None and vector is None:
        raise ValueError("query must have a vector, an id or a text")
    key = served.query_key(id, vector)
    of = Query(key, vector, text if current.space.settings.texts else None)
    search = Search(event.search_id, of, served.user_key(event.user), event.arm, at=event.at)
    return Shown(event.search_id, event.items, event.seen, event.positions, signals=event.signals, search=search)


async def _accepted(call: Call, current: Current, entries: Sequence[Any], read: Any) -> dict[str, Any]:
    """Write the works of entries; the answer says what became of each that was not accepted."""
    problems: list[dict[str, Any]] = []

    def works() -> dict[int, Work]:
        result = {}
        for at, entry in enumerate(entries):
            try:
                result[at] = read(entry)
            except ValueError as error:
                status = "ignored" if isinstance(error, Ignored) else "refused"
                problems.append({"entry": at, "status": status, "reason": str(error)})
        return result

    of_entries = works() if len(entries) <= _AT_ONCE else await run_in_threadpool(works)
    if len(entries) == sum(one["status"] == "refused" for one in problems):
        raise ValueError(problems[0]["reason"])
    accepted, missing, stored = 0, dict[str, None](), True
    if of_entries:
        outcomes, stored = await call.sidecar.writer.submit(current.space.id, list(of_entries.values()))
        for at, outcome in zip(of_entries, outcomes, strict=True):
            if outcome.ignored is not None:
                problems.append({"entry": at, "status": "ignored", "reason": outcome.ignored})
            else:
                accepted += 1
                missing |= dict.fromkeys(outcome.missing)
    problems.sort(key=lambda one: one["entry"])
    return {"accepted": accepted, "stored": stored, "missing": list(missing), "problems": problems}


async def forget(call: Call, body: UserBody) -> dict[str, int]:
    """Delete what a user did and searched for; what is served goes on while the rest is learned again beside it."""
    current = call.space
    user = current.served.user_key(body.user)
    assert user is not None
    return {"n": await run_in_threadpool(call.sidecar.store.forget, current.space.id, user)}

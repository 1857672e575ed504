"""The route of events: /v1/collections/{name}/events."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Body as Given
from fastapi import Depends, FastAPI
from pydantic import Field, Tag
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from mahala.data.event_files import Ignored, read_event
from mahala.data.events import UNKNOWN_SEARCH, Reaction, Shown
from mahala.serve.http.guard import Guard, Visit, user_of
from mahala.serve.http.responses import LOGGED, EntryProblem, Logged
from mahala.serve.http.schemas import BATCH, COLLECTION, FORM, Name
from mahala.serve.searches import made_elsewhere
from mahala.serve.service import Service
from mahala.serve.store.database import Unknown
from mahala.serve.store.events import Events
from mahala.serve.store.keys import ApiKey
from mahala.serve.store.searches import Search

# Seconds after which a search that is unknown is looked for again: another process may be about to write it.
_AGAIN = 0.2
_EXAMPLES = [
    {"search_id": "4f0c9a", "item": "Laksa", "type": "click", "user": "u17"},
    {"search_id": "4f0c9a", "item": "Laksa", "type": "dwell", "seconds": 42},
    {"query_id": "4f0c9a", "action_name": "click", "client_id": "u17", "timestamp": "2026-11-01T12:00:00Z",
     "event_attributes": {"object": {"object_id": "Laksa"}}},
    {"event": "interaction", "id": "e1", "ranking": "4f0c9a", "item": "Laksa", "type": "click",
     "user": "u17", "timestamp": "1793534400000"},
]  # fmt: skip
_Event = dict[str, Any]
_Batch = Annotated[list[_Event], Field(min_length=1, max_length=BATCH)]
EventsBody = Annotated[Annotated[_Event, Tag("one")] | Annotated[_Batch, Tag("list")], FORM, Given(examples=_EXAMPLES)]


def report(places: Sequence[int | None], problems: list[EntryProblem], accepted: bool) -> JSONResponse:
    """Return the answer to feedback: the place of each entry in the log or null, and the problems of entries."""
    ordered = [problem.model_dump() for problem in sorted(problems, key=lambda problem: problem.entry)]
    return JSONResponse({"places": list(places), "problems": ordered}, 201 if accepted else 200)


def add_events(app: FastAPI, service: Service, guard: Guard) -> None:
    """Add the route of events to an app."""
    teacher = Depends(guard.needs("feedback"))

    @app.post(f"{COLLECTION}/events", tags=["feedback"], status_code=201, response_model=Logged, responses=LOGGED)
    async def events(name: Name, given: EventsBody, key: ApiKey = teacher, visit: Visit = None) -> JSONResponse:
        """Join what people did with what was shown for a search, and write it to the log.

        An event is that of this service, of OpenSearch's User Behavior Insights, or of Metarank.
        """
        service.served(name)
        records, problems = given if isinstance(given, list) else [given], list[EntryProblem]()
        read: dict[int, Shown | Reaction] = {}
        for at, record in enumerate(records):
            try:
                event = read_event(record)
                read[at] = event._replace(user=user_of(key, event.user, visit))
            except Ignored as reason:
                problems.append(EntryProblem(entry=at, status="ignored", reason=str(reason)))
            except ValueError as error:
                problems.append(EntryProblem(entry=at, status="refused", reason=str(error)))
        reactions = {at: event for at, event in read.items() if isinstance(event, Reaction)}
        searches: dict[int, Search] = {}
        if len(reactions) < len(read):  # in a thread: a text may have to be encoded
            searches = await run_in_threadpool(_searches, service, name, read, problems)
        if len(records) == sum(problem.status == "refused" for problem in problems):
            raise ValueError(problems[0].reason)
        places: list[int | None] = [None] * len(records)
        outcomes = await _append(service, name, list(searches.values()), reactions)
        for at, outcome in outcomes.items():
            if isinstance(outcome, str):
                problems.append(EntryProblem(entry=at, status="ignored", reason=outcome))
            else:
                places[at] = outcome
        return report(places, problems, accepted=bool(searches) or any(place is not None for place in places))


async def _append(
    service: Service, name: str, searches: Sequence[Search], reactions: Mapping[int, Reaction]
) -> dict[int, int | str]:
    """Write events; return for each reaction its place in the log, or why it is ignored."""
    if not searches and not reactions:
        return {}
    settled = await service.writer.append(name, Events(searches, list(reactions.values())))
    outcomes = dict(zip(reactions, settled, strict=True))
    if missing := {at: reactions[at] for at, outcome in outcomes.items() if outcome == UNKNOWN_SEARCH}:
        await asyncio.sleep(_AGAIN)
        settled = await service.writer.append(name, Events([], list(missing.values())))
        outcomes |= zip(missing, settled, strict=True)
    return outcomes


def _searches(
    service: Service, name: str, read: Mapping[int, Shown | Reaction], problems: list[EntryProblem]
) -> dict[int, Search]:
    """Return the searches that were made elsewhere, and add why others cannot be read to the problems."""
    searches: dict[int, Search] = {}
    for at, event in read.items():
        if not isinstance(event, Shown):
            continue
        try:
            searches[at] = made_elsewhere(service, name, event)
        except (ValueError, Unknown) as error:
            status = "ignored" if isinstance(error, Unknown) else "refused"
            problems.append(EntryProblem(entry=at, status=status, reason=str(error)))
    return searches

"""The routes of feedback: /v1/collections/{name}/events, impressions, comparisons and question."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import Body as Given
from fastapi import Depends, FastAPI, Header
from pydantic import Field, FiniteFloat, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from mahala_search.adapter.trust.signals import SIGNALS, check_signals
from mahala_search.events.formats import Ignored, read_event
from mahala_search.events.joining import UNKNOWN_SEARCH, Reaction, Shown
from mahala_search.serve.http.guard import Guard, Visit, user_of
from mahala_search.serve.http.quick_route import QuickRoute
from mahala_search.serve.http.responses import CONFLICT, LOGGED, Logged, Question
from mahala_search.serve.http.schemas import COLLECTION, PAGE, Body, Id, Name, OneOrList, QueryBody, SignalName, Version
from mahala_search.serve.searches import feedback_entry, made_elsewhere
from mahala_search.serve.service import Service
from mahala_search.serve.store.database import Unknown
from mahala_search.serve.store.keys import ApiKey
from mahala_search.serve.store.rows import LogEntry
from mahala_search.serve.store.searches import Events, Search

# Seconds after which a search that is unknown is looked for again: another process may be about to write it.
_AGAIN = 0.2
# Impressions or comparisons of one request that are turned into entries without a thread.
_AT_ONCE = 10
_QUERY = {"item": "Gazpacho"}
_SHOWN = {"shown": ["Salmorejo", "Tarator"], "clicked": ["Tarator"], "user": "u17", "version": 3}
_COMPARISONS = [{"better": "Tarator", "worse": "Brownies"}, {"other": "Tarator", "similar": True}]
_EVENTS = [
    {"search_id": "4f0c9a", "item": "Laksa", "type": "click", "user": "u17"},
    {"search_id": "4f0c9a", "item": "Laksa", "type": "dwell", "seconds": 42},
    {"query_id": "4f0c9a", "action_name": "click", "client_id": "u17", "timestamp": "2026-11-01T12:00:00Z",
     "event_attributes": {"object": {"object_id": "Laksa"}}},
    {"event": "interaction", "id": "e1", "ranking": "4f0c9a", "item": "Laksa", "type": "click",
     "user": "u17", "timestamp": "1793534400000"},
]  # fmt: skip

# Entries of a request by number: what became of each, and why.
Problems = list[tuple[int, str, str]]
Retry = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200, pattern="^[ -~]*$")]


class FeedbackBody(Body):
    """Feedback on items for a query: the user who gave it, and the version that ranked."""

    query: QueryBody
    user: Id | None = None
    version: Version | None = None

    @abstractmethod
    def parts(self) -> tuple[str, list[Any], list[float]]:
        """Return its kind in the log, the ids of the items, and a reaction to each."""


class ImpressionBody(FeedbackBody, json_schema_extra={"examples": [{"query": _QUERY, **_SHOWN}]}):
    """What was shown for a query from the top, and which of it was clicked, or a reaction to each."""

    shown: Annotated[list[Id], Field(min_length=1, max_length=PAGE)]
    clicked: Annotated[list[Id], Field(max_length=PAGE)] | None = None
    reactions: Annotated[list[FiniteFloat], Field(max_length=PAGE)] | None = None
    signals: Annotated[dict[SignalName, list[FiniteFloat | None]], Field(max_length=SIGNALS)] | None = None

    @model_validator(mode="after")
    def _check(self) -> ImpressionBody:
        if (self.clicked is None) == (self.reactions is None):
            raise ValueError("an impression has either clicked (ids) or reactions (numbers)")
        if self.reactions is not None and len(self.reactions) != len(self.shown):
            raise ValueError(f"reactions must have one number for each of the {len(self.shown)} items shown")
        if len(set(self.shown)) < len(self.shown):
            raise ValueError("shown must have each item once")
        if strangers := set(self.clicked or ()) - set(self.shown):
            raise ValueError(f"clicked must be among the items shown, got {min(strangers)!r:.80}")
        if self.signals is not None:
            check_signals(self.signals, len(self.shown))
        return self

    def parts(self) -> tuple[str, list[Any], list[float]]:
        clicked = set(self.clicked or ())
        return "impression", self.shown, self.reactions or [float(id in clicked) for id in self.shown]


class ComparisonBody(FeedbackBody, json_schema_extra={"examples": [{"query": _QUERY, **one} for one in _COMPARISONS]}):
    """An answer to "which is more like this?", to "is this one like it?", or grades of items for a query."""

    better: Id | None = None
    worse: Id | None = None
    other: Id | None = None
    similar: bool | None = None
    grades: Annotated[dict[Id, FiniteFloat], Field(min_length=1, max_length=PAGE)] | None = None

    @model_validator(mode="after")
    def _check(self) -> ComparisonBody:
        forms = ((self.better, self.worse), (self.other, self.similar), (self.grades,))
        filled = [form for form in forms if any(value is not None for value in form)]
        if len(filled) != 1 or None in filled[0] or (self.better is not None and self.better == self.worse):
            raise ValueError(
                "a comparison has better and worse (two ids), other and similar (an id, true or false), "
                "or grades ({id: number})"
            )
        return self

    def parts(self) -> tuple[str, list[Any], list[float]]:
        if self.grades is not None:
            return "judgment", list(self.grades), list(self.grades.values())
        if self.other is not None:
            return "pair", [self.other], [float(bool(self.similar))]
        return "comparison", [self.better, self.worse], [1.0, 0.0]


EventsBody = Annotated[OneOrList[dict[str, Any]], Given(examples=_EVENTS)]
Impressions = Annotated[OneOrList[ImpressionBody], Given()]
Comparisons = Annotated[OneOrList[ComparisonBody], Given()]


def add_feedback(app: FastAPI, service: Service, guard: Guard) -> None:
    teacher = Depends(guard.needs("feedback"))
    joined: dict[str, Any] = {"tags": ["feedback"], "status_code": 201, "response_model": Logged, "responses": LOGGED}
    logged = joined | {"responses": CONFLICT | LOGGED}

    @app.post(f"{COLLECTION}/events", **joined)
    async def events(name: Name, body: EventsBody, key: ApiKey = teacher, visit: Visit = None) -> JSONResponse:
        """Join what people did with what was shown for a search, and write it to the log.

        An event is that of this service, of OpenSearch's User Behavior Insights, or of Metarank.
        """
        service.served(name)
        records, problems = body if isinstance(body, list) else [body], Problems()
        read = _results(problems, read_event, dict(enumerate(records)))
        read = {at: event._replace(user=user_of(key, event.user, visit)) for at, event in read.items()}
        reactions = {at: event for at, event in read.items() if isinstance(event, Reaction)}
        searches: dict[int, Search] = {}
        if shown := {at: event for at, event in read.items() if isinstance(event, Shown)}:

            def made(event: Shown) -> Search:
                return made_elsewhere(service, name, event)

            # In a thread: a text may have to be encoded.
            searches = await run_in_threadpool(_results, problems, made, shown)
        if len(records) == sum(status == "refused" for _, status, _ in problems):
            raise ValueError(problems[0][2])
        places: list[int | None] = [None] * len(records)
        for at, outcome in (await _append_events(service, name, list(searches.values()), reactions)).items():
            if isinstance(outcome, str):
                problems.append((at, "ignored", outcome))
            else:
                places[at] = outcome
        return _report(places, problems, accepted=bool(searches) or any(place is not None for place in places))

    async def impressions(
        name: Name, body: Impressions, key: ApiKey = teacher, retry: Retry = None, visit: Visit = None
    ) -> JSONResponse:
        """Write what was shown and clicked to the log; the answer comes when it is on the disk."""
        return await _append(service, name, body, key, retry, visit)

    quick: dict[str, Any] = {"methods": ["POST"], "route_class_override": QuickRoute}
    app.router.add_api_route(f"{COLLECTION}/impressions", impressions, **logged, **quick)

    @app.post(f"{COLLECTION}/comparisons", **logged)
    async def comparisons(
        name: Name, body: Comparisons, key: ApiKey = teacher, retry: Retry = None, visit: Visit = None
    ) -> JSONResponse:
        """Write to the log which of two items is more like a query, whether one is like it, or grades of items."""
        return await _append(service, name, body, key, retry, visit)

    @app.get(
        f"{COLLECTION}/question", tags=["feedback"], dependencies=[teacher], response_model=Question, responses=CONFLICT
    )
    def question(name: Name) -> dict[str, Any]:
        """Ask which of two items is more like a third one, where the answer teaches most; comparisons are answers."""
        served = service.served(name)
        query, left, right = (one.shown() for one in served.question())
        return {"version": served.model.version, "query": query, "left": left, "right": right}


def _results(problems: Problems, function: Callable[[Any], Any], entries: Mapping[int, Any]) -> dict[int, Any]:
    """Return a function of each entry, without those that it refuses or ignores, which are added to the problems."""
    results = {}
    for at, entry in entries.items():
        try:
            results[at] = function(entry)
        except (Ignored, Unknown, ValueError) as error:
            status = "ignored" if isinstance(error, Ignored | Unknown) else "refused"
            problems.append((at, status, str(error)))
    return results


async def _append_events(
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


def _report(places: Sequence[int | None], problems: Problems, accepted: bool) -> JSONResponse:
    """Return the answer to feedback: the place of each entry in the log or null, and the problems of entries."""
    ordered = sorted(problems, key=lambda problem: problem[0])
    refused = [{"entry": at, "status": status, "reason": reason} for at, status, reason in ordered]
    return JSONResponse({"places": list(places), "problems": refused}, 201 if accepted else 200)


async def _append(
    service: Service,
    name: str,
    body: FeedbackBody | Sequence[FeedbackBody],
    key: ApiKey,
    retry: str | None,
    visit: str | None,
) -> JSONResponse:
    """Write feedback to the log; the user is that of a key of one user, the named one, or the visit of the page."""
    bodies = [body] if isinstance(body, FeedbackBody) else body
    problems = Problems()

    def entry(at: int, body: FeedbackBody) -> LogEntry | None:
        more = {"user": user_of(key, body.user, visit), "version": body.version}
        more["signals"] = getattr(body, "signals", None)
        more["key"] = None if retry is None else f"{key.id}:{retry}:{at}"
        kind, ids, values = body.parts()
        try:
            query = service.resolve(name, dict(body.query))
            entry = feedback_entry(service, name, kind, query, ids, values, **more)
        except Unknown as error:
            problems.append((at, "ignored", str(error)))
            return None
        if (n := len(ids) - len(entry.shown)) > 0:
            problems.append((at, "accepted", f"{n} items were left out: they are unknown, or were deleted"))
        return entry

    def entries() -> list[LogEntry | None]:
        return [entry(at, body) for at, body in enumerate(bodies)]

    def is_quick(body: FeedbackBody) -> bool:
        kind, ids, _ = body.parts()
        is_here = served.index.holds([*ids, *filter(None, [body.query.item])])
        return kind != "pair" and body.query.text is None and is_here and (body.version or 0) <= newest

    # In a thread, if a text is to be encoded or the database to be asked, which takes longer than all the rest.
    served = service.served(name)
    newest = served.collection.version
    at_once = len(bodies) <= _AT_ONCE and all(map(is_quick, bodies))
    read = entries() if at_once else await run_in_threadpool(entries)
    written = [one for one in read if one is not None]
    places = iter(await service.writer.append(name, written)) if written else iter(())
    return _report([None if one is None else next(places) for one in read], problems, accepted=bool(written))

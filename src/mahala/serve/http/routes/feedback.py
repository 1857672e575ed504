"""The routes of feedback: /v1/collections/{name}/impressions, comparisons and question."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Body as Given
from fastapi import Depends, FastAPI, Header
from pydantic import Field, FiniteFloat, Tag, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from mahala.feedback.trust.signals import SIGNALS, check_signals
from mahala.serve.http.guard import Guard, Visit, user_of
from mahala.serve.http.quick_route import QuickRoute
from mahala.serve.http.responses import CONFLICT, LOGGED, EntryProblem, Logged, Question
from mahala.serve.http.routes.events import report
from mahala.serve.http.schemas import BATCH, COLLECTION, FORM, PAGE, Body, Id, Name, QueryBody, SignalName, Version
from mahala.serve.searches import feedback_entry
from mahala.serve.service import Service
from mahala.serve.store.database import Unknown
from mahala.serve.store.keys import ApiKey
from mahala.serve.store.rows import LogEntry

# Impressions or comparisons of one request that are turned into entries without a thread.
_AT_ONCE = 10
_QUERY = {"item": "Gazpacho"}
_SHOWN = {"shown": ["Salmorejo", "Tarator"], "clicked": ["Tarator"], "user": "u17", "version": 3}
_COMPARISONS = [{"better": "Tarator", "worse": "Brownies"}, {"other": "Tarator", "similar": True}]

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
        given = [form for form in forms if any(value is not None for value in form)]
        if len(given) != 1 or None in given[0] or (self.better is not None and self.better == self.worse):
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


_MANY = Field(min_length=1, max_length=BATCH)
Impressions = Annotated[
    Annotated[ImpressionBody, Tag("one")] | Annotated[list[ImpressionBody], _MANY, Tag("list")], FORM, Given()
]
Comparisons = Annotated[
    Annotated[ComparisonBody, Tag("one")] | Annotated[list[ComparisonBody], _MANY, Tag("list")], FORM, Given()
]


def add_feedback(app: FastAPI, service: Service, guard: Guard) -> None:
    """Add the routes of feedback to an app."""
    teacher = Depends(guard.needs("feedback"))
    logged: dict[str, Any] = {"tags": ["feedback"], "status_code": 201, "response_model": Logged}
    logged["responses"] = CONFLICT | LOGGED

    async def impressions(
        name: Name, given: Impressions, key: ApiKey = teacher, retry: Retry = None, visit: Visit = None
    ) -> JSONResponse:
        """Write what was shown and clicked to the log; the answer comes when it is on the disk."""
        return await _append(service, name, given, key, retry, visit)

    quick: dict[str, Any] = {"methods": ["POST"], "route_class_override": QuickRoute}
    app.router.add_api_route(f"{COLLECTION}/impressions", impressions, **logged, **quick)

    @app.post(f"{COLLECTION}/comparisons", **logged)
    async def comparisons(
        name: Name, given: Comparisons, key: ApiKey = teacher, retry: Retry = None, visit: Visit = None
    ) -> JSONResponse:
        """Write to the log which of two items is more like a query, whether one is like it, or grades of items."""
        return await _append(service, name, given, key, retry, visit)

    @app.get(
        f"{COLLECTION}/question", tags=["feedback"], dependencies=[teacher], response_model=Question, responses=CONFLICT
    )
    def question(name: Name) -> dict[str, Any]:
        """Ask which of two items is more like a third one, where the answer teaches most; comparisons are answers."""
        served = service.served(name)
        query, left, right = (one.shown() for one in served.question())
        return {"version": served.model.version, "query": query, "left": left, "right": right}


async def _append(
    service: Service,
    name: str,
    given: FeedbackBody | Sequence[FeedbackBody],
    key: ApiKey,
    retry: str | None,
    visit: str | None,
) -> JSONResponse:
    """Write feedback to the log; the user is that of a key of one user, the named one, or the visit of the page."""
    bodies = [given] if isinstance(given, FeedbackBody) else given

    problems: list[EntryProblem] = []

    def entry(at: int, body: FeedbackBody) -> LogEntry | None:
        more = {"user": user_of(key, body.user, visit), "version": body.version}
        more["signals"] = getattr(body, "signals", None)
        more["key"] = None if retry is None else f"{key.id}:{retry}:{at}"
        kind, ids, values = body.parts()
        try:
            query = service.resolve(name, dict(body.query))
            entry = feedback_entry(service, name, kind, query, ids, values, **more)
        except Unknown as error:
            problems.append(EntryProblem(entry=at, status="ignored", reason=str(error)))
            return None
        if (n := len(ids) - len(entry.shown)) > 0:
            reason = f"{n} items were left out: they are unknown, or were deleted"
            problems.append(EntryProblem(entry=at, status="accepted", reason=reason))
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
    return report([None if one is None else next(places) for one in read], problems, accepted=bool(written))

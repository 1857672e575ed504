"""What `/openapi.json` says about responses: their bodies, and the errors, security schemes and headers of all routes.

Fields may be added to bodies, so that clients must ignore those that they do not know."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, create_model

from mahala_search.serve.http.middleware import ALWAYS
from mahala_search.serve.searches import Reranked

# Of routes: what else they return.
CONFLICT: dict[int | str, Any] = {409: {"description": "It contradicts what is there."}}
IMAGE: dict[int | str, Any] = {200: {"content": {"image/*": {"schema": {"type": "string"}}}}}
LINES: dict[int | str, Any] = {200: {"content": {"application/jsonl": {"schema": {"type": "string"}}}}}
_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_RETRY = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}}
_KEY = {"type": "http", "scheme": "bearer", "description": "A key of `mahala serve key create`."}


class Response(BaseModel, extra="allow"):
    """The body of a response."""


class Found(Response):
    """An item that was found."""

    id: str
    score: float
    payload: dict[str, Any]


class Searched(Response):
    """The items that were found, best first, and the version that ranked them; `plain` is the plain ranking.

    Events that come later name the `search_id`. With a control share, `arm` says which ranking it is: "learned",
    "plain", or "mixed" from both.
    """

    version: int
    search_id: str
    arm: str | None
    results: list[Found]
    plain: list[Found] | None = None


class Contribution(Response):
    """What a feature or a direction adds to a score."""

    number: int
    contribution: float


class Item(Response):
    """An item, as it is shown."""

    id: str
    payload: dict[str, Any]


class Cause(Response):
    """A choice that moved an item: what was searched for, in words or by an item, what was chosen, and how often.

    `text` is null if too few users searched for these words, and `yours` is whether you did.
    """

    text: str | None
    item: Item | None
    chosen: Item
    n: int
    users: int
    yours: bool
    raises: bool


class CollectionSummary(Response):
    """A collection: how many numbers a vector has, how many items there are, and what else queries may be."""

    name: str
    width: int
    items: int
    text: bool
    images: bool
    examples: list[str]


class EntryProblem(Response):
    """Why an entry of a request, by its number, was ignored or refused, or what of it was left out."""

    entry: int
    status: str
    reason: str


class Problem(Response):
    """What is wrong, by RFC 9457; `errors` has a field and what is wrong with it."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] | None = None


def _body(name: str, about: str, **fields: Any) -> Any:
    """Return the body of one route or of a few, whose fields are all required."""
    required: Any = {field: (kind, ...) for field, kind in fields.items()}
    return create_model(name, __base__=Response, __doc__=about, **required)


Health = _body("Health", "The process runs.", status=str, version=str)
Ready = _body("Ready", "The database can be used.", status=str)
Dropped = _body("Dropped", "The collection that was removed.", dropped=str)
Count = _body("Count", "How many there were.", n=int)
ItemWithVector = _body("ItemWithVector", "An item with its vector.", id=str, payload=dict[str, Any], vector=list[float])
ItemList = _body("ItemList", "Some of the items, and how many there are.", n=int, items=list[Item])
RerankedList = _body(
    "RerankedList", "The candidates, best first, and what else a search returns.",
    version=int, search_id=str, arm=str | None, results=list[Reranked],
)  # fmt: skip
Explanation = _body(
    "Explanation",
    "A score: its plain and learned parts, what clicks for this query add, contributions, and their causes.",
    version=int, item=str, score=float, plain=float, learned=float, remembered=float,
    features=list[Contribution], directions=list[Contribution], causes=list[Cause],
)  # fmt: skip
Status = _body(
    "Status", "What is served, and the status of each learner.",
    version=int, pinned=bool, served=str, items=int, graph=int, logged=int, learned=int,
    learners=dict[str, dict[str, Any]], differences=list[dict[str, Any]], taught=dict[str, Any] | None,
)  # fmt: skip
Spectrum = _body(
    "Spectrum", "Singular values of M - I, largest first, for new and for known queries.",
    version=int, new=list[float], known=list[float],
)  # fmt: skip
Logged = _body(
    "Logged", "The place of each entry in the log, null if it was not written, and the problems of entries.",
    places=list[int | None], problems=list[EntryProblem],
)  # fmt: skip
Question = _body(
    "Question", "Which of two items is more like a third one?", version=int, query=Item, left=Item, right=Item
)
ControlReport = _body(
    "ControlReport",
    """What people did with each ranking: `arms`, the difference of learned and plain, and what they preferred.

    Intervals hold with 95 % for one look (`low`, `high`), and for all looks together (`always_low`, `always_high`).
    """,
    share=float, mode=str, since=float, verdict=str | None, sentence=str, arms=dict[str, dict[str, Any]],
    differences=dict[str, dict[str, dict[str, float]]], preference=dict[str, dict[str, float]],
)  # fmt: skip
# Of feedback: nothing of it was written.
LOGGED: dict[int | str, Any] = {200: {"description": "Nothing was written.", "model": Logged}}


def document(app: FastAPI, *, needs_keys: bool) -> None:
    """Let an app describe all its responses; without `needs_keys`, keys are optional and never refused."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            # FastAPI would describe its own errors, of another form.
            schema = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            components = schema["components"]
            components["schemas"]["Problem"] = Problem.model_json_schema()
            components["securitySchemes"] = {"key": _KEY}
            for name in ("HTTPValidationError", "ValidationError"):
                components["schemas"].pop(name, None)
            for path, operations in schema["paths"].items():
                for operation in operations.values():
                    _describe(path, operation, needs_keys)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _describe(path: str, operation: dict[str, Any], needs_keys: bool) -> None:
    """Add the security and the errors of an operation."""
    responses = operation["responses"]
    codes = [code for code in responses if code >= "400"]
    if path != "/health":
        codes += ["503"]
    if path not in ALWAYS:
        operation["security"] = [{"key": []}] if needs_keys else [{"key": []}, {}]
        codes += ["401", "403", "429"] if needs_keys else ["403", "429"]
    if "{name}" in path:
        codes += ["404"]
    if "requestBody" in operation:
        codes += ["400", "413", "415", "422"]
    for code in sorted(set(codes)):
        declared = responses.get(code, {})
        described = {"description": HTTPStatus(int(code)).phrase} | declared | {"content": _PROBLEM}
        responses[code] = described | ({"headers": _RETRY} if code in ("429", "503") else {})

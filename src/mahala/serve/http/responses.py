"""Bodies of responses, as `/openapi.json` documents them. Fields may be added to them, so that clients must ignore
those that they do not know."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from mahala.serve.searches import Reranked

# Of routes: what else they return.
CONFLICT: dict[int | str, Any] = {409: {"description": "It contradicts what is there."}}
IMAGE: dict[int | str, Any] = {200: {"content": {"image/*": {"schema": {"type": "string"}}}}}
LINES: dict[int | str, Any] = {200: {"content": {"application/jsonl": {"schema": {"type": "string"}}}}}


class Response(BaseModel, extra="allow"):
    """The body of a response."""


class Health(Response):
    """The process runs."""

    status: str
    version: str


class Ready(Response):
    """The database can be used."""

    status: str


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


class RerankedList(Response):
    """The candidates, best first, and what else a search returns."""

    version: int
    search_id: str
    arm: str | None
    results: list[Reranked]


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


class Explanation(Response):
    """A score: its plain and learned parts, what clicks for this query add, contributions, and their causes."""

    version: int
    item: str
    score: float
    plain: float
    learned: float
    remembered: float
    features: list[Contribution]
    directions: list[Contribution]
    causes: list[Cause]


class CollectionSummary(Response):
    """A collection: how many numbers a vector has, how many items there are, and what else queries may be."""

    name: str
    width: int
    items: int
    text: bool
    images: bool
    examples: list[str]


class Dropped(Response):
    """The collection that was removed."""

    dropped: str


class Count(Response):
    """How many there were."""

    n: int


class ItemWithVector(Item):
    """An item with its vector."""

    vector: list[float]


class ItemList(Response):
    """Some of the items, and how many there are."""

    n: int
    items: list[Item]


class Status(Response):
    """What is served, and the status of each learner."""

    version: int
    pinned: bool
    served: str
    items: int
    graph: int
    logged: int
    learned: int
    learners: dict[str, dict[str, Any]]
    differences: list[dict[str, Any]]
    taught: dict[str, Any] | None


class Spectrum(Response):
    """Singular values of M - I, largest first, for new and for known queries."""

    version: int
    new: list[float]
    known: list[float]


class EntryProblem(Response):
    """Why an entry of a request, by its number, was ignored or refused, or what of it was left out."""

    entry: int
    status: str
    reason: str


class Logged(Response):
    """The place of each entry in the log, null if it was not written, and the problems of entries."""

    places: list[int | None]
    problems: list[EntryProblem]


# Of feedback: nothing of it was written.
LOGGED: dict[int | str, Any] = {200: {"description": "Nothing was written.", "model": Logged}}


class Question(Response):
    """Which of two items is more like a third one?"""

    version: int
    query: Item
    left: Item
    right: Item


class ControlReport(Response):
    """What people did with each ranking: `arms`, the difference of learned and plain, and what they preferred.

    Intervals hold with 95 % for one look (`low`, `high`), and for all looks together (`always_low`, `always_high`).
    """

    share: float
    mode: str
    since: float
    verdict: str | None
    sentence: str
    arms: dict[str, dict[str, Any]]
    differences: dict[str, dict[str, dict[str, float]]]
    preference: dict[str, dict[str, float]]


class Problem(Response):
    """What is wrong, by RFC 9457; `errors` has a field and what is wrong with it."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] | None = None

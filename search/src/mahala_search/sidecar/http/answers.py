"""Bodies of answers. Fields may be added to them, so that clients must ignore those that they do not know."""

from collections.abc import Mapping
from typing import (
    Any,
    NotRequired,  # those of Python 3.11 lack what Pydantic needs
)

from typing_extensions import TypedDict


class Problem(TypedDict):
    """What is wrong, by RFC 9457; `errors` says where in the request."""

    type: str
    title: str
    status: int
    detail: str
    errors: NotRequired[list[dict[str, str]]]


class Boost(TypedDict):
    """What to add to the score of an item, and how many places it may gain at most by that; null: any number."""

    id: str
    add: float
    places: int | None


class Embedded(TypedDict):
    """The vector to search with, and what identifies the search; its ids are null if it could not be written."""

    f32: str
    search_id: str | None
    arm: str | None
    boosts: list[Boost]
    token: str | None


class EmbeddedList(TypedDict):
    """The version that was served, and a result for each query."""

    version: int
    results: list[Embedded]


class Reranked(TypedDict):
    """A candidate with its score, and its position among those given, from 0."""

    id: str
    score: float
    position: int


class RerankedList(TypedDict):
    """The candidates, best first; `teams` tells of two mixed rankings which item is of which."""

    version: int
    results: list[Reranked]
    search_id: str | None
    arm: str | None
    teams: str | None
    token: str | None


class Missing(TypedDict):
    """Items whose vectors are needed: send them with `vectors`, unless the space has a resolver."""

    missing: list[str]


class EntryProblem(TypedDict):
    """Why an entry of a request, by its number, was ignored or refused."""

    entry: int
    status: str
    reason: str


class Accepted(Missing):
    """What became of the entries. `stored` is false while they wait on disk for the database."""

    accepted: int
    stored: bool
    problems: list[EntryProblem]


class Mixture(TypedDict):
    """A mixture of two rankings, and a letter for the team of each item, which `shown` takes."""

    ids: list[str]
    teams: str


class SpaceStatus(TypedDict):
    """A space: its settings, what is served, and how far learning is."""

    name: str
    settings: Mapping[str, Any]
    version: int
    pinned: int | None
    problem: str | None
    successor: str | None
    status: Mapping[str, Any]
    progress: Mapping[str, Any]
    counts: Mapping[str, int]

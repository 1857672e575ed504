"""Bodies of requests, with their limits."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import AfterValidator, BaseModel, Discriminator, Field, FiniteFloat, Tag, model_validator

from mahala_search.arrays import FloatArray
from mahala_search.events.formats import REFUSED

# Limits on one request; that on its bytes is in `ServerSettings`.
WIDEST, PAGE, BATCH = 16_384, 200, 1000


def _text(value: str) -> str:
    if REFUSED.search(value):
        raise ValueError("text must have neither NUL nor half of a surrogate pair")
    return value


def decoded(text: str, name: str = "f32") -> FloatArray:
    """Return the vector that has been written as base64 of float32, the first byte the lowest."""
    try:
        return np.frombuffer(base64.b64decode(text, validate=True), "<f4").astype(np.float64)
    except (binascii.Error, ValueError):
        raise ValueError(f"{name} must be base64 of float32 numbers of four bytes each") from None


def encoded(vector: FloatArray) -> str:
    """Return a vector as base64 of float32."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


# Which part of a union a body is: an object, with the first tag, or a list of them, with the second.
TAGS = ("one", "list")
_FORM = Discriminator(lambda value: TAGS[isinstance(value, list)])
T = TypeVar("T")
OneOrList = Annotated[
    Annotated[T, Tag("one")] | Annotated[list[T], Field(min_length=1, max_length=BATCH), Tag("list")], _FORM
]
Id = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_text)]
Words = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_text)]
SearchId = Annotated[str, Field(min_length=1, max_length=64, pattern="^[A-Za-z0-9_.:-]+$")]
Arm = Annotated[str, Field(min_length=1, max_length=32), AfterValidator(_text)]
Binary = Annotated[str, Field(max_length=WIDEST * 6)]
Numbers = Annotated[list[FiniteFloat], Field(min_length=1, max_length=WIDEST)]
Ids = Annotated[list[Id], Field(min_length=1, max_length=PAGE)]
Signals = dict[Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_text)], FiniteFloat | None]
_F32 = encoded(np.array([0.6, 0.8]))


class Body(BaseModel, extra="forbid", strict=True):
    """A body without unknown fields, whose values have the types that are asked for: "5" and true are no numbers."""


class QueryBody(Body, json_schema_extra={"examples": [{"f32": _F32, "id": "tent", "user": "u17"}]}):
    """A query: its vector, as numbers or as base64 of float32, and ids by which it and the user are recognised."""

    vector: Numbers | None = None
    f32: Binary | None = None
    id: Words | None = None
    text: Words | None = None
    user: Id | None = None
    arm: Arm | None = None

    @property
    def named(self) -> str | None:
        """The id of the query, or else its text."""
        return self.text if self.id is None else self.id

    def values(self, name: str) -> Any:
        """Return the vector; raise ValueError, with the name of the query, unless it is given in one of two forms."""
        if (self.vector is None) == (self.f32 is None):
            raise ValueError(f"{name} must have one of vector and f32")
        return self.vector if self.f32 is None else decoded(self.f32, f"{name}.f32")


class EmbedBody(Body):
    """Queries to embed; with `record` false they are no searches, and get no ids."""

    queries: Annotated[list[QueryBody], Field(min_length=1, max_length=BATCH)]
    record: bool = True


class CandidateBody(Body):
    """A result of the engine: its score there, other signals, and its vector if it is at hand."""

    id: Id
    score: FiniteFloat
    signals: Signals = Field(default_factory=dict)
    f32: Binary | None = None


class RerankBody(Body):
    """A query, and the candidates for it in the order of the engine; the k best of them are shown, or all."""

    query: QueryBody
    candidates: Annotated[list[CandidateBody], Field(min_length=1, max_length=PAGE)]
    k: Annotated[int, Field(ge=1, le=PAGE)] = PAGE

    @model_validator(mode="after")
    def _check(self) -> RerankBody:
        if len({one.id for one in self.candidates}) < len(self.candidates):
            raise ValueError("candidates must have each id once")
        return self


class SearchBody(Body):
    """A search that a client made in its own process."""

    query: QueryBody
    version: Annotated[int, Field(ge=0, le=2**53)] = 0
    at: Annotated[FiniteFloat, Field(ge=0.0)]


class ShownBody(Body, json_schema_extra={"examples": [{"search_id": "4f0c9a", "ids": ["d9", "d12"], "seen": 1}]}):
    """What was shown for a search, from the top; how many came into view; vectors of items that are `missing`."""

    search_id: SearchId | None = None
    token: Annotated[str, Field(max_length=1000)] | None = None
    ids: Ids
    seen: Annotated[int, Field(ge=0, le=PAGE)] | None = None
    positions: Annotated[list[Annotated[int, Field(ge=1, le=2**31)]], Field(max_length=PAGE)] | None = None
    teams: Annotated[str, Field(max_length=PAGE, pattern="^[AB]*$")] | None = None
    vectors: Annotated[dict[Id, Binary], Field(max_length=PAGE)] = Field(default_factory=dict)
    search: SearchBody | None = None

    @model_validator(mode="after")
    def _check(self) -> ShownBody:
        if (self.search_id is None) == (self.token is None):
            raise ValueError("what was shown has either the search_id or the token of its search")
        if len(set(self.ids)) < len(self.ids):
            raise ValueError("ids must have each item once")
        for name in ("positions", "teams"):
            given: Sequence[Any] | None = getattr(self, name)
            if given is not None and len(given) != len(self.ids):
                raise ValueError(f"{name} must have one for each of the {len(self.ids)} items, got {len(given)}")
        return self


class InterleaveBody(Body):
    """Two rankings for a search: `a`, the learned one or another that is to be proved, and `b`."""

    search_id: SearchId
    a: Ids
    b: Ids
    k: Annotated[int, Field(ge=1, le=PAGE)] = 10


class ControlBody(Body):
    """The share of the people who get another ranking, to measure the gain, and which one."""

    share: Annotated[FiniteFloat, Field(ge=0.0, le=0.5)] = 0.0
    mode: Literal["plain", "interleave", "team"] = "plain"


class SpaceBody(
    Body, json_schema_extra={"examples": [{"width": 384, "encoder": "bge-small@1.5", "control": {"share": 0.1}}]}
):
    """The settings of a space. `width`, `similarity` and `encoder` stay; what else is left out is as it was."""

    width: Annotated[int, Field(ge=1, le=WIDEST)]
    similarity: Literal["cosine", "dot"] = "cosine"
    encoder: Annotated[str, Field(max_length=200), AfterValidator(_text)] = ""
    resolver: dict[str, Any] | None = None
    control: ControlBody = ControlBody()
    learner: dict[str, Any] = Field(default_factory=dict)
    texts: bool = False
    retention: Annotated[FiniteFloat, Field(gt=0.0, le=3650.0)] = 90.0


class ServedBody(Body):
    """The version to serve: one that is kept, 0 for the plain ranking, or null for the newest."""

    version: Annotated[int, Field(ge=0, le=2**53)] | None


class UserBody(Body):
    """Whom to forget: in the body, as proxies log addresses."""

    user: Id


class SuccessorBody(Body):
    """The name of an empty space with the next encoder."""

    space: Annotated[str, Field(max_length=64)]

"""Fields and bodies of requests that several routes share, with their limits."""

import json
import re
from typing import Annotated, Any, TypeVar

from fastapi import Path
from pydantic import AfterValidator, BaseModel, BeforeValidator, Discriminator, Field, FiniteFloat, Tag

from mahala_search.events.formats import REFUSED

# The routes of a collection.
COLLECTION = "/v1/collections/{name}"
# Limits on one request; that on its bytes is in `ServerSettings`.
WIDEST, PAGE, BATCH = 16_384, 200, 500
_PAYLOAD, _DEPTH = 65_536, 16


def _text(value: str) -> str:
    if REFUSED.search(value):
        raise ValueError("text must have neither NUL nor half of a surrogate pair")
    return value


def _digits(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch("[0-9]{1,18}", value):
        raise ValueError("must be a whole number of at least 0, in digits")
    return value


def _payload(value: dict[str, Any]) -> dict[str, Any]:
    if _depth(value) > _DEPTH:
        raise ValueError(f"a payload may be nested {_DEPTH} deep at most")
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    if len(text) > _PAYLOAD:
        raise ValueError(f"a payload may have {_PAYLOAD:,} characters of JSON at most, got {len(text):,}")
    if "\\u0000" in text:
        raise ValueError("text must not have NUL")
    _text(text)
    return value


def _depth(value: Any) -> int:
    """Return how deep a value is nested, or more than is permitted."""
    level, depth = [value], 0
    while level and depth <= _DEPTH:
        parents = [one for one in level if isinstance(one, dict | list)]
        level = [inner for one in parents for inner in (one.values() if isinstance(one, dict) else one)]
        depth += 1
    return depth


Name = Annotated[str, Path(max_length=64, examples=["demo"])]
Id = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_text)]
UserId = Annotated[str, Path(min_length=1, max_length=256), AfterValidator(_text)]
Text = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_text)]
Vector = Annotated[list[FiniteFloat], Field(min_length=1, max_length=WIDEST)]
Payload = Annotated[dict[str, Any], AfterValidator(_payload)]
Version = Annotated[int, Field(ge=0, le=2**53)]
# A number in an address; the one of a body is an int.
Number = Annotated[int, BeforeValidator(_digits)]
# Which part of a union a body is: an object, with the first tag, or a list of them, with the second.
TAGS = ("one", "list")
FORM = Discriminator(lambda value: TAGS[isinstance(value, list)])
T = TypeVar("T")
OneOrList = Annotated[
    Annotated[T, Tag("one")] | Annotated[list[T], Field(min_length=1, max_length=BATCH), Tag("list")], FORM
]


class Body(BaseModel, extra="forbid", strict=True):
    """A body without unknown fields, whose values have the types that are asked for: "5" and true are no numbers."""


# Other numbers of an item, or lists of them, by the names of signals.
SignalName = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_text)]


class QueryBody(Body, json_schema_extra={"examples": [{"item": "Gazpacho"}]}):
    """A query: a vector, the id of an item, or a text; and an id by which it is recognised."""

    vector: Vector | None = None
    item: Id | None = None
    text: Text | None = None
    id: Id | None = None

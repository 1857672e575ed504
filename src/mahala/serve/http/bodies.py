"""What requests hold, with its limits."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, model_validator

# Limits on one request; that on its bytes is in `Settings`.
WIDEST, PAGE, BATCH, ITEMS, SEARCHES = 16_384, 200, 500, 1000, 64
_PAYLOAD, _DEPTH = 65_536, 16
# What no text may have, because not every database takes it.
_NEVER = re.compile("[\x00\ud800-\udfff]")


def _text(value: str) -> str:
    if _NEVER.search(value):
        raise ValueError("text must have neither NUL nor half of a surrogate pair")
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
        level = [
            inner
            for own in level
            if isinstance(own, dict | list)
            for inner in (own.values() if isinstance(own, dict) else own)
        ]
        depth += 1
    return depth


Id = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_text)]
Text = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_text)]
Vector = Annotated[list[FiniteFloat], Field(min_length=1, max_length=WIDEST)]
Payload = Annotated[dict[str, Any], AfterValidator(_payload)]


class Body(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid")


class QueryBody(Body):
    """A query: a vector, the id of an item, or a text; and an id by which it is known again."""

    vector: Vector | None = None
    item: Id | None = None
    text: Text | None = None
    id: Id | None = None

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"item": "numpy.mean"}]})


class SearchBody(Body):
    """A search. With `plain`, the plain ranking is returned as well."""

    query: QueryBody
    k: Annotated[int, Field(ge=1, le=1000)] = 10
    filter: Payload | None = None
    plain: bool = False

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"query": {"item": "numpy.mean"}, "k": 5, "filter": {"library": "scipy"}}]},
    )


class ImpressionBody(Body):
    """What was shown for a query from the top, and which of it was clicked, or a reaction to each."""

    query: QueryBody
    shown: Annotated[list[Id], Field(min_length=1, max_length=PAGE)]
    clicked: Annotated[list[Id], Field(max_length=PAGE)] | None = None
    reactions: Annotated[list[FiniteFloat], Field(max_length=PAGE)] | None = None
    user: Id | None = None
    version: Annotated[int, Field(ge=0, le=2**53)] | None = None

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "query": {"item": "numpy.mean"},
                    "shown": ["numpy.average", "numpy.median"],
                    "clicked": ["numpy.median"],
                    "user": "u17",
                    "version": 3,
                }
            ]
        },
    )

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
        return self

    def ids(self) -> list[str]:
        """Return the ids of all items that it names."""
        return [*self.shown, *([] if self.query.item is None else [self.query.item])]

    def waits(self) -> bool:
        """Return whether its entry cannot be made at once: a text is to be encoded, or the log to be read."""
        return self.query.text is not None

    def values(self) -> list[float]:
        """Return a reaction to each item shown."""
        clicked = set(self.clicked or ())
        return self.reactions if self.reactions is not None else [float(id in clicked) for id in self.shown]


class ComparisonBody(Body):
    """An answer to "which is more like this?", to "is this one like it?", or grades of items for a query."""

    query: QueryBody
    better: Id | None = None
    worse: Id | None = None
    other: Id | None = None
    similar: bool | None = None
    grades: Annotated[dict[Id, FiniteFloat], Field(min_length=1, max_length=PAGE)] | None = None
    user: Id | None = None
    version: Annotated[int, Field(ge=0, le=2**53)] | None = None

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"query": {"item": "numpy.mean"}, "better": "numpy.median", "worse": "numpy.save"},
                {"query": {"item": "numpy.mean"}, "other": "numpy.median", "similar": True},
            ]
        },
    )

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

    def ids(self) -> list[str]:
        """Return the ids of all items that it names."""
        return [*self.shown(), *([] if self.query.item is None else [self.query.item])]

    def waits(self) -> bool:
        """Return whether its entry cannot be made at once: a text is to be encoded, or the log to be read."""
        return self.query.text is not None or self.other is not None

    def shown(self) -> dict[str, float]:
        """Return a reaction to each item."""
        if self.grades is not None:
            return self.grades
        if self.other is not None:
            return {self.other: float(self.similar or False)}
        return {str(self.better): 1.0, str(self.worse): 0.0}


class ItemBody(Body):
    """An item: its id, its vector, and what is shown and filtered by."""

    id: Id
    vector: Vector
    payload: Payload = {}

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"id": "alien", "vector": [0.1, 0.9], "payload": {"year": 1979}}]},
    )


class CollectionBody(Body):
    """A new collection: the number of numbers in a vector, and the learners."""

    width: Annotated[int, Field(ge=1, le=WIDEST)]
    settings: Payload = {}


class ExplainBody(Body):
    """A query and an item that was found for it; `n` contributions are returned at most."""

    query: QueryBody
    item: Id
    n: Annotated[int, Field(ge=1, le=100)] = 5


class VersionBody(Body):
    """The version to serve: one that is kept, 0 for the plain ranking, or null for the newest."""

    version: Annotated[int, Field(ge=0, le=2**53)] | None


class IdsBody(Body):
    """Ids of items."""

    ids: Annotated[list[Id], Field(min_length=1, max_length=ITEMS)]

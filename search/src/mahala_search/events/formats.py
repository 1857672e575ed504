"""Read events in the formats of `mahala serve`, of OpenSearch's User Behavior Insights (UBI) and of Metarank."""

import dataclasses
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
# What people do with an item, and how much it says; a name may have more words before it, as product_click.
VALUES = {"click": 1.0, "dwell": 1.0, "like": 2.0, "watch": 2.0, "add_to_cart": 2.0, "purchase": 3.0, "impression": 0.0}
# UBI's queries have all hits. So many of them count as seen, if no event says that more were.
PAGE = 10
# Seconds of a dwell from which on it counts; seconds by which a clock may be ahead.
SHORTEST, AHEAD = 5.0, 300.0
# The longest ids, of searches and of all others, the longest kind and arm, how many items are read, the last position.
_LONGEST_SEARCH, _LONGEST, _LONGEST_KIND, _MOST_SHOWN, _LAST = 200, 256, 32, 200, 10_000
# Characters that not every database takes.
REFUSED = re.compile("[\x00\ud800-\udfff]")
_NATIVE = {
    "search_id", "item", "type", "seconds", "value", "revenue", "position", "user", "timestamp", "id", "query", "shown",
    "seen", "positions", "signals", "arm",
}  # fmt: skip


class Shown(NamedTuple):
    """Items that were shown for a query from the top: {"vector"}, {"item"} or {"text"}, perhaps with an {"id"}.

    `seen` is how many of them came into view, None all of them; `positions` are their places on the page, from 1.
    `signals` are numbers of each item by name, and `arm` is that of a comparison that the team makes itself.
    """

    search_id: str
    items: Sequence[str]
    query: Mapping[str, Any]
    user: str | None
    at: float
    seen: int | None = None
    positions: Sequence[int] | None = None
    signals: Mapping[str, Sequence[float | None]] | None = None
    arm: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Reaction:
    """What a user did with an item that was shown for a search; a larger value says more.

    The kind is one of `VALUES`, or another one with a value of its own. "impression" only says that the item was seen.
    """

    search_id: str
    item: str
    kind: str
    value: float
    revenue: float = 0.0
    user: str | None = None
    at: float = dataclasses.field(default_factory=time.time)
    position: int | None = None  # of the item on the page, if it says so


class Ignored(ValueError):
    """An event is well-formed, but there is nothing to learn from it."""


def read_event(event: Any) -> Shown | Reaction:
    """Return what an event says; raise Ignored if that is nothing, and ValueError if it is malformed.

    The fields of the event tell its format: `event` is Metarank's, `query_id` and `action_name` are UBI's.

    >>> event = read_event({"search_id": "s", "item": "a", "user": "u", "timestamp": "2026-11-01T12:00:00Z"})
    >>> event.kind, event.value, event.at
    ('click', 1.0, 1793534400.0)
    """
    if not isinstance(event, Mapping):
        raise ValueError(f"an event must be an object, got {type(event).__name__}")
    if isinstance(event.get("_source"), Mapping):  # a hit of OpenSearch
        event = event["_source"]
    read = _metarank if "event" in event else _ubi if event.keys() & {"query_id", "action_name"} else _mahala
    return read(event)


def _mahala(event: Mapping[str, Any]) -> Shown | Reaction:
    if unknown := sorted(event.keys() - _NATIVE):
        raise ValueError(f"an event has no field {unknown[0]!r:.80}, only {', '.join(sorted(_NATIVE))}")
    search, at = _id(event, "search_id", _LONGEST_SEARCH), _time(event)
    if "shown" not in event:
        user, item = _optional_id(event, "user"), _id(event, "item")
        return _reaction(event, "type", search, item, user, at, event.get("position"))
    query = event.get("query")
    if not isinstance(query, Mapping):
        raise ValueError('query must be an object with "vector", "item" or "text"')
    read = _query(query, query.get("text"), _optional_id(query, "id", 1000))
    items, user = _items(event["shown"], "shown"), _optional_id(event, "user")
    arm = _optional_id(event, "arm", _LONGEST_KIND)
    seen = None if event.get("seen") is None else _place(event["seen"], "seen", least=0)
    lists = {} if event.get("signals") is None else event["signals"]
    if not isinstance(lists, Mapping):
        raise ValueError("signals must be an object with a list of numbers for each signal")
    signals = {str(name): _aligned(values, items, f"signals.{name}", _number) for name, values in lists.items()}
    given = event.get("positions")
    positions = None if given is None else _aligned(given, items, "positions", _place)
    return Shown(search, items, read, user, at, seen, positions, signals or None, arm)


def _ubi(event: Mapping[str, Any]) -> Shown | Reaction:
    if "action_name" in event and event.get("query_id") in (None, ""):  # such as a page that was opened before a search
        raise Ignored("the event has no query_id")
    search, user, at = _id(event, "query_id", _LONGEST_SEARCH), _optional_id(event, "client_id"), _time(event)
    if "action_name" not in event:
        attributes = event.get("query_attributes")
        query = _query(attributes if isinstance(attributes, Mapping) else {}, event.get("user_query"))
        items = _items(event.get("query_response_hit_ids"), "query_response_hit_ids")
        return Shown(search, items, query, user, at, min(PAGE, len(items)))
    attributes = event.get("event_attributes")
    attributes = attributes if isinstance(attributes, Mapping) else {}
    item = attributes.get("object")
    holder = item if isinstance(item, Mapping) else event
    place = attributes.get("position")
    ordinal = place.get("ordinal") if isinstance(place, Mapping) else None
    values = {**event, "revenue": attributes.get("revenue", 0.0)}
    if holder.get("object_id") is None:
        raise Ignored(f"action_name {event['action_name']!r:.40} has no object_id")
    return _reaction(values, "action_name", search, _id(holder, "object_id"), user, at, ordinal)


def _metarank(event: Mapping[str, Any]) -> Shown | Reaction:
    kind = event.get("event")
    if kind in ("item", "user"):
        raise Ignored(f"event {kind!r} is neither a ranking nor an interaction")
    user = _optional_id(event, "user" if event.get("user") is not None else "session")
    fields = event.get("fields")
    named = [one for one in fields if isinstance(one, Mapping)] if isinstance(fields, list) else []
    values = {str(one.get("name")): one.get("value") for one in named}
    if kind == "interaction":
        if event.get("ranking") is None:
            raise Ignored("the interaction has no ranking")
        search, item = _id(event, "ranking", _LONGEST_SEARCH), _id(event, "item")
        revenue = {"revenue": values.get("revenue", 0.0)}
        return _reaction({**event, **revenue}, "type", search, item, user, _time(event), None)
    if kind != "ranking":
        raise ValueError(f"event must be ranking, interaction, item or user, got {kind!r:.40}")
    items = event.get("items")
    if not isinstance(items, list) or not all(isinstance(one, Mapping) for one in items):
        raise ValueError("items must be a list of objects with an id")
    shown = _items([one.get("id") for one in items], "items")
    relevancy = {str(one.get("id")): one["relevancy"] for one in items if one.get("relevancy") is not None}
    signals = {"relevancy": [_number(relevancy.get(id), "relevancy") for id in shown]} if relevancy else None
    search, query = _id(event, "id", _LONGEST_SEARCH), _query(values, values.get("query"))
    return Shown(search, shown, query, user, _time(event), signals=signals)


def _reaction(
    event: Mapping[str, Any], field: str, search: str, item: str, user: str | None, at: float, place: Any
) -> Reaction:
    kind, value = _value(event, field)
    revenue = _number(event.get("revenue"), "revenue") or 0.0
    if revenue < 0.0:
        raise ValueError(f"revenue must be at least 0, got {revenue:g}")
    position = None if place is None else _place(place, "position")
    return Reaction(search, item, kind, value, revenue, user, at, position)


def _aligned(values: Any, items: Sequence[str], field: str, read: Callable[[Any, str], T]) -> list[T]:
    """Return a list of one value for each item, each of which is read."""
    if not isinstance(values, list) or len(values) != len(items):
        raise ValueError(f"{field} must be a list of {len(items)} values, one for each different item shown")
    return [read(value, field) for value in values]


def _number(value: Any, field: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 1e12:
        raise ValueError(f"{field} must be a number up to 1e12, got {value!r:.40}")
    return float(value)


def _place(value: Any, field: str, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LAST:
        raise ValueError(f"{field} must be a whole number from {least} to {_LAST}, got {value!r:.40}")
    return value


def _query(event: Mapping[str, Any], text: Any, id: str | None = None) -> dict[str, Any]:
    """Return a query by its vector or item, recognised by its id or else its text; or else by the text."""
    if text is not None and not (isinstance(text, str) and 0 < len(text) <= 1000 and not REFUSED.search(text)):
        raise ValueError("the text of a query must have 1 to 1000 characters, neither NUL nor half a surrogate pair")
    if isinstance(event.get("vector"), list):
        return {"vector": event["vector"], "id": id or text}
    if event.get("item") is not None:
        return {"item": _id(event, "item"), "id": id or text}
    return {"text": text, "id": id}


def _id(event: Mapping[str, Any], field: str, longest: int = _LONGEST) -> str:
    value = event.get(field)
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not 0 < len(text) <= longest or REFUSED.search(text):
        raise ValueError(f"{field} must be an id of 1 to {longest} characters, got {value!r:.40}")
    return text


def _optional_id(event: Mapping[str, Any], field: str, longest: int = _LONGEST) -> str | None:
    return None if event.get(field) is None else _id(event, field, longest)


def _items(values: Any, field: str) -> list[str]:
    """Return the first items that were shown, each once."""
    if values is not None and not isinstance(values, list):
        raise ValueError(f"{field} must be a list of ids, got {type(values).__name__}")
    if not values:
        raise Ignored("nothing was shown")
    return list(dict.fromkeys(_id({field: value}, field) for value in values[:_MOST_SHOWN]))


def _value(event: Mapping[str, Any], field: str) -> tuple[str, float]:
    """Return the kind of an event, and how much it says: its value, or that of its kind."""
    name = re.sub("[ -]", "_", str(event.get(field, "click")).lower())
    kind = next((kind for kind in VALUES if name == kind or name.endswith(f"_{kind}")), None)
    for number in ("value", "seconds"):
        value = event.get(number, 1.0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1e6:
            raise ValueError(f"{number} must be a number from 0 to 1000000, got {value!r:.40}")
    if kind == "impression":
        return kind, 0.0
    if kind == "dwell" and float(event.get("seconds", 0.0)) < SHORTEST:
        raise Ignored(f"a dwell of less than {SHORTEST:g} seconds says nothing")
    if "value" not in event and kind is None:
        raise Ignored(f"{field} {name!r:.40} says nothing about the item; give a value, or one of {', '.join(VALUES)}")
    if (value := float(event.get("value", VALUES.get(kind or "", 0.0)))) == 0.0:
        raise Ignored("the value is 0")
    return kind or name[:_LONGEST_KIND], value


def _time(event: Mapping[str, Any]) -> float:
    """Return the time of an event in seconds since 1970, from seconds, milliseconds or ISO 8601; by default now."""
    value, now = event.get("timestamp"), time.time()
    if value is None:
        return now
    try:
        number = math.nan if isinstance(value, bool) else _seconds(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not number >= 0.0:
        raise ValueError(f"timestamp must be seconds or milliseconds since 1970, or ISO 8601, got {value!r:.40}")
    if number > now + AHEAD:
        raise ValueError(f"timestamp must not be in the future, got {value!r:.40}")
    return number


def _seconds(value: Any) -> float:
    try:
        number = float(value)
    except ValueError:
        at = datetime.fromisoformat(value)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    return number / 1000.0 if number > 1e11 else number

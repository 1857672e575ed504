"""Events in our form, and in those of other systems."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala_search.events.formats import Ignored, Reaction, Shown, read_event
from strategies import examples

AT = "2026-11-01T12:00:00Z"
CLICK = {"search_id": "s", "item": "a"}
UBI = {"query_id": "s", "client_id": "u", "timestamp": AT}
RANKING = {"event": "ranking", "id": "s", "timestamp": "1793534400000", "user": "u", "items": [{"id": "a"}, {"id": 7}]}
INTERACTION = {"event": "interaction", "id": "e", "timestamp": 1793534400, "type": "purchase", "item": "a"}


def reaction(search_id, item, value, user, at, kind="click", revenue=0.0, position=None):
    return Reaction(search_id, item, kind, value, revenue, user, at, position)


@pytest.fixture(autouse=True)
def _now(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1793600000.0)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (CLICK | {"timestamp": AT}, reaction("s", "a", 1.0, None, 1793534400.0)),
        (CLICK, reaction("s", "a", 1.0, None, 1793600000.0)),
        (CLICK | {"type": "dwell", "seconds": 5, "user": "u"}, reaction("s", "a", 1.0, "u", 1793600000.0, "dwell")),
        (CLICK | {"type": "anything", "value": 0.5}, reaction("s", "a", 0.5, None, 1793600000.0, "anything")),
        (
            CLICK | {"type": "purchase", "revenue": 9.5, "position": 3},
            reaction("s", "a", 3.0, None, 1793600000.0, "purchase", 9.5, 3),
        ),
        (
            {"search_id": "s", "shown": ["a", "b"], "query": {"id": "q"}, "timestamp": AT, "seen": 1}
            | {"positions": [3, 4], "signals": {"bm25": [0.5, None]}, "arm": "B"},
            Shown(
                "s", ["a", "b"], {"text": None, "id": "q"}, None, 1793534400.0, 1, [3, 4], {"bm25": [0.5, None]}, "B"
            ),
        ),
        (
            {"search_id": "s", "shown": ["a", "b", "a"], "query": {"item": "c", "id": "q"}, "timestamp": AT},
            Shown("s", ["a", "b"], {"item": "c", "id": "q"}, None, 1793534400.0),
        ),
        (
            UBI | {"user_query": "word", "query_response_hit_ids": ["a", 7]},
            Shown("s", ["a", "7"], {"text": "word", "id": None}, "u", 1793534400.0, 2),
        ),
        (
            {"_source": UBI | {"query_response_hit_ids": ["a"], "query_attributes": {"vector": [1.0]}}},
            Shown("s", ["a"], {"vector": [1.0], "id": None}, "u", 1793534400.0, 1),
        ),
        (
            UBI | {"action_name": "add-to-cart", "event_attributes": {"object": {"object_id": "a"}}},
            reaction("s", "a", 2.0, "u", 1793534400.0, "add_to_cart"),
        ),
        (UBI | {"action_name": "product_click", "object_id": "a"}, reaction("s", "a", 1.0, "u", 1793534400.0)),
        (
            UBI
            | {"action_name": "impression"}
            | {"event_attributes": {"object": {"object_id": "a"}, "position": {"ordinal": 4}}},
            reaction("s", "a", 0.0, "u", 1793534400.0, "impression", 0.0, 4),
        ),
        (
            RANKING | {"fields": [{"name": "query", "value": "word"}, {"name": "vector", "value": [2.0]}]},
            Shown("s", ["a", "7"], {"vector": [2.0], "id": "word"}, "u", 1793534400.0),
        ),
        (
            RANKING | {"items": [{"id": "a", "relevancy": 1.5}, {"id": "b"}]},
            Shown("s", ["a", "b"], {"text": None, "id": None}, "u", 1793534400.0, signals={"relevancy": [1.5, None]}),
        ),
        (
            INTERACTION | {"ranking": "s", "session": "v", "fields": [{"name": "revenue", "value": 3}]},
            reaction("s", "a", 3.0, "v", 1793534400.0, "purchase", 3.0),
        ),
    ],
)
def test_events_are_read(event, expected):
    assert read_event(event) == expected


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (CLICK | {"type": "dwell", "seconds": 4.9}, "less than 5 seconds"),
        (CLICK | {"type": "hover"}, "says nothing about the item"),
        (CLICK | {"value": 0}, "value is 0"),
        (UBI | {"query_response_hit_ids": None}, "nothing was shown"),
        (UBI | {"action_name": "click"}, "no object_id"),
        (UBI | {"action_name": "brand_filter", "object_id": "a"}, "says nothing"),
        (UBI | {"action_name": "brand_filter"}, "no object_id"),
        (UBI | {"action_name": "click", "query_id": None}, "no query_id"),
        ({"action_name": "page_view", "client_id": "u"}, "no query_id"),
        (INTERACTION, "no ranking"),
        ({"event": "item", "item": "a"}, "neither a ranking nor an interaction"),
    ],
)
def test_events_with_nothing_to_learn_are_ignored(event, reason):
    with pytest.raises(Ignored, match=reason):
        read_event(event)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ([], "must be an object"),
        ({"item": "a"}, "search_id must be an id"),
        (CLICK | {"search_id": "x" * 201}, "1 to 200 characters"),
        (CLICK | {"item": "\ud800"}, "item must be an id"),
        (CLICK | {"typo": 1}, "no field 'typo'"),
        (CLICK | {"value": True}, "value must be a number"),
        (CLICK | {"revenue": -1}, "revenue must be at least 0"),
        (CLICK | {"position": 0}, "position must be a whole number from 1"),
        ({"search_id": "s", "shown": ["a"], "query": {}, "positions": [1, 2]}, "positions must be a list of 1 values"),
        ({"search_id": "s", "shown": ["a"], "query": {}, "signals": [1]}, "signals must be an object"),
        (CLICK | {"timestamp": "yesterday"}, "seconds or milliseconds"),
        (CLICK | {"timestamp": -1}, "seconds or milliseconds"),
        (CLICK | {"timestamp": 10**400}, "seconds or milliseconds"),
        (CLICK | {"timestamp": "2026-11-03T12:00:00Z"}, "not be in the future"),
        ({"search_id": "s", "shown": "a", "query": {}}, "list of ids"),
        ({"search_id": "s", "shown": ["a"]}, "query must be"),
        (UBI | {"user_query": 7, "query_response_hit_ids": ["a"]}, "text of a query"),
        (RANKING | {"items": ["a"]}, "items must be a list"),
    ],
)
def test_malformed_events_are_refused_in_words(event, reason):
    with pytest.raises(ValueError, match=reason) as error:
        read_event(event)
    assert not isinstance(error.value, Ignored)


FIELDS = ["search_id", "item", "type", "value", "seconds", "timestamp", "shown", "query", "vector", "text", "query_id"]
FIELDS += ["action_name", "event_attributes", "object", "object_id", "query_response_hit_ids", "user_query", "_source"]
FIELDS += ["seen", "positions", "signals", "position", "ordinal", "revenue", "arm", "relevancy"]
FIELDS += ["event", "ranking", "items", "fields", "name", "id", "user", "session", "client_id", "query_attributes"]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
LEAVES |= st.sampled_from(["click", "ranking", "interaction", "dwell", "a", 10**400, "2026-11-01", "1e999"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)
)


@examples(40)
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, min_size=2, max_size=8))
def test_anything_is_read_or_refused_by_a_value_error(event):
    with contextlib.suppress(ValueError):
        read = read_event(event)
        assert 0.0 <= read.at <= 1793600300.0
        assert len(read.search_id) <= 200
        assert isinstance(read, Shown) or (0.0 < read.value <= 1e6) == (read.kind != "impression")

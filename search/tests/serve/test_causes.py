"""Causes: which choices in the log moved an item, and what others may see of them."""

from __future__ import annotations

import numpy as np
import pytest

from mahala_search.serve.index.causes import causes
from mahala_search.serve.index.served_collection import Query
from mahala_search.serve.service import Service
from mahala_search.serve.store.rows import LogEntry


@pytest.fixture
def index(tmp_path):
    with Service(tmp_path / "mahala.db", learn=False) as service:
        service.create("dishes", width=3)
        vectors = {"soup": [1, 0, 0], "broth": [0.9, 0.1, 0], "cake": [0, 1, 0], "pie": [0.1, 0.9, 0], "tea": [0, 0, 1]}
        service.put_items("dishes", [{"id": id, "vector": vector} for id, vector in vectors.items()])
        yield service.served("dishes").index


def chosen(index, id, others, text="warm", user="ann", vector=(1.0, 1.0, 0.0)):
    rows = [index.row(one) for one in (id, *others)]
    clicked = [1.0] + [0.0] * len(others)
    return LogEntry("impression", rows, clicked, vector=np.array(vector), query_id=text, user=user)


def ask(index, entries, id, user=None, n=3):
    return causes(entries, index, Query(np.array([1.0, 1.0, 0.0])), index.row(id), n, user)


def test_choices_of_alike_items_for_similar_queries_are_causes(index):
    entries = [
        chosen(index, "soup", ["cake", "pie"]),
        chosen(index, "soup", ["cake", "pie"]),
        chosen(index, "cake", ["tea"], "tea time", vector=(0.0, 0.0, 1.0)),  # another query
        chosen(index, "broth", [], "alone"),  # nothing else was shown
    ]
    (cause,) = ask(index, entries, "broth", "ann")
    assert cause["chosen"]["id"] == "soup"
    assert (cause["text"], cause["n"], cause["users"], cause["yours"]) == ("warm", 2, 1, True)
    assert cause["raises"]
    (cause,) = ask(index, entries, "pie", "ann")
    assert not cause["raises"]
    assert ask(index, [], "pie") == []


def test_words_of_few_others_are_not_shown(index):
    users = ["ann", "ben", "cat", None]
    for n in range(1, 5):
        entries = [chosen(index, "soup", ["cake"], user=user) for user in users[:n]]
        (cause,) = ask(index, entries, "broth", "dan")
        assert (cause["text"], cause["users"], cause["yours"]) == ("warm" if n >= 3 else None, n, False)
    by_item = LogEntry("comparison", [index.row("soup"), index.row("cake")], [1.0, 0.0], query=index.row("broth"))
    assert ask(index, [by_item], "soup", "dan")[0]["item"]["id"] == "broth"


def test_deleted_items_are_not_named(tmp_path):
    with Service(tmp_path / "mahala.db", learn=False) as service:
        service.create("dishes", width=3)
        service.put_items("dishes", [{"id": id, "vector": np.eye(3)[at]} for at, id in enumerate("abc")])
        index = service.served("dishes").index
        entries = [chosen(index, "a", "b")]
        assert ask(index, entries, "a")
        service.delete_items("dishes", ["b"])
        assert ask(index, entries, "a") == []

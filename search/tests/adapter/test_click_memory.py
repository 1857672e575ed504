"""The memory of clicks: its definition, its bounds, and what it does to rankings."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import mahala
from mahala.support.model_files import ModelFileError
from mahala_search import QueryAdapter
from mahala_search.adapter.maps.query_maps import QueryMaps
from mahala_search.adapter.memory import click_memory
from mahala_search.adapter.memory.click_memory import ClickMemory, RankRates, item_keys
from mahala_search.adapter.memory.remembered import digest_of
from reference.feedback import bonuses_of


def keys(*numbers):
    return np.array(numbers, dtype=np.uint64)


def filled(n=30, queries=4, items=5, seed=0):
    """A memory that has forgotten, and what it should hold in a dict."""
    rng, memory = np.random.default_rng(seed), ClickMemory(queries, items)
    want: dict[int, dict[int, np.ndarray]] = {}
    for _ in range(n):
        query, shown = int(rng.integers(7)), rng.permutation(9)[:4]
        clicks, expected = rng.random(4), rng.random(4)
        memory.learn(query, shown.astype(np.uint64), clicks, expected, "u")
        part = want.pop(query, {})
        for item, click, other in zip(shown.tolist(), clicks, expected, strict=True):
            part[item] = part.get(item, np.zeros(2)) + np.array([click, other])
        want[query] = dict(sorted(part.items(), key=lambda entry: tuple(-entry[1]))[:items])
        while len(want) > queries:
            del want[next(iter(want))]
    return memory, want


def counts_of(memory, query):
    """Return the counts of a query by item."""
    counts = memory.counts()
    at = counts.query == np.searchsorted(counts.queries, np.uint64(digest_of(query)))
    return dict(zip(counts.items[at].tolist(), zip(counts.clicks[at], counts.expected[at], strict=True), strict=True))


def test_least_recent_queries_and_items_with_the_fewest_clicks_are_forgotten():
    memory, want = filled()
    assert len(memory.counts().queries) == len(want)
    for query, part in want.items():
        counts = counts_of(memory, query)
        assert counts.keys() == part.keys()
        for item, (clicks, expected) in counts.items():
            assert (clicks, expected) == pytest.approx(tuple(part[item]), rel=1e-5)


def test_a_state_and_the_bonuses_hold_what_the_memory_does():
    memory, want = filled()
    again = ClickMemory(4, 5)
    again.set_state(*memory.get_state())
    for either in (memory, again):
        either.learn("new", keys(1, 2), np.ones(2), np.ones(2), "u")
    bonuses = again.bonuses(2.0)
    queries = [query for query in (*want, "new") if query in memory]
    sums = {(query, item): counts for query in queries for item, counts in counts_of(memory, query).items()}
    reference = bonuses_of(sums, 2.0)
    for query in queries:
        one, other = memory.bonus(query, 2.0), bonuses.of(query)
        np.testing.assert_array_equal(one.items, other.items)
        np.testing.assert_allclose(one.values, other.values, rtol=1e-5)
        np.testing.assert_allclose(one.values, [reference[query, item] for item in one.items.tolist()], rtol=1e-5)
    assert not len(bonuses.of("never").items)
    assert not len(ClickMemory().bonuses(1.0).queries)


def test_clicks_that_items_explain_count_more():
    """Of two queries with as many clicks, those of one are on one item, and the others anywhere."""
    memory = ClickMemory()
    for at in range(30):
        for name, clicked in (("same", 3), ("any", at % 10)):
            memory.learn(name, np.arange(10, dtype=np.uint64), np.arange(10) == clicked, np.full(10, 0.1), at)
    same, other = memory.bonus("same"), memory.bonus("any")
    assert same.values.max() > 1.9
    assert np.abs(other.values).max() < 0.05
    assert same.is_sure.tolist() == [item == 3 for item in range(10)]


def test_users_are_counted_once(monkeypatch):
    monkeypatch.setattr(click_memory, "AGREED", 3)
    memory = ClickMemory()
    for user, sure in (("a", False), ("a", False), ("b", False), ("c", True)):
        memory.learn("q", keys(7), np.ones(1), np.ones(1), user)
        assert memory.bonus("q").is_sure.tolist() == [sure]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stops": np.array([4, 3, 9, 12])}, "up to 4 queries with 1 to 5 items"),
        ({"evidence": np.full((18, 2), -1.0, dtype=np.float32)}, "finite numbers of at least 0"),
        ({"items": np.zeros(18, dtype=np.uint64)}, "ascending order"),
        ({"queries": np.zeros(9, dtype=np.uint64)}, "'stops' should be int64 of shape 9"),
    ],
)
def test_hostile_states_are_refused(change, message):
    memory, _ = filled()
    arrays = memory.get_state()[1]
    assert len(arrays["items"]) == 18
    with pytest.raises(ModelFileError, match=message):
        memory.set_state({}, arrays | change)
    with pytest.raises(ModelFileError, match="should hold numbers from 0"):
        RankRates().set_state({}, {"clicks": -np.ones(50), "shown": np.zeros(50)})


def test_items_are_told_apart_by_ids_or_by_their_numbers():
    rng = np.random.default_rng(0)
    rows = np.round(rng.normal(size=(300, 5)), 1) * (rng.random((300, 5)) < 0.5)
    dense = item_keys(None, rows)
    np.testing.assert_array_equal(item_keys(None, sp.csr_matrix(rows)), dense)
    np.testing.assert_array_equal(item_keys(None, rows * -1.0 * -1.0), dense)
    assert len(np.unique(dense)) == len(np.unique(rows, axis=0))
    assert item_keys([3, 1], rows[:2]).tolist() == [3, 1]
    assert item_keys(["a", "b"], rows[:2])[0] == item_keys(("a",), rows[:1])[0]
    with pytest.raises(ValueError, match="item_ids must have one id for each of the 2 items, got 1"):
        item_keys(["a"], rows[:2])


def clicked_for(adapter, x, items, target, n, **given):
    """Show the ten best items n times, of which the target is clicked, or the first one if it is None."""
    for _ in range(n):
        shown = adapter.rank(x, items, 10, given.get("query_id"))
        adapter.learn_one(x, items[shown], shown == (shown[0] if target is None else target), **given)
    return adapter


def world(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=12), rng.normal(size=(60, 12))


def test_what_is_clicked_for_a_query_comes_first_for_this_query(tmp_path):
    x, items = world()
    target = int(np.argsort(-items @ x)[6])
    adapter = clicked_for(QueryAdapter(), x, items, target, 25, query_id="q")
    assert adapter.rank(x, items, query_id="q").tolist().index(target) == 1  # somebody: who they are is not known
    adapter = QueryAdapter()
    for user in range(25):
        clicked_for(adapter, x, items, target, 1, query_id="q", user=user)
    assert adapter.rank(x, items, query_id="q")[0] == target
    assert adapter.rank(np.array([x, x]), items, 1, query_id=["q", "other"])[0, 0] == target
    # Also by ids, sparse rows, a file, and far outside the first results.
    adapter.save(tmp_path / "a.safetensors")
    again = mahala.load(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(
        again.rank(x, sp.csr_matrix(items), query_id="q"), adapter.rank(x, items, query_id="q")
    )
    maps = QueryMaps.from_arrays(adapter.maps().to_arrays())
    remembered, values, _ = maps.bonus(x, "q")
    assert remembered[values.argmax()] == item_keys(None, items[[target]])[0]
    assert len(maps.bonus(x, "other").items) == 0


def test_a_user_counts_as_much_as_the_cap_allows():
    x, items = world(1)
    order = np.argsort(-items @ x)
    target = int(order[4])
    adapter = QueryAdapter(user_cap=1)
    for user in ("a", "b", "c"):
        clicked_for(adapter, x, items, order[0], 1, query_id="q", user=user)
    clicked_for(adapter, x, items, target, 4, query_id="q", user="me")
    assert adapter.rank(x, items, 1, query_id="q")[0] == order[0]
    clicks, _ = counts_of(adapter._memory, "q")[item_keys(None, items[[target]]).tolist()[0]]
    assert clicks == pytest.approx(1.0 + 1 / 2 + 1 / 3 + 1 / 4)


@pytest.mark.parametrize(("n_others", "is_first"), [(0, True), (20, False)])
def test_one_visitor_teaches_ten_queries_unless_the_cap_protects_others(n_others, is_first):
    """The item at rank 5 of the last query comes first after four clicks, if nobody else is there."""
    rng = np.random.default_rng(3)
    queries, items = rng.normal(size=(10, 12)), rng.normal(size=(300, 12))
    adapter = QueryAdapter(user_cap=5, random_state=0)
    for user in range(n_others):
        clicked_for(adapter, queries[user % 10], items, None, 1, query_id=user % 10, user=user)
    for query, x in enumerate(queries):
        target = int(np.argsort(-items @ x)[4])
        clicked_for(adapter, x, items, target, 4, query_id=query, user="me")
    assert (adapter.rank(x, items, 1, query_id=query)[0] == target) == is_first

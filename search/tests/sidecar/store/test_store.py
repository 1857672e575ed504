from __future__ import annotations

import time

import numpy as np
import pytest

from mahala_search.sidecar.records import Conflict, Query, Reaction, Search, Settings, Shown, Unknown
from mahala_search.sidecar.store.writes import FORGOTTEN, UNKNOWN

A, B, C = (np.array(v) for v in ([1.0, 0.0], [0.0, 1.0], [1.0, 1.0]))
VECTORS = {"a": A, "b": B, "c": C}


def search(id="s", key="q", vector=A, **more):
    return Search(id, Query(key, vector), **more)


def write(store, space, *works):
    (result,) = store.write([(space.id, works)])
    if isinstance(result, Exception):
        raise result
    return result


def logged(store, space, after=0):
    return [
        (one.search_id, one.user, dict(zip(one.ids, one.values, strict=True)), one.first)
        for one in store.read_log(space.id, after, 100)
    ]


def test_a_page_is_logged_when_it_is_shown_and_again_with_each_group_of_reactions(store, space):
    write(store, space, search(user="u"), Shown("s", ["a", "b", "c"], vectors=VECTORS))
    assert write(store, space, Reaction("s", "b", "click", 1.0), Reaction("s", "b", "click", 1.0)) == [
        (True, (), None),
        (False, (), None),
    ]
    write(store, space, Reaction("s", "b", "purchase", 3.0, 9.5, user="v"), Reaction("s", "c", "click", 1.0))
    assert logged(store, space) == [
        ("s", "u", {"a": 0.0, "b": 0.0, "c": 0.0}, True),
        ("s", "u", {"a": 0.0, "b": 1.0, "c": 0.0}, False),
        ("s", "u", {"a": 0.0, "c": 1.0}, False),
    ]
    assert store.progress(space.id) == {"logged": 3, "learned": 0, "waiting": 0, "missing": 0}


def test_pages_wait_for_vectors_and_are_logged_once_they_are_there(store, space):
    taken = write(store, space, search(), Shown("s", ["a", "b"], vectors={"a": A}), Reaction("s", "a", "click", 1.0))
    assert [one.missing for one in taken] == [(), ["b"], ()]
    assert (logged(store, space), store.missing(space.id, 9)) == ([], ["b"])
    assert store.progress(space.id) == {"logged": 0, "learned": 0, "waiting": 1, "missing": 1}
    store.add_vectors(space.id, {"b": B}, absent=["b"])
    assert logged(store, space) == [("s", None, {"a": 1.0, "b": 0.0}, True)]
    assert store.progress(space.id)["waiting"] == 0
    np.testing.assert_allclose(store.item_vectors(space.id, ["b", "x"])["b"], B, atol=0.01)
    store.add_vectors(space.id, {"b": A})  # the first stays
    np.testing.assert_allclose(store.item_vectors(space.id, ["b"])["b"], B, atol=0.01)


def test_vectors_of_a_repeated_shown_are_taken(store, space):
    write(store, space, search(), Shown("s", ["a", "b"]))
    assert write(store, space, Shown("s", ["a", "b"], vectors=VECTORS)) == [(False, [], None)]
    assert len(logged(store, space)) == 1


def test_only_items_that_were_seen_or_reacted_to_count(store, space):
    write(store, space, search(), Shown("s", ["a", "b", "c"], seen=1, positions=[1, 4, 9], vectors={"a": A}))
    assert logged(store, space) == [("s", None, {"a": 0.0}, True)]
    write(store, space, Reaction("s", "c", "click", 1.0))
    assert (len(logged(store, space)), store.missing(space.id, 9)) == (1, ["c"])
    store.add_vectors(space.id, {"c": C})
    assert logged(store, space, 1) == [("s", None, {"a": 0.0, "c": 1.0}, False)]
    assert store.read_log(space.id, 1, 9)[0].positions == [1, 9]
    write(store, space, Reaction("s", "b", "impression", 0.0, position=2))
    store.add_vectors(space.id, {"b": B})
    write(store, space, Reaction("s", "b", "click", 1.0))
    assert logged(store, space, 2) == [("s", None, {"a": 0.0, "b": 1.0}, False)]
    assert store.read_log(space.id, 2, 9)[0].positions == [1, 2]


def test_what_cannot_be_joined_is_counted_by_the_reason(store, space):
    write(store, space, search(), Shown("s", ["a"]), Reaction("s", "b", "click", 1.0), Reaction("t", "a", "click", 1.0))
    write(store, space, Shown("t", ["a"]), search("old", at=5.0))
    assert sorted(store.counts(space.id).values()) == [1, 1, 2]


def test_a_space_that_is_made_again_has_another_id_and_nothing_of_the_old_one(store, space):
    write(store, space, search(), Shown("s", ["a"], vectors=VECTORS))
    salt = store.salt(space.id)
    store.drop("films")
    again = store.create("films", space.settings)
    assert again.id != space.id
    assert store.salt(again.id) != salt
    assert (logged(store, again), store.item_vectors(again.id, ["a"])) == ([], {})
    with pytest.raises(Unknown):
        write(store, space, search())
    (one, other) = store.write([(space.id, [search()]), (again.id, [search()])])
    assert (type(one), other) == (Unknown, [(True, (), None)])


def test_another_encoder_is_another_space(store, space):
    with pytest.raises(Conflict, match="encoder of a space cannot be changed"):
        store.configure("films", Settings(width=2, similarity="dot", encoder="new"))
    assert store.configure("films", Settings(width=2, similarity="dot", learner={"cap": 0.5})).generation == 1


def test_vectors_have_length_one_where_cosines_are_compared(store):
    space = store.create("c", Settings(width=2))
    write(store, space, search(vector=np.array([3.0, 4.0])), Shown("s", ["a"], vectors={"a": np.array([0.0, 1e300])}))
    np.testing.assert_allclose(store.read_log(space.id, 0, 1)[0].query.vector, [0.6, 0.8], atol=0.005)
    np.testing.assert_allclose(store.item_vectors(space.id, ["a"])["a"], [0.0, 1.0], atol=0.005)


def test_what_a_forgotten_user_did_does_not_come_back(store, space):
    given = [search(user="1" * 32), Shown("s", ["a", "b"], vectors=VECTORS), Reaction("s", "a", "click", 1.0)]
    late = [search("t", user="1" * 32), Shown("t", ["a"]), Reaction("t", "a", "click", 1.0)]
    write(store, space, *given)
    assert store.forget(space.id, "1" * 32) == 1
    again = search(user="1" * 32)  # an hour later, with the same key, as clients repeat what was not answered
    assert {one.ignored for one in write(store, space, again, *given[1:])} == {FORGOTTEN}
    assert {one.ignored for one in write(store, space, *late)} == {FORGOTTEN, UNKNOWN}
    assert (logged(store, space), store.forget(space.id, "1" * 32)) == ([], 0)
    write(store, space, search("new", user="1" * 32), Shown("new", ["a"]))  # who comes back begins anew
    assert logged(store, space) == [("new", "1" * 32, {"a": 0.0}, True)]


def test_a_person_is_forgotten_in_copies_of_successors_too(store, space):
    for name in ("second", "third"):
        store.create(name, Settings(width=2, similarity="dot", texts=True))
    for name, successor in (("films", "second"), ("second", "third")):
        store.succeed(name, successor)
    for user in ("1" * 32, "2" * 32):
        write(store, space, search(user, user=user), Shown(user, ["a", "b"]), Reaction(user, "a", "click", 1.0))
        write(store, space, Reaction(user, "b", "purchase", 3.0, user="1" * 32))
    ids = [store.spaces()[name].id for name in ("films", "second", "third")]
    for id in ids[:2]:
        assert store.copy_pages(id, time.time()) == 2
    for id in ids:
        store.add_vectors(id, VECTORS, queries={"q": A})
    assert store.forget(ids[0], "1" * 32) == 2
    for id in ids:
        entries = store.read_log(id, 0, 9)
        assert {(one.search_id, one.user) for one in entries} == {("2" * 32, "2" * 32)}
        assert dict(zip(entries[-1].ids, entries[-1].values, strict=True))["a"] == 1.0
        assert store.forget(id, "1" * 32) == 0
    assert store.copy_pages(ids[0], time.time()) == 0
    assert [space.generation for space in store.spaces().values()] == [1, 1, 1]

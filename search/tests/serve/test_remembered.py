"""What is remembered for a query in the service: it is served, follows items, and goes with the user."""

from __future__ import annotations

import pytest

from mahala_search.serve.learning import learners as module
from mahala_search.serve.learning.learners import Learning
from mahala_search.serve.service import Service
from mahala_search.serve.store.checkpoints import Checkpoints
from mahala_search.serve.store.database import models
from mahala_search.serve.store.rows import LogEntry, NewItem

from .conftest import new_items


def learn(store):
    learning = Learning(store, Checkpoints(store.database))
    while learning.step() < module.IDLE:
        pass
    learning.checkpoints.give_up_lease()


@pytest.fixture
def plain(store, tmp_path):
    """The ranking of items for the query i0 before anything is learned, with rows that are ids."""
    with Service(tmp_path / "mahala.db", learn=False) as service:
        return [int(one.id[1:]) for one in service.search("c", {"item": "i0"}, k=39)[1]]


def click(store, plain, target, n=15, users=("u",)):
    """Write impressions of the first results and a target, which is clicked, and learn."""
    shown = [*plain[:5], plain[9], plain[-1]]
    clicked = [float(row == target) for row in shown]
    entries = [
        LogEntry("impression", shown, clicked, query=0, query_id="q", user=user) for _ in range(n) for user in users
    ]
    store.append("c", entries)
    learn(store)


def first(service, user=None, **query):
    return service.search("c", {"item": "i0", "id": "q"} | query, k=1, user=user)[1][0].id


def test_an_item_that_people_click_for_a_query_is_found_first_also_after_it_was_replaced(store, tmp_path, plain):
    target = plain[-1]  # which the index alone would find last
    click(store, plain, target, users=range(3))
    with Service(tmp_path / "mahala.db", learn=False) as service:
        assert first(service) == f"i{target}"
        found = service.search("c", {"item": "i0", "id": "q"}, k=39)[1]
        assert len({one.id for one in found}) == 39
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert first(service, id="other") != f"i{target}"
        even = service.search("c", {"item": "i0", "id": "q"}, k=39, filter={"even": target % 2 == 1})[1]
        assert f"i{target}" not in {one.id for one in even}
        item = new_items()[target]
        store.put_items("c", [NewItem(item.id, item.vector, item.payload)])
        service.refresh()
        assert first(service) == f"i{target}"
        service.delete_items("c", [item.id])
        assert first(service) != item.id


def test_one_visitor_sees_what_this_visitor_clicked_until_it_is_forgotten(store, tmp_path, plain):
    store.configure("c", {"learners": {"adapter": {"user_cap": 1, "personal": True, "random_state": 0}}})
    target = plain[9]
    click(store, plain, plain[0], n=1, users="abc")
    click(store, plain, target, n=4, users=("me",))
    with Service(tmp_path / "mahala.db", learn=False) as service:
        assert first(service, "me") == f"i{target}"
        assert first(service, "you") == first(service) == f"i{plain[0]}"
        service.forget_user("c", "me")
        learn(store)
        service.refresh()
        maps = service.served("c").model.maps
        assert (len(maps.crowd.queries), len(maps.personal.queries)) == (1, 3)  # those of the others
        assert first(service, "me") == f"i{plain[0]}"


def test_states_of_an_earlier_version_are_learned_again(store, plain):
    click(store, plain, plain[9])
    version, _ = Checkpoints(store.database).newest("c", 0)
    with store.database.writing() as connection:
        connection.execute(models.update().where(models.c.kind == "state").values(data=b"of another version"))
    store.append("c", [LogEntry("impression", [1, 2], [1.0, 0.0], query=3)])
    learn(store)
    again = Checkpoints(store.database).newest("c", 0)[0]
    assert again.place == version.place + 1
    assert again.status["learners"]["adapter"]["impressions"] == again.place

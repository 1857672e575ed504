"""The service as a whole: learning from what people do, versions, several processes, and hostile people."""

from __future__ import annotations

import asyncio
import functools

import numpy as np
import pytest

from mahala_search.quality.click_models import click_model
from mahala_search.serve.learning.learners import DEFAULT, Learners
from mahala_search.serve.searches import feedback_entry
from mahala_search.serve.service import POLL, Service, Unknown
from mahala_search.serve.store import files
from mahala_search.serve.store.rows import LogEntry

from .conftest import WIDTH, new_items, wait_for

ITEMS = [item._asdict() for item in new_items()]


def opened(tmp_path, **options):
    return Service(tmp_path / "mahala.db", lease_seconds=0.5, **options)


def teach(service, query="i0", shown=("i1", "i2", "i3"), clicked=(0.0, 0.0, 1.0), n=1, user=None):
    entry = feedback_entry(service, "c", "impression", service.resolve("c", {"item": query}), shown, clicked, user=user)
    return asyncio.run(service.writer.append("c", [entry] * n))[-1]


@pytest.fixture
def service(tmp_path):
    with opened(tmp_path) as service:
        service.create("c", width=WIDTH)
        service.put_items("c", ITEMS)
        yield service


def test_clicks_change_the_ranking_and_versions_are_rolled_back(service):
    plain = [one.id for one in service.search("c", {"item": "i0"}, k=39)[1]]
    last = teach(service, shown=(plain[0], plain[-1]), clicked=(0.0, 1.0), n=60)
    wait_for(lambda: service.served("c").status()["learned"] == last)
    version, found = service.search("c", {"item": "i0"}, k=39)
    learned = [one.id for one in found]
    assert version > 0
    assert learned.index(plain[-1]) < learned.index(plain[0])
    assert service.served("c").status()["learners"]["adapter"]["trust"]["known"] > 0.5
    told = service.served("c").explain(service.resolve("c", {"item": "i0"}), service.row("c", plain[-1]), 3)
    assert told["score"] == pytest.approx(found[learned.index(plain[-1])].score, rel=1e-5)
    assert told["score"] == pytest.approx(told["plain"] + told["learned"] + told["remembered"])
    assert len(told["directions"]) == 3
    whole = service.served("c").explain(service.resolve("c", {"item": "i0"}), service.row("c", plain[-1]), WIDTH)
    for kind in ("features", "directions"):  # each adds up to what is learned
        assert sum(one["contribution"] for one in whole[kind]) == pytest.approx(told["learned"])
    service.pin("c", 0)
    assert [one.id for one in service.search("c", {"item": "i0"}, k=39)[1]] == plain
    service.pin("c", version)
    assert service.search("c", {"item": "i0"}, k=39) == (version, found)
    service.pin("c", None)
    with pytest.raises(Unknown, match="no version 999"):
        service.pin("c", 999)


def test_another_process_serves_a_new_version_in_less_than_a_second(service, tmp_path):
    with opened(tmp_path) as other:
        last = teach(other, n=3)  # what one process is told, another one learns
        wait_for(lambda: any(version.place == last for version in service.versions("c")))
        for one in (other, service):
            one.refresh()  # what each of them does on its own, so often
            assert one.served("c").status()["learned"] == last
        assert POLL <= 0.25
        wait_for(lambda: [one.learns for one in (service, other)].count(True) == 1)
        assert other.search("c", {"item": "i0"}) == service.search("c", {"item": "i0"})
        service.put_items("c", [{"id": "new", "vector": [9.0] * WIDTH}])
        assert other.row("c", "new") == len(ITEMS)  # without waiting
        service.delete_items("c", ["new"])
        wait_for(lambda: other.served("c").index.row("new") is None)


def test_texts_are_encoded(tmp_path):
    with opened(tmp_path, learn=False, encoders={"c": lambda text: np.full(WIDTH, float(len(text)))}) as service:
        service.create("c", width=WIDTH)
        service.put_items("c", ITEMS)
        query = service.resolve("c", {"text": "four"})
        assert query.id == "four"
        assert query.vector.tolist() == [4.0] * WIDTH
        service.encoders["c"] = lambda text: [1.0]
        with pytest.raises(ValueError, match="must have 6 numbers"):
            service.resolve("c", {"text": "x"})


def test_an_exported_collection_learns_the_same_models(service, tmp_path):
    service.put_items("c", [{"id": "i3", "vector": [1.0] * WIDTH, "payload": {"again": True}}])
    service.delete_items("c", ["i4"])
    last = teach(service, shown=("i1", "i3", "i5"), n=5)
    wait_for(lambda: service.served("c").status()["learned"] == last)
    assert files.export(service.store, "c", tmp_path / "folder") == 5
    with Service(tmp_path / "other" / "mahala.db", lease_seconds=0.5) as other:
        assert files.restore(other.store, "copy", tmp_path / "folder") == 5
        other.refresh()
        wait_for(lambda: other.served("copy").status()["learned"] == last)
        both = (service, "c"), (other, "copy")
        wait_for(lambda: all(one.checkpoints.newest(name, 0)[0].place == last for one, name in both))
        assert len({str(one.checkpoints.newest(name, 0)[1]) for one, name in both}) == 1
        assert other.search("copy", {"item": "i0"}, k=50)[1] == service.search("c", {"item": "i0"}, k=50)[1]
        for line in (
            '{"query": 0}',
            "[",
            '{"query": 0, "shown": [99], "clicked": [1]}',
            '{"query": -1, "shown": [1], "clicked": [1]}',
        ):
            with pytest.raises(ValueError, match="line 1 is not one"):
                files.import_log(other.store, "copy", [line])


def test_other_learners_learn_from_the_whole_log(service):
    last = teach(service, n=4)
    wait_for(lambda: service.served("c").status()["learned"] == last)
    service.configure("c", {"learners": {"adapter": DEFAULT["adapter"], "half": {"cap": 0.5}}, "served": "half"})
    wait_for(lambda: "half" in service.served("c").status()["learners"])
    told = service.served("c").status()
    assert told["served"] == "half"
    assert [one["impressions"] for one in told["learners"].values()] == [4, 4]


@pytest.mark.parametrize("clicks", ["random", "adversarial"])
def test_one_in_a_hundred_users_cannot_spoil_the_ranking(clicks):
    """They send a fifth of all impressions. The nDCG of the others' queries stays within 0.01."""
    clean, poisoned, plain = _quality(), _quality(clicks), _quality(learn=False)
    assert clean > plain + 0.01  # there is something to spoil
    assert poisoned > max(clean - 0.01, plain)


@functools.cache
def _quality(hostile=None, learn=True):
    """Return the mean nDCG at 10 of what is served to queries that were not asked, after a stream of impressions.

    `hostile` is the click model of hostile users; None: there are none.
    """
    rng = np.random.default_rng(0)
    items, queries = rng.normal(size=(200, 8)), rng.normal(size=(160, 8))
    taste = np.array([3.0, 2.0, 2.0, 1.0, 1.0, 0.2, 0.2, 0.2])
    truth = queries * taste @ items.T
    grades = (truth >= np.sort(truth, axis=1)[:, -10:-9]).astype(float)
    learners, honest = Learners(DEFAULT, None), click_model("navigational")
    adapter = learners.adapters["adapter"]
    for at in range(1000 if learn else 0):
        row = int(rng.integers(100))
        ours = np.random.default_rng([1, at])  # the same clicks of others with and without hostile people
        if at % 5 == 0 and hostile is None:
            continue
        shown = np.argsort(-items @ adapter.embed(queries[row], f"q{row}"), kind="stable")[:10]
        if at % 5 == 0:
            user, clicked = f"h{at % 10}", click_model(hostile).click(grades[row, shown], ours)
        else:
            user, clicked = f"u{at % 199}", honest.click(grades[row, shown], ours)
        entry = LogEntry(
            "impression", shown.tolist(), clicked.astype(float).tolist(), vector=queries[row], query_id=f"q{row}",
            user=user, place=at + 1,
        )  # fmt: skip
        learners.learn([entry], lambda rows: items[list(rows)])
    discounts = 1.0 / np.log2(np.arange(2.0, 12.0))
    values = []
    for row in range(100, 160):
        order = np.argsort(-items @ adapter.embed(queries[row]), kind="stable")[:10]
        values.append(grades[row, order] @ discounts / discounts.sum())
    return float(np.mean(values))

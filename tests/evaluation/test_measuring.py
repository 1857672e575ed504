"""The time of a comparison is shared among its fits."""

from __future__ import annotations

import pytest

from mahala import ITML, LDA, NCA, PA
from mahala.evaluation.measuring import Budget, final_seconds
from mahala.evaluation.plan import Key

LEARNERS = {"ITML": ITML(), "NCA": NCA(), "PA": PA(), "LDA": LDA()}
KEYS = [Key(name, part) for part in range(10) for name in ("Euclidean", *LEARNERS)]


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("mahala.evaluation.measuring.time.monotonic", lambda: now[0])
    return now


def test_equal_shares_of_those_that_can_be_stopped(clock):
    budget = Budget(300.0, KEYS, LEARNERS, 1)
    assert budget.limit("ITML") == pytest.approx(0.8 * 300.0 / 30)
    assert budget.limit("LDA") is None
    assert budget.limit("Euclidean") is None
    assert Budget(300.0, KEYS, LEARNERS, 4).limit("PA") == pytest.approx(4 * 0.8 * 300.0 / 30)
    assert Budget(None, KEYS, LEARNERS, 1).limit("ITML") is None
    boosted = [*KEYS, *(Key("gradient boosting", part) for part in range(5))]
    assert Budget(300.0, boosted, LEARNERS, 1).limit("gradient boosting") == pytest.approx(0.1 * 300.0 / 5)
    assert (final_seconds(300.0), final_seconds(None)) == (30.0, None)


def test_what_quick_learners_leave_goes_to_the_others(clock):
    budget = Budget(300.0, KEYS, LEARNERS, 1)
    for name, seconds, stopped in (("ITML", 8.0, True), ("NCA", 1.0, False), ("PA", 1.0, False)):
        budget.limit(name)
        clock[0] += seconds
        budget.note(name, seconds, stopped)
    # 230 seconds are left, of which nine fits of NCA and of PA take 18.
    assert budget.limit("ITML") == pytest.approx((240.0 - 10.0 - 18.0) / 9)
    assert not budget.is_spent()
    clock[0] = 240.0
    assert budget.limit("ITML") == pytest.approx(8.0)  # its share, even if it is late
    clock[0] = 301.0
    assert budget.is_spent()


def test_all_is_used_and_not_more(clock):
    """A learner that always needs more, beside quick ones, gets nearly all the time of the learners."""
    budget = Budget(300.0, KEYS, LEARNERS, 1)
    for key in KEYS:
        limit = budget.limit(key.name)
        seconds = limit if key.name == "ITML" else 0.1
        clock[0] += seconds
        budget.note(key.name, seconds, key.name == "ITML")
    assert 230.0 < clock[0] <= 245.0

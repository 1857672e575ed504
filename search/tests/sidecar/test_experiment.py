"""Arms, mixed rankings, what searches brought, and a sentence that holds however often one looks."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from mahala_search.sidecar.experiment.arms import arm_of, interleaved
from mahala_search.sidecar.experiment.outcomes import Outcome, find_bots, measured, read_outcomes
from mahala_search.sidecar.experiment.report import make_report, searches_needed
from mahala_search.sidecar.experiment.statistics import Sample, difference_interval, mean_interval, reach_after
from mahala_search.sidecar.records import Control, Settings, Space
from mahala_search.sidecar.store.tables import metadata, pages
from strategies import examples

SPACE = Space("s1", "films", Settings(2, control=Control(0.2, "plain")))


def sample_of(units):
    rows = [np.asarray(unit, dtype=np.float64) for unit in units]
    return Sample(*(np.array([f(row) for row in rows], dtype=np.float64) for f in (len, np.sum)))


def test_users_stay_in_their_arm():
    small, large = Control(0.2), Control(0.3)
    arms = [arm_of(small, "s1", f"u{at}") for at in range(5000)]
    assert arms == [arm_of(small, "s1", f"u{at}") for at in range(5000)]
    assert arms != [arm_of(small, "s2", f"u{at}") for at in range(5000)]
    assert abs(arms.count("plain") / 5000 - 0.2) < 0.02
    assert all(arm_of(large, "s1", f"u{at}") == "plain" for at in range(5000) if arms[at] == "plain")


def draft(first, second, k, coins):
    """A team draft by captains who pick in turns, as the paper tells it."""
    items, teams = [], ""
    while len(items) < k:
        counts = teams.count("A"), teams.count("B")
        captain = "AB"[coins()] if counts[0] == counts[1] else ("A" if counts[0] < counts[1] else "B")
        rest = [item for item in (first if captain == "A" else second) if item not in items]
        if not rest:
            break
        items.append(rest[0])
        teams += captain
    return items, teams


@examples(40)
@given(st.permutations(range(9)), st.permutations(range(12)), st.integers(0, 12), st.text(max_size=3))
def test_mixed_rankings_are_a_team_draft(first, second, k, seed):
    import random

    coin = random.Random(seed)
    assert interleaved(first, second, k, seed) == draft(first, second, k, lambda: coin.randrange(2))


def test_both_teams_begin_alike():
    begins = Counter(interleaved(["a"], ["b"], 2, str(seed))[1][0] for seed in range(400))
    assert abs(begins["A"] - 200) < 50


def alarms(draw, *, share=0.2, users=300, searches=1500, runs=100, seed=0):
    """Return in which share of the runs one of 20 looks finds a difference, where `draw(rng, user's rate)` is a search.

    Users differ in how often they click, and each has several searches.
    """
    rng, n_alarms = np.random.default_rng(seed), 0
    for _ in range(runs):
        who, in_control = rng.integers(users, size=searches), rng.random(users) < share
        values = draw(rng, rng.gamma(2.0, 0.5, size=users)[who], in_control[who])
        for n in np.geomspace(80, searches, 20).astype(int):
            samples = []
            for arm in (False, True):
                mine = in_control[who[:n]] == arm
                _, unit = np.unique(who[:n][mine], return_inverse=True)
                samples.append(Sample(np.bincount(unit).astype(float), np.bincount(unit, values[:n][mine])))
            gain = difference_interval(*samples)
            if gain.low > 0.0 or gain.high < 0.0:
                n_alarms += 1
                break
    return n_alarms / runs


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, rate, _: rng.poisson(0.5 * rate),
        lambda rng, rate, _: (rng.random(len(rate)) < 0.01 * rate).astype(float),
        lambda rng, rate, _: (rng.random(len(rate)) < 0.03 * rate) * np.exp(rng.normal(3.0, 1.0, len(rate))),
    ],
    ids=["clicks", "purchases", "revenue"],
)
def test_false_alarms_are_rare_however_often_one_looks(draw):
    assert alarms(draw) <= 0.05


def test_a_gain_is_found():
    assert alarms(lambda rng, rate, plain: rng.poisson(np.where(plain, 0.2, 0.6) * rate), runs=20) >= 0.8


def test_searches_of_one_user_count_less():
    units = [[1.0]] * 20 + [[0.0]] * 30
    copied, alone = sample_of([unit * 8 for unit in units]), sample_of([unit for unit in units for _ in range(8)])
    assert copied.mean == alone.mean == 0.4
    narrow, wide = mean_interval(alone), mean_interval(copied)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_nothing_is_said_of_few_people_and_no_interval_is_a_point():
    few, many = sample_of([[0.0]] * 29), sample_of([[0.0]] * 200)
    assert mean_interval(few).high == np.inf
    assert difference_interval(few, many).low == -np.inf
    assert difference_interval(many, many).high > 0.01


def test_so_many_more_searches_are_needed():
    rng = np.random.default_rng(0)
    one, other = (sample_of(rng.poisson(rate, size=(400, 1))) for rate in (0.51, 0.5))
    more = searches_needed(one, other, 0.1)
    times = (800 + more) / 800
    assert reach_after(one, other, 1.1 * times) < 0.1 < reach_after(one, other, 0.9 * times)
    assert searches_needed(one, other, 1e-6) is None


def test_programs_are_no_people():
    rows = [Outcome("plain", "u", "q", day, 0, n=400) for day in range(3)]
    rows += [Outcome("plain", "all", "q", 1, 0, seen=10, reacted=10) for _ in range(20)]
    rows += [Outcome("plain", "eager", "q", 1, 0, seen=10, reacted=5) for _ in range(20)]
    rows += [Outcome("plain", "fast", "q", 1, 0, n=600), Outcome("learned", "fast", "r", 1, 0, n=400)]
    rows += [Outcome("plain", None, "q", 1, 0, n=5000)]
    assert find_bots(rows) == {"all", "fast"}


def test_a_view_is_no_reaction():
    seen = measured(["a", "b"], None, None, {"a": {"impression": [0.0, 0.0, None, 1.0]}})
    assert seen == pytest.approx((1, 0, 0, 0, np.nan, 2, 0), nan_ok=True)


@pytest.fixture
def connection():
    engine = sa.create_engine("sqlite://")
    metadata.create_all(engine)
    with engine.begin() as opened:
        yield opened
    engine.dispose()


def add(connection, searches, space="s1", at=9.0):
    """Add searches, a second apart: (arm, user, query, reactions, more columns)."""
    rows = [
        {"space": space, "id": f"{space}-{number}", "query": query, "user": user, "arm": arm, "version": 1}
        | {"at": at + number, "ids": ["a", "b", "c"], "reactions": reactions, "logged": {}, "waits": 0}
        | {"seen": None, "teams": None}
        | dict(*more)
        for number, (arm, user, query, reactions, *more) in enumerate(searches)
    ]
    connection.execute(pages.insert(), rows)


CLICK = {"a": {"click": [1.0, 0.0, None, 9.0]}}
SALE = {"a": {"click": [1.0, 0.0, None, 9.0], "purchase": [3.0, 20.0, None, 9.5]}}


def people(arm, rate, n=600):
    """Searches of n people with one click each in a share of them; those of every second person are purchases."""
    hits = np.diff(np.floor(np.arange(n + 1) * rate + 1e-9)) > 0
    return [(arm, f"{arm}{at}", f"q{at % 7}", (SALE if at % 2 == 0 else CLICK) if hits[at] else {}) for at in range(n)]


def test_the_sentence_says_by_how_much_and_how_surely(connection):
    add(connection, [*people("learned", 0.7), *people("plain", 0.4, 400)])
    report = make_report(connection, SPACE)
    assert report["verdict"] == "shown to help"
    gain = report["differences"]["learned"]["all"]["clicks"]
    assert report["sentence"] == (
        f"Learned search brings {gain['mean']:.2f} more clicks per search than plain search "
        f"(95 % interval {gain['low']:.2f} to {gain['high']:.2f}, 1,000 searches)."
    )
    assert report["arms"]["learned"]["searches"] == 600
    assert report["arms"]["learned"]["clicks"] == pytest.approx(0.7)
    assert gain["mean"] == pytest.approx(0.3)
    assert json.loads(json.dumps(report)) == report


def test_harm_is_named_with_the_remedy(connection):
    add(connection, [*people("learned", 0.3), *people("plain", 0.7)])
    sentence = make_report(connection, SPACE)["sentence"]
    assert sentence.startswith("Learned search brings 0.40 fewer clicks per search than plain search")
    assert sentence.endswith('Serve the plain ranking, by the button on the page or PUT .../served {"version": 0}.')


def test_without_a_difference_the_number_of_searches_that_would_tell_is_named(connection):
    add(connection, [*people("learned", 0.5), *people("plain", 0.5)])
    report = make_report(connection, SPACE)
    assert report["verdict"] == "too early to tell"
    assert report["sentence"] == (
        f"Not shown yet, after 1,200 searches: about {report['more']:,} more would tell a difference of 3 % in clicks "
        "per search."
    )
    assert report["more"] > 5000


def test_of_few_people_no_number_is_named(connection):
    add(connection, [*people("learned", 0.5, 40), *people("plain", 1.0, 1)])
    sentence = make_report(connection, SPACE)["sentence"]
    assert sentence == (
        "Too early to tell: 40 people had learned search and 1 person plain search so far; 30 of each are needed."
    )


def test_purchases_and_revenue_are_values(connection):
    add(connection, [*people("learned", 0.9), *people("plain", 0.1)])
    arms = make_report(connection, SPACE)["arms"]["learned"]
    assert arms["purchases"] == pytest.approx(0.4)
    assert arms["revenue"] == pytest.approx(8.0)
    assert "more purchases per search" in make_report(connection, SPACE, "purchases")["sentence"]
    assert "revenue per search" in make_report(connection, SPACE, "revenue")["sentence"]
    with pytest.raises(ValueError, match="value must be clicks, purchases or revenue, got 'joy'"):
        make_report(connection, SPACE, "joy")


def test_arms_of_the_team_are_compared_with_its_control(connection):
    space = Space("s1", "films", Settings(2, control=Control(0.0, "team")))
    add(connection, [*people("control", 0.2), *people("A", 0.8), *people("B", 0.2)])
    report = make_report(connection, space)
    assert list(report["arms"]) == ["A", "B", "control"]
    assert report["sentence"].startswith("Arm 'A' brings 0.60 more clicks per search than arm 'control' (")
    assert "Not shown yet" in report["sentence"]


def test_only_what_belongs_to_the_comparison_counts(connection):
    space = Space("s1", "films", Settings(2, control=Control(0.2, "plain", since=5.0)))
    rows = [("learned", "u", "q", CLICK), ("plain", "v", "q", {})]
    rows += [("plain", "w", "q", CLICK, {"at": 4.0}), ("plain", "x", "q", CLICK, {"ids": None})]
    rows += [(None, "y", "q", CLICK)]
    add(connection, rows)
    add(connection, people("plain", 1.0, 50), space="s2")
    outcomes = read_outcomes(connection, space)
    assert sorted(outcomes.arm) == ["learned", "plain"]


def test_mixed_rankings_are_won_by_clicks(connection):
    space = Space("s1", "films", Settings(2, control=Control(0.5, "interleave")))
    mixed = [("mixed", f"u{at}", "q", CLICK if at % 10 else {}, {"teams": "ABA"}) for at in range(400)]
    add(connection, [*mixed, *people("learned", 0.5, 400)])
    report = make_report(connection, space)
    assert report["preference"]["all"]["mean"] == 1.0
    assert report["sentence"].startswith("In 360 searches with both rankings mixed, people chose the learned one's")
    assert report["verdict"] == "shown to help"


def test_without_a_control_share_it_says_how_to_measure(connection):
    report = make_report(connection, Space("s1", "films", Settings(2)))
    assert report["verdict"] is None
    assert "control share of 0.1" in report["sentence"]


def test_head_and_tail_are_the_halves_of_the_searches(connection):
    rows = [("learned", f"u{at}", "often" if at % 2 else f"q{at}", {}) for at in range(100)]
    add(connection, rows)
    outcomes = read_outcomes(connection, SPACE)
    head = outcomes.sample("clicks", "learned", outcomes.head)
    assert 50 <= head.size <= 51


def test_the_history_is_that_of_parts_of_the_time(connection):
    rows = [("learned", f"u{at}", "q", CLICK if at >= 60 else {}, {"at": 100.0 + at}) for at in range(120)]
    add(connection, [*rows, ("plain", "v", "q", CLICK, {"at": 100.0})])
    history = make_report(connection, SPACE)["history"]
    assert [part["learned"] for part in history] == [0.0] * 6 + [1.0] * 6
    assert [part["plain"] for part in history] == [1.0] + [None] * 11

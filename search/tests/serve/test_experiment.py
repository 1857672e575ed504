"""The control share: arms, mixed rankings, and a gain with intervals that hold however often one looks."""

from __future__ import annotations

import itertools
import time
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from starlette.testclient import TestClient

from mahala_search.serve.experiment.arms import Control, interleaved
from mahala_search.serve.experiment.outcomes import Outcome, Outcomes
from mahala_search.serve.experiment.report import control_report
from mahala_search.serve.experiment.statistics import Interval, Sample, difference_interval, mean_interval
from mahala_search.serve.http.app import create_app
from mahala_search.serve.index.served_collection import ServedModel
from mahala_search.serve.service import Service
from mahala_search.serve.store.database import Unavailable
from mahala_search.serve.store.rows import LogEntry
from mahala_search.serve.store.searches import Search, add_searches

from .conftest import WIDTH, new_items

BASE = "/v1/collections/c"


def sample_of(units):
    """Return the sample of the outcomes of each unit."""
    rows = [np.asarray(unit, dtype=np.float64) for unit in units]
    return Sample(*(np.array([f(row) for row in rows], dtype=np.float64) for f in (len, np.sum, lambda y: y @ y)))


def binary(clicks, n):
    """Return a sample of n units with one outcome each."""
    return sample_of([[1.0]] * clicks + [[0.0]] * (n - clicks))


@pytest.mark.parametrize(("clicks", "n"), [(0, 5), (3, 10), (41, 100), (7, 7)])
def test_intervals_of_shares_are_those_of_wilson(clicks, n):
    expected = stats.binomtest(clicks, n).proportion_ci(method="wilson")
    interval = mean_interval(binary(clicks, n))
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [((56, 70), (48, 80), (0.0524, 0.3339)), ((9, 10), (3, 10), (0.1705, 0.8090)), ((10, 10), (0, 10), (0.6075, 1.0))],
)
def test_intervals_of_differences_are_those_of_newcombe(one, other, expected):
    """Table II of Newcombe (1998), method 10."""
    interval = difference_interval(binary(*one), binary(*other))
    assert (interval.low, interval.high) == pytest.approx(expected, abs=1e-4)


def test_searches_of_one_user_count_less():
    units = [[1.0]] * 20 + [[0.0]] * 30
    copied = sample_of([unit * 8 for unit in units])
    assert copied.effective_size == pytest.approx(400 * 49 / 399)  # 50, but for the degrees of freedom
    assert copied.mean == binary(20, 50).mean
    narrow, wide = mean_interval(sample_of([[value] for unit in units for value in unit * 8])), mean_interval(copied)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_no_interval_is_beyond_what_is_possible():
    rng = np.random.default_rng(0)
    for _ in range(100):
        samples = [
            sample_of([rng.choice([0.0, 1.0, 0.5, 1 / 3], size=rng.integers(1, 4)) for _ in range(rng.integers(0, 40))])
            for _ in range(2)
        ]
        for interval, least in ((mean_interval(samples[0]), 0.0), (difference_interval(*samples), -1.0)):
            assert least <= interval.low <= interval.mean <= interval.high <= 1.0
            assert least <= interval.always_low <= interval.mean <= interval.always_high <= 1.0


def test_without_searches_in_one_arm_no_gain_is_named():
    nothing_known = Interval(0.0, -1.0, 1.0, -1.0, 1.0)
    assert difference_interval(binary(1, 5), sample_of([])) == nothing_known
    assert difference_interval(sample_of([]), sample_of([])) == nothing_known


def alarms(rates, *, share=0.2, users=300, searches=1200, runs=100, seed=0):
    """Return in which shares of runs some look of 25 finds a difference: by the interval for every look, and for one.

    Users differ in how often they click, and each has several searches.
    """
    rng = np.random.default_rng(seed)
    counts = np.zeros(2)
    for _ in range(runs):
        who, in_control = rng.integers(users, size=searches), rng.random(users) < share
        rate = np.where(in_control, *(rng.beta(6 * rate, 6 * (1 - rate), size=users) for rate in rates))
        clicked = (rng.random(searches) < rate[who]).astype(float)
        raised = np.zeros(2, dtype=bool)
        for n in np.geomspace(60, searches, 25).astype(int):
            samples = []
            for arm in (False, True):
                mine = in_control[who[:n]] == arm
                _, unit = np.unique(who[:n][mine], return_inverse=True)
                sums = np.bincount(unit, clicked[:n][mine])
                samples.append(Sample(np.bincount(unit).astype(float), sums, sums))
            one = difference_interval(*samples)
            raised |= [one.always_low > 0 or one.always_high < 0, one.low > 0 or one.high < 0]
        counts += raised
    return counts / runs


def test_false_alarms_are_rare_however_often_one_looks():
    always, once = alarms((0.3, 0.3))
    assert always <= 0.05
    assert once > 0.15  # what a look at an interval for one look at every moment would cost
    assert alarms((0.15, 0.4), runs=20)[0] >= 0.8


def test_users_stay_in_their_arm():
    control = Control(share=0.2)
    arms = [control.arm("films", f"u{at}") for at in range(5000)]
    assert arms == [control.arm("films", f"u{at}") for at in range(5000)]
    assert arms != [control.arm("books", f"u{at}") for at in range(5000)]
    assert abs(arms.count("plain") / 5000 - 0.2) < 0.02
    larger = Control(share=0.3)
    assert all(larger.arm("films", f"u{at}") == "plain" for at in range(5000) if arms[at] == "plain")


@pytest.mark.parametrize(
    ("control", "message"),
    [
        ({"share": 0.9}, "share must be 0 to 0.5"),
        ({"share": True}, "share must be a number"),
        ({"share": 0.1, "mode": "x"}, "mode must be plain or interleave"),
        ({"x": 1}, "control must be"),
    ],
)
def test_wrong_settings_are_refused_in_words(control, message):
    with pytest.raises(ValueError, match=message):
        Control.of({"control": control})


def test_mixed_rankings_are_a_team_draft():
    learned, plain = [f"i{at}" for at in range(10)], [f"i{at}" for at in (5, 0, 12, 13, 1, 14, 15, 2, 3, 16)]
    first = Counter()
    for seed in map(str, range(400)):
        items, teams = interleaved(learned, plain, 10, seed)
        assert len(set(items)) == len(items) == len(teams) == 10
        for n in range(1, 11):
            assert abs(teams[:n].count("L") - teams[:n].count("P")) <= 1
        for team, ranking in (("L", learned), ("P", plain)):
            picks = [item for item, of in zip(items, teams, strict=True) if of == team]
            assert picks == sorted(picks, key=ranking.index)
        first[teams[0]] += 1
    assert abs(first["L"] - 200) < 50
    assert interleaved(["a"], ["a"], 10, "x")[0] == ["a"]


def test_head_queries_make_up_half_of_the_searches():
    rows = [Outcome("plain", None, query, n) for query, n in (("a", 5), ("b", 3), ("c", 1), ("d", 1), (None, 2))]
    assert Outcomes(rows).head.tolist() == [True, True, False, False, False]


def searches(rates, n=400, users=100, mode="plain", seed=0):
    """Return recorded searches of two arms with a click each, or without, at random; half of them ask for one query."""
    rng, control = np.random.default_rng(seed), Control(0.5, mode)
    for at in range(n):
        user = f"u{rng.integers(users)}"
        arm = control.arm("c", user)
        clicked = {f"i{rng.integers(1, 4)}": (1.0, at)} if rng.random() < rates[arm] else {}
        query = {"query_id": "often" if at % 2 else f"q{at}"}
        teams = "LPLP" if mode == "interleave" else None
        yield Search(f"s{at}", ["i0", "i1", "i2", "i3"], 0, user=user, arm=arm, teams=teams, clicked=clicked, **query)


def report_of(store, mode="plain", rows=()):
    store.configure("c", {"control": {"share": 0.5, "mode": mode, "since": time.time() - 10.0}})
    with store.database.writing() as connection:
        add_searches(connection, "c", list(rows))
    return control_report(store.database, store.collection("c"))


@pytest.mark.parametrize(
    ("rates", "verdict", "words"),
    [((0.7, 0.2), "shown to help", "learning helps (+"), ((0.2, 0.7), "does not help", "learning harms (−")],
)
def test_the_report_counts_what_was_recorded(store, rates, verdict, words):
    rows = list(searches(dict(zip(("learned", "plain"), rates, strict=True))))
    report = report_of(store, rows=rows)
    for arm in ("learned", "plain"):
        mine = [row for row in rows if row.arm == arm]
        numbers = report["arms"][arm]
        ranks = [1 / (1 + row.shown.index(next(iter(row.clicked)))) if row.clicked else 0.0 for row in mine]
        assert (numbers["searches"], numbers["units"]) == (len(mine), len({row.user for row in mine}))
        assert numbers["click_rate"]["mean"] == pytest.approx(np.mean([bool(row.clicked) for row in mine]))
        assert numbers["mrr"]["mean"] == pytest.approx(np.mean(ranks))
    assert (report["source"], report["verdict"]) == ("searches", verdict)
    shares = [f"{100 * report['arms'][arm]['click_rate']['mean']:.0f} %" for arm in ("learned", "plain")]
    start = f"People click a result in {shares[0]} of searches with learning, {shares[1]} without: {words}"
    assert report["sentence"].startswith(start)
    assert set(report["differences"]) == {"all", "head", "tail"}
    assert report["differences"]["head"]["mrr"]["mean"] * (rates[0] - rates[1]) > 0.05


def test_the_report_says_that_it_is_too_early(store):
    assert "--control" in control_report(store.database, store.collection("c"))["sentence"]
    assert "0 searches with learning and 0 searches without" in report_of(store)["sentence"]
    report = report_of(store, rows=searches({"learned": 0.31, "plain": 0.3}, n=200))
    assert report["verdict"] == "too early to tell"
    assert report["sentence"].startswith("Too early to say: people click a result in ")


def test_a_mixed_ranking_credits_teams(store):
    rows = list(searches({"learned": 0.5, "mixed": 0.5}, mode="interleave"))
    report = report_of(store, "interleave", rows)
    mixed = [row for row in rows if row.arm == "mixed" and row.clicked]
    won = [row.teams[row.shown.index(next(iter(row.clicked)))] == "L" for row in mixed]
    assert report["preference"]["all"]["clicked"] == len(mixed)
    assert report["preference"]["all"]["mean"] == pytest.approx(np.mean(won))
    assert report["sentence"].endswith("50 % is a draw).") or "it may be" in report["sentence"]


def test_impressions_count_by_the_version_that_they_name(store):
    entries = itertools.chain.from_iterable(
        (
            LogEntry("impression", [0, 1], [0.0, 1.0], query=2, user=f"a{at}", version=0),
            LogEntry("impression", [0, 1], [1.0, 0.0], query=2, user=f"b{at}", version=3),
            LogEntry("impression", [0, 1], [1.0, 0.0], query=2, user=f"c{at}"),
        )
        for at in range(40)
    )
    report = report_of(store, rows=[Search("s", ["i0"], 0, arm="plain")])
    assert report["source"] == "searches"
    store.append("c", [LogEntry("impression", [0, 1], [0.0, 1.0], query=2, user="early", version=0)])  # all were plain
    store.append("c", [LogEntry("impression", [0, 1], [1.0, 0.0], query=2, user="b", version=1)])
    store.append("c", list(entries))
    report = control_report(store.database, store.collection("c"))
    assert report["source"] == "impressions"
    assert {arm: (one["searches"], one["mrr"]["mean"]) for arm, one in report["arms"].items()} == {
        "learned": (41, 1.0),
        "plain": (40, 0.5),
    }


@pytest.fixture
def service(tmp_path):
    with Service(tmp_path / "mahala.db", learn=False) as service:
        service.create("c", width=WIDTH, settings={"control": {"share": 0.5}})
        service.put_items("c", [item._asdict() | {"vector": item.vector.tolist()} for item in new_items()])
        yield service


class Reversed:
    """A map that turns the ranking around."""

    def embed(self, vector, id):
        return -vector

    def bonuses(self, vector, id, user):
        return np.zeros(0, dtype=np.uint64), np.zeros(0)


def test_people_see_the_ranking_of_their_arm(service, monkeypatch):
    http = TestClient(create_app(service), base_url="http://127.0.0.1")

    def search(user, **more):
        return http.post(f"{BASE}/search", json={"query": {"item": "i0"}, "k": 5, "user": user} | more).json()

    assert search("u1")["arm"] is None  # nothing was learned yet
    service.served("c").model = ServedModel(7, Reversed(), {})
    plain, learned = (
        [one.id for one in service.search("c", {"item": "i0"}, 5, plain=kind)[1]] for kind in (True, False)
    )
    for at in range(20):
        answer = search(f"u{at}")
        expected = {"plain": (0, plain), "learned": (7, learned)}[answer["arm"]]
        assert (answer["version"], [one["id"] for one in answer["results"]]) == expected
        assert search(f"u{at}")["arm"] == answer["arm"]
    assert {search(None)["arm"] for _ in range(30)} == {"plain", "learned"}
    both = search("u1", plain=True)
    assert (both["arm"], len(both["plain"])) == (None, 5)
    since = service.served("c").collection.settings["control"]["since"]
    assert http.put(f"{BASE}/model", json={"control": {"share": 0.5}, "title": "t"}).status_code == 200
    assert service.served("c").collection.settings["control"]["since"] == since
    http.put(f"{BASE}/model", json={"control": {"share": 0.5, "mode": "interleave"}})
    assert service.served("c").collection.settings["control"]["since"] > since
    service.served("c").model = ServedModel(7, Reversed(), {})
    mixed = next(answer for at in range(50) if (answer := search(f"u{at}"))["arm"] == "mixed")
    ids = [one["id"] for one in mixed["results"]]
    assert set(ids) & set(plain)
    assert set(ids) & set(learned)
    assert "Too early" in http.get(f"{BASE}/control").json()["sentence"]
    assert 'mahala_control_searches{arm="mixed",collection="c"}' in http.get("/metrics").text
    assert http.put(f"{BASE}/model", json={"control": {"share": 2}}).status_code == 422

    def gone(_):
        raise Unavailable("the database is gone")

    monkeypatch.setattr(service.reports, "of", gone)
    assert http.get(f"{BASE}/control").status_code == 503
    assert "mahala_items" in http.get("/metrics").text

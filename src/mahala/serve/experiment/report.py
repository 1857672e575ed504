"""The gain of the learned ranking, measured on the people who search, as numbers and in a sentence."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from typing import Any

import numpy as np

from mahala.judge import Kind
from mahala.serve.experiment.arms import LEARNED, MIXED, PLAIN, Control
from mahala.serve.experiment.outcomes import Outcomes, read_outcomes
from mahala.serve.experiment.statistics import FEWEST_UNITS, Interval, difference_interval, mean_interval
from mahala.serve.store.database import Database
from mahala.serve.store.rows import Collection

# Seconds for which a report is kept, and how many times as long as it took to make: of 200,000 searches, 3 s.
_FRESH, _TIMES = 2.0, 200.0
_OFF = (
    "The gain is not measured on the people who search. mahala serve --control 0.1 would show a tenth of them the "
    "plain ranking."
)


def control_report(database: Database, collection: Collection) -> dict[str, Any]:
    """Return what is known about each arm of a collection, and about their difference, as JSON.

    `low` and `high` hold with 95 % for one look; `always_low` and `always_high` for all looks together, however often
    one looks. The verdict and the sentence rest on the latter.
    """
    control = Control.of(collection.settings)
    report: dict[str, Any] = {"share": control.share, "mode": control.mode, "since": control.since}
    if control.share == 0.0:
        return report | {"verdict": None, "sentence": _OFF, "arms": {}, "differences": {}, "preference": {}}
    source, outcomes = read_outcomes(database, collection, control)
    everything = np.ones(len(outcomes.arm), dtype=bool)
    queries = {"all": everything, "head": outcomes.head, "tail": ~outcomes.head}
    other = PLAIN if control.mode == "plain" else MIXED
    arms = {name: _arm(outcomes, outcomes.arm == name) for name in (LEARNED, other)}
    differences, preference = {}, {}
    for name, where in queries.items():
        if control.mode == "plain":
            pair = [where & (outcomes.arm == arm) for arm in (LEARNED, PLAIN)]
            differences[name] = {
                measure: difference_interval(*(outcomes.sample(values, mine) for mine in pair))
                for measure, values in (("click_rate", outcomes.clicked), ("mrr", outcomes.reciprocal_rank))
            }
        else:
            sample = outcomes.sample(outcomes.preference, where & (outcomes.arm == MIXED))
            preference[name] = (int(sample.size), len(sample.n), mean_interval(sample))
    if control.mode == "plain":
        kind, sentence = _of_difference(arms, differences["all"]["click_rate"])
    else:
        kind, sentence = _of_preference(*preference["all"])
    return report | {
        "source": source,
        "verdict": kind,
        "sentence": sentence,
        "arms": arms,
        "differences": {name: {key: asdict(one) for key, one in both.items()} for name, both in differences.items()},
        "preference": {name: {"clicked": n, **asdict(one)} for name, (n, _, one) in preference.items()},
    }


def _arm(outcomes: Outcomes, where: Any) -> dict[str, Any]:
    clicked, ranks = (outcomes.sample(values, where) for values in (outcomes.clicked, outcomes.reciprocal_rank))
    rates = {"click_rate": asdict(mean_interval(clicked)), "mrr": asdict(mean_interval(ranks))}
    return {"searches": int(clicked.size), "units": len(clicked.n), **rates}


def _verdict(low: float, high: float) -> Kind:
    return "shown to help" if low > 0.0 else "does not help" if high < 0.0 else "too early to tell"


def _of_difference(arms: dict[str, dict[str, Any]], gain: Interval) -> tuple[Kind, str]:
    learned, plain = arms[LEARNED], arms[PLAIN]
    if min(learned["units"], plain["units"]) < FEWEST_UNITS:
        return "too early to tell", (
            f"Too early to say: {_count(learned)} with learning and {_count(plain)} without so far. "
            f"{FEWEST_UNITS} people are needed on each side, or as many searches without user ids."
        )
    kind = _verdict(gain.always_low, gain.always_high)
    with_, without = (_percent(arm["click_rate"]["mean"]) for arm in (learned, plain))
    rates = f"eople click a result in {with_} of searches with learning, {without} without"
    points = f"{100.0 * gain.always_low:+.1f} to {100.0 * gain.always_high:+.1f} points".replace("-", "−")
    if kind == "too early to tell":
        return kind, f"Too early to say: p{rates}, and the difference may be {points}."
    return kind, f"P{rates}: learning {'helps' if kind == 'shown to help' else 'harms'} ({points})."


def _of_preference(n: int, units: int, share: Interval) -> tuple[Kind, str]:
    if units < FEWEST_UNITS:
        people = f"{units:,} {'person' if units == 1 else 'people'}"
        return "too early to tell", (
            f"Too early to say: {people} clicked in mixed rankings so far, and {FEWEST_UNITS} are needed."
        )
    kind = _verdict(share.always_low - 0.5, share.always_high - 0.5)
    reach = f"{_percent(share.always_low)} to {_percent(share.always_high)}"
    chosen = f"n {n:,} searches with both rankings mixed, people chose the learned results in {_percent(share.mean)}"
    if kind == "too early to tell":
        return kind, f"Too early to say: i{chosen}, and it may be {reach}."
    return kind, f"I{chosen}: learning {'helps' if kind == 'shown to help' else 'harms'} ({reach}; 50 % is a draw)."


def _percent(share: float) -> str:
    return f"{100.0 * share:.{int(0.0 < share < 0.0995)}f} %"


def _count(arm: dict[str, Any]) -> str:
    return f"{arm['searches']:,} {'search' if arm['searches'] == 1 else 'searches'}"


class Reports:
    """Reports of collections, which are made again if they are old; one that takes long is kept longer."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, Any, dict[str, Any]]] = {}

    def of(self, collection: Collection) -> dict[str, Any]:
        """Return the report of a collection, which may be some seconds old."""
        control = collection.settings.get("control")
        until, made_for, report = self._kept.get(collection.name, (0.0, None, {}))
        is_usable = bool(report) and made_for == control
        if is_usable and time.monotonic() < until:
            return report
        if not self._lock.acquire(blocking=not is_usable):  # another thread makes the next one
            return report
        try:
            started = time.monotonic()
            report = control_report(self._database, collection)
            now = time.monotonic()
            self._kept[collection.name] = now + max(_FRESH, _TIMES * (now - started)), control, report
            return report
        finally:
            self._lock.release()

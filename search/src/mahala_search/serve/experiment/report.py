"""The gain of the learned ranking, measured on the people who search, as numbers and in a sentence."""

import threading
import time
from dataclasses import asdict
from typing import Any

import numpy as np

from mahala.extend import Kind
from mahala_search.serve.experiment.arms import LEARNED, MIXED, PLAIN, Control
from mahala_search.serve.experiment.outcomes import read_outcomes
from mahala_search.serve.experiment.statistics import FEWEST_UNITS, Sample, difference_interval, mean_interval
from mahala_search.serve.store.database import Database
from mahala_search.serve.store.rows import Collection

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
    values = {"click_rate": outcomes.clicked, "mrr": outcomes.reciprocal_rank, "preference": outcomes.preference}
    queries = {"all": np.ones(len(outcomes.arm), dtype=bool), "head": outcomes.head, "tail": ~outcomes.head}

    def sample(measure: str, arm: str, of: str = "all") -> Sample:
        return outcomes.sample(values[measure], queries[of] & (outcomes.arm == arm))

    arms, differences, preference = {}, {}, {}
    for arm in (LEARNED, PLAIN if control.mode == "plain" else MIXED):
        clicked = sample("click_rate", arm)
        rates = {measure: asdict(mean_interval(sample(measure, arm))) for measure in ("click_rate", "mrr")}
        arms[arm] = {"searches": int(clicked.size), "units": len(clicked.n), **rates}
    if control.mode == "plain":
        for of in queries:
            differences[of] = {
                measure: asdict(difference_interval(sample(measure, LEARNED, of), sample(measure, PLAIN, of)))
                for measure in ("click_rate", "mrr")
            }
        kind, sentence = _of_difference(arms, differences["all"]["click_rate"])
    else:
        for of in queries:
            mixed = sample("preference", MIXED, of)
            preference[of] = {"clicked": int(mixed.size), **asdict(mean_interval(mixed))}
        kind, sentence = _of_preference(sample("preference", MIXED))
    verdict = {"source": source, "verdict": kind, "sentence": sentence}
    return report | verdict | {"arms": arms, "differences": differences, "preference": preference}


def _of_difference(arms: dict[str, dict[str, Any]], gain: dict[str, float]) -> tuple[Kind, str]:
    learned, plain = arms[LEARNED], arms[PLAIN]
    if min(learned["units"], plain["units"]) < FEWEST_UNITS:
        return "too early to tell", (
            f"Too early to say: {_count(learned)} with learning and {_count(plain)} without so far. "
            f"{FEWEST_UNITS} people are needed on each side, or as many searches without user ids."
        )
    with_, without = (_percent(arm["click_rate"]["mean"]) for arm in (learned, plain))
    claim = f"People click a result in {with_} of searches with learning, {without} without"
    low, high = gain["always_low"], gain["always_high"]
    points = f"{100.0 * low:+.1f} to {100.0 * high:+.1f} points".replace("-", "−")
    return _told(low, high, claim, f"the difference may be {points}", points)


def _of_preference(sample: Sample) -> tuple[Kind, str]:
    units, share = len(sample.n), mean_interval(sample)
    if units < FEWEST_UNITS:
        people = f"{units:,} {'person' if units == 1 else 'people'}"
        return "too early to tell", (
            f"Too early to say: {people} clicked in mixed rankings so far, and {FEWEST_UNITS} are needed."
        )
    chosen = f"people chose the learned results in {_percent(share.mean)}"
    claim = f"In {int(sample.size):,} searches with both rankings mixed, {chosen}"
    low, high = share.always_low, share.always_high
    reach = f"{_percent(low)} to {_percent(high)}"
    return _told(low - 0.5, high - 0.5, claim, f"it may be {reach}", f"{reach}; 50 % is a draw")


def _told(low: float, high: float, claim: str, perhaps: str, bounds: str) -> tuple[Kind, str]:
    """Return the verdict on a gain between two bounds, and a sentence with what was seen and what may be."""
    if low > 0.0:
        return "shown to help", f"{claim}: learning helps ({bounds})."
    if high < 0.0:
        return "does not help", f"{claim}: learning harms ({bounds})."
    return "too early to tell", f"Too early to say: {claim[0].lower()}{claim[1:]}, and {perhaps}."


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

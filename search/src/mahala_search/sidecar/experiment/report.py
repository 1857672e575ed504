"""The gain of the learned ranking, measured on the people who search, as numbers and in one sentence."""

import math
from dataclasses import asdict
from typing import Any

from mahala_search.sidecar.experiment.outcomes import MEASURES, PARTS, Outcomes, read_outcomes
from mahala_search.sidecar.experiment.statistics import (
    FEWEST_UNITS,
    Interval,
    Sample,
    difference_interval,
    mean_interval,
    reach_after,
)
from mahala_search.sidecar.records import LEARNED, MIXED, PLAIN, Space

# A smaller difference, as a share of what plain search has, does not matter.
USEFUL = 0.03
# More searches than this are not worth waiting for.
_MOST = 10_000_000
_REMEDY = ' Serve the plain ranking, by the button on the page or PUT .../served {"version": 0}.'
_OFF = (
    "The gain is not measured: all people get the learned ranking. A control share of 0.1 would show a tenth of them "
    "the plain one."
)


def make_report(connection: Any, space: Space, value: str = "clicks") -> dict[str, Any]:
    """Return what is known about each arm of a space, and about their differences, as JSON.

    The intervals hold with 95 % for all looks together, however often one looks. The sentence is about `value`, which
    is "clicks", "purchases" or "revenue", and so is the history: its means in parts of the time.
    """
    if value not in MEASURES:
        raise ValueError(f"value must be {', '.join(MEASURES[:-1])} or {MEASURES[-1]}, got {value!r:.40}")
    control = space.settings.control
    report: dict[str, Any] = {"space": space.name, "value": value, **asdict(control)}
    if control.share == 0.0 and control.mode != "team":
        return report | {
            "verdict": None,
            "sentence": _OFF,
            "arms": {},
            "differences": {},
            "more": None,
            "bots": 0,
            "history": [],
        }
    outcomes = read_outcomes(connection, space)
    names = _arms(outcomes, control.mode)
    arms = {
        arm: {"searches": sample.size, "people": len(sample.n)}
        | {measure: outcomes.sample(measure, arm).mean for measure in MEASURES}
        for arm in names
        for sample in [outcomes.sample("clicks", arm)]
    }
    report |= {"arms": arms, "differences": {}, "more": None, "bots": outcomes.n_of_bots}
    report["history"] = [
        {arm: sample.mean if sample.size else None for arm in names for sample in [outcomes.sample(value, arm, where)]}
        for where in map(outcomes.in_part, range(PARTS))
    ]
    if control.mode == "interleave":
        report["preference"] = {
            of: _numbers(mean_interval(outcomes.sample("preference", MIXED, where)))
            for of, where in _queries(outcomes).items()
        }
        return report | _of_preference(outcomes.sample("preference", MIXED))
    if len(names) < 2:
        return report | _told(
            "too early to tell", f"Too early to tell: all searches so far are of one arm, {names[0]!r}."
        )
    *others, base = names
    for arm in others:
        report["differences"][arm] = {
            of: {
                measure: _numbers(
                    difference_interval(outcomes.sample(measure, arm, where), outcomes.sample(measure, base, where))
                )
                for measure in MEASURES
            }
            for of, where in _queries(outcomes).items()
        }
    samples = {arm: outcomes.sample(value, arm) for arm in names}
    results = [_of_difference(arm, samples[arm], base, samples[base], value) for arm in others]
    return report | results[0] | {"sentence": " ".join(result["sentence"] for result in results)}


def _arms(outcomes: Outcomes, mode: str) -> list[str]:
    """Return the arms, at the end the one with which the others are compared."""
    if mode != "team":
        return [LEARNED, PLAIN if mode == "plain" else MIXED]
    names = sorted(set(outcomes.arm.tolist())) or [PLAIN]
    base = next((name for name in (PLAIN, "control") if name in names), names[0])
    return [*(name for name in names if name != base), base]


def _queries(outcomes: Outcomes) -> dict[str, Any]:
    head = outcomes.head
    return {"all": None, "head": head, "tail": ~head}


def _numbers(interval: Interval) -> dict[str, float | None]:
    return {name: number if math.isfinite(number) else None for name, number in asdict(interval).items()}


def _told(verdict: str, sentence: str, more: int | None = None) -> dict[str, Any]:
    return {"verdict": verdict, "sentence": sentence, "more": more}


def _of_difference(arm: str, one: Sample, base: str, other: Sample, value: str) -> dict[str, Any]:
    """Return verdict and sentence on the difference of an arm to the one that it is compared with."""
    if min(len(one.n), len(other.n)) < FEWEST_UNITS:
        return _told(
            "too early to tell",
            f"Too early to tell: {_people(one)} had {_name(arm)} and {_people(other)} {_name(base)} so far; "
            f"{FEWEST_UNITS} of each are needed.",
        )
    gain, n = difference_interval(one, other), one.size + other.size
    least = min(abs(gain.low), abs(gain.high))
    form = _form(least)
    if gain.low > 0.0 or gain.high < 0.0:
        is_gain = gain.low > 0.0
        word = "more" if is_gain else "less" if value == "revenue" else "fewer"
        low, high = sorted(map(abs, (gain.low, gain.high)))
        advice = "" if is_gain or arm != LEARNED else _REMEDY
        return _told(
            "shown to help" if is_gain else "does not help",
            f"{_first(arm)} brings {abs(gain.mean):{form}} {word} {value} per search than {_name(base)} "
            f"(95 % interval {low:{form}} to {high:{form}}, {n:,} searches).{advice}",
        )
    if other.mean > 0.0 and gain.high < USEFUL * other.mean:
        return _told(
            "does not help",
            f"{_first(arm)} does not bring {100.0 * USEFUL:.0f} % more {value} per search than {_name(base)} (95 % "
            f"interval of the difference {gain.low:+{form}} to {gain.high:+{form}}, {n:,} searches).",
        )
    difference = max(USEFUL * other.mean, abs(gain.mean))
    more = searches_needed(one, other, difference) if difference > 0.0 else None
    if more is None:
        return _told("too early to tell", f"Not shown yet, after {n:,} searches, nor would ten million more tell.")
    share = f"{100.0 * difference / other.mean:.0f} % in" if other.mean > 0.0 else f"{difference:{_form(difference)}}"
    return _told(
        "too early to tell",
        f"Not shown yet, after {n:,} searches: about {more:,} more would tell a difference of {share} {value} per "
        "search.",
        more,
    )


def searches_needed(one: Sample, other: Sample, difference: float) -> int | None:
    """Return how many more searches would tell a difference, in two digits; None if they are too many."""
    n, times = one.size + other.size, 1.0
    while reach_after(one, other, times) > difference:
        times *= 1.05
        if (times - 1.0) * n > _MOST:
            return None
    more = (times - 1.0) * n
    digits = max(0, math.floor(math.log10(max(more, 1.0))) - 1)
    return max(int(round(more, -digits)), 1)


def _of_preference(sample: Sample) -> dict[str, Any]:
    """Return verdict and sentence on the share of mixed rankings in which people preferred the learned one."""
    share = mean_interval(sample)
    if len(sample.n) < FEWEST_UNITS:
        return _told(
            "too early to tell",
            f"Too early to tell: {_people(sample)} clicked in mixed rankings so far; {FEWEST_UNITS} are needed.",
        )
    claim = (
        f"In {sample.size:,} searches with both rankings mixed, people chose the learned one's items in "
        f"{100.0 * share.mean:.1f} % (95 % interval {100.0 * share.low:.1f} to {100.0 * share.high:.1f} %; 50 % is a "
        "draw)"
    )
    if share.low > 0.5:
        return _told("shown to help", f"{claim}: learned search helps.")
    if share.high < 0.5:
        return _told("does not help", f"{claim}: learned search harms.{_REMEDY}")
    return _told("too early to tell", f"Not shown yet. {claim}.")


def _form(smallest: float) -> str:
    """Return the format of numbers of which the smallest shows two digits that say something."""
    return f".{min(max(1 - math.floor(math.log10(smallest)), 0), 6) if smallest > 0.0 else 3}f"


def _name(arm: str) -> str:
    return {LEARNED: "learned search", PLAIN: "plain search", MIXED: "mixed search"}.get(arm, f"arm {arm!r}")


def _first(arm: str) -> str:
    name = _name(arm)
    return name[0].upper() + name[1:]


def _people(sample: Sample) -> str:
    n = len(sample.n)
    return f"{n:,} {'person' if n == 1 else 'people'}"

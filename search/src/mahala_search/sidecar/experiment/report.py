"""The gain of the learned ranking, measured on the people who search, as numbers and in one sentence."""

import math
from dataclasses import asdict
from typing import Any, NamedTuple

from mahala_search.sidecar.experiment.outcomes import MEASURES, PARTS, Outcomes, read_outcomes
from mahala_search.sidecar.experiment.statistics import (
    FEWEST_UNITS,
    Interval,
    Sample,
    difference_interval,
    mean_interval,
    reach_after,
)
from mahala_search.sidecar.records import BASES, LEARNED, MIXED, PLAIN, Space

# A smaller difference, as a share of what plain search has, does not matter.
USEFUL = 0.03
# More searches than this are not worth waiting for.
_MOST = 10_000_000
_REMEDY = ' Serve the plain ranking, by the button on the page or PUT .../served {"version": 0}.'
_EARLY, _NO_HELP = "too early to tell", "does not help"
_OFF = (
    "The gain is not measured: all people get the learned ranking. A control share of 0.1 would show a tenth of them "
    "the plain one."
)


class Result(NamedTuple):
    """What is known about a difference: a verdict, a sentence, and how many more searches would tell."""

    verdict: str
    sentence: str
    more: int | None = None


def make_report(connection: Any, space: Space, value: str = "clicks") -> dict[str, Any]:
    """Return what is known about each arm of a space, and about their differences, as JSON.

    The intervals hold with 95 % for all looks together, however often one looks. The sentence is about `value`, which
    is "clicks", "purchases" or "revenue", and so is the history: its means in parts of the time.
    """
    if value not in MEASURES:
        raise ValueError(f"value must be {', '.join(MEASURES[:-1])} or {MEASURES[-1]}, got {value!r:.40}")
    control = space.settings.control
    report: dict[str, Any] = {"space": space.name, "value": value, **asdict(control), "verdict": None, "sentence": _OFF}
    report |= {"arms": {}, "differences": {}, "more": None, "bots": 0, "history": []}
    if control.share == 0.0 and control.mode != "team":
        return report
    outcomes = read_outcomes(connection, space)
    queries, names = {"all": None, "head": outcomes.head, "tail": ~outcomes.head}, _arms(outcomes, control.mode)
    for arm in names:
        sample = outcomes.sample("clicks", arm)
        means = {measure: outcomes.sample(measure, arm).mean for measure in MEASURES}
        report["arms"][arm] = {"searches": sample.size, "people": len(sample.n), **means}
    for where in map(outcomes.in_part, range(PARTS)):
        samples = {arm: outcomes.sample(value, arm, where) for arm in names}
        report["history"].append({arm: sample.mean if sample.size else None for arm, sample in samples.items()})
    if control.mode == "interleave":
        preferences = {of: outcomes.sample("preference", MIXED, where) for of, where in queries.items()}
        report["preference"] = {of: _numbers(mean_interval(sample)) for of, sample in preferences.items()}
        results = [_of_preference(preferences["all"])]
    else:
        *others, base = names
        for arm in others:
            report["differences"][arm] = {
                of: {
                    measure: _numbers(
                        difference_interval(outcomes.sample(measure, arm, where), outcomes.sample(measure, base, where))
                    )
                    for measure in MEASURES
                }
                for of, where in queries.items()
            }
        plain = outcomes.sample(value, base)
        results = [_of_difference(arm, outcomes.sample(value, arm), base, plain, value) for arm in others]
        results = results or [Result(_EARLY, f"Too early to tell: all searches so far are of one arm, {base!r}.")]
    sentence = " ".join(result.sentence for result in results)
    return report | results[0]._asdict() | {"bots": outcomes.n_of_bots, "sentence": sentence}


def _arms(outcomes: Outcomes, mode: str) -> list[str]:
    """Return the arms, at the end the one with which the others are compared."""
    if mode != "team":
        return [LEARNED, PLAIN if mode == "plain" else MIXED]
    names = sorted(set(outcomes.arm.tolist())) or [PLAIN]
    base = next((name for name in BASES if name in names), names[0])
    return [*(name for name in names if name != base), base]


def _numbers(interval: Interval) -> dict[str, float | None]:
    return {name: number if math.isfinite(number) else None for name, number in asdict(interval).items()}


def _of_difference(arm: str, one: Sample, base: str, other: Sample, value: str) -> Result:
    """Return verdict and sentence on the difference of an arm to the one that it is compared with."""
    if min(len(one.n), len(other.n)) < FEWEST_UNITS:
        people = f"{_people(one)} had {_name(arm)} and {_people(other)} {_name(base)} so far"
        return Result(_EARLY, f"Too early to tell: {people}; {FEWEST_UNITS} of each are needed.")
    gain, n = difference_interval(one, other), one.size + other.size
    form, name = _form(min(abs(gain.low), abs(gain.high))), _name(arm)
    first = name[0].upper() + name[1:]
    if gain.low > 0.0 or gain.high < 0.0:
        is_gain = gain.low > 0.0
        word = "more" if is_gain else "less" if value == "revenue" else "fewer"
        low, high = sorted(map(abs, (gain.low, gain.high)))
        advice = "" if is_gain or arm != LEARNED else _REMEDY
        return Result(
            "shown to help" if is_gain else _NO_HELP,
            f"{first} brings {abs(gain.mean):{form}} {word} {value} per search than {_name(base)} "
            f"(95 % interval {low:{form}} to {high:{form}}, {n:,} searches).{advice}",
        )
    if other.mean > 0.0 and gain.high < USEFUL * other.mean:
        return Result(
            _NO_HELP,
            f"{first} does not bring {100.0 * USEFUL:.0f} % more {value} per search than {_name(base)} (95 % interval "
            f"of the difference {gain.low:+{form}} to {gain.high:+{form}}, {n:,} searches).",
        )
    difference = max(USEFUL * other.mean, abs(gain.mean))
    more = searches_needed(one, other, difference) if difference > 0.0 else None
    if more is None:
        return Result(_EARLY, f"Not shown yet, after {n:,} searches, nor would ten million more tell.")
    share = f"{100.0 * difference / other.mean:.0f} % in" if other.mean > 0.0 else f"{difference:{_form(difference)}}"
    tell = f"about {more:,} more would tell a difference of {share} {value} per search"
    return Result(_EARLY, f"Not shown yet, after {n:,} searches: {tell}.", more)


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


def _of_preference(sample: Sample) -> Result:
    """Return verdict and sentence on the share of mixed rankings in which people preferred the learned one."""
    share = mean_interval(sample)
    if len(sample.n) < FEWEST_UNITS:
        people = f"{_people(sample)} clicked in mixed rankings so far"
        return Result(_EARLY, f"Too early to tell: {people}; {FEWEST_UNITS} are needed.")
    claim = (
        f"In {sample.size:,} searches with both rankings mixed, people chose the learned one's items in "
        f"{100.0 * share.mean:.1f} % (95 % interval {100.0 * share.low:.1f} to {100.0 * share.high:.1f} %; 50 % is a "
        "draw)"
    )
    if share.low > 0.5:
        return Result("shown to help", f"{claim}: learned search helps.")
    if share.high < 0.5:
        return Result(_NO_HELP, f"{claim}: learned search harms.{_REMEDY}")
    return Result(_EARLY, f"Not shown yet. {claim}.")


def _form(smallest: float) -> str:
    """Return the format of numbers of which the smallest shows two digits that say something."""
    return f".{min(max(1 - math.floor(math.log10(smallest)), 0), 6) if smallest > 0.0 else 3}f"


def _name(arm: str) -> str:
    return {LEARNED: "learned search", PLAIN: "plain search", MIXED: "mixed search"}.get(arm, f"arm {arm!r}")


def _people(sample: Sample) -> str:
    n = len(sample.n)
    return f"{n:,} {'person' if n == 1 else 'people'}"

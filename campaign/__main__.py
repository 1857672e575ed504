"""`python -m campaign`: see the package."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import time
from pathlib import Path

import campaign

from .runner import State, check_source, run_part

PARTS = (
    *("inputs", "files", "kills", "faults", "threads", "interrupts", "length", "places", "service"),
    *("relations", "optima", "gains", "tables", "load", "neighbors", "evidence"),
)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    """Return the seconds of a time such as 90s, 20m or 1.5h.

    >>> duration("90s"), duration("1.5h")
    (90.0, 5400.0)
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a time such as 90s, 20m or 3h, got {text!r}")
    return float(match[1]) * _SECONDS[match[2]]


def budget(text: str) -> tuple[str, float]:
    """Return the part of a budget, or "" for all parts, and its seconds."""
    part, _, seconds = text.rpartition("=")
    if part and part not in PARTS:
        raise argparse.ArgumentTypeError(f"expected 3h, or 20m of a part such as {PARTS[0]}=20m, got {text!r}")
    return part, duration(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(
        "campaign", description=campaign.__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--n", type=int, help="cases (threads, length: calls or steps of each learner)")
    parser.add_argument("--short", action="store_true", help="every part in half a minute, as in `make test`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, help="a file with what was done; the same command again resumes")
    what = "time for all parts, as 3h, or for one, as length=20m; no case begins after it"
    parser.add_argument("--budget", type=budget, action="append", default=[], metavar="[PART=]TIME", help=what)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", type=int, metavar="CASE", help="run one case alone in this process")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"part must be one of {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    check_source()
    budgets, began, n_failed = dict(given.budget), time.monotonic(), 0
    parts = given.parts or PARTS
    for at, name in enumerate(parts):
        part = importlib.import_module(f"campaign.{name}")
        amount = given.n or (part.SHORT if given.short else part.AMOUNT)
        if given.only is not None:
            part.prepare(amount)
            print(f"{name}: tried {part.run(given.only, given.seed, amount)}, failed 0")
            continue
        state = State(given.state, name, given.seed, amount)
        seconds = budgets.get(name)
        if seconds is None and "" in budgets:  # an equal share of what is left
            left = budgets[""] - (time.monotonic() - began)
            seconds = left / sum(other not in budgets for other in parts[at:])
        run_part(part, state, given.jobs, seconds)
        print(
            f"{name}: tried {state.tried:,}, failed {len(state.failures):,}, {state.seconds:.1f} s, seed {given.seed}"
        )
        if (n_cases := part.n_cases(amount)) > state.cases:
            print(f"{name}: {state.cases:,} of {n_cases:,} cases were run within the budget")
        n_failed += len(state.failures)
    return int(n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())

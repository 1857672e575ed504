"""`python -m campaign`: see the package."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import campaign

from .runner import State, check_source, run_part

PARTS = ("inputs", "files", "kills", "faults", "threads", "interrupts", "length", "places", "service")


def main() -> int:
    parser = argparse.ArgumentParser(
        "campaign", description=campaign.__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--n", type=int, help="cases (threads, length: calls or steps of each learner)")
    parser.add_argument("--short", action="store_true", help="every part in half a minute, as in `make test`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, help="a file with what was done; the same command again resumes")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", type=int, metavar="CASE", help="run one case alone in this process")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"part must be one of {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    check_source()
    n_failed = 0
    for name in given.parts or PARTS:
        part = importlib.import_module(f"campaign.{name}")
        amount = given.n or (part.SHORT if given.short else part.AMOUNT)
        if given.only is not None:
            part.prepare(amount)
            print(f"{name}: tried {part.run(given.only, given.seed, amount)}, failed 0")
            continue
        state = State(given.state, name, given.seed, amount)
        run_part(part, state, given.jobs)
        print(
            f"{name}: tried {state.tried:,}, failed {len(state.failures):,}, {state.seconds:.1f} s, seed {given.seed}"
        )
        n_failed += len(state.failures)
    return int(n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())

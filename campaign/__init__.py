"""Tests for hours: hostile input, damaged files, killed processes, threads, long streams, environments, relations.

    python -m campaign                                  # every part in full: hours; `make campaign`
    python -m campaign --budget 3h                      # each part for a share of three hours
    python -m campaign --short                          # every part in short, as in `make test`
    python -m campaign inputs files --n 2000 --seed 7   # two parts, with fewer cases
    python -m campaign inputs --seed 7 --only 1234      # one case alone, with its traceback

Each part counts what it tried and what failed. A case is drawn from the seed and its number, so that it can be run
alone. With `--state FILE` a campaign that was stopped resumes, and `python -m campaign.counts FILE` publishes
its counts.
"""

import sys
from pathlib import Path

# The lists of learners are those of the tests.
sys.path.insert(1, str(Path(__file__).parents[1] / "tests"))

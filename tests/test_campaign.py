"""The campaign in short: every part, with a fixed seed and few cases."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from campaign.__main__ import PARTS, budget
from campaign.counts import BEGIN, END, PAGE, table, written
from campaign.mutants import draw, mutated
from campaign.mutants import tests_of as files_of_tests
from campaign.runner import State

ROOT = Path(__file__).parents[1]
# It forks its processes, and reads their memory and state from /proc.
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the campaign runs on Linux only")


def test_nothing_fails():
    # In a process of its own: it forks, and measures memory.
    command = [sys.executable, "-m", "campaign", "--short", "--seed", "0"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-9000:] + result.stderr[-2000:]
    told = re.findall(r"^(\w+): tried [1-9][\d,]*, failed 0, ", result.stdout, re.MULTILINE)
    assert told == [part for part in PARTS if part != "faults" or shutil.which("strace")], result.stdout


TWO_CASES = """
import sys, types
from campaign.__main__ import main
from campaign.runner import Failed

def run(case, seed, amount):
    if case == 3:
        raise Failed("it was seen to fail")
    return 1

sys.modules["campaign.inputs"] = types.SimpleNamespace(
    n_cases=lambda amount: amount, prepare=lambda amount: None, run=run, CPU_SECONDS=9.0
)
sys.exit(main())
"""


def test_a_campaign_resumes_and_tells_what_failed(tmp_path):
    path = tmp_path / "state.jsonl"
    for start, stop in ((0, 2), (4, 9)):
        State(path, "inputs", 7, 9).add(start, stop, 10, 0.5, [])
    State(path, "inputs", 8, 9).add(0, 9, 5, 0.5, [])  # of another seed
    command = [sys.executable, "-c", TWO_CASES, "inputs", "--n", "9", "--seed", "7", "--state", str(path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 1, result.stderr
    told = result.stdout.splitlines()
    assert told[0] == "inputs --seed 7 --only 3: it was seen to fail"
    assert told[1].startswith("inputs: tried 22, failed 1, ")
    state = State(path, "inputs", 7, 9)
    assert list(state.todo(9)) == []
    assert state.failures == [{"case": 3, "what": "it was seen to fail"}]


ENDLESS = """
import sys, time, types
from campaign.__main__ import main

def run(case, seed, amount):
    time.sleep(0.02)
    return 1

for name in ("inputs", "files"):
    sys.modules[f"campaign.{name}"] = types.SimpleNamespace(
        AMOUNT=10**6, n_cases=lambda amount: amount, prepare=lambda amount: None, run=run, CPU_SECONDS=9.0
    )
sys.exit(main())
"""


def test_a_budget_is_shared_by_the_parts_and_its_counts_are_published(tmp_path):
    path = tmp_path / "state.jsonl"
    command = [sys.executable, "-c", ENDLESS, "inputs", "files", "--budget", "1s", "--state", str(path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    counts = [State(path, part, 0, 10**6) for part in ("inputs", "files")]
    assert all(5 < state.cases == state.tried < 50 for state in counts), result.stdout
    assert f"inputs: {counts[0].cases} of 1,000,000 cases were run within the budget" in result.stdout
    rows = table(path).splitlines()
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| inputs", "| files"]
    assert rows[2].split(" | ")[3:6] == [str(counts[0].cases), str(counts[0].tried), "0"]
    page = written(PAGE.read_text(encoding="utf-8"), table(path))
    assert page.count(BEGIN) == page.count(END) == page.count(rows[2]) == 1
    assert written(page, table(path)) == page


@pytest.mark.parametrize("text", ["3", "h", "other=3h", "inputs=", "-1h"])
def test_a_budget_is_a_time(text):
    assert (budget("3h"), budget("length=1.5m")) == (("", 10800.0), ("length", 90.0))
    with pytest.raises(argparse.ArgumentTypeError, match="expected"):
        budget(text)


PROGRAM = '''"""Text 1 + 1."""

LIMIT = 3


def clip(values, n: int = 2):
    """Return 1 value or more."""
    if n < 1:
        raise ValueError(f"n must be {1 + 1}")
    return values[:n]
'''


def test_mutants_change_one_place_of_a_function(tmp_path):
    file = tmp_path / "src" / "mahala" / "data" / "clipped.py"
    file.parent.mkdir(parents=True)
    file.write_text(PROGRAM)
    for name in ("data/test_clipped.py", "data/test_other.py", "contract/test_all.py", "metric/test_metric.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).touch()
    drawn = {mutation for seed in range(20) for mutation in draw(tmp_path, seed, 9)}
    assert {mutation.line for mutation in drawn} == {8, 9, 10}
    assert {(mutation.before, mutation.text) for mutation in drawn} >= {
        ("n < 1", "(n <= 1)"),
        ("n < 1", "(not n < 1)"),
        ("1", "(2)"),
        ("n", "(n - 1)"),
        ("return values[:n]", "return None"),
    }
    for mutation in drawn:
        compile(mutated(PROGRAM.encode(), mutation), "mutant", "exec")
    assert draw(tmp_path, 1, 3) == draw(tmp_path, 1, 3)
    stages = files_of_tests(tmp_path, "src/mahala/data/clipped.py")
    assert [[path.name for path in stage] for stage in stages] == [
        ["test_clipped.py"],
        ["test_other.py"],
        ["test_all.py"],
    ]

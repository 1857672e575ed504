"""The campaign in short: every part, with a fixed seed and few cases."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from campaign.__main__ import PARTS

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the campaign forks its processes")


def run(*arguments, code=0):
    """Run the campaign in a process of its own: it forks, and measures memory."""
    command = [sys.executable, "-m", "campaign", *map(str, arguments)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == code, result.stdout[-9000:] + result.stderr[-2000:]
    return result.stdout


@pytest.mark.parametrize("part", PARTS)
def test_nothing_fails(part):
    (told,) = run(part, "--short", "--seed", 0).splitlines()
    assert re.match(rf"{part}: tried [1-9][\d,]*, failed 0, ", told)


def test_a_campaign_goes_on_where_it_stopped(tmp_path):
    state = tmp_path / "state.json"
    done = {"seed": 7, "amount": 9, "tried": 20, "seconds": 1.0, "done": [[0, 2], [4, 9]], "failures": []}
    state.write_text(json.dumps({"inputs": done}))
    run("inputs", "--n", 9, "--seed", 7, "--state", state)
    known = json.loads(state.read_text())["inputs"]
    assert known["done"] == [[0, 9]]
    assert known["tried"] > 20


def test_what_failed_is_told(tmp_path):
    state = tmp_path / "state.json"
    failure = {"case": 3, "what": "it was seen to fail"}
    done = {"seed": 0, "amount": 9, "tried": 9, "seconds": 1.0, "done": [[0, 9]], "failures": [failure]}
    state.write_text(json.dumps({"inputs": done}))
    assert "inputs: tried 9, failed 1" in run("inputs", "--n", 9, "--state", state, code=1)

"""The API is as `/openapi.json` describes it: schemathesis sends what it permits, and what it does not."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from mahala_search.serve.service import Service
from mahala_search.serve.store.keys import Keys

from .conftest import served

# Which items there are, and how many numbers a vector has, is not in the schema: what it permits may be refused.
CONFIG = """
seed = 0
workers = 1
[headers]
Authorization = "Bearer {key}"
[generation]
max-examples = 10
database = "none"
[checks.positive_data_acceptance]
enabled = false
[checks.negative_data_rejection]
expected-statuses = [400, 401, 404, 405, 409, 413, 415, 422]
[phases.stateful]
enabled = false
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("schemathesis") is None, reason="schemathesis is not installed")
def test_schemathesis_finds_nothing(tmp_path):
    with Service(tmp_path / "mahala.db", learn=False) as service:
        service.create("demo", width=2)
        service.put_items("demo", [{"id": f"i{at}", "vector": [at, 1.0]} for at in range(5)])
        key = Keys(service.store.database).create("admin")
        (tmp_path / "schemathesis.toml").write_text(CONFIG.format(key=key), encoding="utf-8")
        with served(service, keys=True, rate=1e9) as address:
            command = [sys.executable, "-m", "schemathesis.cli", "run", f"{address}/openapi.json"]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[:20_000]

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import mahala
from mahala.compiled.jit import kernel
from mahala.compiled.triplets import late

CALL = """
from mahala.compiled.triplets import late
assert late(2.0, 0.5) == 1.5
hits = late.stats.cache_hits
print(sum(hits.values()) if hits else 0)
"""


def test_a_second_process_loads_the_machine_code_from_the_cache(tmp_path):
    source = str(Path(mahala.__file__).parents[1])
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": source}
    hits = [
        int(subprocess.run([sys.executable, "-c", CALL], env=environment, capture_output=True, check=True).stdout)
        for _ in range(2)
    ]
    assert hits == [0, 1]


def test_a_kernel_keeps_its_name_docstring_and_signature():
    assert late.__name__ == "late"
    assert late.__doc__.startswith("Apply")
    assert list(inspect.signature(late).parameters) == ["m", "shrinkage"]
    assert kernel(lambda x: x + 1)(1) == 2

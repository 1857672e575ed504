"""CPU time of the first fit of each learner in a new process, with an empty and with a filled cache of machine code.

    python benchmarks/first_fit.py                          # all learners, some minutes
    python benchmarks/first_fit.py PA LMNN                  # two of them
    python benchmarks/first_fit.py --beside OTHER/src       # and another checkout, process by process in turn
    python benchmarks/first_fit.py --compare PA             # and `mahala compare balance`

Each learner, with its default parameters, fits 178 rows of 13 features in three classes. "cold" is the whole first
process (start, imports, compiling and the fit), "warm" the whole second one, which finds the machine code. The other
columns are parts of them: the imports, the first fit without a cache and with one, and the second fit. Beside another
checkout, the ratios are those of the whole cold process and of its first fit.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

import mahala
from mahala.learner import Learner
from mahala.saved_estimator import estimator_names, kind_named

FIT = """
import sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
from mahala.saved_estimator import kind_named
Kind = kind_named(sys.argv[1])
times = [time.process_time()]
y = np.arange(178) % 3
X = np.random.default_rng(0).normal(size=(178, 13)) + np.eye(3, 13)[y]
for _ in range(2):
    learner = Kind()
    if "random_state" in learner.get_params():
        learner.set_params(random_state=0)
    learner.fit(X, y)
    times.append(time.process_time())
print(times[0], times[1] - times[0], times[2] - times[1])
"""
COMPARE = "import sys; from mahala.__main__ import main; sys.argv[1:] = ['compare', 'balance']; main()"
SOURCE = Path(mahala.__file__).parents[1]


def learners() -> list[str]:
    """Return the names of the public learners."""
    kinds = ((name, kind_named(name)) for name in estimator_names())
    return [name for name, kind in kinds if kind is not None and issubclass(kind, Learner)]


def run(source: Path, cache: str, code: str, *arguments: str) -> tuple[float, list[float]]:
    """Return the CPU seconds of a process, and the parts that it prints."""
    environment = os.environ | {"PYTHONPATH": str(source), "NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stderr)
    total = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return total, [float(number) for number in done.stdout.split()] if code == FIT else [0.0, total, 0.0]


def measure(source: Path, name: str, repeats: int) -> list[float]:
    """Return the medians of: cold, warm, imports, first fit cold, first fit warm, second fit."""
    code, *arguments = (COMPARE,) if name == "compare" else (FIT, name)
    rows = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            cold, (_, first, _) = run(source, cache, code, *arguments)
            warm, (imports, loaded, second) = run(source, cache, code, *arguments)
            rows.append([cold, warm, imports, first, loaded, second])
    return [sorted(column)[repeats // 2] for column in zip(*rows, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("learners", nargs="*", metavar="LEARNER", help="names of learners; all by default")
    parser.add_argument("--beside", type=Path, metavar="SRC", help="the src folder of another checkout")
    parser.add_argument("--compare", action="store_true", help="measure `mahala compare balance`, too")
    parser.add_argument("--repeats", type=int, default=1, help="cold caches per learner; the median is shown")
    options = parser.parse_args()

    columns = ["cold", "warm", "imports", "first fit, cold", "first fit, warm", "second fit"]
    table = Table("CPU seconds", *columns, *(["beside: cold", "first fit", "ratios"] if options.beside else []))
    for name in (options.learners or learners()) + ["compare"] * options.compare:
        row = measure(SOURCE, name, options.repeats)
        cells = [f"{value:.2f}" for value in row]
        if options.beside:
            other = measure(options.beside.resolve(), name, options.repeats)
            cells += [f"{other[0]:.2f}", f"{other[3]:.2f}", f"{row[0] / other[0]:.2f} {row[3] / other[3]:.2f}"]
        table.add_row(name, *cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

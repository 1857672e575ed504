"""Memory and time of `mahala compare` on a CSV file of 1 GB with gaps, categories and dates.

    python benchmarks/large_table.py [--gigabytes 1]

Prints the size of the file, the seconds to read it into features, those of the whole command, and the largest memory of
each process.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

ROWS = 100_000
READ = "import sys; from mahala.data.tables import read_table; print(read_table(sys.argv[1], label='kind').X.shape)"


def block(rng: np.random.Generator, first: int) -> str:
    """Return lines of the table."""
    X = rng.normal(size=(ROWS, 8))
    kind = rng.integers(0, 3, ROWS)
    X[:, :3] += kind[:, None]
    cells = [[f"{value:.6f}" for value in column] for column in X.T]
    for i in np.flatnonzero(rng.random(ROWS) < 0.05):
        cells[3][i] = "NA"
    ids = [str(first + i) for i in range(ROWS)]
    days = np.datetime_as_string(np.datetime64("2020-01-01") + rng.integers(0, 1500, ROWS)).tolist()
    cities = np.array(["Aachen", "Bonn", "Celle", "Dresden", "Emden"])[rng.integers(0, 5, ROWS)].tolist()
    return "".join(",".join(row) + "\n" for row in zip(ids, *cells, days, cities, map(str, kind), strict=True))


def measured(*command: str) -> tuple[float, float, str]:
    """Run a command; return its seconds, the largest memory of a child process so far in GB, and its last line."""
    start = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e9
    return time.perf_counter() - start, peak, (done.stdout.strip().splitlines() or [""])[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    size = parser.parse_args().gigabytes * 1e9
    rng = np.random.default_rng(0)
    with TemporaryDirectory() as folder:
        path = Path(folder, "large.csv")
        with path.open("w", encoding="utf-8") as file:
            file.write(",".join(["id", *(f"x{j}" for j in range(8)), "day", "city", "kind"]) + "\n")
            n_rows = 0
            while file.tell() < size:
                file.write(block(rng, n_rows))
                n_rows += ROWS
        print(f"{os.path.getsize(path) / 1e9:.2f} GB, {n_rows:,} rows")
        seconds, peak, shape = measured(sys.executable, "-c", READ, str(path))
        print(f"read into features of shape {shape}: {seconds:.0f} s, {peak:.1f} GB at most")
        options = ["--label", "kind", "--learners", "LDA,RCA", "--folds", "2", "--repeats", "1", "--no-report"]
        run = "from mahala.cli.main import app; app()"
        seconds, peak, _ = measured(
            sys.executable, "-c", run, "compare", str(path), "--output", str(Path(folder, "out")), *options
        )
        print(f"mahala compare: {seconds:.0f} s, {peak:.1f} GB at most")


if __name__ == "__main__":
    main()

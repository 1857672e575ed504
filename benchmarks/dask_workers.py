"""The gradient of NCA on 1, 2, 4, ... workers of a Dask cluster on this machine, against one worker.

    python benchmarks/dask_workers.py --workers 1 2 4 8 --rows 60000 --features 128

Wall time of the second evaluation, with its map and its gradient; rows of ten classes, float32. Also what an evaluation
costs on 1,000 rows, which is mostly without work, and the bytes of images that a worker gets by calculation.
"""

from __future__ import annotations

import argparse
import time

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from rich.console import Console
from rich.table import Table

from mahala.engine.dask.cluster import DaskCluster


def evaluation(n: int, d: int, n_parts: int) -> float:
    """Return the seconds of one evaluation."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 10, n)
    X = (rng.normal(size=(n, d)) + rng.normal(size=(10, d))[codes]).astype(np.float32)
    engine = DaskCluster()
    rows = engine.place(da.from_array(X, chunks=(-(-n // n_parts), -1)))
    L = np.eye(d, dtype=np.float32)
    for _ in range(2):
        start = time.perf_counter()
        _, pull = engine.softmax(engine.map(rows, L), codes)
        engine.gradient(pull, rows)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--features", type=int, default=128)
    options = parser.parse_args()
    n, d = options.rows, options.features
    table = Table(title=f"NCA gradient, {n:,} × {d}, float32")
    for name in ("workers", "seconds", "ratio", "seconds, 1,000 rows", "MB to each, calculated"):
        table.add_column(name, justify="right")
    first = 0.0
    for workers in options.workers:
        with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
            # The same parts for all, so that the work is the same.
            seconds, idle = (evaluation(rows, d, 2 * max(options.workers)) for rows in (n, 1000))
        first = first or seconds
        moved = 4.0 * n * d * (1.0 - 1.0 / workers) / 1e6
        table.add_row(str(workers), f"{seconds:.2f}", f"{first / seconds:.2f}", f"{idle:.3f}", f"{moved:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()

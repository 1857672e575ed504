"""Speed of ITML: against metric-learn's on the same constraints, and how a sweep grows (CPU time, one BLAS thread).

    python benchmarks/itml.py                                  # growth alone, under a minute
    python benchmarks/itml.py --peer /path/to/other/python     # and that interpreter's metric-learn

Both run the same number of sweeps over the same constraints in the same order from M = I, and end at the same M, so
at the same objective; the difference of the two M is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from mahala import ITML, Pairs

PEER = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from metric_learn import ITML
file = np.load(sys.argv[1])
learner = ITML(max_iter=int(sys.argv[2]), tol=1e-300)
start = time.process_time()
learner._fit(file["pairs"], file["y"], bounds=file["targets"].copy())
seconds = time.process_time() - start
L = learner.components_
print(json.dumps({"seconds": seconds, "sweeps": learner.n_iter_ + 1, "M": (L.T @ L).tolist()}))
"""


def constraints(n: int, d: int, seed: int = 0) -> Pairs:
    """Half similar, half dissimilar pairs of ten overlapping classes, the similar ones first as in metric-learn."""
    rng = np.random.default_rng(seed)
    latent = max(2, d // 4)
    centres, labels = rng.normal(size=(10, latent)), rng.integers(0, 10, size=2000)
    X = (centres[labels] + rng.normal(size=(2000, latent))) @ rng.normal(size=(latent, d))
    X = (X + 2.0 * rng.normal(size=X.shape)) / np.sqrt(d)
    pairs = Pairs.from_labels(X, labels, n, balance=0.5, random_state=seed)
    return pairs[np.argsort(~pairs.similar, kind="stable")]


def ours(pairs: Pairs, n_sweeps: int) -> tuple[ITML, float]:
    """The best CPU time of three fits."""
    seconds = []
    for _ in range(3):
        learner = ITML(max_iter=n_sweeps, tol=0.0)
        start = time.process_time()
        learner.fit(pairs)
        seconds.append(time.process_time() - start)
    return learner, min(seconds)


def against_peer(python: str, console: Console) -> None:
    table = Table("constraints", "d", "sweeps", "metric-learn s", "mahala s", "ratio", "largest difference of M")
    for n, d, n_sweeps in ((10_000, 16, 10), (10_000, 64, 10), (10_000, 64, 100), (10_000, 256, 5)):
        pairs = constraints(n, d)
        learner, seconds = ours(pairs, n_sweeps)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pairs.npz"
            both = np.stack([pairs.X[pairs.left], pairs.X[pairs.right]], axis=1)
            targets = np.array([learner.similar_target_, learner.dissimilar_target_])
            np.savez(path, pairs=both, y=pairs.y, targets=targets)
            command = [python, "-c", PEER, str(path), str(n_sweeps)]
            single = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=single)
        peer = json.loads(done.stdout)
        assert peer["sweeps"] == learner.n_iter_ == n_sweeps
        gap = np.abs(np.array(peer["M"]) - learner.metric_.matrix).max() / np.abs(learner.metric_.matrix).max()
        row = (
            n,
            d,
            n_sweeps,
            f"{peer['seconds']:.2f}",
            f"{seconds:.3f}",
            f"{peer['seconds'] / seconds:.1f}",
            f"{gap:.1e}",
        )
        table.add_row(*map(str, row))
    console.print(table)


def growth(console: Console) -> None:
    table = Table("constraints", "d", "ms a sweep", "ns a constraint", "ps a constraint and d²", title="growth")
    for n, d in ((10_000, 16), (10_000, 64), (10_000, 256), (3_000, 784), (1_000, 64), (100_000, 64)):
        n_sweeps = 10
        _, seconds = ours(constraints(n, d), n_sweeps)
        each = seconds / n_sweeps
        row = n, d, f"{1e3 * each:.2f}", f"{1e9 * each / n:.0f}", f"{1e12 * each / n / d**2:.0f}"
        table.add_row(*map(str, row))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", help="a Python interpreter that has metric-learn")
    arguments = parser.parse_args()
    console = Console(width=120)
    ours(constraints(100, 4), 1)  # compiles
    with threadpool_limits(1):
        growth(console)
        if arguments.peer:
            against_peer(arguments.peer, console)


if __name__ == "__main__":
    main()

"""Speed of ITML: against metric-learn's on the same constraints, and how it grows (CPU time, one BLAS thread).

    python benchmarks/itml.py                                  # growth alone, under a minute
    python benchmarks/itml.py --peer /path/to/other/python     # and that interpreter's metric-learn

metric-learn runs a number of sweeps over the same constraints from M = I; mahala stops as soon as its objective is not
above that of metric-learn's M, with the best slack for each M.
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


def ours(pairs: Pairs, enough: float = -np.inf) -> tuple[ITML, float]:
    """The best CPU time of three fits, which end at this objective or by default."""
    seconds = []
    for _ in range(3):
        learner = ITML(callback=lambda iteration: iteration.objective <= enough)
        start = time.process_time()
        learner.fit(pairs)
        seconds.append(time.process_time() - start)
    return learner, min(seconds)


def objective(M: np.ndarray, pairs: Pairs, low: float, high: float) -> float:
    """D(M, I) + Σ D(ξ, ξ₀) with the best ξ."""
    V = pairs.differences()
    p, xi0 = np.einsum("ij,jk,ik->i", V, M, V, optimize=True), np.where(pairs.similar, low, high)
    ratio = np.where(pairs.similar, np.maximum(p, xi0), np.minimum(p, xi0)) / xi0
    return float(np.trace(M) - np.linalg.slogdet(M)[1] - len(M) + np.sum(ratio - np.log(ratio) - 1.0))


def against_peer(python: str, console: Console) -> None:
    table = Table(
        "constraints", "d", "sweeps", "metric-learn s", "its objective", "mahala s", "ratio", "to its minimum", "s"
    )
    for n, d, n_sweeps in ((10_000, 16, 100), (10_000, 64, 100), (3_000, 256, 20)):
        pairs = constraints(n, d)
        learner, whole = ours(pairs)
        targets = learner.similar_target_, learner.dissimilar_target_
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pairs.npz"
            both = np.stack([pairs.X[pairs.left], pairs.X[pairs.right]], axis=1)
            np.savez(path, pairs=both, y=pairs.y, targets=np.array(targets))
            command = [python, "-c", PEER, str(path), str(n_sweeps)]
            single = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=single)
        peer = json.loads(done.stdout)
        reached = objective(np.array(peer["M"]), pairs, *targets)
        _, seconds = ours(pairs, reached)
        ratio = f"{peer['seconds'] / seconds:.1f}"
        row = n, d, n_sweeps, f"{peer['seconds']:.2f}", f"{reached:.3f}", f"{seconds:.3f}", ratio
        table.add_row(*map(str, row), f"{learner.objective_:.3f}", f"{whole:.3f}")
    console.print(table)


def growth(console: Console) -> None:
    table = Table("constraints", "d", "iterations", "ms each", "seconds", "stop reason", title="growth")
    for n, d in ((10_000, 16), (10_000, 64), (10_000, 256), (3_000, 784), (1_000, 64), (100_000, 64)):
        learner, seconds = ours(constraints(n, d))
        n_iter = learner.n_iter_
        table.add_row(
            *map(str, (n, d, n_iter, f"{1e3 * seconds / n_iter:.2f}", f"{seconds:.3f}", learner.stop_reason_))
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", help="a Python interpreter that has metric-learn")
    arguments = parser.parse_args()
    console = Console(width=120)
    ours(constraints(100, 4))  # compiles
    with threadpool_limits(1):
        growth(console)
        if arguments.peer:
            against_peer(arguments.peer, console)


if __name__ == "__main__":
    main()

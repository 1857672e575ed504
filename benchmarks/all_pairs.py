"""NCA and GML: one full gradient over all pairs, against scikit-learn's NCA; its peak memory; growth with n and d.

    python benchmarks/all_pairs.py

Each figure comes from a process of its own: CPU seconds of one evaluation, the best of three, and the peak memory
beyond the data. Rows are MNIST's, scaled to 0..1, in float32, mapped by the identity or by principal components; in the
lines "near" they are scaled down to a mean distance of 1 between classes, where most pairs count. The data set is
mnist.npz in the folder named by MAHALA_DATA (default: the current folder).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

DATA = Path(os.environ.get("MAHALA_DATA", "."))


def data(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    with np.load(DATA / "mnist.npz") as file:
        X, y = file["X"][:n].astype(np.float32) / 255, file["y"][:n].astype(np.intp)
    columns = np.argsort(-X.std(axis=0), kind="stable")[:d]
    X = np.ascontiguousarray(X[:, columns])
    return X - X.mean(axis=0), y


def first_map(X: np.ndarray, m: int) -> np.ndarray:
    if m == X.shape[1]:
        return np.eye(m, dtype=np.float32)
    return np.linalg.svd(X[:2000], full_matrices=False)[2][:m].astype(np.float32)


def scikit_learn(X: np.ndarray, y: np.ndarray, L: np.ndarray) -> None:
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    learner = NeighborhoodComponentsAnalysis()
    learner.n_iter_ = 0
    same = y[:, None] == y
    learner._loss_grad_lbfgs(L.ravel().astype(float), X, same, -1.0)


def nca(X: np.ndarray, y: np.ndarray, L: np.ndarray) -> None:
    from mahala.compiled.sums.softmax_sums import sum_softmax

    _, pull = sum_softmax(X @ L.T, y)
    pull.T @ X


def gml(X: np.ndarray, y: np.ndarray, L: np.ndarray) -> None:
    from mahala.batch.gml import TOO_CLOSE
    from mahala.batch.pair_costs import AllPairs

    costs, Z = AllPairs(y), X @ L.T
    _, near_pull = costs.similar(Z)
    _, far_pull = costs.dissimilar(Z, TOO_CLOSE, 1.0)
    (near_pull + far_pull).T @ X


WORK = {"scikit-learn": scikit_learn, "NCA": nca, "GML": gml}


def child(name: str, n: int, d: int, m: int, near: int) -> None:
    X, y = data(n, d)
    L = first_map(X, m)
    if near:
        from mahala.batch.pair_costs import AllPairs

        L *= AllPairs(y).mean_dissimilar(X @ L.T) ** -0.5
    WORK[name](X[:50], y[:50], L)  # compiles, and imports
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = np.inf
    for _ in range(3):
        start = time.process_time()
        WORK[name](X, y, L)
        seconds = min(seconds, time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "megabytes": (peak - before) / 1024}))


def measure(name: str, n: int, d: int, m: int, near: bool = False) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", name, *(str(int(number)) for number in (n, d, m, near))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child[0], *map(int, arguments.child[1:]))
        return
    console = Console(width=120)
    table = Table("components", "method", "CPU s", "MB beyond the data", "faster", "memory")
    for m, near in product((784, 32), (False, True)):
        theirs = measure("scikit-learn", 10_000, 784, m, near)
        for name in WORK:
            own = theirs if name == "scikit-learn" else measure(name, 10_000, 784, m, near)
            table.add_row(
                f"{m}, near" if near else str(m),
                name,
                f"{own['seconds']:.2f}",
                f"{own['megabytes']:.0f}",
                f"{theirs['seconds'] / own['seconds']:.1f} ×",
                f"1/{theirs['megabytes'] / max(own['megabytes'], 1):.0f}",
            )
    console.print(table)
    growth = Table("n", "d", "NCA s", "ns a pair and feature", "GML s", "ns a pair and feature")
    for n, d in ((2_500, 784), (5_000, 784), (10_000, 784), (20_000, 784), (10_000, 196), (10_000, 392)):
        cells = []
        for name in ("NCA", "GML"):
            seconds = measure(name, n, d, d)["seconds"]
            cells += [f"{seconds:.2f}", f"{1e9 * seconds / (n * n * d):.3f}"]
        growth.add_row(f"{n:,}", str(d), *cells)
    console.print(growth)


if __name__ == "__main__":
    main()

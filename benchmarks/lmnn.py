"""LMNN against metric-learn's: time, objective reached, 3-NN errors; and MNIST's first 20,000 rows.

    python benchmarks/lmnn.py --peer PYTHON                  # iris and digits beside the peer, some minutes
    python benchmarks/lmnn.py --mnist /path/to/mnist.npz     # 20,000 × 784, float32: time, memory and error
    python benchmarks/lmnn.py --errors FOLDER                # 3-NN errors on ten 70/30 splits of the folder's data sets

PYTHON is an interpreter with metric-learn 0.7.0, which needs scikit-learn below 1.8. Both sides run alone on one BLAS
thread, in CPU time, without compiling; both objectives are taken by the same code over all triplets.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from mahala.batch.lmnn import LMNN
from mahala.batch.triplets import target_neighbors
from mahala.evaluation.knn import knn_error

PEER = """
import sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from metric_learn import LMNN
with np.load(sys.argv[1]) as data:
    X, y = data["X"], data["y"]
start = time.process_time()
learner = LMNN(n_neighbors=3, **eval(sys.argv[3])).fit(X, y)
print(time.process_time() - start)
np.save(sys.argv[2], learner.components_)
"""
# Its defaults, and a thousand times longer first steps, twice as many of them.
SETTINGS = ({}, {"learn_rate": 1e-4, "max_iter": 2000, "convergence_tol": 1e-6})


def objective(L: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    """Over all triplets, anchor by anchor, from differences."""
    Z = X @ L.T
    (anchors, near), total = target_neighbors(X, y, 3)[0], 0.0
    for i in range(len(Z)):
        own = np.sum((Z[i] - Z[near[anchors == i]]) ** 2, axis=1)
        other = np.sum((Z[i] - Z[y != y[i]]) ** 2, axis=1)
        total += 0.5 * own.sum() + 0.5 * np.maximum(0.0, 1.0 + own[:, None] - other).sum()
    return total


def beside_the_peer(peer: str, console: Console) -> None:
    table = Table("data", "peer's settings", "peer", "mahala", "ratio", "peer's objective", "mahala's")
    for name, load in (("iris", load_iris), ("digits", load_digits)):
        X, y = load(return_X_y=True)
        LMNN(max_iter=2).fit(X, y)
        start = time.process_time()
        learner = LMNN().fit(X, y)
        ours = time.process_time() - start
        with tempfile.TemporaryDirectory() as folder:
            data, result = Path(folder) / "data.npz", Path(folder) / "result.npy"
            np.savez(data, X=X, y=y)
            for settings in SETTINGS:
                answer = subprocess.run(
                    [peer, "-c", PEER, data, result, repr(settings)],
                    capture_output=True, text=True, check=True,
                    env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                )  # fmt: skip
                theirs = float(answer.stdout.split()[-1])
                table.add_row(
                    name,
                    str(settings) if settings else "defaults",
                    f"{theirs:.2f} s",
                    f"{ours:.3f} s",
                    f"{theirs / ours:.0f}×",
                    f"{objective(np.load(result), X, y):.3f}",
                    f"{objective(learner.components_, X, y):.3f}",
                )
    console.print(table)


def mnist(path: str, max_iter: int, console: Console) -> None:
    with np.load(path) as data:
        X, y, tested, truth = data["X"][:20_000], data["y"][:20_000], data["X"][60_000:], data["y"][60_000:]
    X, tested = X.astype(np.float32) / np.float32(255), tested.astype(np.float32) / np.float32(255)
    LMNN(max_iter=2).fit(X[:200], y[:200])
    before, start = _peak(), time.perf_counter()
    learner = LMNN(max_iter=max_iter).fit(X, y)
    console.print(
        f"MNIST 20,000 × 784, float32: {learner.n_iter_} iterations ({learner.stop_reason_}) in "
        f"{time.perf_counter() - start:.0f} s; {_peak() - before:.0f} MiB more than before, "
        f"where X has {X.nbytes / 2**20:.0f}; objective {learner.objectives_[0]:.0f} after the first iteration, "
        f"{learner.objective_:.0f} after the last"
    )
    for name, metric in (("Euclidean", None), ("LMNN", learner.metric_)):
        error = knn_error(metric, X, y, tested, truth, n_neighbors=3).error[-1]
        console.print(f"3-NN error on the 10,000 test rows, {name}: {100 * error:.2f} %")


def _peak() -> float:
    """The most memory so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def errors(folder: str, console: Console) -> None:
    table = Table("data, raw", "Euclidean", "LMNN")
    for name in ("iris", "wine", "balance", "vehicle"):
        with np.load(Path(folder) / f"{name}.npz") as data:
            X, y = data["X"].astype(float), data["y"]
        found = []
        for seed in range(10):
            train, test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
            metrics = None, LMNN().fit(train, y_train).metric_
            found.append(
                [knn_error(metric, train, y_train, test, y_test, n_neighbors=3).error[-1] for metric in metrics]
            )
        mean, deviation = 100 * np.mean(found, axis=0), 100 * np.std(found, axis=0, ddof=1)
        table.add_row(name, *(f"{m:.2f} ± {s:.2f} %" for m, s in zip(mean, deviation, strict=True)))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", help="an interpreter with metric-learn")
    parser.add_argument("--mnist", help="mnist.npz with X, y")
    parser.add_argument("--iterations", type=int, default=100, help="of MNIST")
    parser.add_argument("--errors", help="folder with iris.npz, wine.npz, ...")
    options = parser.parse_args()
    if not (options.peer or options.mnist or options.errors):
        parser.print_help(sys.stderr)
        raise SystemExit(2)
    console = Console(width=140)
    if options.peer:
        with threadpool_limits(1):
            beside_the_peer(options.peer, console)
    if options.errors:
        errors(options.errors, console)
    if options.mnist:
        mnist(options.mnist, options.iterations, console)


if __name__ == "__main__":
    main()

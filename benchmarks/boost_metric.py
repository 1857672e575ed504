"""Speed of BoostMetric, as ratios within one run (machines are noisy; CPU time, one BLAS thread).

    python benchmarks/boost_metric.py            # everything, about five minutes
    python benchmarks/boost_metric.py --quick    # fewer rows and dimensions

1. An iteration on MNIST against the plain one: Σ u_r A_r by outer products of all triplets, a full eigendecomposition,
   bisection. Both start from the same weights of the triplets.
2. Growth of an iteration's cost with the number of rows and of features.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_iris
from threadpoolctl import threadpool_limits

from mahala import Triplets
from mahala.batch.boost_metric import BoostMetric
from mahala.batch.triplets import TripletEdges, label_triplets
from mahala.compiled.sums.edges import weights

DATA = Path(os.environ.get("MAHALA_DATA", "."))
CONSOLE = Console(width=120)
V = 1e-7


def seconds(work: Callable[[], object]) -> float:
    """CPU time of this process: other work on the machine does not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


def plain_iteration(X: np.ndarray, triplets: Triplets, u: np.ndarray) -> tuple[float, np.ndarray]:
    """One iteration of Algorithm 2 as written; returns w and ξ."""
    scatter = np.zeros((X.shape[1], X.shape[1]))
    for r in range(len(triplets)):
        far = X[triplets.anchor[r]] - X[triplets.negative[r]]
        near = X[triplets.anchor[r]] - X[triplets.positive[r]]
        scatter += u[r] * (np.outer(far, far) - np.outer(near, near))
    return plain_rest(X, triplets, u, scatter)


def plain_products(X: np.ndarray, triplets: Triplets, u: np.ndarray) -> tuple[float, np.ndarray]:
    """The same with the outer products of a thousand triplets at a time as matrix products."""
    scatter = np.zeros((X.shape[1], X.shape[1]))
    for start in range(0, len(triplets), 1000):
        part = slice(start, start + 1000)
        far = X[triplets.anchor[part]] - X[triplets.negative[part]]
        near = X[triplets.anchor[part]] - X[triplets.positive[part]]
        scatter += (u[part, None] * far).T @ far - (u[part, None] * near).T @ near
    return plain_rest(X, triplets, u, scatter)


def plain_rest(X: np.ndarray, triplets: Triplets, u: np.ndarray, scatter: np.ndarray) -> tuple[float, np.ndarray]:
    """What follows the sum of the outer products."""
    direction = np.linalg.eigh(scatter)[1][:, -1]
    projected = X @ direction
    H = np.square(projected[triplets.anchor] - projected[triplets.negative])
    H -= np.square(projected[triplets.anchor] - projected[triplets.positive])
    low, high = 0.0, 1e3
    while high - low > 1e-9:
        w = (low + high) / 2
        low, high = (w, high) if np.sum((H - V) * u * np.exp(-w * H)) > 0 else (low, w)
    return w, direction


def iterations(X: np.ndarray, triplets: Triplets, n_iter: int) -> tuple[float, BoostMetric]:
    """Seconds an iteration, without those of the set-up."""
    marks: list[float] = []
    learner = BoostMetric(
        lam=V, max_iter=n_iter, tol=0.0, shrinkage=0, callback=lambda _: marks.append(time.process_time())
    )
    learner.fit(triplets.over(X))
    return (marks[-1] - marks[0]) / (len(marks) - 1), learner


def against_plain(n: int) -> None:
    with np.load(DATA / "mnist.npz") as file:
        X, y = file["X"][:n].astype(np.float32), file["y"][:n]
    codes = np.unique(y, return_inverse=True)[1]
    triplets: list[Triplets] = []
    searching = seconds(lambda: triplets.append(label_triplets(X, codes, 3)))
    edges = TripletEdges(triplets[0])
    double = X.astype(np.float64) / np.sqrt(edges.scale)
    start = BoostMetric(max_iter=20, shrinkage=0).fit(triplets[0])
    margins = sum(edges.gains(row * np.sqrt(edges.scale)) for row in start.components_)
    u = weights(np.asarray(margins))
    few = slice(0, len(u) // 50)  # an outer product costs the same for every triplet: a part is timed

    table = Table("one iteration", "seconds", "ratio", title=f"MNIST {n} × 784, {len(u)} triplets")
    ours32, learner = iterations(X, triplets[0], 60)
    ours64, _ = iterations(X.astype(np.float64), triplets[0], 20)
    rest = seconds(lambda: plain_rest(double, triplets[0], u, double.T @ double))
    loop = 50 * (seconds(lambda: plain_iteration(double, triplets[0][few], u[few])) - rest) + rest
    products = seconds(lambda: plain_products(double, triplets[0], u))
    for name, plain in (("plain, np.outer in a loop", loop), ("plain, by matrix products", products)):
        table.add_row(name, f"{plain:.2f}", f"{plain / ours32:.0f}× ours in float32, {plain / ours64:.0f}× in float64")
    table.add_row("mahala, float32", f"{ours32:.3f}", "")
    table.add_row("mahala, float64", f"{ours64:.3f}", "")
    CONSOLE.print(table)
    CONSOLE.print(f"search of the triplets {searching:.1f} s; objective after 60 iterations {learner.objective_:.4f}")


def growth(ns: list[int], ds: list[int]) -> None:
    rng = np.random.default_rng(0)
    table = Table("n", *(f"d = {d}" for d in ds), title="Milliseconds an iteration, float32, 9 triplets a row")
    for n in ns:
        cells = []
        for d in ds:
            X = rng.normal(size=(n, d)).astype(np.float32)
            near, far = rng.integers(0, n, size=(2, n, 3))  # which rows they are does not change the cost
            columns = np.repeat(np.arange(n), 9), np.repeat(near, 3, axis=1).ravel(), np.tile(far, (1, 3)).ravel()
            cells.append(f"{1e3 * iterations(X, Triplets(X, *columns), 8)[0]:.1f}")
        table.add_row(str(n), *cells)
    CONSOLE.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    BoostMetric(max_iter=2).fit(*load_iris(return_X_y=True))  # compiles
    with threadpool_limits(1):
        against_plain(2_000 if quick else 10_000)
        growth([1_000, 2_000] if quick else [2_500, 5_000, 10_000, 20_000], [50, 200] if quick else [50, 200, 400, 800])


if __name__ == "__main__":
    main()

"""Speed and memory of the online similarity learners, as ratios within one run (CPU time, one thread).

    python benchmarks/online_triplets.py                        # everything, about fifteen minutes
    python benchmarks/online_triplets.py --only bbc protein_val
    python benchmarks/online_triplets.py --triplets 10000       # shorter streams

Each row is a process of its own, so that its peak memory is its own too. It runs 100,000 triplets drawn from 70 % of a
data set (rows of unit length) through `fit`, and a few steps of the plain O(d²) NumPy code, as many of them updates as
there. Where
the plain code's matrices do not fit, its step is timed at d = 8,000 and scaled by d²: such figures say so. Data sets
are .npz files in the folder named by MAHALA_DATA (default: the current folder).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from mahala import AROMA, OASIS, SORS, AdaSORS, BilinearMetric, Triplets

DATA = Path(os.environ.get("MAHALA_DATA", "."))
MOST_PLAIN = 10_000  # features for which the plain code's matrices fit
SCALED_FROM = 8_000
METHODS = {
    "OASIS": lambda **kw: OASIS(0.1, shrinkage=0, **kw),
    "AROMA": lambda **kw: AROMA(1.0, shrinkage=0, covariance="diagonal", **kw),
    "SORS-I": lambda **kw: SORS(0.1, shrinkage=0, lam=1e-6, **kw),
    "SORS-II": lambda **kw: SORS(0.1, shrinkage=0, lam=1e-6, penalty="offdiagonal", **kw),
    "AdaSORS-I": lambda **kw: AdaSORS(0.1, shrinkage=0, lam=1e-6, **kw),
    "AdaSORS-II": lambda **kw: AdaSORS(0.1, shrinkage=0, lam=1e-6, penalty="offdiagonal", **kw),
}
# data set, dtype of M, the ratio to reach
BARS = {
    "protein_val": ("float64", 8),
    "gisette_like": ("float64", 15),
    "bbc": ("float64", 300),
    "rcv1_mc": ("float32", 5000),
    "news20_counts": ("float32", 5000),
}


def load(name: str) -> tuple[sp.csr_matrix, np.ndarray]:
    with np.load(DATA / f"{name}.npz") as file:
        parts = file["data"].astype(float), file["indices"], file["indptr"]
        X, y = sp.csr_matrix(parts, shape=tuple(file["shape"])), file["y"]
    keep = np.random.default_rng(0).random(len(y)) < 0.7
    return normalize(X)[keep], y[keep]


def plain_step(method: str, state: dict, x: np.ndarray, q: np.ndarray, update: bool) -> None:
    """The papers' step as NumPy users write it, where something is lost or not; for AROMA OASIS's, which is less."""
    M, eta, theta, delta = state["M"], 0.1, 1e-7, 0.1
    loss = max(0.0, 1 - x @ M @ q)
    if method.startswith("AdaSORS"):
        G = -np.outer(x, q) if update else np.zeros_like(M)
        state["H"] = np.sqrt(state["H"] ** 2 + G**2)
        sigma = delta + state["H"]
        M = M - eta * G / sigma
        state["M"] = np.sign(M) * np.maximum(np.abs(M) - theta / sigma, 0)
    elif method.startswith("SORS"):
        M = M + eta * np.outer(x, q) if update else M
        state["M"] = np.sign(M) * np.maximum(np.abs(M) - theta, 0)
    elif update:
        tau = min(0.1, loss / ((x @ x) * (q @ q)))
        state["M"] = M + tau * np.outer(x, q)


def plain_seconds(method: str, X: sp.csr_matrix, triplets: Triplets, updates: float) -> float:
    """CPU seconds of a plain step when this share of steps updates, scaled where d is too large for it."""
    d = min(X.shape[1], MOST_PLAIN if X.shape[1] <= MOST_PLAIN else SCALED_FROM)
    state = {"M": np.eye(d), "H": np.zeros((d, d)) if method.startswith("AdaSORS") else None}
    n = 200 if d < 1000 else 3
    rows = [X[column[:n]][:, :d].toarray() for column in (triplets.anchor, triplets.positive, triplets.negative)]
    seconds = 0.0
    for update, share in ((True, updates), (False, 1 - updates)):
        start = time.process_time()
        for x, positive, negative in zip(*rows, strict=True):
            plain_step(method, state, x, positive - negative, update)
        seconds += share * (time.process_time() - start) / n
    return seconds * (X.shape[1] / d) ** 2


def one(name: str, method: str, dtype: str, n: int, mode: str) -> dict:
    """Times and peak memory of one learner on one data set; mode is "fit" or the size of partial_fit's chunks."""
    small = normalize(sp.random(30, 70, 0.3, format="csr", random_state=0))
    labels = np.arange(30) % 3
    X, y = load(name)
    triplets = Triplets.from_labels(X, y, n, random_state=1)
    for storage in ("dense", "sparse", "auto"):
        METHODS[method](dtype=dtype, storage=storage, n_triplets=50).fit(small, labels).partial_fit(small, labels)
    if method == "OASIS" and dtype == "float64":
        METHODS[method](storage="gram", n_triplets=50).fit(small, labels)
    learner = METHODS[method](dtype=dtype, record=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    if mode == "fit":
        learner.fit(triplets)
    else:
        for first in range(0, n, int(mode)):
            learner.partial_fit(triplets[first : first + int(mode)])
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    nnz = np.diff(X.indptr)
    touched = float(np.sum(nnz[triplets.anchor] * (nnz[triplets.positive] + nnz[triplets.negative])))
    result = {
        "seconds": seconds,
        "ns": 1e9 * seconds / touched,
        "peak_gib": peak / 2**20,
        "data_gib": before / 2**20,
        "updates": learner.n_updates_ / n,
        "model": type(learner._model).__name__.removesuffix("State").lower(),
        "d": X.shape[1],
    }
    if mode == "fit":
        del learner
        result["plain"] = plain_seconds(method, X, triplets, result["updates"])
        result["ratio"] = result["plain"] * n / seconds
    return result


def in_a_process(*arguments: str) -> dict:
    command = [sys.executable, __file__, "--one", *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def against_plain(console: Console, names: list[str], methods: list[str], n: int) -> None:
    table = Table(title=f"{n:,} triplets against the plain O(d²) step (* scaled from d = {SCALED_FROM:,} by d²)")
    for column in (
        "data set",
        "method",
        "updates",
        "CPU s",
        "µs per triplet",
        "ns an entry",
        "peak GiB",
        "plain step",
        "ratio",
        "bar",
    ):
        table.add_column(column, justify="right")
    for name in names:
        dtype, bar = BARS[name]
        for method in methods:
            row = in_a_process(name, method, dtype, str(n), "fit")
            plain = f"{1e3 * row['plain']:,.1f} ms{'*' if row['d'] > MOST_PLAIN else ''}"
            table.add_row(
                f"{name} ({row['model']}, {dtype})",
                method,
                f"{row['updates']:.0%}",
                f"{row['seconds']:.1f}",
                f"{1e6 * row['seconds'] / n:.1f}",
                f"{row['ns']:.1f}",
                f"{row['peak_gib']:.2f}",
                plain,
                f"{row['ratio']:,.0f}×",
                f"{bar:,}×",
            )
    console.print(table)


def open_stream(console: Console, name: str, n: int) -> None:
    for method in ("SORS-I", "AdaSORS-I", "OASIS"):
        dtype = BARS[name][0]
        known = in_a_process(name, method, dtype, str(n), "fit")
        for chunk in (1000, 100):
            opened = in_a_process(name, method, dtype, str(n), str(chunk))
            console.print(
                f"{name} {method}: fit {known['seconds']:.1f} s, {known['peak_gib']:.2f} GiB; partial_fit in chunks of "
                f"{chunk} {opened['seconds']:.1f} s, {opened['peak_gib']:.2f} GiB: "
                f"{opened['seconds'] / known['seconds']:.2f}×"
            )


def dimensions(console: Console, n: int) -> None:
    """The same rows with their features spread over more and more dimensions."""
    X, y = load("bbc")
    for method in ("OASIS", "SORS-I", "AdaSORS-I"):
        times = []
        for d in (10_000, 100_000, 1_000_000):
            columns = X.indices.astype(np.int64) * (d // X.shape[1])
            wide = sp.csr_matrix((X.data, columns, X.indptr), shape=(X.shape[0], d))
            learner = METHODS[method](storage="sparse", record=False)
            triplets = Triplets.from_labels(wide, y, n, random_state=0)
            METHODS[method](storage="sparse").fit(triplets[:10])
            start = time.process_time()
            learner.fit(triplets)
            times.append(1e6 * (time.process_time() - start) / n)
        console.print(
            f"{method}, rows of bbc in d = 10⁴, 10⁵, 10⁶: {', '.join(f'{t:.0f}' for t in times)} µs a triplet; "
            f"10⁶ against 10⁴ {times[2] / times[0]:.2f}×"
        )


def queries(console: Console) -> None:
    """Figure 4: the time of queries against the sparsity of M."""
    X, y = load("bbc")
    table = Table(title="bbc: similarities of queries and 1,000 items, CPU seconds")
    for column in ("M", "sparsity", "667 queries", "5,000", "20,000", "against a full M"):
        table.add_column(column, justify="right")
    rng = np.random.default_rng(0)
    items = X[:1000]
    full = None
    for label, lam in (
        ("full", None),
        ("SORS, λ = 1e-6", 1e-6),
        ("λ = 1e-4", 1e-4),
        ("λ = 1e-3", 1e-3),
        ("λ = 1e-2", 1e-2),
    ):
        if lam is None:
            metric = BilinearMetric(OASIS(0.1, n_triplets=20_000, random_state=0).fit(X, y).metric_.matrix)
            matrix = metric.matrix.toarray() if sp.issparse(metric.matrix) else metric.matrix
            metric = BilinearMetric(matrix)
        else:
            learner = SORS(0.1, lam=lam, n_triplets=20_000, random_state=0).fit(X, y)
            metric = BilinearMetric(sp.csr_array(learner.metric_.matrix))
        times = []
        for n in (667, 5_000, 20_000):
            rows = X[rng.integers(0, X.shape[0], n)]
            metric.pairwise(rows[:10], items)
            start = time.process_time()
            for first in range(0, n, 1000):
                metric.pairwise(rows[first : first + 1000], items)
            times.append(time.process_time() - start)
        full = full or times[-1]
        table.add_row(label, f"{metric.sparsity:.2%}", *(f"{t:.2f}" for t in times), f"{full / times[-1]:.1f}×")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[*BARS, "open", "dimensions", "queries"])
    parser.add_argument("--methods", nargs="+", default=["OASIS", "AROMA", "SORS-I", "AdaSORS-II"], choices=METHODS)
    parser.add_argument("--triplets", type=int, default=100_000)
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with threadpool_limits(1):
        if arguments.one:
            name, method, dtype, n, mode = arguments.one
            print(json.dumps(one(name, method, dtype, int(n), mode)))
            return
        console = Console(width=160)
        names = [name for name in arguments.only if name in BARS]
        if names:
            against_plain(console, names, arguments.methods, arguments.triplets)
        if "open" in arguments.only:
            open_stream(console, "rcv1_mc", arguments.triplets)
        if "dimensions" in arguments.only:
            dimensions(console, min(arguments.triplets, 5_000))
        if "queries" in arguments.only:
            queries(console)


if __name__ == "__main__":
    main()

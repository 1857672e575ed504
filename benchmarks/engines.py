"""Learners on several threads and on a GPU, against one thread.

    python benchmarks/engines.py --data FOLDER                       # one thread against all of them, 10,000 rows
    python benchmarks/engines.py --data FOLDER --gpu                 # the GPU: gradients, and fits on 60,000 rows
    python benchmarks/engines.py --data FOLDER --busy 2              # while two other processes use the cores

FOLDER holds mnist.npz. Wall times of the second call, so that nothing is compiled; rows in 0..1, float32.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import mahala
from mahala.batch.gml import TOO_CLOSE
from mahala.compiled.threads import n_cores
from mahala.engine import current_engine
from mahala.support.parameters import config_context


def data(folder: Path, n: int) -> tuple[Any, Any]:
    with np.load(folder / "mnist.npz") as file:
        return file["X"][:n].astype(np.float32) / 255, file["y"][:n].astype(np.intp)


def best(work: Callable[[], Any], repeats: int) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def jobs(X: Any, y: Any) -> dict[str, Callable[[], Any]]:
    return {
        "NCA, 5 iterations": lambda: mahala.NCA(max_iter=5, tol=0.0).fit(X, y),
        "NCA to 32, 5 iterations": lambda: mahala.NCA(32, max_iter=5, tol=0.0, random_state=0).fit(X, y),
        "GML, 5 iterations": lambda: mahala.GML(max_iter=5, tol=0.0).fit(X, y),
        "MMC, 5 iterations": lambda: mahala.MMC(max_iter=5, tol=0.0).fit(X, y),
        "LMNN, 10 iterations": lambda: mahala.LMNN(max_iter=10, tol=0.0).fit(X, y),
        "BoostMetric, 20 iterations": lambda: mahala.BoostMetric(max_iter=20, tol=0.0).fit(X, y),
        "knn_error": lambda: mahala.knn_error(None, X, y),
        "Relief": lambda: mahala.batch.Relief().fit(X, y),
    }


def cores(folder: Path, n: int, threads: list[int], repeats: int, console: Console) -> None:
    table = Table(title=f"wall seconds, {n:,} × 784")
    for name in ("", *(f"{count} threads" for count in threads), "ratio"):
        table.add_column(name, justify="right")
    for name, work in jobs(*data(folder, n)).items():
        times = []
        for count in threads:
            with config_context(n_threads=count):
                times.append(best(work, repeats))
        table.add_row(name, *(f"{seconds:.2f}" for seconds in times), f"{times[0] / times[-1]:.1f}")
        console.print(name, *(f"{seconds:.3f}" for seconds in times))
    console.print(table)


def gradients(X: Any, y: Any, m: int) -> dict[str, Callable[[], Any]]:
    engine = current_engine()
    L = np.eye(784, dtype=np.float32)[:m] if m == 784 else np.linalg.svd(X[:2000], full_matrices=False)[2][:m]
    rows = engine.place(X - X.mean(axis=0))
    L = L.astype(np.float32)

    def softmax() -> None:
        _, pull = engine.softmax(engine.map(rows, L), y)
        engine.gradient(pull, rows)

    def between(scale: float) -> None:
        _, pull = engine.between(engine.map(rows, L * np.float32(scale)), y, (*TOO_CLOSE, 1.0))
        engine.gradient(pull, rows)

    return {
        f"NCA gradient, {m} components": softmax,
        f"GML gradient, {m} components, all pairs count": lambda: between(0.05),
        f"GML gradient, {m} components, few pairs count": lambda: between(0.12),
        "10 nearest neighbours": lambda: engine.nearest(X, X, 10),
    }


def gpu(folder: Path, console: Console, seconds: float) -> None:
    import torch

    console.print(torch.__version__, torch.cuda.get_device_name())
    for n in (10_000, 60_000):
        X, y = data(folder, n)
        for tf32 in (False, True):
            with config_context(engine="cuda", tf32=tf32):
                for m in (784, 32):
                    for name, work in gradients(X, y, m).items():
                        console.print(f"{n:,} rows, TF32 {tf32}: {name} {1000 * best(work, 3):.1f} ms")
    fits = {
        "NCA": mahala.NCA(),
        "GML": mahala.GML(),
        "MMC": mahala.MMC(),
        "LMNN": mahala.LMNN(),
        "BoostMetric": mahala.BoostMetric(),
    }
    for name, learner in fits.items():
        start = time.perf_counter()
        limit = start + seconds
        with config_context(engine="cuda"):
            learner.set_params(callback=lambda _, limit=limit: time.perf_counter() > limit).fit(X, y)
        console.print(
            f"{name} on {len(X):,} rows: {time.perf_counter() - start:.1f} s, {learner.n_iter_} iterations, "
            f"{learner.stop_reason_}, objective {learner.objective_:.6g}, "
            f"memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, n_cores()])
    parser.add_argument("--seconds", type=float, default=90.0, help="the longest fit on the GPU")
    given = parser.parse_args()
    console = Console(width=120, highlight=False)
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(given.busy)]
    try:
        if given.gpu:
            gpu(given.data, console, given.seconds)
        else:
            cores(given.data, given.rows, given.threads, given.repeats, console)
    finally:
        for other in others:
            other.kill()


if __name__ == "__main__":
    main()

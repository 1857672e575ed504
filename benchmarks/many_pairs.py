"""LogisticMetric from many pairs, on the cores and on a GPU.

    python benchmarks/many_pairs.py --data FOLDER            # a million pairs of MNIST's rows on this machine's cores
    python benchmarks/many_pairs.py --data FOLDER --gpu      # MNIST, neighbours, and 200 million pairs of made-up rows

FOLDER holds mnist.npz. The made-up rows have 20 hidden features in which classes differ, 20 others of ten times that
variance, and noise in all features. They are of float16 and stay on the GPU: a million rows of 21,504 features take
40 GiB.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.metrics import roc_auc_score

import mahala
from mahala.compiled.threads import n_cores
from mahala.engine import current_engine
from mahala.support.parameters import config_context

CONSOLE = Console(width=120, highlight=False)
# Hidden features in which the classes differ, and as many in which rows vary more, whatever their class.
HIDDEN, CLASSES = 20, 1000


def mnist(folder: Path) -> tuple[Any, ...]:
    with np.load(folder / "mnist.npz") as file:
        X, y, n = file["X"].astype(np.float32) / 255, file["y"], int(file["n_train"])
    return X[:n], y[:n], X[n:], y[n:]


def cores(folder: Path, n_pairs: int, threads: int) -> None:
    X, y, *_ = mnist(folder)
    with config_context(n_threads=threads):
        mahala.LogisticMetric(batch_size="auto", n_pairs=4096, random_state=0).fit(X, y)  # which loads what is needed
        start, work = time.perf_counter(), time.process_time()
        learner = mahala.LogisticMetric(batch_size="auto", n_pairs=n_pairs, random_state=0).fit(X, y)
    times = f"{time.perf_counter() - start:.1f} s, {time.process_time() - work:.1f} s of CPU"
    change = f"objective {learner.objectives_[0]:.3f} to {learner.objective_:.3f}"
    CONSOLE.print(f"{threads} threads, {n_pairs:,} pairs of {X.shape[0]:,} × {X.shape[1]}: {times}, {change}")


def digits(folder: Path) -> None:
    X, y, X_test, y_test = mnist(folder)
    raw = mahala.knn_error(None, X, y, X_test, y_test, n_neighbors=[1, 3, 5]).error
    CONSOLE.print(f"MNIST, k-NN error with k = 1, 3, 5, raw: {np.round(100 * raw, 2)} %")
    for kind in (mahala.Pairs, mahala.Triplets):
        for k in (3, 10):
            start = time.perf_counter()
            given = kind.from_neighbors(X, y, n_neighbors=k)
            found = time.perf_counter()
            learner = mahala.LogisticMetric(batch_size="auto", random_state=0).fit(given)
            end = time.perf_counter()
            error = mahala.knn_error(learner.metric_, X, y, X_test, y_test, n_neighbors=[1, 3, 5]).error
            times = f"{end - start:.1f} s, of which {found - start:.1f} s for the search"
            name = f"{len(given):,} {kind.__name__.lower()} of each row's {k} nearest"
            CONSOLE.print(f"{name}: {np.round(100 * error, 2)} %, {times}, objective {learner.objective_:.3f}")


def neighbours(folder: Path) -> None:
    X, *_ = mnist(folder)
    engine, times = current_engine(), []
    for _ in range(4):
        start = time.perf_counter()
        numbers, squared = engine.nearest(X, X, 10)
        times.append(time.perf_counter() - start)
    CONSOLE.print(f"10 nearest of each of {len(X):,}: {1000 * min(times[1:]):.0f} ms, first call {1000 * times[0]:.0f}")
    asked = np.arange(0, len(X), 60)
    with config_context(engine="cpu"):
        expected, distances = current_engine().nearest(X, X[asked], 10)
    same, largest = np.mean(numbers[asked] == expected), np.abs(squared[asked] - distances).max()
    CONSOLE.print(f"the same as on the cores: {same:.4f} of {expected.size:,}, distances to {largest:.1e}")


def made_up(n: int, d: int, seed: int) -> tuple[Any, Any]:
    """Return rows of float16 on the GPU, and the class of each."""
    import torch

    hidden = torch.Generator("cuda").manual_seed(0)
    centers = 4.0 * torch.randn(CLASSES, HIDDEN, device="cuda", generator=hidden)
    directions = torch.randn(2 * HIDDEN, d, device="cuda", generator=hidden) / d**0.5
    rng = torch.Generator("cuda").manual_seed(seed)
    y = torch.randint(CLASSES, (n,), device="cuda", generator=rng)
    X = torch.empty(n, d, dtype=torch.float16, device="cuda")
    for start in range(0, n, 20_000):
        own = slice(start, start + 20_000)
        z = 2.5 * torch.randn(len(y[own]), 2 * HIDDEN, device="cuda", generator=rng)
        z[:, HIDDEN:] *= 5.0
        z[:, :HIDDEN] += centers[y[own]]
        X[own] = (z @ directions).add_(torch.randn(len(y[own]), d, device="cuda", generator=rng))
    return X, y.cpu().numpy()


def auc(L: Any, X: Any, y: Any) -> float:
    """Return the area under the ROC curve of 100,000 pairs, half of them of one class."""
    import torch

    pairs = mahala.Pairs.from_labels(np.zeros((len(y), 1)), y, 100_000, balance=0.5, random_state=0)
    Z = X.float() if L is None else X.float() @ torch.as_tensor(L, dtype=torch.float32, device="cuda").T
    parts = np.array_split(np.arange(len(pairs)), 100)
    squared = [(Z[pairs.left[part]] - Z[pairs.right[part]]).square().sum(1).cpu().numpy() for part in parts]
    return float(roc_auc_score(pairs.similar, -np.concatenate(squared)))


def many(n: int, d: int, m: int, n_pairs: int, exact_pairs: int) -> None:
    import torch

    from mahala.engine.torch import memory as arrays

    X, y = made_up(n, d, 1)
    X_test, y_test = made_up(20_000, d, 2)
    CONSOLE.print(f"{n:,} × {d:,}, {X.nbytes / 2**30:.1f} GiB; AUC of raw distances {auc(None, X_test, y_test):.4f}")
    for factors, seen in (
        ("bfloat16", 16_384),
        ("bfloat16", exact_pairs),
        ("float32", exact_pairs),
        ("bfloat16", n_pairs),
    ):
        arrays.GPU_FACTORS = factors
        torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        learner = mahala.LogisticMetric(n_components=m, batch_size="auto", n_pairs=seen, random_state=0).fit(X, y)
        end = time.perf_counter()
        memory = torch.cuda.max_memory_allocated() / X.nbytes
        learned = auc(learner.components_, X_test, y_test)
        times = f"{end - start:.1f} s ({seen / (end - start) / 1e6:.2f} million per second)"
        CONSOLE.print(f"{factors}, {seen:,} pairs: {times}, AUC {learned:.4f}, memory {memory:.2f} × the rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--threads", type=int, default=n_cores())
    parser.add_argument("--pairs", type=int, default=0, help="default: 1,000,000, and 200,000,000 on a GPU")
    parser.add_argument("--exact-pairs", type=int, default=20_000_000, help="pairs of the comparison with float32")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=21_504)
    parser.add_argument("--components", type=int, default=1_000)
    given = parser.parse_args()
    if not given.gpu:
        cores(given.data, given.pairs or 1_000_000, given.threads)
        return
    with config_context(engine="cuda"):
        neighbours(given.data)
        digits(given.data)
        many(given.rows, given.features, given.components, given.pairs or 200_000_000, given.exact_pairs)


if __name__ == "__main__":
    main()

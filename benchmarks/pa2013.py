"""Table 2 of "Passive-aggressive online distance metric learning and extensions" (2013): ours beside theirs.

    python benchmarks/pa2013.py                       # ten data sets, ten runs
    python benchmarks/pa2013.py --datasets wine soyS --runs 3

The paper's protocol: a random half trains, r = 40 c (c-1) distinct pairs in cycles for t = min(⌊n(n-2)/40⌋, 50 r)
steps, C from 1e-4..1e2 by one pass and k-NN accuracy on the training half, k-NN error on the other half, best k
in 1..25 of the mean over runs, the same data for every method. As the printed Euclidean errors suggest, features are
scaled to [0, 1] and errors are averaged over classes.

Data sets are .npz files with X and y in the folder named by MAHALA_DATA (default: shared/data beside the project).
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_limits

from mahala import PA, friedman_holm, knn_error

DATA = Path(os.environ.get("MAHALA_DATA", Path(__file__).parents[2] / "shared" / "data"))
METHODS = {
    "Euclidean": None,
    "PAI+": {"variant": "I", "psd": "every"},
    "PAI-": {"variant": "I", "psd": "end"},
    "PAII+": {"variant": "II", "psd": "every"},
    "PAII-": {"variant": "II", "psd": "end"},
    "PALS+": {"variant": "LS", "psd": "every"},
    "PALS-": {"variant": "LS", "psd": "end"},
}
PUBLISHED = {  # error and best k, in the order of METHODS
    "soyS": [(0.158, 1), (0.133, 14), (0.125, 13), (0.136, 12), (0.121, 15), (0.125, 9), (0.126, 12)],
    "wine": [(0.027, 13), (0.018, 5), (0.017, 6), (0.016, 3), (0.017, 9), (0.024, 7), (0.019, 3)],
    "glass": [(0.510, 1), (0.523, 1), (0.506, 1), (0.518, 1), (0.527, 1), (0.507, 1), (0.518, 1)],
    "ecoli": [(0.064, 3), (0.075, 3), (0.075, 17), (0.076, 15), (0.075, 7), (0.076, 17), (0.070, 9)],
    "malaysia": [(0.301, 1), (0.281, 1), (0.289, 1), (0.281, 1), (0.289, 1), (0.327, 1), (0.318, 1)],
    "ionosphere": [(0.153, 2), (0.129, 2), (0.136, 2), (0.14, 2), (0.139, 2), (0.143, 2), (0.138, 2)],
    "balance": [(0.335, 6), (0.219, 3), (0.219, 2), (0.258, 3), (0.234, 2), (0.312, 6), (0.258, 6)],
    "breast": [(0.033, 3), (0.025, 9), (0.026, 11), (0.027, 17), (0.025, 11), (0.028, 9), (0.030, 9)],
    "chromo": [(0.467, 1), (0.470, 1), (0.489, 1), (0.467, 1), (0.488, 1), (0.476, 1), (0.481, 1)],
    "mor": [(0.277, 9), (0.296, 12), (0.299, 10), (0.294, 10), (0.297, 8), (0.269, 11), (0.279, 10)],
    "spam": [(0.115, 1), (0.118, 5), (0.12, 3), (0.119, 5), (0.121, 3), (0.12, 3), (0.121, 1)],
    "satellite": [(0.119, 3), (0.137, 4), (0.132, 3), (0.132, 3), (0.127, 3), (0.132, 3), (0.127, 3)],
    "soyL": [(0.136, 1), (0.107, 1), (0.1, 1), (0.099, 1), (0.097, 1), (0.098, 1), (0.083, 1)],
    "nist16": [(0.057, 1), (0.057, 1), (0.059, 1), (0.057, 1), (0.060, 1), (0.066, 1), (0.056, 1)],
}
DEFAULT = ["soyS", "wine", "glass", "ecoli", "ionosphere", "balance", "breast", "mor", "soyL", "nist16"]


def one_run(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, tuple[np.ndarray, float, float]]:
    """For each method: class-averaged error for k = 1..25, seconds of the final fit (CPU), C."""
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[: len(X) // 2], order[len(X) // 2 :]
    results = {}
    with threadpool_limits(1):
        for name, setting in METHODS.items():
            metric, seconds, C = None, 0.0, np.nan
            if setting is not None:
                C = PA(**setting, C="auto", random_state=seed).fit(X[train], y[train]).C_
                start = time.process_time()
                metric = PA(**setting, C=C, random_state=seed).fit(X[train], y[train]).metric_
                seconds = time.process_time() - start
            errors = knn_error(metric, X[train], y[train], X[test], y[test], average="class").error
            results[name] = errors, seconds, C
    return results


def scaled(name: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(DATA / f"{name}.npz") as file:
        X, y = file["X"].astype(float), file["y"]
    width = np.ptp(X, axis=0)
    return (X - X.min(axis=0)) / np.where(width > 0, width, 1.0), y


def cell(mean: float, sd: float, k: int, published: float) -> str:
    """Ours (k) | paper; a star where they are more than two of our standard deviations apart."""
    star = "*" if abs(mean - published) > 2 * sd else " "
    return f"{mean:.3f}±{sd:.3f} ({k}) | {published:.3f}{star}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=DEFAULT, choices=PUBLISHED)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("benchmark-output/pa2013.csv"))
    args = parser.parse_args()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in track(args.datasets, description="Data sets"):
        X, y = scaled(name)
        runs = Parallel(args.jobs)(delayed(one_run)(X, y, seed) for seed in range(args.runs))
        for method, (published, published_k) in zip(METHODS, PUBLISHED[name], strict=True):
            errors = np.array([run[method][0] for run in runs])
            best = int(np.argmin(errors.mean(axis=0)))
            rows.append(
                {
                    "dataset": name,
                    "method": method,
                    "error": errors[:, best].mean(),
                    "sd": errors[:, best].std(ddof=1) if args.runs > 1 else 0.0,
                    "k": best + 1,
                    "paper": published,
                    "paper_k": published_k,
                    "seconds": float(np.mean([run[method][1] for run in runs])),
                    "C": float(np.median([run[method][2] for run in runs])),
                }
            )
    with args.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    table = Table(
        title=f"Class-averaged error, mean ± sd of {args.runs} runs (best k) | the paper's; * off by over 2 sd"
    )
    for column in ("data set", *METHODS):
        table.add_column(column)
    for name in args.datasets:
        own = [row for row in rows if row["dataset"] == name]
        table.add_row(name, *(cell(row["error"], row["sd"], row["k"], row["paper"]) for row in own))
    console = Console(width=210)
    console.print(table)
    if len(args.datasets) > 1:
        grid = np.array([[row["error"] for row in rows if row["dataset"] == name] for name in args.datasets])
        comparison = friedman_holm(grid, list(METHODS))
        ranks = ", ".join(f"{name} {rank:.2f}" for name, rank in zip(METHODS, comparison.ranks, strict=True))
        console.print(f"Friedman p = {comparison.p_value:.3f}; mean ranks: {ranks}")
    console.print(f"Rows are in {args.output}")


if __name__ == "__main__":
    main()

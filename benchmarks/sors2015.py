"""Table II and Figures 1, 2, 3 and 5 of "Sparse online relative similarity learning" (2015): ours beside theirs.

    python benchmarks/sors2015.py --datasets protein_val bbc --runs 5
    python benchmarks/sors2015.py --show               # the table and the figures of what has been run

The paper's protocol: each class is split at random, 70 % trains, 30 % tests; 100,000 triplets; parameters by
cross-validation on the training part (here: one split of it in the first run, 10,000 triplets, kept for all runs). Each
test row is a query for the other test rows. Rows are scaled to unit length, as is usual; the paper does not say what it
did. LEGO and RDML learn from as many pairs, half of them similar. AROMA has full covariances up to 1,000 features.

Finished cells are kept in docs/results/sors2015/cells.csv, so a run that was killed goes on. Data sets are .npz files
in the folder named by MAHALA_DATA (default: shared/data beside the project).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from mahala import AROMA, LEGO, OASIS, RDML, SORS, AdaSORS, Pairs, Triplets, mean_average_precision, precision_at_k

DATA = Path(os.environ.get("MAHALA_DATA", Path(__file__).parents[2] / "shared" / "data"))
RESULTS = Path(__file__).parents[1] / "docs" / "results" / "sors2015"
DATASETS = ["protein_val", "caltech10_surf", "gisette_like", "bbc", "rcv1_mc", "news20_counts"]
HIGH = {"rcv1_mc", "news20_counts"}  # float32 here, and no learner that needs all of M
KS = (1, 2, 5, 10, 15, 20, 30, 40, 50)

GRIDS = {
    "LEGO": (LEGO, {"eta": [0.02, 0.08, 0.32]}),
    "RDML": (RDML, {"lam": [0.01, 0.1]}),
    "OASIS": (OASIS, {"C": [0.01, 0.1, 1.0]}),
    "AROMA": (AROMA, {"r": [0.01, 0.1, 1.0, 10.0, 60.0]}),
    "SORS-I": (SORS, {"eta": [0.1, 1.0], "lam": [1e-6, 1e-5, 1e-4]}),
    "AdaSORS-I": (AdaSORS, {"eta": [0.1, 0.5], "lam": [1e-6, 1e-4], "delta": [0.1, 1.0]}),
}
# The second of each pair takes the parameters of the first, as in the paper.
METHODS = ["Euclidean", "LEGO", "RDML", "OASIS", "AROMA", "SORS-I", "SORS-II", "AdaSORS-I", "AdaSORS-II"]
# MAP (%), sparsity (%) and seconds that the paper prints; its data sets are larger or others (see the docs).
PUBLISHED = {
    "protein_val": {
        "Euclidean": (36.93, 99.9, 0),
        "LEGO": (37.44, 0.56, 60),
        "RDML": (38.96, 0.58, 108.9),
        "OASIS": (43.91, 0.56, 86.51),
        "AROMA": (44.58, 0.56, 822.93),
        "SORS-I": (45.66, 1.02, 217.83),
        "SORS-II": (45.69, 0.81, 239.62),
        "AdaSORS-I": (47.02, 0.97, 400.11),
        "AdaSORS-II": (46.45, 0.99, 423.27),
    },
    "caltech10_surf": {
        "Euclidean": (10.05, 99.9, 0),
        "LEGO": (10.15, 5.52, 531.94),
        "RDML": (10.10, 7.50, 623.78),
        "OASIS": (12.93, 5.94, 673.43),
        "AROMA": (13.39, 5.93, 1294.66),
        "SORS-I": (13.28, 13.82, 895.79),
        "SORS-II": (13.29, 13.83, 958.97),
        "AdaSORS-I": (13.82, 14.10, 2552.17),
        "AdaSORS-II": (13.83, 14.10, 2993.64),
    },
    "gisette_like": {
        "Euclidean": (62.05, 99.9, 0),
        "LEGO": (78.38, 6.45, 5410.54),
        "RDML": (82.49, 20.73, 2090.51),
        "OASIS": (83.49, 4.72, 2316.77),
        "AROMA": (83.57, 3.89, 26097.59),
        "SORS-I": (88.89, 4.01, 16839.32),
        "SORS-II": (89.89, 4.08, 22578.96),
        "AdaSORS-I": (90.92, 4.40, 31256.19),
        "AdaSORS-II": (90.99, 4.20, 35471.63),
    },
    "bbc": {
        "Euclidean": (32.91, 99.9, 0),
        "LEGO": (30.29, 3.44, 31827.25),
        "RDML": (70.79, 83.75, 8189.38),
        "OASIS": (79.36, 61.62, 8881.26),
        "AROMA": (79.68, 60.83, 9723.02),
        "SORS-I": (91.03, 78.67, 90370.71),
        "SORS-II": (92.20, 78.41, 135376.85),
        "AdaSORS-I": (92.43, 82.15, 303718.57),
        "AdaSORS-II": (94.09, 81.24, 364976.73),
    },
    "rcv1_mc": {
        "Euclidean": (58.28, 99.9, 0),
        "OASIS": (92.37, 97.14, 30222.26),
        "AROMA": (92.54, 97.11, 40407.61),
        "SORS-I": (92.62, 99.84, 71473.62),
        "SORS-II": (92.62, 99.84, 100543.28),
        "AdaSORS-I": (92.82, 99.64, 148260.37),
        "AdaSORS-II": (92.86, 99.64, 162515.32),
    },
    "news20_counts": {
        "Euclidean": (19.40, 99.9, 0),
        "OASIS": (65.18, 86.98, 196561.51),
        "AROMA": (65.47, 87.91, 275107.98),
        "SORS-I": (66.22, 98.12, 311849.83),
        "SORS-II": (66.89, 98.12, 381573.25),
        "AdaSORS-I": (67.18, 98.20, 632147.31),
        "AdaSORS-II": (67.10, 98.20, 687947.24),
    },
}
FIELDS = [
    "dataset",
    "run",
    "method",
    "params",
    "triplets",
    "map",
    "sparsity",
    "seconds",
    "updates",
    "curve",
    "precision",
]


def load(name: str) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows of unit length, and classes; of rcv1_mc the first ten classes, as in the paper."""
    with np.load(DATA / f"{name}.npz") as file:
        y = file["y"]
        if "X" in file:
            X = sp.csr_matrix(file["X"].astype(float))
        else:
            parts = file["data"].astype(float), file["indices"], file["indptr"]
            X = sp.csr_matrix(parts, shape=tuple(file["shape"]))
    if name == "rcv1_mc":
        X, y = X[y < 10], y[y < 10]
    return normalize(X), y


def split(y: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A random share of each class, and the rest."""
    rng = np.random.default_rng(seed)
    parts = [
        np.array_split(own, [round(share * len(own))])
        for own in (rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y))
    ]
    return tuple(np.concatenate(side) for side in zip(*parts, strict=True))


def learner(method: str, name: str, d: int, params: dict, seed: int):
    kind = GRIDS[method.replace("-II", "-I")][0]
    own = dict(params, random_state=seed, record=False)
    if method.endswith("-II"):
        own["penalty"] = "offdiagonal"
    if kind is AROMA:
        own["covariance"] = "full" if d <= 1000 else "diagonal"
    if kind not in (LEGO, RDML) and name in HIGH | {"gisette_like"}:
        own["dtype"] = "float32"
    if own.get("covariance") == "full":
        own.pop("dtype", None)
    return kind(**own)


def comparisons(model, X, y, n: int, seed: int):
    if isinstance(model, LEGO | RDML):
        sizes = np.unique(y, return_counts=True)[1]
        available = int(sum(size * (size - 1) for size in sizes))  # twice the similar pairs
        pairs = Pairs.from_labels(X, y, min(n, available), balance=0.5, random_state=seed)
        return pairs[np.arange(n) % len(pairs)]
    return Triplets.from_labels(X, y, n, random_state=seed)


def tune(method: str, name: str, X, y, n: int) -> dict:
    """The parameters with the highest MAP on a third of the training rows, after n triplets from the others."""
    grid = GRIDS[method][1]
    settings = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    fit, held_out = split(y, 2 / 3, 1000)
    scores = []
    for params in settings:
        model = learner(method, name, X.shape[1], params, 0)
        model.fit(comparisons(model, X[fit], y[fit], min(n, len(fit) * 200), 0))
        scores.append(mean_average_precision(model.metric_, X[held_out], y[held_out]))
        Console().print(f"  {name} {method} {params}: {100 * scores[-1]:.2f} %", highlight=False)
    return settings[int(np.argmax(scores))]


def cell(method: str, name: str, X, y, run: int, params: dict, n: int, n_points: int) -> dict:
    train, test = split(y, 0.7, run)
    curve, seconds, updates, metric, sparsity = [], 0.0, 0.0, None, 1.0 - 1.0 / X.shape[1]
    if method != "Euclidean":
        model = learner(method, name, X.shape[1], params, run)
        stream = comparisons(model, X[train], y[train], n, run)
        parts = np.array_split(np.arange(n), n_points) if n_points > 1 else [None]
        for part in parts:
            start = time.process_time()
            model.fit(stream) if part is None else model.partial_fit(stream[part])
            seconds += time.process_time() - start
            if part is not None:
                metric = model.metric_
                found = mean_average_precision(metric, X[test], y[test])
                curve.append([model.n_steps_, round(found, 5), round(metric.sparsity, 5)])
        metric = model.metric_
        sparsity, updates = metric.sparsity, model.n_updates_ / model.n_steps_
    return {
        "map": mean_average_precision(metric, X[test], y[test]),
        "precision": json.dumps(
            [round(p, 4) for p in precision_at_k(metric, X[test], y[test], k=KS).precision.tolist()]
        ),
        "sparsity": sparsity,
        "seconds": seconds,
        "updates": updates,
        "curve": json.dumps(curve),
    }


def read_cells() -> list[dict]:
    path = RESULTS / "cells.csv"
    if not path.exists():
        return []
    with path.open() as file:
        return list(csv.DictReader(file))


def write_cell(row: dict) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / "cells.csv"
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if new:
            writer.writeheader()
        writer.writerow(row)


def run(names: list[str], methods: list[str], runs: int, n: int, n_tune: int, n_points: int) -> None:
    for name in names:
        X, y = load(name)
        done = {(row["run"], row["method"]): row for row in read_cells() if row["dataset"] == name}
        for number, method in product(range(runs), methods):
            if (str(number), method) in done or (name in HIGH and method in ("LEGO", "RDML")):
                continue
            base = method.replace("-II", "-I")
            known = [row["params"] for (_, own), row in done.items() if own.replace("-II", "-I") == base]
            if known or method == "Euclidean":
                params = json.loads(known[0]) if known else {}
            else:
                train, _ = split(y, 0.7, 0)
                params = tune(base, name, X[train], y[train], n_tune)
            points = n_points if number == 0 and method in METHODS[3:] else 1
            own = cell(method, name, X, y, number, params, n, points)
            row = {"dataset": name, "run": number, "method": method, "params": json.dumps(params), "triplets": n} | own
            write_cell(row)
            done[str(number), method] = row
            Console().print(
                f"{name} run {number} {method} {params}: MAP {100 * own['map']:.2f} %, sparsity "
                f"{100 * own['sparsity']:.2f} %, {own['seconds']:.1f} s, {100 * own['updates']:.0f} % updates",
                highlight=False,
            )


def trade_off(name: str, n: int) -> None:
    """Figure 5: MAP and sparsity for a range of λ, one run."""
    X, y = load(name)
    train, test = split(y, 0.7, 0)
    params = {row["method"]: json.loads(row["params"]) for row in read_cells() if row["dataset"] == name}
    path = RESULTS / "trade_off.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["dataset", "method", "lam", "map", "sparsity"])
        for method, lam in product(METHODS[5:], (0.0, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1)):
            model = learner(method, name, X.shape[1], params[method] | {"lam": lam}, 0)
            metric = model.fit(comparisons(model, X[train], y[train], n, 0)).metric_
            writer.writerow([name, method, lam, mean_average_precision(metric, X[test], y[test]), metric.sparsity])
            file.flush()


def summary(name: str) -> list[list[str]]:
    """The rows of a data set's table: method, runs, triplets, parameters, then ours | the paper's."""
    rows, table = read_cells(), []
    for method in METHODS:
        own = [row for row in rows if (row["dataset"], row["method"]) == (name, method)]
        if not own:
            continue
        published = PUBLISHED[name].get(method)
        cells = []
        for k, (key, scale) in enumerate((("map", 100), ("sparsity", 100), ("seconds", 1))):
            # The first run stops for the points of the curves: it goes through partial_fit, the others through fit.
            later = [row for row in own if row["run"] != "0"] if key == "seconds" else []
            values = scale * np.array([float(row[key]) for row in later or own])
            spread = f"±{values.std(ddof=1):.2f}" if len(values) > 1 and key == "map" else ""
            theirs = "" if published is None else f" | {published[k]:g}"
            cells.append(f"{values.mean():.{1 if key == 'seconds' else 2}f}{spread}{theirs}")
        params = ", ".join(f"{key}={value:g}" for key, value in json.loads(own[0]["params"]).items())
        table.append([method, str(len(own)), f"{int(own[0]['triplets']):,}", params, *cells])
    return table


COLUMNS = ("method", "runs", "triplets", "parameters", "MAP %", "sparsity %", "CPU s")


def show(console: Console) -> None:
    for name in DATASETS:
        table = Table(*COLUMNS, title=f"{name}: ours | the paper's")
        for row in summary(name):
            table.add_row(*row)
        if table.row_count:
            console.print(table)


def markdown() -> str:
    """The tables as a page shows them."""
    lines = []
    for name in DATASETS:
        lines += [f"### {name}: ours | the paper's", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
        for row in summary(name):
            cells = (cell.replace(" | ", " \\| ") for cell in row)  # a bar would end the cell
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def figures() -> None:
    """Figures 1 (MAP against steps), 2 (precision among the first k), 3 (sparsity against steps) and 5 (trade-off)."""
    rows = [row for row in read_cells() if row["run"] == "0"]
    shown = METHODS[3:]
    styles = dict(zip(shown, ("C0-", "C1-", "C2-", "C2--", "C3-", "C3--"), strict=True))
    drawings = {
        "figure1": ("triplets", "MAP", lambda row: [(t, found) for t, found, _ in json.loads(row["curve"])]),
        "figure2": ("k", "precision", lambda row: list(zip(KS, json.loads(row["precision"]), strict=True))),
        "figure3": ("triplets", "sparsity of M", lambda row: [(t, zero) for t, _, zero in json.loads(row["curve"])]),
    }
    for file, (x, y, points) in drawings.items():
        drawn = {row["dataset"] for row in rows if row["method"] in shown and len(points(row)) > 1}
        names = [name for name in DATASETS if name in drawn]
        figure, axes = plt.subplots(2, 3, figsize=(12, 6.5), layout="constrained", squeeze=False)
        for ax, name in zip(axes.flat, names, strict=False):
            for row in rows:
                if row["dataset"] == name and row["method"] in shown and points(row):
                    ax.plot(*zip(*points(row), strict=True), styles[row["method"]], label=row["method"])
            ax.set(title=name, xlabel=x, ylabel=y)
        for ax in axes.flat[len(names) :]:
            ax.set_axis_off()
        axes.flat[0].legend(fontsize="small")
        figure.savefig(RESULTS / f"{file}.svg")
        plt.close(figure)
    path = RESULTS / "trade_off.csv"
    if path.exists():
        with path.open() as file:
            points = list(csv.DictReader(file))
        figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
        for method in shown[2:]:
            own = [(float(row["sparsity"]), float(row["map"])) for row in points if row["method"] == method]
            ax.plot(
                *zip(*sorted(own), strict=True), styles[method] + ("o" if "II" not in method else "s"), label=method
            )
        for method, style in (("OASIS", "C0^"), ("AROMA", "C1v")):
            for row in rows:
                if (row["dataset"], row["method"]) == ("caltech10_surf", method):
                    ax.plot(float(row["sparsity"]), float(row["map"]), style, label=method)
        ax.set(title="caltech10_surf", xlabel="sparsity of M", ylabel="MAP")
        ax.legend(fontsize="small")
        figure.savefig(RESULTS / "figure5.svg")
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--triplets", type=int, default=100_000)
    parser.add_argument("--tune", type=int, default=10_000, help="triplets for each setting tried")
    parser.add_argument("--points", type=int, default=10, help="points of the curves of the first run")
    parser.add_argument("--trade-off", action="store_true", help="Figure 5, on caltech10_surf")
    parser.add_argument("--show", action="store_true", help="only print what has been run")
    arguments = parser.parse_args()
    console = Console(width=150)
    with threadpool_limits(1):
        if arguments.trade_off:
            trade_off("caltech10_surf", arguments.triplets)
        elif not arguments.show:
            run(
                arguments.datasets,
                arguments.methods,
                arguments.runs,
                arguments.triplets,
                arguments.tune,
                arguments.points,
            )
    show(console)
    figures()
    (RESULTS / "tables.md").write_text(markdown(), encoding="utf-8")


if __name__ == "__main__":
    main()

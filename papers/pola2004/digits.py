"""Figure 3 of the POLA paper: the 45 pairs of digits of MNIST.

10,000 random training rows and all test rows. POLA makes one pass over 1,000 random pairs, RCA uses the similar ones
among the same pairs, and FDA uses the labels.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mahala.batch.lda import LDA
from mahala.batch.pca import PCA
from mahala.batch.rca import RCA
from mahala.comparisons import Pairs
from mahala.data.datasets import data_folder, load
from mahala.evaluation.knn import knn_error
from mahala.metric import MahalanobisMetric
from mahala.online.pola import POLA
from mahala.support.arrays import FloatArray, IndexArray
from papers.study import Cell, Folder, Numbers, Published, Quantity, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_TRAIN = 10_000
N_PAIRS = 1_000
NEIGHBORS = (1, 3, 5, 9)
K = 3
# POLA's steps depend on the scale of the features; nothing else here does.
BRIGHTEST = 0.3
PROBLEMS = tuple(f"{a}-{b}" for a, b in itertools.combinations(range(10), 2))
RIVALS = {"Euclidean": "POLA", "RCA": "POLA", "RCA PCA-40": "POLA", "FDA": "POLA 1"}
WINS = {f"k = {k}": k for k in NEIGHBORS}
Rows = tuple[FloatArray, IndexArray]


_mnist = lru_cache(maxsize=1)(partial(load, "mnist"))


def problem_rows(name: str, run: int, folder: Path | None) -> tuple[Rows, Rows]:
    """Return the training rows and the test rows of two digits, each with their classes."""
    X, y, n_train = _mnist(folder)
    n_train = n_train or 60_000
    drawn = np.random.default_rng(run).choice(n_train, N_TRAIN, replace=False)
    digits = [int(digit) for digit in name.split("-")]
    train, test = (rows[np.isin(y[rows], digits)] for rows in (drawn, np.arange(n_train, len(y))))
    unit = 255.0 / BRIGHTEST
    return (X[train] / unit, y[train]), (X[test] / unit, y[test])


@lru_cache(maxsize=1)
def _pola(problem: str, run: int, folder: Path | None) -> MahalanobisMetric:
    """Return the metric that POLA learns; cached, because its leading direction is another method."""
    X, y = problem_rows(problem, run, folder)[0]
    return POLA(n_pairs=N_PAIRS, random_state=run).fit(X, y).metric_


@cache
def _errors(problem: str, method: str, run: int, folder: Path | None) -> dict[int, float]:
    """Return the error in per cent for each k; cached, because the counts of problems won need it again."""
    (X, y), (X_test, y_test) = problem_rows(problem, run, folder)
    if method == "RCA PCA-40":
        pca = PCA(n_components=40, random_state=run).fit(X)
        X, X_test = pca.transform(X), pca.transform(X_test)
    pairs = partial(Pairs.from_labels, X, y, N_PAIRS, random_state=run)  # those that POLA draws
    metrics: dict[str, Callable[[], MahalanobisMetric | None]] = {
        "Euclidean": lambda: None,
        "POLA": lambda: _pola(problem, run, folder),
        "RCA": lambda: RCA().fit(pairs()).metric_,
        "RCA PCA-40": lambda: RCA().fit(pairs()).metric_,
        "FDA": lambda: LDA(n_components=1).fit(X, y).metric_,
        "POLA 1": lambda: _pola(problem, run, folder).truncate(1),
    }
    found = knn_error(metrics[method](), X, y, X_test, y_test, n_neighbors=NEIGHBORS)
    return {k: 100.0 * found.at(k) for k in NEIGHBORS}


def _measure_digits(problems: Sequence[str], dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    """Measure errors on a problem or, if the row is a k, count the problems on which POLA beats the method."""
    place = data_folder(folder)
    if dataset in WINS:
        k = WINS[dataset]
        ours, theirs = ([_errors(p, m, run, place)[k] for p in problems] for m in (RIVALS[method], method))
        return {"wins": float(sum(a < b for a, b in zip(ours, theirs, strict=True)))}
    errors = _errors(dataset, method, run, place)
    return {"error": errors[K]} | {f"error{k}": error for k, error in errors.items() if k != K}


def _draw_digits(cells: Sequence[Cell], folder: Folder) -> Figure:
    from papers.pola2004.figures import digits
    from papers.results import summarise

    means = {(line.dataset, line.method): line.mean for line in summarise(FIGURE3, FIGURE3.quantities[0], cells)}
    scatters = []
    for rival in ("Euclidean", "FDA", "RCA", "RCA PCA-40"):
        pair = rival, RIVALS[rival]
        both = [p for p in PROBLEMS if all((p, method) in means for method in pair)]
        if both:
            x, y = ([means[p, method] for p in both] for method in pair)
            scatters.append((pair, x, y))
    place = data_folder(folder)
    if place is None or not (place / "mnist.npz").exists():  # too much to download for a picture
        return digits(scatters, {}, np.empty(0, dtype=bool), ("0", "8"))
    (X, _), (X_test, y_test) = problem_rows("0-8", 0, place)
    chosen = np.random.default_rng(0).choice(len(X_test), 100, replace=False)
    metrics = {"PCA": PCA(n_components=2, random_state=0).fit(X).metric_, "POLA": _pola("0-8", 0, place).truncate(2)}
    projections = {name: metric.transform(X_test[chosen]) for name, metric in metrics.items()}
    return digits(scatters, projections, y_test[chosen] == 0, ("0", "8"))


# The paper does not print errors or k, only the number of problems on which POLA has the lower error.
CLAIMS = {
    row: {method: Published(44.0 if method == "RCA PCA-40" else 45.0) for method in RIVALS} for row in WINS
}  # fmt: skip
ERROR_OF_DIGITS = Quantity("error", f"Error of {K}-NN in per cent", better="lower")
WON = "Problems on which POLA has the lower error (than FDA: its leading direction)"
FIGURE3 = Study(
    paper="pola2004",
    name="figure3",
    title="POLA 2004, Figure 3: pairs of digits of MNIST",
    quantities=(ERROR_OF_DIGITS, Quantity("wins", WON, CLAIMS, form=".1f")),
    datasets=(*PROBLEMS, *WINS),
    methods=("Euclidean", "POLA", "RCA", "RCA PCA-40", "FDA", "POLA 1"),
    runs=3,
    measure=partial(_measure_digits, PROBLEMS),
    left_out=frozenset((row, method) for row in WINS for method in ("POLA", "POLA 1")),
    axis="digits",
    draw=_draw_digits,
)
FEW = ("0-1", "0-8", "2-7", "3-5", "4-9")
FEW_DIGITS = replace(
    FIGURE3,
    quantities=(ERROR_OF_DIGITS, Quantity("wins", WON, form=".1f")),
    datasets=(*FEW, *WINS),
    runs=1,
    measure=partial(_measure_digits, FEW),
)

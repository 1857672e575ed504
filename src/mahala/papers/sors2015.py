"""Sparse online relative similarity learning (Yao, Zhao, Yu, Jin, Li, 2015): Table II and Figures 1 to 5.

70 % of each class trains, 30 % tests; 100,000 triplets; each test row is a query for the other test rows. Rows are
scaled to unit length; the paper does not state its scaling. LEGO and RDML learn from as many pairs, half of them
similar, ITML from 10,000 such pairs, LMNN from the labelled rows; ITML and LMNN have default parameters. AROMA has
full covariances up to 1,000 features. All other parameters were chosen by `tune` on the training part of the first
run and are used in all runs; they are in `sors2015_numbers.py`. Several data sets of the paper are not available:
protein_val is a part of Protein, caltech10_surf replaces Caltech50, gisette_like Gisette and news20_counts Sector, and
rcv1_mc holds ten classes of a part of RCV1.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from mahala.batch.itml import ITML
from mahala.batch.lmnn import LMNN
from mahala.comparisons import Pairs, Triplets
from mahala.data.datasets import load
from mahala.evaluation.ranking import mean_average_precision, precision_at_k
from mahala.online.aroma import AROMA
from mahala.online.lego import LEGO
from mahala.online.oasis import OASIS
from mahala.online.rdml import RDML
from mahala.online.sors import SORS, AdaSORS
from mahala.papers.sors2015_numbers import MAP, METHODS, PARAMETERS, SPARSITY, TIME
from mahala.papers.study import Cell, Folder, Numbers, Study, curve, timed_fit
from mahala.support.arrays import IndexArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH = METHODS[1:3]
SIMILARITIES = METHODS[5:]
KINDS: dict[str, Any] = {
    "LMNN": partial(LMNN, max_iter=100), "ITML": partial(ITML, max_iter=50), "LEGO": LEGO, "RDML": RDML,
    "OASIS": OASIS, "AROMA": AROMA, "SORS": SORS, "AdaSORS": AdaSORS,
}  # fmt: skip
GRIDS: dict[str, dict[str, list[float]]] = {
    "LEGO": {"eta": [0.02, 0.08, 0.32]},
    "RDML": {"eta": [0.01, 0.1]},
    "OASIS": {"C": [0.01, 0.1, 1.0]},
    "AROMA": {"r": [0.01, 0.1, 1.0, 10.0, 60.0]},
    "SORS": {"eta": [0.1, 1.0], "lam": [1e-6, 1e-5, 1e-4]},
    "AdaSORS": {"eta": [0.1, 0.5], "lam": [1e-6, 1e-4], "delta": [0.1, 1.0]},
}
N_TRIPLETS = 100_000
N_ITML_PAIRS = 10_000
WARM_UP = 50
# Every triplet of gisette_like changes all of M: 100,000 would take hours.
FEWER = {"gisette_like": 2_000}
HIGH = ("rcv1_mc", "news20_counts")  # too many features for learners with a dense M
TOO_LONG = ("gisette_like", "AROMA")
SMALL = ("protein_val", "caltech10_surf")
KS = (1, 2, 5, 10, 15, 20, 30, 40, 50)
POINTS = 10


def _unit_rows(dataset: str, folder: Folder) -> tuple[sp.csr_array, IndexArray]:
    """Return rows of unit length and their classes; of rcv1_mc the first ten classes, as in the paper."""
    X, y, _ = load(dataset, folder)
    X = sp.csr_array(X.astype(np.float64))
    if dataset == "rcv1_mc":
        X, y = X[y < 10], y[y < 10]
    return normalize(X), y


def _split(y: IndexArray, share: float, seed: int) -> tuple[IndexArray, IndexArray]:
    """Return the row numbers of a random share of each class, and of the rest."""
    rng = np.random.default_rng(seed)
    parts = [
        np.array_split(own, [round(share * len(own))])
        for own in (rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y))
    ]
    first, rest = (np.concatenate(side) for side in zip(*parts, strict=True))
    return first, rest


def _learner(dataset: str, method: str, n_features: int, parameters: dict[str, float], seed: int) -> Any:
    family, _, penalty = method.partition("-")
    own: dict[str, Any] = parameters | {"random_state": seed}
    if family not in BATCH:
        own["record"] = False
    if penalty == "II":
        own["penalty"] = "offdiagonal"
    if family == "AROMA":
        own["covariance"] = "full" if n_features <= 1000 else "diagonal"
    if family in ("OASIS", "AROMA", "SORS", "AdaSORS") and dataset in (*HIGH, "gisette_like"):
        own["dtype"] = "float32"
    return KINDS[family](**own)


def _given(method: str, X: sp.csr_array, y: IndexArray, n: int, seed: int) -> tuple[Any, ...]:
    """Return what a learner is fitted to: triplets, pairs (half of them similar), or labelled rows for LMNN."""
    if method == "LMNN":
        return X.toarray(), y
    if method not in ("ITML", "LEGO", "RDML"):
        return (Triplets.from_labels(X, y, n, random_state=seed),)
    if method == "ITML":  # it visits every pair many times
        n = min(n, N_ITML_PAIRS)
    sizes = np.unique(y, return_counts=True)[1]
    available = int(sum(size * (size - 1) for size in sizes))  # twice the similar pairs
    pairs = Pairs.from_labels(X, y, min(n, available), balance=0.5, random_state=seed)
    return (pairs[np.arange(n) % len(pairs)],)


def tune(dataset: str, family: str, folder: Folder = None, n: int = 10_000) -> dict[str, float]:
    """Return the parameters with the highest MAP on a held-out third of the training rows of the first run."""
    X, y = _unit_rows(dataset, folder)
    train, _ = _split(y, 0.7, 0)
    X, y = X[train], y[train]
    fit, held_out = _split(y, 2 / 3, 1000)
    grid = GRIDS[family]
    settings = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    scores = []
    for parameters in settings:
        learner = _learner(dataset, family, X.shape[1], parameters, 0)
        metric = learner.fit(*_given(family, X[fit], y[fit], n, 0)).metric_
        scores.append(mean_average_precision(metric, X[held_out], y[held_out]))
    return settings[int(np.argmax(scores))]


class _Trial:
    """Test rows of a run, and a learner with the data it is fitted to."""

    def __init__(self, n: int, dataset: str, method: str, run: int, folder: Folder, **changed: float) -> None:
        X, y = _unit_rows(dataset, folder)
        train, test = _split(y, 0.7, run)
        self.test, self.test_classes = X[test], y[test]
        self.n_features = X.shape[1]
        if method != "Euclidean":
            parameters = PARAMETERS[dataset].get(method.partition("-")[0], {}) | changed
            self.learner = _learner(dataset, method, self.n_features, parameters, run)
            n = min(n, FEWER.get(dataset, n))
            self.given = _given(method, X[train], y[train], n, run)

    def map(self) -> float:
        """Return the mean average precision of the current metric in per cent."""
        return 100.0 * mean_average_precision(self.learner.metric_, self.test, self.test_classes)


def _measure(n: int, dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    trial = _Trial(n, dataset, method, run, folder)
    metric, seconds, sparsity = None, 0.0, 1.0 - 1.0 / trial.n_features
    if method != "Euclidean":
        # A short fit first, so that compilation is not measured.
        trial.learner.fit(*(part[:: max(1, len(part) // WARM_UP)] for part in trial.given))
        metric, seconds = timed_fit(trial.learner, *trial.given)
        sparsity = metric.sparsity
    found = precision_at_k(metric, trial.test, trial.test_classes, k=KS)
    return {
        "map": 100.0 * mean_average_precision(metric, trial.test, trial.test_classes),
        "sparsity": 100.0 * sparsity,
        "seconds": seconds,
        **{f"precision@{k}": found.at(k) for k in KS},
    }


def _measure_curve(n: int, dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    """Measure MAP and sparsity after every tenth of the stream."""
    trial = _Trial(n, dataset, method, run, folder)
    numbers: Numbers = {}
    (comparisons,) = trial.given
    for tenth in np.array_split(np.arange(len(comparisons)), POINTS):
        trial.learner.partial_fit(comparisons[tenth])
        seen = trial.learner.n_steps_
        numbers |= {f"map@{seen}": trial.map(), f"sparsity@{seen}": 100.0 * trial.learner.metric_.sparsity}
    return numbers


SIZES = (50, 100, 200, 300, 400, 500, 600)


def _measure_queries(n: int, sizes: Sequence[int], dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    """Measure the CPU seconds to compare `size` test rows with each other, the lowest of five times."""
    trial = _Trial(n, dataset, method, run, folder)
    metric = trial.learner.fit(*trial.given).metric_
    numbers: Numbers = {"sparsity": 100.0 * metric.sparsity}
    for size in sizes:
        rows, times = trial.test[:size], []
        for _ in range(5):
            start = time.process_time()
            metric.pairwise(rows)
            times.append(time.process_time() - start)
        numbers[f"seconds@{size}"] = min(times)
    return numbers


LAMBDAS = ("0", "1e-05", "0.0001", "0.0003", "0.001", "0.003", "0.01", "0.03", "0.1")


def _measure_trade_off(n: int, dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    """Measure MAP and sparsity on caltech10_surf; the data set is the value of λ, which OASIS and AROMA lack."""
    changed = {"lam": float(dataset)} if "SORS" in method else {}
    trial = _Trial(n, "caltech10_surf", method, run, folder, **changed)
    trial.learner.fit(*trial.given)
    return {"map": trial.map(), "sparsity": 100.0 * trial.learner.metric_.sparsity}


def _panels(prefix: str, x: str, y: str, cells: Sequence[Cell], folder: Folder) -> Figure:
    """Draw a panel per data set and a line per method, for the first run."""
    from mahala.report.panels import line_panels

    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for dataset, method in product(PARAMETERS, SIMILARITIES):
        own = [cell for cell in cells if (cell.dataset, cell.method, cell.run) == (dataset, method, 0)]
        if points := curve(own, prefix):
            panels.setdefault(dataset, {})[method] = points
    return line_panels(panels, x, y)


def _draw_trade_off(cells: Sequence[Cell], folder: Folder) -> Figure:
    from mahala.report.panels import line_panels

    lines: dict[str, list[tuple[float, float]]] = {}
    for method in SIMILARITIES:
        own = [(cell.numbers["sparsity"], cell.numbers["map"]) for cell in cells if cell.method == method]
        if own:
            lines[method] = sorted(own)
    return line_panels({"caltech10_surf": lines}, "zeros in M, per cent", "MAP, per cent")


TABLE2 = Study(
    paper="sors2015",
    name="table2",
    title="SORS 2015, Table II: retrieval with learned similarities",
    quantities=(MAP, SPARSITY, TIME),
    datasets=tuple(PARAMETERS),
    methods=METHODS,
    runs=5,
    measure=partial(_measure, N_TRIPLETS),
    once=frozenset({"gisette_like", "news20_counts"}),
    left_out=frozenset(
        {
            *product(HIGH, ("LEGO", "RDML")),
            *((dataset, method) for dataset in PARAMETERS if dataset not in SMALL for method in BATCH),
            TOO_LONG,
        }
    ),
)
FIGURE1 = replace(
    TABLE2,
    name="figure1",
    title="SORS 2015, Figure 1: MAP against the triplets seen",
    quantities=(),
    methods=SIMILARITIES,
    runs=1,
    measure=partial(_measure_curve, N_TRIPLETS),
    left_out=frozenset({TOO_LONG}),
    draw=partial(_panels, "map", "triplets", "MAP, per cent"),
)
FIGURE2 = replace(
    FIGURE1,
    name="figure2",
    title="SORS 2015, Figure 2: precision among the first k",
    measure=TABLE2.measure,
    draw=partial(_panels, "precision", "k", "precision"),
    cells_of="table2",
)
FIGURE3 = replace(
    FIGURE1,
    name="figure3",
    title="SORS 2015, Figure 3: zeros in M against the triplets seen",
    draw=partial(_panels, "sparsity", "triplets", "zeros in M, per cent"),
    cells_of="figure1",
)
FIGURE4 = replace(
    FIGURE1,
    name="figure4",
    title="SORS 2015, Figure 4: CPU seconds of as many queries against as many items",
    quantities=(replace(SPARSITY, published={}),),
    datasets=("bbc",),
    measure=partial(_measure_queries, N_TRIPLETS, SIZES),
    left_out=frozenset(),
    draw=partial(_panels, "seconds", "queries and items", "CPU seconds"),
)
FIGURE5 = replace(
    FIGURE1,
    name="figure5",
    title="SORS 2015, Figure 5: MAP against zeros in M, caltech10_surf",
    quantities=(replace(MAP, published={}, better=None), replace(SPARSITY, published={})),
    datasets=LAMBDAS,
    measure=partial(_measure_trade_off, N_TRIPLETS),
    left_out=frozenset(product(LAMBDAS[1:], ("OASIS", "AROMA"))),
    axis="λ",
    draw=_draw_trade_off,
)
STUDIES = (
    replace(TABLE2, quick=replace(TABLE2, datasets=SMALL, runs=1, measure=partial(_measure, 5_000))),
    replace(FIGURE1, quick=replace(FIGURE1, datasets=SMALL, measure=partial(_measure_curve, 5_000))),
    replace(FIGURE2, quick=replace(FIGURE2, datasets=SMALL, measure=partial(_measure, 5_000))),
    replace(FIGURE3, quick=replace(FIGURE3, datasets=SMALL, measure=partial(_measure_curve, 5_000))),
    replace(FIGURE4, quick=replace(FIGURE4, measure=partial(_measure_queries, 1_000, SIZES[:4]))),
    replace(FIGURE5, quick=replace(FIGURE5, datasets=LAMBDAS[::2], measure=partial(_measure_trade_off, 2_000))),
)

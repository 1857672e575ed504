"""Sparse online relative similarity learning (Yao, Zhao, Yu, Jin, Li, 2015): Table II and Figures 1 to 5.

`sors2015_protocol.py` has the protocol. Several data sets of the paper are not available: protein_val is a part of
Protein, caltech10_surf replaces Caltech50, gisette_like Gisette and news20_counts Sector, and rcv1_mc holds ten classes
of a part of RCV1. Cells that the paper leaves empty are not measured.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from mahala.evaluation.ranking import mean_average_precision, precision_at_k
from papers.sors2015.numbers import MAP, METHODS, SPARSITY, TIME
from papers.sors2015.protocol import comparisons, learner_of, split, tune, unit_rows
from papers.study import Cell, Folder, Numbers, Study, curve, timed_fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from papers.prose import Facts

SIMILARITIES = METHODS[5:]
N_TRIPLETS = 100_000
WARM_UP = 50
DATASETS = ("protein_val", "caltech10_surf", "gisette_like", "bbc", "rcv1_mc", "news20_counts")
SMALL = DATASETS[:2]
KS = (1, 2, 5, 10, 15, 20, 30, 40, 50)
SIZES = (50, 100, 200, 300, 400, 500, 600)
POINTS = 10


def _measure(n: int, dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    """Measure a cell of the table; the first run of a similarity is learned in ten parts, for the curves."""
    X, y = unit_rows(dataset, folder)
    train, test = split(y, run)
    rows, classes = X[test], y[test]
    metric, numbers = None, {"sparsity": 100.0 * (1.0 - 1.0 / X.shape[1]), "seconds": 0.0}
    if method != "Euclidean":
        chosen = tune(method, X[train], y[train], n, run)
        in_parts = run == 0 and method in SIMILARITIES
        given = comparisons(method, X[train], y[train], n, run)
        # One iteration, or a few steps, first, so that compilation is not measured.
        short = {"max_iter": 1} if method in ("LMNN", "ITML") else {}
        learner, warm = (learner_of(method, X.shape[1], chosen | own, run, in_parts) for own in ({}, short))
        warm.fit(*(part[:: max(1, len(part) // WARM_UP)] for part in given))
        if in_parts:
            numbers = _learn_in_parts(learner, given[0], rows, classes)
            metric = learner.metric_
        else:
            metric, numbers["seconds"] = timed_fit(learner, *given)
        numbers |= {"sparsity": 100.0 * metric.sparsity} | chosen
    found = precision_at_k(metric, rows, classes, k=KS)
    numbers["map"] = 100.0 * mean_average_precision(metric, rows, classes)
    return numbers | {f"precision@{k}": found.at(k) for k in KS}


def _learn_in_parts(learner: Any, triplets: Any, rows: Any, classes: Any) -> Numbers:
    """Learn from the triplets; return MAP and sparsity after every tenth of them, and the CPU seconds of learning."""
    numbers, seconds = {}, 0.0
    for tenth in np.array_split(np.arange(len(triplets)), POINTS):
        start = time.process_time()
        learner.partial_fit(triplets[tenth])
        seconds += time.process_time() - start
        metric, seen = learner.metric_, learner.n_steps_
        numbers[f"map@{seen}"] = 100.0 * mean_average_precision(metric, rows, classes)
        numbers[f"sparsity@{seen}"] = 100.0 * metric.sparsity
    return numbers | {"seconds_in_parts": seconds}


def _measure_queries(n: int, sizes: Sequence[int], dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    """Measure the CPU seconds to compare `size` test rows with each other, the lowest of five times."""
    metric, rows, _, chosen = _fitted(n, dataset, method, run, folder)
    numbers = {"sparsity": 100.0 * metric.sparsity} | chosen
    for size in sizes:
        times = []
        for _ in range(5):
            start = time.process_time()
            metric.pairwise(rows[:size])
            times.append(time.process_time() - start)
        numbers[f"seconds@{size}"] = min(times)
    return numbers


def _fitted(
    n: int, dataset: str, method: str, run: int, folder: Folder, **fixed: float
) -> tuple[Any, Any, Any, Numbers]:
    """Return what a method has learned, the test rows, their classes and the parameters chosen."""
    X, y = unit_rows(dataset, folder)
    train, test = split(y, run)
    chosen = tune(method, X[train], y[train], n, run, **fixed)
    learner = learner_of(method, X.shape[1], chosen, run)
    return learner.fit(*comparisons(method, X[train], y[train], n, run)).metric_, X[test], y[test], chosen


LAMBDAS = ("0", "1e-05", "0.0001", "0.0003", "0.001", "0.003", "0.01", "0.03", "0.1")


def _measure_trade_off(n: int, dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    """Measure MAP and sparsity on caltech10_surf; the data set is the value of λ, which OASIS and AROMA lack."""
    fixed = {"lam": float(dataset)} if "SORS" in method else {}
    metric, rows, classes, chosen = _fitted(n, "caltech10_surf", method, run, folder, **fixed)
    found = 100.0 * mean_average_precision(metric, rows, classes)
    return {"map": found, "sparsity": 100.0 * metric.sparsity} | chosen


def _panels(prefix: str, x: str, y: str, cells: Sequence[Cell], folder: Folder) -> Figure:
    """Draw a panel per data set and a line per method, for the first run."""
    from papers.plots import line_panels

    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for dataset, method in product(DATASETS, SIMILARITIES):
        own = [cell for cell in cells if (cell.dataset, cell.method, cell.run) == (dataset, method, 0)]
        if points := curve(own, prefix):
            panels.setdefault(dataset, {})[method] = points
    return line_panels(panels, x, y)


def _draw_trade_off(cells: Sequence[Cell], folder: Folder) -> Figure:
    from papers.plots import line_panels

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
    datasets=DATASETS,
    methods=METHODS,
    runs=5,
    measure=partial(_measure, N_TRIPLETS),
    left_out=frozenset(cell for cell in product(DATASETS, METHODS) if cell[1] not in MAP.published[cell[0]]),
)
FIGURE1 = replace(
    TABLE2,
    name="figure1",
    title="SORS 2015, Figure 1: MAP against the triplets seen",
    quantities=(),
    methods=SIMILARITIES,
    runs=1,
    left_out=frozenset(),
    draw=partial(_panels, "map", "triplets", "MAP, per cent"),
    cells_of="table2",
)
FIGURE2 = replace(
    FIGURE1,
    name="figure2",
    title="SORS 2015, Figure 2: precision among the first k",
    draw=partial(_panels, "precision", "k", "precision"),
)
FIGURE3 = replace(
    FIGURE1,
    name="figure3",
    title="SORS 2015, Figure 3: zeros in M against the triplets seen",
    draw=partial(_panels, "sparsity", "triplets", "zeros in M, per cent"),
)
FIGURE4 = replace(
    FIGURE1,
    name="figure4",
    title="SORS 2015, Figure 4: CPU seconds of as many queries against as many items",
    quantities=(replace(SPARSITY, published={}),),
    datasets=("bbc",),
    measure=partial(_measure_queries, N_TRIPLETS, SIZES),
    draw=partial(_panels, "seconds", "queries and items", "CPU seconds"),
    cells_of=None,
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
    cells_of=None,
)
_QUICK = partial(_measure, 5_000)
STUDIES = (
    replace(TABLE2, quick=replace(TABLE2, datasets=SMALL, runs=1, measure=_QUICK)),
    *(replace(one, quick=replace(one, datasets=SMALL, measure=_QUICK)) for one in (FIGURE1, FIGURE2, FIGURE3)),
    replace(FIGURE4, quick=replace(FIGURE4, measure=partial(_measure_queries, 1_000, SIZES[:4]))),
    replace(FIGURE5, quick=replace(FIGURE5, datasets=LAMBDAS[::2], measure=partial(_measure_trade_off, 2_000))),
)


def facts(found: Mapping[str, Facts]) -> dict[str, object]:
    """Return the lowest and the highest MAP of the similarities on each data set."""
    table = found["table2"]
    errors = {dataset: [table[f"{dataset}, {method}"] for method in SIMILARITIES] for dataset in DATASETS}
    return {
        "low": {dataset: min(own) for dataset, own in errors.items()},
        "high": {dataset: max(own) for dataset, own in errors.items()},
    }

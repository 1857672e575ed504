"""Figures 3 to 6 of the passive-aggressive paper (2013), with the halves, pairs and C of its tables.

Figure 3 is the predictive 0-1 error up to a step of the stream, Figure 4 the effective dimension of M after a step, and
Figure 5 the error of 2-NN with the leading eigenvectors of the final M only: leave-one-out on the training half, and on
the test half. Figure 6 draws the CPU seconds of Table 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from mahala.evaluation.knn import knn_error
from papers.pa2013.protocol import DATASETS, SETTINGS, halves, tuned_pa
from papers.study import Cell, Folder, Numbers, Quantity, Study, curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Where the curves of Figure 3 have points, in per cent of the stream, and the number of points of those of Figure 4.
SHARES = (1, 2, 5, *range(10, 101, 10))
N_POINTS = 40


def _measure_stream(dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    """Measure the predictive error, in per cent, up to some shares of the stream and up to its end."""
    X, y, _, _ = halves(dataset, run, folder)
    learner = tuned_pa(method, X, y, run).fit(X, y)
    errors = 100.0 * learner.history_.error_curve()
    ends = {share: max(1, len(errors) * share // 100) for share in SHARES}
    return {f"error@{share}": float(errors[end - 1]) for share, end in ends.items()} | {"error": float(errors[-1])}


def _measure_dimensions(dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    """Measure the effective dimension after some steps, and errors of 2-NN by the number of leading eigenvectors."""
    X, y, X_test, y_test = halves(dataset, run, folder)
    learner = tuned_pa(method, X, y, run).set_params(rank_every=1).fit(X, y)
    history = learner.history_
    steps = np.unique(np.geomspace(1, len(history), N_POINTS).astype(int))
    numbers = {f"dimension@{step}": float(history.ranks[step - 1]) for step in steps}
    metric = learner.metric_
    for m in range(1, X.shape[1] + 1):
        leading = metric.truncate(min(m, metric.n_components))
        numbers[f"train@{m}"] = 100.0 * knn_error(leading, X, y, n_neighbors=2).at(2)
        numbers[f"test@{m}"] = 100.0 * knn_error(leading, X, y, X_test, y_test, n_neighbors=2).at(2)
    return numbers | {"dimension": float(history.ranks[-1]), "test": numbers[f"test@{X.shape[1]}"]}


def _draw_curves(prefixes: dict[str, str], x: str, y: str, cells: Sequence[Cell], folder: Folder) -> Figure:
    """Draw a panel per data set and prefix, whose title has the name of the prefix, and a line per method."""
    from papers.plots import line_panels

    panels = {}
    for dataset in dict.fromkeys(cell.dataset for cell in cells):
        for prefix, name in prefixes.items():
            panels[f"{dataset}{name}"] = {
                method: curve([cell for cell in cells if (cell.dataset, cell.method) == (dataset, method)], prefix)
                for method in dict.fromkeys(cell.method for cell in cells if cell.dataset == dataset)
            }
    return line_panels(panels, x, y)


def draw_seconds(cells: Sequence[Cell], folder: Folder) -> Figure:
    """Draw the mean seconds of every method on a logarithmic scale, by data set."""
    from papers.plots import line_panels

    datasets = list(dict.fromkeys(cell.dataset for cell in cells))
    lines = {}
    for method in dict.fromkeys(cell.method for cell in cells if cell.numbers["seconds"] > 0.0):
        by_dataset = [
            [cell.numbers["seconds"] for cell in cells if (cell.dataset, cell.method) == (dataset, method)]
            for dataset in datasets
        ]
        lines[method] = [(float(at), float(np.mean(own))) for at, own in enumerate(by_dataset) if own]
    figure = line_panels({"": lines}, "", "CPU seconds of a fit")
    (axes,) = figure.axes
    axes.set_yscale("log")
    axes.set_xticks(range(len(datasets)), datasets, rotation=45, ha="right")
    figure.set_size_inches(9.0, 4.6)
    return figure


FIGURE3 = Study(
    paper="pa2013",
    name="figure3",
    title="PA 2013, Figure 3: predictive error along the stream",
    quantities=(Quantity("error", "Pairs predicted wrongly in the whole stream, per cent", {}, ".1f", "lower"),),
    datasets=DATASETS,
    methods=tuple(SETTINGS),
    runs=10,
    measure=_measure_stream,
    draw=partial(
        _draw_curves, {"error": ""}, "share of the stream, per cent", "pairs predicted wrongly so far, per cent"
    ),
)
FIGURE4 = replace(
    FIGURE3,
    name="figure4",
    title="PA 2013, Figure 4: effective dimension of M along the stream, ionosphere",
    quantities=(Quantity("dimension", "Effective dimension of the final M", {}, ".1f"),),
    datasets=("ionosphere",),
    measure=_measure_dimensions,
    draw=partial(_draw_curves, {"dimension": ""}, "pairs seen", "effective dimension"),
)
FIGURE5 = replace(
    FIGURE4,
    name="figure5",
    title="PA 2013, Figure 5: error of 2-NN with the leading eigenvectors of M, ionosphere",
    quantities=(Quantity("test", "Error of 2-NN with all eigenvectors, per cent", {}, ".1f"),),
    draw=partial(
        _draw_curves, {"train": ", training half", "test": ", test half"}, "eigenvectors", "error of 2-NN, per cent"
    ),
    cells_of="figure4",
)

"""Studies: a table or figure of a paper, measured cell by cell; an interrupted run resumes where it stopped."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from sklearn.base import clone

from mahala.evaluation.cell_file import CellFile
from mahala.evaluation.cells import Cell, Key, Numbers, measured
from mahala.support.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Folder = str | os.PathLike[str] | None
Measure = Callable[[str, str, int, Folder], Numbers]
__all__ = [
    "PAPERS", "SECONDS", "Cell", "Folder", "Key", "Numbers", "Published", "Quantity", "Study", "append_cell", "curve",
    "measure_cells", "published_table", "read_cells", "studies", "timed_fit",
]  # fmt: skip
PAPERS = ("pa2013", "pola2004", "sors2015", "gml2014", "boostmetric2009", "learners")


class Published(NamedTuple):
    """A cell of the paper's table: the mean and, if printed, the standard deviation."""

    mean: float
    sd: float | None = None


def published_table(methods: Sequence[str], **rows: str) -> dict[str, dict[str, Published]]:
    """Parse a printed table, one string per row: "mean(sd) mean(sd) ...", with "-" for an empty cell."""
    result = {}
    for dataset, row in rows.items():
        cells = zip(methods, row.split(), strict=True)
        result[dataset] = {
            method: Published(*map(float, cell.rstrip(")").split("("))) for method, cell in cells if cell != "-"
        }
    return result


@dataclass(frozen=True)
class Quantity:
    """A measured number that a table shows, beside the published one."""

    name: str
    title: str
    published: Mapping[str, Mapping[str, Published]] = field(default_factory=dict)
    form: str = ".2f"  # a format specification; "g" for two digits of small numbers and all digits of large ones
    # Whether lower or higher is better; None if methods are not ranked by it.
    better: Literal["lower", "higher"] | None = None
    # Computes the values from the runs of a cell; None for the number called `name` of each run.
    values: Callable[[Sequence[Numbers]], FloatArray] | None = None
    # Whether to show deviations and to star large differences; not useful for seconds on another machine.
    spread: bool = True

    def of(self, runs: Sequence[Numbers]) -> FloatArray:
        """Return the values in the runs of a cell."""
        if self.values is not None:
            return self.values(runs)
        return np.array([numbers[self.name] for numbers in runs if self.name in numbers])


SECONDS = Quantity("seconds", "CPU seconds of a fit", form="g", spread=False)


@dataclass(frozen=True)
class Study:
    """A table or a figure of a paper.

    `measure(dataset, method, run, folder)` measures one cell, with data from the folder. `draw(cells, folder)` draws
    the figure, if there is one; it refits models if the figure needs more than the numbers of the cells.
    """

    paper: str
    name: str
    title: str
    quantities: Sequence[Quantity]
    datasets: Sequence[str]
    methods: Sequence[str]
    runs: int
    measure: Measure
    # Data sets with a single run, and cells that are not measured.
    once: frozenset[str] = frozenset()
    left_out: frozenset[tuple[str, str]] = frozenset()
    # Heading of the rows.
    axis: str = "data set"
    draw: Callable[[Sequence[Cell], Folder], Figure] | None = None
    # Sums all cells up in Markdown, where means by data set and method are not enough.
    summary: Callable[[Sequence[Cell]], str] | None = None
    # The study whose cells are shown, if not its own: figures are often another view of a table.
    cells_of: str | None = None
    # A smaller version that takes about a minute.
    quick: Study | None = None
    # Methods whose result depends on rounding errors, and why.
    chaotic: Mapping[str, str] = field(default_factory=dict)

    @property
    def cells_file(self) -> str:
        return f"{self.cells_of or self.name}-cells.jsonl"

    def cells(self, datasets: Iterable[str], methods: Iterable[str], runs: int) -> list[Key]:
        """Return the keys of the cells, by data set and then by run."""
        methods = list(methods)
        return [
            Key(dataset, method, run)
            for dataset in datasets
            for run in range(1 if dataset in self.once else runs)
            for method in methods
            if (dataset, method) not in self.left_out
        ]


def curve(cells: Iterable[Cell], prefix: str) -> list[tuple[float, float]]:
    """Return the mean over cells of their numbers that form a curve: "map@1000" and so on."""
    points: dict[float, list[float]] = {}
    for cell in cells:
        for name, value in cell.numbers.items():
            if name.startswith(f"{prefix}@"):
                points.setdefault(float(name.partition("@")[2]), []).append(value)
    return [(x, float(np.mean(points[x]))) for x in sorted(points)]


def read_cells(path: Path) -> list[Cell]:
    """Read the cells of a file, which may not exist yet."""
    return [Cell(*key, numbers) for key, numbers in _cell_file(path).cells.items()]


def _cell_file(path: Path) -> CellFile[Key]:
    return CellFile(path, Key, "papers")


def append_cell(path: Path, cell: Cell) -> None:
    """Add a cell to a file."""
    _cell_file(path).add(cell.key, cell.numbers)


def measure_cells(
    study: Study,
    path: Path,
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    runs: int | None = None,
    n_jobs: int = 1,
    folder: Folder = None,
) -> Iterator[tuple[int, int, Cell]]:
    """Measure the cells that the file does not hold yet, and append each as soon as it is measured.

    Yields the number of cells done, their total and the cell just measured.
    """
    wanted = study.cells(datasets or study.datasets, methods or study.methods, study.runs if runs is None else runs)
    yield from measured(_cell_file(path), wanted, lambda key: partial(study.measure, *key, folder), n_jobs)


WARM_UP = 20  # iterations
# Kinds of learners that this process has fitted.
_fitted: set[str] = set()


def load_kernels(learner: Any, *given: Any) -> None:
    """Fit a copy of the learner for some iterations, if it is the first of its kind in this process."""
    settings = learner.get_params(deep=False)
    kind = f"{type(learner).__name__} {[value for value in settings.values() if isinstance(value, str | bool)]}"
    if kind not in _fitted:
        short = {"max_iter": min(WARM_UP, settings["max_iter"])} if "max_iter" in settings else {}
        clone(learner).set_params(**short).fit(*given)
        _fitted.add(kind)


def timed_fit(learner: Any, *given: Any) -> tuple[Any, float]:
    """Fit a learner and return its metric and the CPU seconds; without a learner, return None and 0.

    Compiled code is loaded before.
    """
    if learner is None:
        return None, 0.0
    load_kernels(learner, *given)
    start = time.process_time()
    metric = learner.fit(*given).metric_
    return metric, time.process_time() - start


def studies(paper: str) -> dict[str, Study]:
    """Return the studies of a paper by name: "table2", "figure1", ..."""
    if paper not in PAPERS:
        raise ValueError(f"paper must be one of {', '.join(PAPERS)}, got {paper!r}")
    module = importlib.import_module(f"papers.{paper}")
    return {study.name: study for study in module.STUDIES}

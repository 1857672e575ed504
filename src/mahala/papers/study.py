"""A study of a paper: data sets × methods × runs, measured cell by cell into a file that a killed run goes on from."""

from __future__ import annotations

import csv
import importlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Folder = str | os.PathLike[str] | None
Numbers = dict[str, float]
Measure = Callable[[str, str, int, Folder], Numbers]
PAPERS = ("pa2013", "pola2004", "sors2015", "gml2014", "boostmetric2009")
KEYS = ("dataset", "method", "run")


class Published(NamedTuple):
    """A cell of the paper's table: the mean and, where it is printed, the standard deviation."""

    mean: float
    sd: float | None = None


def published_table(methods: Sequence[str], **rows: str) -> dict[str, dict[str, Published]]:
    """The paper's table from lines as it prints them: "mean(sd) mean(sd) ...", with "-" where a cell is empty."""
    result = {}
    for dataset, row in rows.items():
        cells = zip(methods, row.split(), strict=True)
        result[dataset] = {
            method: Published(*map(float, cell.rstrip(")").split("("))) for method, cell in cells if cell != "-"
        }
    return result


class Cell(NamedTuple):
    """What was measured once."""

    dataset: str
    method: str
    run: int
    numbers: Numbers


@dataclass(frozen=True)
class Quantity:
    """A number of the cells that a table shows, beside the paper's."""

    name: str
    title: str
    published: Mapping[str, Mapping[str, Published]] = field(default_factory=dict)
    form: str = ".2f"  # as Python formats numbers; "g" for two digits of small ones and all of large ones
    # Which end is better, where methods are to be ranked by it.
    better: Literal["lower", "higher"] | None = None
    # Its values in the runs of a cell, where they are more than the number of that name in each.
    values: Callable[[Sequence[Numbers]], NDArray[np.float64]] | None = None
    # Whether deviations are shown, and what is far from the paper's starred: not so of seconds on another machine.
    spread: bool = True

    def of(self, runs: Sequence[Numbers]) -> NDArray[np.float64]:
        if self.values is not None:
            return self.values(runs)
        return np.array([numbers[self.name] for numbers in runs if self.name in numbers])


SECONDS = Quantity("seconds", "CPU seconds of a fit", form="g", spread=False)


@dataclass(frozen=True)
class Study:
    """A table or a figure of a paper as data.

    `measure(dataset, method, run, folder)` measures one cell, with data from the folder. `draw(cells, folder)` makes
    the figure, where there is one; it learns anew what a picture needs beyond the cells' numbers.
    """

    paper: str
    name: str
    title: str
    quantities: Sequence[Quantity]
    datasets: Sequence[str]
    methods: Sequence[str]
    runs: int
    measure: Measure
    # Data sets that are run once, and cells that the paper leaves empty and that are not run.
    once: frozenset[str] = frozenset()
    left_out: frozenset[tuple[str, str]] = frozenset()
    # What the rows are.
    axis: str = "data set"
    draw: Callable[[Sequence[Cell], Folder], Figure] | None = None
    # The study whose cells these are: figures are often other views of a table.
    cells_of: str | None = None
    # The same in a minute.
    quick: Study | None = None

    @property
    def cells_file(self) -> str:
        return f"{self.cells_of or self.name}-cells.csv"

    def cells(self, datasets: Iterable[str], methods: Iterable[str], runs: int) -> list[tuple[str, str, int]]:
        """The cells of the table, one data set after another, in the order of the runs."""
        methods = list(methods)
        return [
            (dataset, method, run)
            for dataset in datasets
            for run in range(1 if dataset in self.once else runs)
            for method in methods
            if (dataset, method) not in self.left_out
        ]


def read_cells(path: Path) -> list[Cell]:
    """The cells of a CSV file, or none where there is no such file; of a cell that is there twice, the last."""
    found = {}
    for row in csv.DictReader(io.StringIO(_whole_lines(path), newline="")):
        key = row.pop("dataset"), row.pop("method"), int(row.pop("run"))
        found[key] = Cell(*key, {name: float(value) for name, value in row.items() if value not in ("", None)})
    return list(found.values())


def _whole_lines(path: Path) -> str:
    """The lines that were written to their ends; one that was cut off, by a kill or a full disk, counts for nothing."""
    data = path.read_bytes() if path.exists() else b""
    return data[: data.rfind(b"\n") + 1].decode()


def append_cell(path: Path, cell: Cell) -> None:
    """Add a line to the CSV file; where the cell has numbers that those before had not, the file gets new columns."""
    lines = _whole_lines(path)
    header = next(csv.reader(io.StringIO(lines, newline="")), [])
    new = [name for name in cell.numbers if name not in header]
    if new or not header or len(lines.encode()) < path.stat().st_size:
        _write_cells(path, read_cells(path), [*(header or KEYS), *new])
    with path.open("a", newline="", encoding="utf-8") as file:
        csv.DictWriter(file, [*(header or KEYS), *new]).writerow(_row(cell))


def _write_cells(path: Path, cells: Iterable[Cell], header: Sequence[str]) -> None:
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, header)
        writer.writeheader()
        writer.writerows(map(_row, cells))
    temporary.replace(path)


def _row(cell: Cell) -> dict[str, str | int]:
    keys: dict[str, str | int] = {"dataset": cell.dataset, "method": cell.method, "run": cell.run}
    return keys | {name: f"{value:.6g}" for name, value in cell.numbers.items()}


def measure_cells(
    study: Study,
    path: Path,
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    runs: int | None = None,
    jobs: int = 1,
    folder: Folder = None,
) -> Iterator[tuple[int, int, Cell]]:
    """Measure the cells that the file does not hold yet, and add each to it as soon as it is there.

    Yields how many cells are done, how many there are, and the one just measured; a run that was killed goes on.
    """
    wanted = study.cells(datasets or study.datasets, methods or study.methods, study.runs if runs is None else runs)
    known = {(cell.dataset, cell.method, cell.run) for cell in read_cells(path)}
    missing = [key for key in wanted if key not in known]
    done = len(wanted) - len(missing)
    path.parent.mkdir(parents=True, exist_ok=True)  # at once, so that a folder that cannot be costs no cell
    tasks = (delayed(_measure)(study, *key, folder) for key in missing)
    for cell in Parallel(jobs, return_as="generator_unordered")(tasks):
        append_cell(path, cell)
        done += 1
        yield done, len(wanted), cell


def _measure(study: Study, dataset: str, method: str, run: int, folder: Folder) -> Cell:
    # One BLAS thread: several are slow on small matrices, and CPU seconds are then those of the work.
    with threadpool_limits(1):
        return Cell(dataset, method, run, study.measure(dataset, method, run, folder))


def studies(paper: str) -> dict[str, Study]:
    """The studies of a paper by name: "table2", "figure1", ..."""
    if paper not in PAPERS:
        raise ValueError(f"PAPER must be one of {', '.join(PAPERS)}, got {paper!r}")
    module = importlib.import_module(f"mahala.papers.{paper}")
    return {study.name: study for study in module.STUDIES}

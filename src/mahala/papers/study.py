"""A study of a paper: data sets × methods × runs, measured cell by cell, beside the numbers that the paper prints."""

from __future__ import annotations

import csv
import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

Numbers = dict[str, float]
Measure = Callable[[str, str, int, str | os.PathLike[str] | None], Numbers]
PAPERS = ("gml2014", "boostmetric2009")
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
class Study:
    """A table of a paper as data.

    `measure(dataset, method, run, folder)` measures one cell, with data from the folder; it gives at least
    `quantity`, which is the one that the paper prints, and the CPU `seconds` of the fit.
    """

    paper: str
    name: str
    title: str
    quantity: str
    datasets: Sequence[str]
    methods: Sequence[str]
    runs: int
    measure: Measure
    published: Mapping[str, Mapping[str, Published]]
    # Data sets that are run once, and cells that the paper leaves empty and that are not run.
    once: frozenset[str] = frozenset()
    left_out: frozenset[tuple[str, str]] = frozenset()
    # Where the study is a figure: what its data sets are numbers of.
    axis: str | None = None

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


class Line(NamedTuple):
    """A cell of a table: ours, of so many runs, beside the paper's."""

    dataset: str
    method: str
    runs: int
    mean: float
    sd: float
    seconds: float
    published: Published | None

    @property
    def difference(self) -> float:
        return float("nan") if self.published is None else self.mean - self.published.mean

    @property
    def off(self) -> bool:
        """Whether the two are more than two standard deviations of a run apart: the larger of ours and theirs."""
        if self.published is None:
            return False
        return abs(self.difference) > 2.0 * max(self.sd, self.published.sd or 0.0)


def read_cells(path: Path) -> list[Cell]:
    """The cells of a CSV file, or none where there is no such file; of a cell that is there twice, the last."""
    if not path.exists():
        return []
    found = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = row.pop("dataset"), row.pop("method"), int(row.pop("run"))
            found[key] = Cell(*key, {name: float(value) for name, value in row.items() if value not in ("", None)})
    return list(found.values())


def append_cell(path: Path, cell: Cell) -> None:
    """Add a line to the CSV file, with its header where it is the first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow([*KEYS, *cell.numbers])
        writer.writerow([cell.dataset, cell.method, cell.run, *(f"{value:.6g}" for value in cell.numbers.values())])


def measure_cells(
    study: Study,
    path: Path,
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    runs: int | None = None,
    jobs: int = 1,
    folder: str | os.PathLike[str] | None = None,
) -> Iterator[tuple[int, int, Cell]]:
    """Measure the cells that the file does not hold yet, and add each to it as soon as it is there.

    Yields how many cells are done, how many there are, and the one just measured; a run that was killed goes on.
    """
    wanted = study.cells(datasets or study.datasets, methods or study.methods, study.runs if runs is None else runs)
    known = {(cell.dataset, cell.method, cell.run) for cell in read_cells(path)}
    missing = [key for key in wanted if key not in known]
    done = len(wanted) - len(missing)
    tasks = (delayed(_measure)(study, *key, folder) for key in missing)
    for cell in Parallel(jobs, return_as="generator_unordered")(tasks):
        append_cell(path, cell)
        done += 1
        yield done, len(wanted), cell


def _measure(study: Study, dataset: str, method: str, run: int, folder: str | os.PathLike[str] | None) -> Cell:
    # One BLAS thread: several are slow on small matrices, and CPU seconds are then those of the work.
    with threadpool_limits(1):
        return Cell(dataset, method, run, study.measure(dataset, method, run, folder))


def summarise(study: Study, cells: Iterable[Cell]) -> list[Line]:
    """The lines of the table, in the paper's order."""
    groups: dict[tuple[str, str], list[Numbers]] = {}
    for cell in cells:
        groups.setdefault((cell.dataset, cell.method), []).append(cell.numbers)
    lines = []
    for dataset in study.datasets:
        for method in study.methods:
            own = groups.get((dataset, method))
            if own is None:
                continue
            values = np.array([numbers[study.quantity] for numbers in own])
            lines.append(
                Line(
                    dataset,
                    method,
                    len(own),
                    float(values.mean()),
                    float(values.std(ddof=1)) if len(own) > 1 else 0.0,
                    float(np.mean([numbers.get("seconds", np.nan) for numbers in own])),
                    study.published.get(dataset, {}).get(method),
                )
            )
    return lines


def table(study: Study, lines: Iterable[Line]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of text: a row for each data set, "ours ± sd | paper", starred where they are off."""
    by_cell = {(line.dataset, line.method): line for line in lines}
    rows = []
    for dataset in study.datasets:
        if not any((dataset, method) in by_cell for method in study.methods):
            continue
        row = [dataset]
        for method in study.methods:
            line = by_cell.get((dataset, method))
            published = study.published.get(dataset, {}).get(method)
            theirs = f" | {'-' if published is None else format(published.mean, 'g')}" if study.published else ""
            if line is None:
                row.append(f"-{theirs}" if published else "-")
            else:
                spread = f" ± {line.sd:.2f}" if line.runs > 1 else ""
                row.append(f"{line.mean:.2f}{spread}{theirs}{' *' if line.off else ''}")
        rows.append(row)
    return [study.axis or "data set", *study.methods], rows


def markdown(study: Study, lines: Sequence[Line]) -> str:
    """The table as a page shows it, and the seconds beneath."""
    header, rows = table(study, lines)

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace(" | ", " \\| ") for cell in cells) + " |"  # a bar would end a cell

    text = [f"### {study.title}", "", line(header), "|---" * len(header) + "|", *map(line, rows), ""]
    if study.quantity == "seconds":
        return "\n".join(text)
    seconds = {(each.dataset, each.method): each.seconds for each in lines}
    text += ["CPU seconds of a fit:", "", line(header), "|---" * len(header) + "|"]
    for dataset, *_ in rows:
        cells = (seconds.get((dataset, method)) for method in study.methods)
        text.append(line([dataset, *("-" if cell is None else f"{cell:.2g}" for cell in cells)]))
    return "\n".join([*text, ""])


def studies(paper: str) -> dict[str, Study]:
    """The studies of a paper by name: "table2", "figure1", ..."""
    if paper not in PAPERS:
        raise ValueError(f"PAPER must be one of {', '.join(PAPERS)}, got {paper!r}")
    module = importlib.import_module(f"mahala.papers.{paper}")
    return {study.name: study for study in module.STUDIES}

"""Summaries of the cells of a study: means beside the published ones, ranks over data sets, and provenance."""

from __future__ import annotations

import csv
import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import t as student_t

import mahala
from mahala.support.files import whole_file
from mahala.support.versions import versions as installed
from papers.ranks import FriedmanResult, friedman_holm
from papers.study import Cell, Folder, Numbers, Published, Quantity, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Line(NamedTuple):
    """A cell of a table: our mean over the runs, beside the published one."""

    dataset: str
    method: str
    runs: int
    mean: float
    sd: float
    published: Published | None
    # Number of runs behind the published mean.
    paper_runs: int = 1

    @property
    def difference(self) -> float:
        """Our mean minus the published one; NaN if none was published."""
        return math.nan if self.published is None else self.mean - self.published.mean

    @property
    def spread(self) -> float:
        """The larger standard deviation of the two, or 0 if neither has one."""
        return max(self.sd, (self.published.sd if self.published else None) or 0.0)

    @property
    def off(self) -> bool:
        """Whether the two differ by more than two standard deviations."""
        return self.spread > 0.0 and abs(self.difference) > 2.0 * self.spread

    @property
    def p_value(self) -> float:
        """The p-value of Welch's t-test that the two means are equal; NaN if neither has a standard deviation.

        The difference is compared with its standard error. A deviation that is not known is taken to be the other one.
        """
        theirs = (self.published.sd if self.published else None) or 0.0
        known = [(sd, n) for sd, n in ((self.sd, self.runs), (theirs, self.paper_runs)) if sd > 0.0 and n > 1]
        if self.published is None or not known:
            return math.nan
        # The variances of the two means.
        ours, other = (self.sd or theirs) ** 2 / self.runs, (theirs or self.sd) ** 2 / self.paper_runs
        freedom = min(n for _, n in known) - 1.0
        if len(known) == 2:
            freedom = (ours + other) ** 2 / (ours**2 / (self.runs - 1) + other**2 / (self.paper_runs - 1))
        return float(2.0 * student_t.sf(abs(self.difference) / math.sqrt(ours + other), freedom))

    @property
    def marks(self) -> str:
        """`*` if the two differ by more than two standard deviations, `†` if they do by the t-test at 0.05."""
        return "*" * self.off + "†" * (self.p_value < 0.05)


def summarise(study: Study, quantity: Quantity, cells: Iterable[Cell]) -> list[Line]:
    """Return the lines of a table of the quantity, in the order of the paper."""
    groups: dict[tuple[str, str], list[Numbers]] = {}
    for cell in cells:
        groups.setdefault((cell.dataset, cell.method), []).append(cell.numbers)
    lines = []
    for dataset in study.datasets:
        for method in study.methods:
            values = quantity.of(groups.get((dataset, method), []))
            if len(values):
                sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
                published = quantity.published.get(dataset, {}).get(method)
                paper_runs = 1 if dataset in study.once else study.runs
                lines.append(Line(dataset, method, len(values), float(values.mean()), sd, published, paper_runs))
    return lines


def table(study: Study, quantity: Quantity, lines: Iterable[Line], newline: str) -> tuple[list[str], list[list[str]]]:
    """Return the header and one row of text per data set: ours ± sd, then the published mean and the difference."""
    by_cell = {(line.dataset, line.method): line for line in lines}
    columns = [method for method in study.methods if any(own == method for _, own in by_cell)]
    rows = [
        [dataset, *(_cell(quantity, by_cell.get((dataset, method)), newline) for method in columns)]
        for dataset in study.datasets
        if any((dataset, method) in by_cell for method in columns)
    ]
    return [study.axis, *columns], rows


def _cell(quantity: Quantity, line: Line | None, newline: str) -> str:
    if line is None:
        return "-"
    ours, theirs, difference = in_words(quantity, line)
    return f"{ours}{newline}{theirs} ({difference})" if theirs else ours


def in_words(quantity: Quantity, line: Line) -> tuple[str, str, str]:
    """Format ours ± sd, the published mean and the difference with its marks; the last two may be empty."""
    ours = _number(line.mean, quantity.form)
    if quantity.spread and line.runs > 1:
        ours += f" ± {_number(line.sd, quantity.form)}"
    if line.published is None:
        return ours, "", ""
    marks = line.marks if quantity.spread else ""
    # As many digits as ours, unless those are only two.
    theirs = f"{line.published.mean:{'.8g' if quantity.form == 'g' else quantity.form}}"
    return ours, theirs, f"{_number(line.difference, quantity.form, '+')}{marks}"


def _number(value: float, form: str, sign: str = "") -> str:
    if form == "g":
        form = ".2g" if abs(value) < 100.0 else ".0f"
    return f"{value:{sign}{form}}"


def ranks(study: Study, quantity: Quantity, lines: Sequence[Line]) -> FriedmanResult | None:
    """Run Friedman's and Holm's tests; return None if there are too few methods or data sets.

    The test covers the methods that at least half of the data sets have, and the data sets that have all of these.
    """
    by_cell = {(line.dataset, line.method): line.mean for line in lines}
    there = list(dict.fromkeys(line.dataset for line in lines))
    methods = [m for m in study.methods if 2 * sum((dataset, m) in by_cell for dataset in there) >= len(there)]
    whole = [dataset for dataset in there if all((dataset, method) in by_cell for method in methods)]
    if quantity.better is None or len(methods) < 3 or len(whole) < 3:
        return None
    sign = 1.0 if quantity.better == "lower" else -1.0
    return friedman_holm([[sign * by_cell[dataset, method] for method in methods] for dataset in whole], methods)


def ranks_in_words(comparison: FriedmanResult) -> str:
    """Describe the mean ranks and the significant differences."""
    order = np.argsort(comparison.ranks, kind="stable")
    places = ", ".join(f"{comparison.methods[i]} {comparison.ranks[i]:.2f}" for i in order)
    apart = [
        f"{comparison.methods[i]} before {comparison.methods[j]} (p = {comparison.adjusted[i, j]:.2g})"
        for at, i in enumerate(order)
        for j in order[at + 1 :]
        if comparison.adjusted[i, j] < comparison.alpha
    ]
    return (
        f"Mean ranks over {comparison.n_datasets} data sets: {places}. Friedman's test: p = {comparison.p_value:.2g}. "
        f"Pairs that differ at {comparison.alpha:g} after Holm's adjustment: {'; '.join(apart) or 'none'}."
    )


def draw(study: Study, cells: Sequence[Cell], folder: Folder) -> dict[str, Figure]:
    """Draw the figure of a study, if it has one, and the ranks of its methods; by names for their files.

    Without Matplotlib there are none.
    """
    if find_spec("matplotlib") is None:
        return {}
    from papers.plots import critical_difference

    figures = {} if study.draw is None else {study.name: study.draw(cells, folder)}
    for quantity in study.quantities:
        comparison = ranks(study, quantity, summarise(study, quantity, cells))
        if comparison is not None:
            figures[f"{study.name}-ranks-{quantity.name}"] = critical_difference(comparison)
    return figures


def write_table(path: Path, study: Study, cells: Sequence[Cell]) -> None:
    """Write the lines of all quantities to a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["quantity", study.axis, "method", "runs", "ours", "sd", "paper", "paper_sd", "difference"])
        for quantity in study.quantities:
            for line in summarise(study, quantity, cells):
                theirs = line.published or Published(math.nan)
                numbers = line.mean, line.sd, theirs.mean, theirs.sd, line.difference
                shown = ("" if value is None or math.isnan(value) else f"{value:.6g}" for value in numbers)
                writer.writerow([quantity.name, line.dataset, line.method, line.runs, *shown])


def versions() -> dict[str, str]:
    """Return the versions of Python and the libraries; of mahala that of the source, which need not be installed."""
    return installed() | {"mahala": mahala.__version__}


class Origin(NamedTuple):
    """How cells were measured: the last command, the versions of every command, and the total seconds of all."""

    command: str
    versions: list[dict[str, str]]
    seconds: float

    def in_words(self) -> str:
        """Format as one line of Markdown."""
        versions = "; ".join(", ".join(f"{name} {number}" for name, number in own.items()) for own in self.versions)
        minutes, seconds = divmod(round(self.seconds), 60)
        return f"`{self.command}` · {minutes} min {seconds} s · {versions}"


def read_origin(path: Path) -> Origin | None:
    """Read what `record_origin` wrote; None if there is no such file."""
    return Origin(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def record_origin(path: Path, command: str, seconds: float) -> None:
    """Write how cells were measured, and add the versions and the seconds to those of earlier commands."""
    before, now = read_origin(path) or Origin(command, [], 0.0), versions()
    origin = Origin(command, [*(own for own in before.versions if own != now), now], before.seconds + seconds)
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(origin._asdict(), indent=1) + "\n", encoding="utf-8")


def markdown(study: Study, cells: Sequence[Cell], origin: Origin | None, pictures: Sequence[str] = ()) -> str:
    """Return the study as a page of Markdown."""
    text = [f"# {study.title}", ""]
    if origin is not None:
        text += [wrapped(origin.in_words()), ""]
        others = [own["mahala"] for own in origin.versions if own["mahala"] != mahala.__version__]
        if others:
            text += [
                wrapped(
                    f"Measured with mahala {' and '.join(others)}, while this is {mahala.__version__}: "
                    f"`python -m papers {study.paper} --check 10` measures ten cells again."
                ),
                "",
            ]
    if study.summary is not None:
        text += [study.summary(cells), ""]
    for quantity in study.quantities:
        lines = summarise(study, quantity, cells)
        header, rows = table(study, quantity, lines, newline="<br>")
        if not rows:
            continue
        text += [f"## {quantity.title}", ""]
        if any(line.published for line in lines):
            ours = "Ours ± one standard deviation" if quantity.spread else "Ours"
            text += [wrapped(f"{ours}; beneath it the paper's, and the difference.{_meaning(lines, quantity)}"), ""]
        text += [_line(header), "|---" * len(header) + "|", *map(_line, rows), ""]
        comparison = ranks(study, quantity, lines)
        if comparison is not None:
            text += [wrapped(ranks_in_words(comparison)), ""]
    text += [f"![{study.title}]({picture})\n" for picture in pictures]
    return "\n".join(text)


def _meaning(lines: Sequence[Line], quantity: Quantity) -> str:
    """Return what the marks of a table mean, and how many there are."""
    compared = [line for line in lines if line.published and line.spread > 0.0]
    if not quantity.spread or not compared:
        return ""
    far, unequal = (sum(mark in line.marks for line in compared) for mark in "*†")
    return (
        f" \\* The two differ by more than two standard deviations of a run, the larger one of ours and the paper's "
        f"({far} of {len(compared)} cells). † The means differ by Welch's t-test, which compares the difference with "
        f"its standard error, at p < 0.05 ({unequal} cells; about {0.05 * len(compared):.0f} would by chance)."
    )


def wrapped(paragraph: str) -> str:
    """Return a paragraph of Markdown in lines of at most 120 characters."""
    return textwrap.fill(paragraph, 120, break_long_words=False, break_on_hyphens=False)


def _line(cells: Iterable[str]) -> str:
    # Non-breaking spaces keep a number and its deviation on one line.
    return (
        "| " + " | ".join(cell.replace("*", "\\*").replace("|", "\\|").replace(" ", "\u00a0") for cell in cells) + " |"
    )

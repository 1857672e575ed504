"""`mahala reproduce PAPER`: the tables and figures of a paper, ours beside theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from mahala.papers.study import Cell, Line, Study


def reproduce(
    paper: Annotated[str, typer.Argument(help="gml2014 or boostmetric2009")],
    table: Annotated[list[int] | None, typer.Option(help="Only this table; may be given several times.")] = None,
    figure: Annotated[list[int] | None, typer.Option(help="Only this figure; may be given several times.")] = None,
    datasets: Annotated[str | None, typer.Option(help="Only these rows, separated by commas.")] = None,
    methods: Annotated[str | None, typer.Option(help="Only these columns, separated by commas.")] = None,
    runs: Annotated[int | None, typer.Option(help="Random splits; the paper's number by default.", min=1)] = None,
    jobs: Annotated[int, typer.Option(help="Processes.", min=1)] = 1,
    data: Annotated[Path | None, typer.Option(help="Folder of .npz files; default: MAHALA_DATA.")] = None,
    output: Annotated[Path, typer.Option(help="Where results go, and are gone on from.")] = Path("results"),
    show: Annotated[bool, typer.Option("--show", help="Measure nothing, show what there is.")] = False,
) -> None:
    """Measure the cells of a paper's tables that are not there yet, and show ours beside the paper's.

    Finished cells are kept, so that a run that was stopped goes on.

    Examples:

        mahala reproduce gml2014 --table 2 --runs 3

        mahala reproduce boostmetric2009 --figure 1 --output docs/results
    """
    from rich.console import Console

    from mahala.papers.study import markdown, measure_cells, read_cells, studies, summarise

    console, errors = Console(), Console(stderr=True)
    known = studies(paper)
    names = [f"table{n}" for n in table or []] + [f"figure{n}" for n in figure or []]
    for name in _subset(names, known, "--table or --figure") or known:
        study, path = known[name], output / paper / f"{name}.csv"
        if not show:
            cells = measure_cells(
                study,
                path,
                datasets=_subset(_split(datasets), study.datasets, "--datasets"),
                methods=_subset(_split(methods), study.methods, "--methods"),
                runs=runs,
                jobs=jobs,
                folder=data,
            )
            _follow(cells, f"{paper} {name}", errors)
        lines = summarise(study, read_cells(path))
        if not lines:
            console.print(f"Nothing has been measured of {paper} {name} yet.")
            continue
        _print_table(study, lines, console)
        path.with_suffix(".md").write_text(markdown(study, lines), encoding="utf-8")
        if study.axis is not None:
            _draw(study, lines, path.with_suffix(".svg"))
        console.print(f"The cells are in {path}.")


def _split(text: str | None) -> list[str]:
    return [] if text is None else [part.strip() for part in text.split(",")]


def _subset(names: list[str], known: Iterable[str], option: str) -> list[str]:
    """The names, all of which must be known."""
    known = list(known)
    for name in names:
        if name not in known:
            raise ValueError(f"{option} must name some of {', '.join(known)}, got {name!r}")
    return names


def _follow(cells: Iterator[tuple[int, int, Cell]], name: str, console: Console) -> None:
    """A bar with the time left, and the cell measured last beneath it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(name, total=None, last="")
        for done, total, cell in cells:
            numbers = ", ".join(f"{key} {value:.3g}" for key, value in cell.numbers.items())
            last = f"{cell.dataset}, {cell.method}, run {cell.run}: {numbers}"
            progress.update(task, completed=done, total=total, last=last)


def _print_table(study: Study, lines: list[Line], console: Console) -> None:
    from rich.table import Table

    from mahala.papers.study import table

    header, rows = table(study, lines)
    shown = Table(*header, title=study.title, caption="* more than two standard deviations apart")
    for row in rows:
        shown.add_row(*row)
    console.print(shown)


def _draw(study: Study, lines: list[Line], path: Path) -> None:
    from mahala.report.plots import curves

    points = {
        method: [(float(line.dataset), line.mean, line.sd) for line in lines if line.method == method]
        for method in study.methods
        if any(line.method == method for line in lines)
    }
    curves(points, study.title, str(study.axis), study.quantity).savefig(path)

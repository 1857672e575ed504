"""`mahala reproduce PAPER`: measure the tables and figures of a paper."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mahala.cli.models import Device, Force, Jobs, Scheduler, check_output, computing
from mahala.cli.output import Json, print_json, terminal
from mahala.support.files import whole_file

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mahala.papers.results import Line
    from mahala.papers.study import Cell, Quantity, Study


def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="PAPER", help="pa2013, pola2004, sors2015, gml2014 or boostmetric2009; omit it to list all studies."
        ),
    ] = None,
    table: Annotated[list[int] | None, typer.Option(help="Number of a table; may be given several times.")] = None,
    figure: Annotated[list[int] | None, typer.Option(help="Number of a figure; may be given several times.")] = None,
    datasets: Annotated[str | None, typer.Option(help="Rows to measure, separated by commas; default: all.")] = None,
    methods: Annotated[str | None, typer.Option(help="Columns to measure, separated by commas; default: all.")] = None,
    runs: Annotated[int | None, typer.Option(help="Number of random splits; default: as in the paper.", min=1)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run a version of about a minute, kept apart.")] = False,
    n_jobs: Jobs = 1,
    device: Device = None,
    scheduler: Scheduler = None,
    data: Annotated[Path | None, typer.Option(help="Folder of .npz data sets; default: MAHALA_DATA.")] = None,
    output: Annotated[Path, typer.Option(help="Folder of the results; existing ones are continued.")] = Path("results"),
    image: Annotated[Literal["svg", "png"], typer.Option(help="Format of the figures.")] = "svg",
    show: Annotated[bool, typer.Option("--show", help="Show existing results without measuring.")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Measure the tables and figures of a paper, and show the results beside the published ones.

    Finished cells are saved, so a run that was interrupted resumes where it stopped. Data sets that are neither in the
    data folder nor included in mahala or scikit-learn are downloaded from OpenML.

    Examples:

        mahala reproduce

        mahala reproduce gml2014 --table 2 --runs 3

        mahala reproduce pa2013 --table 2 --quick

        mahala reproduce boostmetric2009 --figure 1 --n-jobs 2 --image png
    """

    from mahala.papers.study import PAPERS, read_cells, studies

    console, errors = terminal(), terminal(stderr=True)
    if paper is None:
        if as_json:
            titles = {name: {study.name: study.title for study in studies(name).values()} for name in PAPERS}
            print_json({"papers": titles})
        else:
            _list(console, PAPERS)
        return
    if data is not None and not data.is_dir():
        raise FileNotFoundError(f"--data must name a folder, but there is no folder {data}")
    known = studies(paper)
    names = [f"table{n}" for n in table or []] + [f"figure{n}" for n in figure or []]
    chosen = []
    for name in _subset(names, known, "--table or --figure") or known:
        study = known[name]
        if quick:
            if study.quick is None:
                raise ValueError(f"{paper} {name} has no quick version; leave out --quick")
            study = study.quick
        # Check all studies before measuring the first, which can take an hour.
        part = {
            "datasets": _subset(_split(datasets), study.datasets, f"--datasets of {name}"),
            "methods": _subset(_split(methods), study.methods, f"--methods of {name}"),
            "runs": runs,
        }
        chosen.append((name, study, part))
    folder = output / "quick" / paper if quick else output / paper
    for name, study, _ in chosen:
        _check_files(folder / study.cells_file, name, force)
    results = {}
    for name, study, part in chosen:
        path = folder / study.cells_file
        if not show:
            with computing(device, scheduler):
                _measure(study, path, part, quick, n_jobs, data, errors.is_terminal)
        cells = [cell for cell in read_cells(path) if cell.dataset in study.datasets]
        if not cells:
            errors.print(f"{paper} {name} has no results yet.")
            continue
        results[name] = _lines(study, cells)
        written = _write(study, cells, path, folder, data, image)
        if not as_json:
            _print(study, cells, console)
            console.print(f"Written: {', '.join(map(str, written))}", highlight=False, soft_wrap=True)
    if as_json:
        print_json({"paper": paper, "results": results})


def _check_files(cells: Path, name: str, force: bool) -> None:
    """Raise ValueError if there are files of these names that are not those of an earlier run."""
    from mahala.papers.study import KEYS

    if cells.exists():
        start = ",".join(KEYS)
        with cells.open(encoding="utf-8", errors="replace") as file:
            if not start.startswith(file.read(len(start))):
                raise ValueError(f"{cells} exists, but does not hold results of mahala: rename it, or set --output")
    else:
        for path in cells.parent.glob(f"{name}*"):
            check_output(path, force=force)


def _list(console: Console, papers: Iterable[str]) -> None:
    from rich.table import Table

    from mahala.papers.study import studies

    shown = Table("paper", "option", "what it shows", title="mahala reproduce PAPER --table N --figure N", box=None)
    for paper in papers:
        for study in studies(paper).values():
            kind, number = study.name[:-1], study.name[-1]
            shown.add_row(paper, f"--{kind} {number}", study.title)
    console.print(shown)


def _measure(
    study: Study, path: Path, chosen: dict[str, list[str] | int | None], quick: bool, n_jobs: int, data: Path | None,
    shown: bool,
) -> None:  # fmt: skip
    """Measure missing cells, and record the command and its duration after each of them."""
    from mahala.papers.results import record_origin
    from mahala.papers.study import measure_cells
    from mahala.support.progress import task_bar

    command = f"mahala reproduce {study.paper} --{study.name[:-1]} {study.name[-1]}"
    for option, value in chosen.items():
        if value:
            text = ",".join(value) if isinstance(value, list) else str(value)
            command += f" --{option} '{text}'" if " " in text else f" --{option} {text}"
    command += " --quick" * quick + (f" --n-jobs {n_jobs}" if n_jobs > 1 else "")
    start = time.monotonic()
    cells = measure_cells(study, path, **chosen, n_jobs=n_jobs, folder=data)  # type: ignore[arg-type]
    with task_bar(f"{study.paper} {study.name}", shown) as update:
        for done, total, cell in cells:
            now = time.monotonic()
            record_origin(path.with_suffix(".json"), command, now - start)
            start = now
            values = [f"{value:.3g}" for quantity in study.quantities[:1] for value in quantity.of([cell.numbers])]
            update(done, " ".join([f"{cell.dataset}, {cell.method}, run {cell.run}", *values]), total)


def _lines(study: Study, cells: list[Cell]) -> dict[str, list[dict[str, object]]]:
    """Return the lines of every quantity, for --json."""
    from mahala.papers.results import summarise

    return {
        quantity.name: [
            {
                "row": line.dataset,
                "method": line.method,
                "runs": line.runs,
                "ours": line.mean,
                "sd": line.sd,
                "paper": None if line.published is None else line.published.mean,
                "difference": line.difference,
            }
            for line in summarise(study, quantity, cells)
        ]
        for quantity in study.quantities
    }


def _write(study: Study, cells: list[Cell], path: Path, folder: Path, data: Path | None, image: str) -> list[Path]:
    """Write the table as CSV and as Markdown, and the figures; return the paths."""
    from mahala.papers.results import markdown, ranks, read_origin, summarise, write_table
    from mahala.report.ranks import critical_difference

    pictures = {}
    if study.draw is not None:
        pictures[study.name] = study.draw(cells, data)
    for quantity in study.quantities:
        comparison = ranks(study, quantity, summarise(study, quantity, cells))
        if comparison is not None:
            pictures[f"{study.name}-ranks-{quantity.name}"] = critical_difference(comparison)
    page = folder / f"{study.name}.md"
    files = [path, page]
    if study.quantities:
        files.append(folder / f"{study.name}.csv")
        with whole_file(files[-1]) as file:
            write_table(file, study, cells)
    for name, figure in pictures.items():
        files.append(folder / f"{name}.{image}")
        with whole_file(files[-1]) as file:
            figure.savefig(file, dpi=150)
    names = [f"{name}.{image}" for name in pictures]
    with whole_file(page) as file:
        file.write_text(markdown(study, cells, read_origin(path.with_suffix(".json")), names), encoding="utf-8")
    return files


def _print(study: Study, cells: list[Cell], console: Console) -> None:
    from mahala.papers.results import ranks, ranks_in_words, summarise

    console.print(f"\n[bold]{study.title}[/bold]", highlight=False)
    for quantity in study.quantities:
        lines = summarise(study, quantity, cells)
        if not lines:
            continue
        wide = _wide_table(study, quantity, lines)
        fits = console.measure(wide, options=console.options.update(width=10_000)).maximum <= console.width
        console.print(wide if fits else _long_table(study, quantity, lines))
        comparison = ranks(study, quantity, lines)
        if comparison is not None:
            console.print(ranks_in_words(comparison), highlight=False)


def _wide_table(study: Study, quantity: Quantity, lines: list[Line]) -> Table:
    """Return a table with a row per data set and a column per method."""
    from rich.table import Table

    from mahala.papers.results import table

    compared = any(line.published for line in lines)
    star = ", * over two standard deviations" if quantity.spread else ""
    caption = f"beneath ours: the paper's (difference{star})" if compared else None
    header, rows = table(study, quantity, lines, newline="\n")
    shown = Table(title=quantity.title, caption=caption, show_lines=compared)
    for name in header:
        shown.add_column(name, justify="left" if name == study.axis else "right", no_wrap=True)
    for row in rows:
        shown.add_row(*row)
    return shown


def _long_table(study: Study, quantity: Quantity, lines: list[Line]) -> Table:
    """Return a table with a row per data set and method, for narrow terminals."""
    from rich import box
    from rich.table import Table

    from mahala.papers.results import in_words

    caption = "* over two standard deviations apart" if quantity.spread else None
    # Without rules between the columns the table fits into 60 characters.
    shown = Table(title=quantity.title, caption=caption, box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for name in (study.axis, "method"):
        shown.add_column(name, overflow="fold")
    for name in ("ours", "paper", "difference"):
        shown.add_column(name, justify="right", no_wrap=True)
    for at, line in enumerate(lines):
        first = at == 0 or lines[at - 1].dataset != line.dataset
        last = at + 1 == len(lines) or lines[at + 1].dataset != line.dataset
        name = line.dataset if first else ""
        shown.add_row(name, line.method, *in_words(quantity, line), end_section=last)
    return shown


def _split(text: str | None) -> list[str]:
    return [] if text is None else [part.strip() for part in text.split(",")]


def _subset(names: list[str], known: Iterable[str], option: str) -> list[str]:
    """Return the names; raise ValueError if one is unknown."""
    known = list(known)
    for name in names:
        if name not in known:
            raise ValueError(f"{option} must name some of {', '.join(known)}, got {name!r}")
    return names

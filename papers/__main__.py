"""`python -m papers PAPER`: measure the tables and figures of a paper."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mahala.cli.group import Command
from mahala.cli.parts.options import Device, Force, Jobs, Scheduler, check_output, computing
from mahala.cli.parts.output import Json, print_json, terminal
from mahala.support.files import whole_file
from papers.study_tables import list_studies, print_agreement, print_checked, print_study

if TYPE_CHECKING:
    from rich.console import Console

    from papers.study import Cell, Study


app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("papers", cls=Command)
def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="PAPER",
            help="pa2013, pola2004, sors2015, gml2014, boostmetric2009; learners: all of them with one protocol; "
            "all, with --show or --check. Omit it to list them.",
        ),
    ] = None,
    table: Annotated[list[int] | None, typer.Option(help="Number of a table; may be given several times.")] = None,
    figure: Annotated[list[int] | None, typer.Option(help="Number of a figure; may be given several times.")] = None,
    datasets: Annotated[str | None, typer.Option(help="Rows to measure, separated by commas; default: all.")] = None,
    methods: Annotated[str | None, typer.Option(help="Columns to measure, separated by commas; default: all.")] = None,
    runs: Annotated[int | None, typer.Option(help="Number of random splits; default: as in the paper.", min=1)] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Run a version of about a minute, kept apart; with --check: draw cells of a moment."
        ),
    ] = False,
    n_jobs: Jobs = 1,
    device: Device = None,
    scheduler: Scheduler = None,
    data: Annotated[Path | None, typer.Option(help="Folder of .npz data sets; default: MAHALA_DATA.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the results; existing ones are continued. Default: results; with --check those of the "
            "repository."
        ),
    ] = None,
    image: Annotated[Literal["svg", "png"], typer.Option(help="Format of the figures.")] = "svg",
    show: Annotated[bool, typer.Option("--show", help="Show existing results without measuring.")] = False,
    check: Annotated[
        int | None, typer.Option(help="Measure so many stored cells, drawn at random, again and compare.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="With --check: which cells are drawn.")] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Measure the tables and figures of a paper, and show the results beside the published ones.

    Finished cells are saved, so a run that was interrupted resumes where it stopped. Data sets that are neither in the
    data folder nor included in mahala or scikit-learn are downloaded from OpenML.

    Examples:

        python -m papers

        python -m papers gml2014 --table 2 --runs 3

        python -m papers pa2013 --table 2 --quick

        python -m papers boostmetric2009 --figure 1 --n-jobs 2 --image png

        python -m papers --show all

        python -m papers gml2014 --check 10 --seed 7
    """

    from papers.study import PAPERS, read_cells, studies

    console, errors = terminal(), terminal(stderr=True)
    if paper is None:
        if as_json:
            titles = {name: {study.name: study.title for study in studies(name).values()} for name in PAPERS}
            print_json({"papers": titles})
        else:
            list_studies(console, PAPERS)
        return
    if data is not None and not data.is_dir():
        raise FileNotFoundError(f"--data must name a folder, but there is no folder {data}")
    names = [f"table{n}" for n in table or []] + [f"figure{n}" for n in figure or []]
    if check is not None:
        picked = [
            study
            for each in (PAPERS if paper == "all" else [paper])
            for name, study in studies(each).items()
            if name in names or not names
        ]
        options = {"datasets": _split(datasets), "methods": _split(methods), "cheap": quick}
        _check(picked, output, check, seed, n_jobs, data, as_json, **options)
        return
    output = output or Path("results")
    if paper == "all":
        if not show or quick or table or figure:
            raise ValueError(
                "all papers can be shown or checked only: give --show, and no --table, --figure or --quick, or --check"
            )
        _show_all(output, image, console, as_json)
        return
    chosen = _chosen(paper, names, quick, _split(datasets), _split(methods), runs)
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
            print_study(study, cells, console)
            console.print(f"Written: {', '.join(map(str, written))}", highlight=False, soft_wrap=True)
    if as_json:
        print_json({"paper": paper, "results": results})


def _chosen(
    paper: str, names: list[str], quick: bool, datasets: list[str], methods: list[str], runs: int | None
) -> list[tuple[str, Study, dict[str, list[str] | int | None]]]:
    """Return the studies to measure, with their names and the parts of them; raise ValueError if one is unknown.

    All are checked before the first is measured, which can take an hour.
    """
    from papers.study import studies

    known = studies(paper)
    chosen = []
    for name in _subset(names, known, "--table or --figure") or known:
        study = known[name]
        if quick:
            if study.quick is None:
                raise ValueError(f"{paper} {name} has no quick version; leave out --quick")
            study = study.quick
        part: dict[str, list[str] | int | None] = {
            "datasets": _subset(datasets, study.datasets, f"--datasets of {name}"),
            "methods": _subset(methods, study.methods, f"--methods of {name}"),
            "runs": runs,
        }
        chosen.append((name, study, part))
    return chosen


def _check(
    studies: Sequence[Study], folder: Path | None, n: int, seed: int, n_jobs: int, data: Path | None, as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Measure stored cells of these studies again; exit with 1 if one differs and nothing is known that explains it."""
    from mahala.support.display import task_bar
    from papers.check import RESULTS, check_cells, draw_cells, stored_cells

    folder = folder or RESULTS
    cells = stored_cells(studies, folder, **options)
    if not cells:
        raise FileNotFoundError(f"--output must name a folder with results of these studies, but {folder} has none")
    drawn, checked = draw_cells(cells, n, seed), []
    with task_bar("check", terminal(stderr=True).is_terminal) as update:
        for done, one in enumerate(check_cells(drawn, data, n_jobs), start=1):
            update(done, " ".join(map(str, one.stored.cell.key)), len(drawn))
            checked.append(one)
    if as_json:
        print_json({"checked": [one.as_row() for one in checked]})
    else:
        print_checked(checked, len(cells), terminal())
    if any(one.wrong for one in checked):
        raise typer.Exit(1)


def _show_all(folder: Path, image: str, console: Console, as_json: bool) -> None:
    """Write the pages of all papers, ours against theirs, and of each one in words; print the table of all."""
    from papers.agreement import agreements, draw_agreement, front_page
    from papers.prose import prose, written_papers
    from papers.study import studies

    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError("the page of all papers needs Matplotlib for its pictures: pip install matplotlib")
    from matplotlib import rc_context

    found = agreements(folder)
    if not found:
        raise FileNotFoundError(f"--output must name a folder with results, but there are none in {folder}")
    pictures = {paper: f"agreement-{paper}.{image}" for paper in found}
    for paper, name in pictures.items():
        # Without a date and with fixed names inside, the same results make the same file.
        with rc_context({"svg.hashsalt": "mahala"}), whole_file(folder / name) as file:
            metadata = {"Date": None} if image == "svg" else None
            draw_agreement(paper, found[paper]).savefig(file, dpi=110, metadata=metadata)
    with whole_file(folder / "index.md") as file:
        file.write_text(front_page(found, pictures), encoding="utf-8")
    for paper in written_papers():
        if all((folder / paper / study.cells_file).exists() for study in studies(paper).values()):
            with whole_file(folder / paper / "README.md") as file:
                file.write_text(prose(paper, folder), encoding="utf-8")
    if as_json:
        keys = ("paper", "study", "quantity", "cells", "near", "equal", "median_difference")
        told = [
            (paper, one.study, one.quantity, len(one.lines), one.within, one.equal, one.median)
            for paper, own in found.items()
            for one in own
        ]
        print_json({"agreement": [dict(zip(keys, row, strict=True)) for row in told]})
        return
    print_agreement(found, console)
    console.print(f"Written: {folder / 'index.md'}", highlight=False, soft_wrap=True)


def _check_files(cells: Path, name: str, force: bool) -> None:
    """Raise ValueError if there are files of these names that are not those of an earlier run."""
    from papers.study import read_cells

    if cells.exists():
        read_cells(cells)
    else:
        for path in cells.parent.glob(f"{name}*"):
            check_output(path, force=force)


def _measure(
    study: Study, path: Path, chosen: dict[str, list[str] | int | None], quick: bool, n_jobs: int, data: Path | None,
    shown: bool,
) -> None:  # fmt: skip
    """Measure missing cells, and record the command and its duration after each of them."""
    from mahala.support.display import task_bar
    from papers.results import record_origin
    from papers.study import measure_cells

    command = f"python -m papers {study.paper} --{study.name[:-1]} {study.name[-1]}"
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
    from papers.results import summarise

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
    from papers.results import draw, markdown, read_origin, write_table

    pictures = draw(study, cells, data)
    if study.draw is not None and not pictures:
        terminal(stderr=True).print("The figure needs Matplotlib: pip install matplotlib")
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


def _split(text: str | None) -> list[str]:
    return [] if text is None else [part.strip() for part in text.split(",")]


def _subset(names: list[str], known: Iterable[str], option: str) -> list[str]:
    """Return the names; raise ValueError if one is unknown."""
    known = list(known)
    for name in names:
        if name not in known:
            raise ValueError(f"{option} must name some of {', '.join(known)}, got {name!r}")
    return names


if __name__ == "__main__":
    app(prog_name="python -m papers")

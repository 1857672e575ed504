"""`mahala compare DATA`: rank learners on a table by cross-validation."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mahala.cli.models import (
    Drop,
    FirstIndex,
    Force,
    Jobs,
    Label,
    LabelledData,
    check_labels,
    check_output,
    learner_named,
)
from mahala.cli.output import Json, print_json, terminal, write_csv
from mahala.support.files import whole_file

if TYPE_CHECKING:
    from rich.console import Console

    from mahala.data.tables import Table
    from mahala.evaluation.leaderboard import Leaderboard
    from mahala.learner import Learner
    from mahala.metric import MahalanobisMetric


def compare(
    data: LabelledData,
    label: Label = None,
    learners: Annotated[str | None, typer.Option(help="Learners to compare, separated by commas: PA,GML,LMNN.")] = None,
    n_neighbors: Annotated[
        int, typer.Option("-k", "--n-neighbors", help="Number of neighbours that vote on the class.", min=1)
    ] = 3,
    folds: Annotated[int, typer.Option(help="Number of folds of a cross-validation.", min=2)] = 5,
    repeats: Annotated[int, typer.Option(help="Number of cross-validations, each with other folds.", min=1)] = 2,
    scaling: Annotated[
        Literal["standard", "none"], typer.Option(help="Divide features by their standard deviation, or keep them raw.")
    ] = "standard",
    drop: Drop = None,
    first_index: FirstIndex = 1,
    n_jobs: Jobs = 1,
    seed: Annotated[int, typer.Option(help="Seed of the folds and of the learners.", min=0)] = 0,
    output: Annotated[Path | None, typer.Option(help="Folder to write to; default: NAME-mahala.")] = None,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare learners by cross-validation, and test whether any of them beats the Euclidean distance.

    Writes report.html (tables and figures), model.safetensors (the best learner, fitted to all rows; it takes raw
    features) and leaderboard.csv. If no learner beats the Euclidean distance, the entry with the lowest error is saved.

    Examples:

        mahala compare balance

        mahala compare customers.csv --label churned --drop id --n-jobs 2

        mahala compare features.npz --learners PA,LMNN,GML --n-neighbors 5 --no-report --json
    """

    from mahala.data.datasets import read_data
    from mahala.evaluation.cross_validation import MOST_ROWS, default_panel, refit
    from mahala.evaluation.cross_validation import compare as cross_validate
    from mahala.support.progress import task_bar

    name = Path(data.removesuffix(".gz")).stem
    folder = Path(f"{name}-mahala") if output is None else output
    names = [*(["report.html"] if report else []), "model.safetensors", "leaderboard.csv"]
    files_written = [folder / name for name in names]
    _check_folder(folder, files_written, Path(data), force)
    table = read_data(data, label=label, drop=drop or [], first_index=first_index)
    labels = check_labels(table, data, "by which learners are compared")
    panel = default_panel(min(table.X.shape[0], MOST_ROWS), table.X.shape[1], seed)
    chosen = panel if learners is None else _chosen(learners, panel, seed)
    errors = terminal(stderr=True)
    with task_bar("Comparing", errors.is_terminal) as update:
        board = cross_validate(
            table.X,
            labels,
            chosen,
            folds=folds,
            repeats=repeats,
            n_neighbors=n_neighbors,
            scaling=scaling,
            random_state=seed,
            n_jobs=n_jobs,
            callback=lambda done, total, learner: update(done, learner, total),
        )
    rows = board.rows
    with errors.status("Fitting the winner to all rows…"):
        winner = chosen.get(board.winner.name)
        how = "none" if board.winner.name == "Euclidean" else scaling
        model = refit(table.X[rows], labels[rows], winner, how, table.feature_names)
        page = _page(board, chosen, table, model, name, data, label, folder) if report else None
    folder.mkdir(parents=True, exist_ok=True)
    _write(files_written, page, model, board)
    if as_json:
        print_json(_plain(board, data, files_written))
    else:
        _show(board, files_written, terminal())


def _check_folder(folder: Path, files: list[Path], data: Path, force: bool) -> None:
    """Raise ValueError if the files cannot be written, before the long computation."""
    from mahala.support.model_files import is_model_file

    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ValueError(f"--output must name a folder, but {there} is a file")
    if not os.access(there, os.W_OK):
        raise ValueError(f"--output is {folder}, but {there} is not writable")
    # The leaderboard beside a model is that of an earlier comparison.
    earlier = is_model_file(folder / "model.safetensors")
    for path in files if folder.is_dir() else ():
        check_output(path, inputs=[data], force=force or (earlier and path.suffix == ".csv"))


def _chosen(names: str, panel: dict[str, Learner], seed: int) -> dict[str, Learner]:
    """Return learners by name, with the settings of the panel if they are in it."""
    known = {name.lower(): name for name in panel}
    chosen: dict[str, Learner] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        exact = known.get(name.lower()) or (known.get("pa-i") if name.lower() == "pa" else None)
        if exact is not None:
            chosen[exact] = panel[exact]
        else:
            learner = learner_named(name, [], seed, "--learners")
            chosen[type(learner).__name__] = learner
    if not chosen:
        raise ValueError(f"--learners must name learners, such as {','.join(list(panel)[:3])}, got {names!r}")
    return chosen


def _page(
    board: Leaderboard,
    chosen: dict[str, Learner],
    table: Table,
    model: MahalanobisMetric,
    name: str,
    data: str,
    label: str | None,
    folder: Path,
) -> str:
    from mahala.evaluation.cross_validation import held_out
    from mahala.papers.results import versions
    from mahala.report.html import Shown, report
    from mahala.support.validation import class_codes

    # Figures of the Euclidean distance would show little: if it wins, they show the best learner.
    entry = board.winner if board.winner.learned else board.best_learner
    shown = None
    if entry is not None:
        metric, mask = held_out(table.X, table.labels, chosen[entry.name], board)
        final = model if entry is board.winner else metric
        codes = class_codes(table.labels, table.X.shape[0])[board.rows]
        shown = Shown(entry.name, metric, final, table.X[board.rows], codes, mask)
    file = folder / "model.safetensors"
    source = shlex.quote(data) if Path(data).exists() else "rows.csv"
    model_file = shlex.quote(str(file))
    option = "" if label is None else f" --label {shlex.quote(label)}"
    commands = [
        f"mahala transform {source} --model {model_file} --output vectors.npy",
        f"mahala search {source} --row 0 --model {model_file}{option}",
        f"mahala explain {source} 0 1 --model {model_file}",
        "",
        "import mahala",
        f"metric = mahala.Metric.load({str(file)!r})",
        "vectors = metric.transform(X)  # their Euclidean distances are the learned distances",
    ]
    measured = {
        "Command": shlex.join(["mahala", *sys.argv[1:]]) if sys.argv[1:2] == ["compare"] else f"mahala compare {data}",
        "Versions": ", ".join(f"{library} {number}" for library, number in versions().items()),
    }
    return report(board, shown, title=name, saved=_saved(board), commands=commands, measured=measured)


def _saved(board: Leaderboard) -> str:
    """Describe the contents of the model file."""
    rows = "all rows" if len(board.rows) == board.n_rows else f"the {len(board.rows):,} rows of the sample"
    winner = board.winner
    what = f"{winner.name}, fitted to {rows}" if winner.learned else f"the plain distance, {winner.name}"
    why = "" if board.beats_euclidean else ", which has the lowest error"
    return f"model.safetensors holds {what}{why}; it takes raw features."


def _write(paths: list[Path], page: str | None, model: MahalanobisMetric, board: Leaderboard) -> None:
    """Write all files or none."""
    with ExitStack() as stack:
        places = {path.name: stack.enter_context(whole_file(path)) for path in paths}
        if page is not None:
            places["report.html"].write_text(page, encoding="utf-8")
        model.save(places["model.safetensors"])
        with places["leaderboard.csv"].open("w", newline="", encoding="utf-8") as file:
            lines = board.table()
            write_csv(
                file, [lines[0], *(["" if value != value else value for value in line.values()] for line in lines)]
            )


def _plain(board: Leaderboard, data: str, paths: list[Path]) -> dict[str, Any]:
    same = ("classes", "n_neighbors", "folds", "repeats", "scaling", "beats_euclidean", "notes")
    return {
        "data": data,
        "rows": len(board.rows),
        "features": board.n_features,
        "seed": board.random_state,
        **{name: getattr(board, name) for name in same},
        "winner": board.winner.name,
        "verdict": board.verdict(),
        "entries": board.table(),
        "files": [str(path) for path in paths],
    }


def _show(board: Leaderboard, paths: list[Path], console: Console) -> None:
    from rich.markup import escape
    from rich.table import Table as Grid

    from mahala.evaluation.leaderboard import p_text, percent

    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    # A narrow terminal has room for the numbers only.
    with_bars = console.width >= 80
    grid.add_column("metric", overflow="fold")
    grid.add_column(f"{board.n_neighbors}-NN error", justify="right", no_wrap=True)
    if with_bars:
        grid.add_column(f"0 {percent(board.axis_end):>18}", no_wrap=True)
    for title in ("to Euclidean", "p", "fit"):
        grid.add_column(title, justify="right", overflow="fold")
    failed = []
    for entry in board.entries:
        if entry.failure is not None:
            failed.append(f"{entry.name} could not be fitted: {entry.failure}")
            continue
        style = "bold" if entry is board.winner else "" if entry.learned else "dim"
        points = "best" if entry is board.euclidean else f"{100.0 * entry.difference:+.1f}"
        p = "" if entry.p_value != entry.p_value else p_text(entry.p_value).removeprefix("p ").removeprefix("= ")
        seconds = f"{entry.seconds:.2f} s" if entry.learned else ""
        bar = [_interval(entry.low, entry.error, entry.high, board.axis_end)] if with_bars else []
        grid.add_row(escape(entry.name), percent(entry.error), *bar, points, p, seconds, style=style)
    console.print()
    console.print(grid)
    console.print()
    for text in (*failed, *board.notes):
        console.print(escape(text), style="yellow")
    console.print(escape(board.verdict()), style="bold")
    console.print(escape(_saved(board)))
    console.print()
    for path in paths:
        console.print(f"  {escape(str(path))}", soft_wrap=True)


def _interval(low: float, middle: float, high: float, scale: float, width: int = 20) -> str:
    """Draw an interval as a line of characters, with a dot at the mean, on an axis from 0 to `scale`."""
    at = [min(int(value / scale * (width - 1) + 0.5), width) for value in (low, middle, high)]
    cells = ["━" if at[0] <= place <= at[2] else " " for place in range(width)]
    if at[1] < width:
        cells[at[1]] = "●"
    else:
        cells[-1] = "›"
    return "".join(cells)

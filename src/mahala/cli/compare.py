"""`mahala compare DATA`: which learner is best for a table, as a leaderboard, a report and a model file."""

from __future__ import annotations

import csv
import os
import platform
import shlex
import sys
from contextlib import ExitStack
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mahala.cli.models import check_labels, learner_named, whole_file
from mahala.cli.output import Json, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from mahala.data.tables import Table
    from mahala.evaluation.leaderboard import Leaderboard
    from mahala.learner import Learner
    from mahala.metric import MahalanobisMetric

# Tables that come with mahala, and the column of their labels.
BUNDLED = {"balance": "tips", "wine": "cultivar"}


def compare(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A table: .csv, .tsv, .parquet, .npz, .svm; or a name.")],
    label: Annotated[str | None, typer.Option(help="The column of labels; in .npz files the array (y).")] = None,
    learners: Annotated[str | None, typer.Option(help="Only these, separated by commas: PA,GML,LMNN.")] = None,
    k: Annotated[int, typer.Option("-k", "--k", help="Neighbours that vote.", min=1)] = 3,
    folds: Annotated[int, typer.Option(help="Test parts of a cross-validation.", min=2)] = 5,
    repeats: Annotated[int, typer.Option(help="Cross-validations, each with other parts.", min=1)] = 2,
    scaling: Annotated[
        Literal["standard", "none"], typer.Option(help="Divide features by their standard deviation, or do not.")
    ] = "standard",
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be given several times.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the parts and of the learners.", min=0)] = 0,
    output: Annotated[Path | None, typer.Option(help="Folder to write to; default: NAME-mahala.")] = None,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    as_json: Json = False,
) -> None:
    """Cross-validate a panel of learners, and say whether any beats the Euclidean distance on this table.

    Writes report.html (a page to look at), model.safetensors (the winner, fitted on all rows, for raw features) and
    leaderboard.csv. Where no learner beats Euclidean that is said, and the entry with the lowest error is saved. DATA
    may also be the name of a data set, such as balance, wine or digits.

    Examples:

        mahala compare balance

        mahala compare customers.csv --label churned --drop id --jobs 2

        mahala compare features.npz --learners PA,LMNN,GML -k 5 --no-report --json
    """
    from rich.console import Console

    from mahala.evaluation.cross_validation import MOST_ROWS, default_panel, refit
    from mahala.evaluation.cross_validation import compare as cross_validate

    name = Path(data.removesuffix(".gz")).stem
    folder = Path(f"{name}-mahala") if output is None else output
    _check_folder(folder)
    table = _read(data, label, drop or [])
    labels = check_labels(table, data, "which learners are compared by")
    panel = default_panel(min(table.X.shape[0], MOST_ROWS), table.X.shape[1], seed)
    chosen = panel if learners is None else _chosen(learners, panel, seed)
    errors = Console(stderr=True)
    with ExitStack() as stack:
        board = cross_validate(
            table.X,
            labels,
            chosen,
            folds=folds,
            repeats=repeats,
            k=k,
            scaling=scaling,
            random_state=seed,
            jobs=jobs,
            callback=_bar(stack, errors),
        )
    rows = board.rows
    with errors.status("Fitting the winner on all rows…"):
        winner = chosen.get(board.winner.name)
        how = "none" if board.winner.name == "Euclidean" else scaling
        model = refit(table.X[rows], labels[rows], winner, how, table.feature_names)
        files_written = [folder / "model.safetensors", folder / "leaderboard.csv"]
        page = None
        if report:
            files_written.insert(0, folder / "report.html")
            page = _page(board, chosen, table, model, name, data, label, folder)
    folder.mkdir(parents=True, exist_ok=True)
    _write(files_written, page, model, board)
    if as_json:
        print_json(_plain(board, data, files_written))
    else:
        _show(board, files_written, Console(highlight=False))


def _check_folder(folder: Path) -> None:
    """Refuses a folder that cannot be written to, before the long work."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ValueError(f"--output must name a folder, but {there} is a file")
    if not os.access(there, os.W_OK):
        raise ValueError(f"--output is {folder}, but {there} may not be written to")


def _read(data: str, label: str | None, drop: Sequence[str]) -> Table:
    """A file; or, where there is no such file, a bundled table or a data set by its name."""
    from mahala.data.datasets import load
    from mahala.data.tables import Table, read_table

    if Path(data).exists() or Path(data).suffix:
        return read_table(data, label=label, drop=drop)
    if data in BUNDLED:
        with as_file(files("mahala") / "data" / f"{data}.csv") as path:
            return read_table(path, label=label or BUNDLED[data], drop=drop)
    if label is not None or drop:
        raise ValueError(f"--label and --drop go with files, but {data!r} is the name of a data set")
    X, y, _ = load(data)
    return Table(X, y, None)


def _chosen(names: str, panel: dict[str, Learner], seed: int) -> dict[str, Learner]:
    """Learners by name, with the panel's settings where they are in it."""
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
        raise ValueError(f"--learners must name some learners, such as {','.join(list(panel)[:3])}, got {names!r}")
    return chosen


def _bar(stack: ExitStack, console: Console) -> Any:
    """A function that draws progress and the time left, where stderr is a terminal."""
    if not console.is_terminal:
        return None
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("Comparing"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("fits,"),
        TimeRemainingColumn(compact=True),
        TextColumn("left  {task.fields[last]}"),
    )
    progress = stack.enter_context(Progress(*columns, console=console, transient=True))
    task = progress.add_task("", total=None, last="")
    return lambda done, total, name: progress.update(task, completed=done, total=total, last=name)


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
    import numpy as np
    import scipy
    import sklearn

    import mahala
    from mahala.evaluation.cross_validation import held_out
    from mahala.report.html import Shown, report
    from mahala.support.validation import class_codes

    # Pictures of Euclidean alone would say little: where it wins, they are of the best learner, under its name.
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
        "vectors = metric.transform(X)  # Euclidean distances of these are the learned ones",
    ]
    libraries = {"NumPy": np, "SciPy": scipy, "scikit-learn": sklearn}
    measured = {
        "Command": shlex.join(["mahala", *sys.argv[1:]]) if sys.argv[1:2] == ["compare"] else f"mahala compare {data}",
        "Versions": ", ".join(
            [
                f"mahala {mahala.__version__}",
                *(f"{title} {library.__version__}" for title, library in libraries.items()),
                f"Python {platform.python_version()}",
            ]
        ),
    }
    return report(board, shown, title=name, saved=_saved(board), commands=commands, measured=measured)


def _saved(board: Leaderboard) -> str:
    """What the model file holds."""
    rows = "all rows" if len(board.rows) == board.n_rows else f"the {len(board.rows):,} rows of the sample"
    winner = board.winner
    what = f"{winner.name}, fitted on {rows}" if winner.learned else f"the plain distance, {winner.name}"
    why = "" if board.beats_euclidean else ", as the lowest error of all"
    return f"model.safetensors holds {what}{why}; it takes raw features."


def _write(paths: list[Path], page: str | None, model: MahalanobisMetric, board: Leaderboard) -> None:
    """All files, or none: each is written beside its place, and all move there at the end."""
    with ExitStack() as stack:
        places = {path.name: stack.enter_context(whole_file(path)) for path in paths}
        if page is not None:
            places["report.html"].write_text(page, encoding="utf-8")
        model.save(places["model.safetensors"])
        with places["leaderboard.csv"].open("w", newline="", encoding="utf-8") as file:
            lines = board.table()
            writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows({key: "" if value != value else value for key, value in line.items()} for line in lines)


def _plain(board: Leaderboard, data: str, paths: list[Path]) -> dict[str, Any]:
    return {
        "data": data,
        "rows": len(board.rows),
        "features": board.n_features,
        "classes": board.classes,
        "k": board.k,
        "folds": board.folds,
        "repeats": board.repeats,
        "scaling": board.scaling,
        "seed": board.random_state,
        "beats_euclidean": board.beats_euclidean,
        "winner": board.winner.name,
        "verdict": board.verdict(),
        "entries": board.table(),
        "notes": board.notes,
        "files": [str(path) for path in paths],
    }


def _show(board: Leaderboard, paths: list[Path], console: Console) -> None:
    from rich.markup import escape
    from rich.table import Table as Grid

    from mahala.evaluation.leaderboard import p_text, percent

    highs = sorted(entry.high for entry in board.ranked)
    scale = max(min(highs[-1], 2.0 * highs[len(highs) // 2]), 1e-9)
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    # In a narrow terminal the numbers are worth more than their picture.
    with_bars = console.width >= 80
    grid.add_column("metric", overflow="fold")
    grid.add_column(f"{board.k}-NN error", justify="right", no_wrap=True)
    if with_bars:
        grid.add_column(f"0 {percent(scale):>18}", no_wrap=True)
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
        bar = [_interval(entry.low, entry.error, entry.high, scale)] if with_bars else []
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
    """A line of characters from 0 to the scale: the interval as a line, the mean as a dot."""
    at = [min(int(value / scale * (width - 1) + 0.5), width) for value in (low, middle, high)]
    cells = ["━" if at[0] <= place <= at[2] else " " for place in range(width)]
    if at[1] < width:
        cells[at[1]] = "●"
    else:
        cells[-1] = "›"
    return "".join(cells)

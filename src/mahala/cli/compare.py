"""`mahala compare DATA`: rank learners on a table by cross-validation."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mahala.cli.leaderboard import leaderboard_json, saved_model, show_leaderboard
from mahala.cli.models import learner_named
from mahala.cli.options import (
    Bins,
    Decimal,
    Device,
    Drop,
    FirstIndex,
    Force,
    Jobs,
    Keep,
    KeepIds,
    Label,
    LabelledData,
    Scheduler,
    check_output,
    computing,
    seconds_of,
)
from mahala.cli.output import Json, print_json, terminal, write_csv
from mahala.cli.tables import labelled_table, show_columns, without_single_rows
from mahala.support.files import whole_file

if TYPE_CHECKING:
    from mahala.data.tables import Table
    from mahala.evaluation.leaderboard import Leaderboard
    from mahala.learner import Learner
    from mahala.metric import MahalanobisMetric


# The file in the output folder that keeps what is finished until all is.
CELLS = "cells.jsonl"


def compare(
    data: LabelledData,
    label: Label = None,
    learners: Annotated[str | None, typer.Option(help="Learners to compare, separated by commas: PA,GML,LMNN.")] = None,
    n_neighbors: Annotated[
        int | None,
        typer.Option("-k", "--n-neighbors", help="Number of neighbours; default: chosen in the folds.", min=1),
    ] = None,
    metric: Annotated[
        Literal["auto", "error", "balanced", "f1", "roc_auc"],
        typer.Option(help="Measure that ranks; auto: error, or balanced error if one class has most of the rows."),
    ] = "auto",
    folds: Annotated[int, typer.Option(help="Number of folds of a cross-validation.", min=2)] = 5,
    repeats: Annotated[int, typer.Option(help="Number of cross-validations, each with other folds.", min=1)] = 2,
    scaling: Annotated[
        Literal["auto", "none", "standard", "minmax", "robust"],
        typer.Option(help="Divide features by their deviation, range or quartiles; auto: chosen in the folds."),
    ] = "auto",
    budget: Annotated[str, typer.Option(help="Time for the whole comparison: 90s, 10m, 1h or none.")] = "10m",
    baselines: Annotated[
        bool, typer.Option("--baselines/--no-baselines", help="Measure other methods, such as boosting, as context.")
    ] = True,
    drop: Drop = None,
    keep: Keep = None,
    keep_ids: KeepIds = False,
    bins: Bins = None,
    decimal: Decimal = None,
    first_index: FirstIndex = 1,
    n_jobs: Jobs = 1,
    device: Device = None,
    scheduler: Scheduler = None,
    seed: Annotated[int, typer.Option(help="Seed of the folds and of the learners.", min=0)] = 0,
    output: Annotated[Path | None, typer.Option(help="Folder to write to; default: NAME-mahala.")] = None,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare learners by cross-validation, and test whether any of them beats the Euclidean distance.

    Writes report.html (tables and figures), model.safetensors (the best learner that is shown to beat the Euclidean
    distance, or else that distance, fitted to all rows; it takes raw features) and leaderboard.csv. Ctrl-C writes what
    is finished, marked as partial; the same command again resumes.

    Examples:

        mahala compare balance

        mahala compare customers.csv --label churned --drop id --n-jobs 2

        mahala compare features.npz --learners PA,LMNN,GML --n-neighbors 5 --no-report --json

        mahala compare fraud.csv --label fraud --metric roc_auc --budget 1h
    """

    from mahala.evaluation.budget import final_seconds
    from mahala.evaluation.cross_validation import ComparisonInterrupted
    from mahala.evaluation.cross_validation import compare as cross_validate
    from mahala.evaluation.fitting import refit
    from mahala.evaluation.panel import default_panel, members
    from mahala.evaluation.splits import MOST_ROWS
    from mahala.support.display import task_bar

    seconds = seconds_of(budget, "--budget")
    name = "stdin" if data == "-" else Path(data.removesuffix(".gz")).stem
    folder = Path(f"{name}-mahala") if output is None else output
    names = [*(["report.html"] if report else []), "model.safetensors", "leaderboard.csv"]
    files_written = [folder / name for name in names]
    _check_folder(folder, files_written, Path(data), force)
    table = labelled_table(
        data,
        label,
        drop=drop,
        keep=keep,
        keep_ids=keep_ids,
        bins=bins,
        decimal=decimal,
        first_index=first_index,
        purpose="by which learners are compared",
    )
    table = without_single_rows(table, label)
    labels: Any = table.labels
    if not as_json:
        show_columns(table.columns)
    size = min(table.X.shape[0], MOST_ROWS), table.X.shape[1]
    chosen = default_panel(*size, seed) if learners is None else _chosen(learners, members(*size, seed), seed)
    errors = terminal(stderr=True)
    cells = folder / CELLS
    interrupt = None
    with computing(device, scheduler), task_bar("Comparing", errors.is_terminal) as update:
        try:
            board = cross_validate(
                table.X,
                labels,
                None if learners is None else chosen,
                folds=folds,
                repeats=repeats,
                n_neighbors=n_neighbors,
                metric=metric,
                scaling=scaling,
                budget=seconds,
                baselines=baselines,
                random_state=seed,
                n_jobs=n_jobs,
                preprocessor=table.preprocessor,
                callback=lambda done, total, learner: update(done, learner, total),
                resume=cells,
            )
        except ComparisonInterrupted as error:
            board, interrupt = error.leaderboard, error
    board = replace(board, columns=table.columns)
    rows = board.rows
    with errors.status("Fitting the winner to all rows…"):
        winner = board.winner
        learner = chosen.get(winner.name)
        model = refit(
            table.X[rows], labels[rows], learner, winner.scaling, table.feature_names, seconds=final_seconds(seconds)
        )
        model = replace(model, preprocessor=table.preprocessor)
        if board.partial:
            measured = f"{board.parts} of {board.folds * board.repeats} test parts"
            model = replace(model, origin=dict(model.origin or {}) | {"partial": measured})
        page = _page(board, chosen, table, model, name, data, label, folder, seconds) if report else None
    folder.mkdir(parents=True, exist_ok=True)
    _write(files_written, page, model, board)
    if interrupt is None and not board.partial:
        cells.unlink(missing_ok=True)
    if as_json:
        print_json(leaderboard_json(board, data, files_written))
    else:
        show_leaderboard(board, files_written, terminal())
    if interrupt is not None:
        raise interrupt


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
    budget: float | None,
) -> str:
    from mahala.evaluation.budget import final_seconds
    from mahala.evaluation.cross_validation import held_out
    from mahala.report.chart_data import Shown
    from mahala.report.html import report
    from mahala.report.page import versions
    from mahala.support.validation import class_codes

    # Figures of the Euclidean distance would show little: if it wins, they show the best learner.
    entry = board.winner if board.winner.learned else board.best_learner
    shown = None
    if entry is not None:
        limit = final_seconds(budget)
        metric, mask = held_out(table.X, table.labels, chosen[entry.name], board, entry.scaling, seconds=limit)
        final = model if entry is board.winner else metric
        codes = class_codes(table.labels, table.X.shape[0])[board.rows]
        numbers = None if table.rows is None else table.rows[board.rows]
        shown = Shown(entry.name, metric, final, table.X[board.rows], codes, mask, numbers)
    file = folder / "model.safetensors"
    source = shlex.quote(data) if Path(data).exists() else "rows.csv"
    model_file = shlex.quote(str(file))
    option = "" if label is None else f" --label {shlex.quote(label)}"
    commands = [
        f"mahala transform {source} --model {model_file} --output vectors.npy",
        f"mahala search {source} --row 0 --model {model_file}{option}",
        f"mahala explain {source} 0 1 --model {model_file}",
        f"import mahala\nmetric = mahala.Metric.load({str(file)!r})\n"
        "vectors = metric.transform(X)  # their Euclidean distances are the learned distances",
    ]
    measured = {
        "Command": shlex.join(["mahala", *sys.argv[1:]]) if sys.argv[1:2] == ["compare"] else f"mahala compare {data}",
        "Versions": ", ".join(f"{library} {number}" for library, number in versions().items()),
    }
    return report(board, shown, title=name, saved=saved_model(board), commands=commands, measured=measured)


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

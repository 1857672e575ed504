"""`mahala compare DATA`: rank learners on a table by cross-validation."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

import typer

import mahala
from mahala.cli.parts import leaderboard, options
from mahala.cli.parts.items import AnswerKind, answer_learners, answer_table
from mahala.cli.parts.models import learner_named
from mahala.cli.parts.output import Json, Writer, provenance, records_writer, terminal, text_writer
from mahala.cli.parts.tables import labelled_table, show_columns, times_of, without_single_rows
from mahala.support.display import task_progress
from mahala.support.model_files import is_model_file
from mahala.support.signals import terminated_as_interrupted
from mahala.support.validation import class_codes

if TYPE_CHECKING:
    from mahala.data.tables import Table
    from mahala.evaluation import Leaderboard
    from mahala.evaluation.cross_validation.measuring import Clock
    from mahala.evaluation.examples import Examples
    from mahala.report.chart_data import Shown

# The file in the output folder that keeps what is finished until all is.
CELLS = "cells.jsonl"
# The part of the time for the comparison, and of what is left for each of the fits after it.
_COMPARED, _EACH = 0.6, 0.25


def compare(
    data: options.LabelledData,
    label: options.Label = None,
    learners: Annotated[str | None, typer.Option(help="Learners to compare, separated by commas: PA,GML,LMNN.")] = None,
    n_neighbors: Annotated[
        int | None,
        typer.Option(
            "-k", "--n-neighbors", help="Number of neighbours; default: chosen inside each training part.", min=1
        ),
    ] = None,
    metric: Annotated[
        Literal["auto", "error", "balanced", "f1", "roc_auc", "r2"],
        typer.Option(help="Measure that ranks; auto: error, balanced if one class has most rows, r2 for numbers."),
    ] = "auto",
    folds: Annotated[int, typer.Option(help="Number of folds of a cross-validation.", min=2)] = 5,
    repeats: Annotated[
        int | None,
        typer.Option(help="Number of cross-validations, each with other folds; default: 1 to 10, by rows.", min=1),
    ] = None,
    scaling: Annotated[
        options.ScalingName,
        typer.Option(help="Divide features by their deviation, range or quartiles; auto: chosen in the folds."),
    ] = "auto",
    groups: options.Groups = None,
    time: Annotated[str | None, typer.Option(help="Column of times: the past predicts the future.")] = None,
    budget: Annotated[
        str, typer.Option(help="Time for the whole command: 90s, 10m or 1h; none: as the size of the table asks for.")
    ] = "none",
    baselines: Annotated[
        bool, typer.Option("--baselines/--no-baselines", help="Measure models that predict by themselves, too.")
    ] = True,
    drop: options.Drop = None,
    keep: options.Keep = None,
    keep_ids: options.KeepIds = False,
    bins: options.Bins = None,
    decimal: options.Decimal = None,
    first_index: options.FirstIndex = 1,
    n_jobs: options.Jobs = 1,
    device: options.Device = None,
    scheduler: options.Scheduler = None,
    triplets: Annotated[
        Path | None, typer.Option(help="Answers about the rows of DATA: anchor, nearer and farther item of each.")
    ] = None,
    pairs: Annotated[Path | None, typer.Option(help="Answers: two items of DATA, and if they are similar.")] = None,
    ratings: Annotated[Path | None, typer.Option(help="Answers: two items of DATA, and how alike they are.")] = None,
    by: Annotated[str | None, typer.Option(help="Column of the answers that says who gave each.")] = None,
    ids: Annotated[str | None, typer.Option(help="Column of DATA with the names of items in the answers.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the folds and of the learners.", min=0)] = 0,
    output: Annotated[Path | None, typer.Option(help="Folder to write to; default: NAME-LABEL-mahala.")] = None,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    force: options.Force = False,
    as_json: Json = False,
) -> None:
    """Compare models and metrics by cross-validation: say what to use, and whether learning a metric helps.

    Writes report.html (tables and figures), model.safetensors (the learner that is shown to help, or else the best
    plain distance, fitted to all rows; apply it to raw features) and leaderboard.csv. A learner that probably helps is
    written to learned.safetensors beside the plain distance. A label that is a number is predicted as one; --bins makes
    classes of it. Ctrl-C or SIGTERM writes what is finished, marked as partial; the same command again resumes.

    At the end, NeighborClassifier or NeighborRegressor predicts rows held out, and one prediction is explained.
    `mahala fit` saves such a model.

    Examples:

        mahala compare balance

        mahala compare customers.csv --label churned --drop id --n-jobs 2

        mahala compare features.npz --learners PA,LMNN,GML --n-neighbors 5 --no-report --json

        mahala compare fraud.csv --label fraud --metric roc_auc --budget 1h

        mahala compare visits.csv --label bought --groups household

        mahala compare shoes.npy --triplets answers.csv

    With --triplets, --pairs or --ratings (a .csv, .tsv, .jsonl or .parquet file), DATA has the items, .npy, .npz,
    .parquet or a table, and answers name them by row numbers from 0 or by their ids. Learners are then compared by the
    answers that they predict, about new items and about the same ones.
    """
    began = monotonic()  # the imports take their time
    from mahala.evaluation.compare import ComparisonInterrupted
    from mahala.evaluation.cross_validation.measuring import Clock

    seconds = options.seconds_of(budget, "--budget")
    clock = Clock(seconds, began)
    name = "stdin" if data == "-" else Path(data.removesuffix(".gz")).stem
    # Comparisons of two labels do not share files.
    parts = [name, *([] if label is None else [re.sub(r"[^\w.-]+", "_", label)]), "mahala"]
    folder = Path("-".join(parts)) if output is None else output
    files: dict[AnswerKind, Path | None] = {"triplets": triplets, "pairs": pairs, "ratings": ratings}
    answers = {kind: path for kind, path in files.items() if path is not None}
    _check_folder(folder, report, [Path(data), *answers.values()], force)
    numbers = None if metric == "auto" else metric == "r2"
    if answers:
        others = {
            "--label": label, "--n-neighbors": n_neighbors, "--repeats": repeats, "--groups": groups, "--time": time,
            "--drop": drop, "--keep": keep, "--bins": bins, "--metric": metric != "auto",
            "--scaling": scaling != "auto",
        }  # fmt: skip
        if len(answers) > 1:
            raise ValueError(f"give one of --triplets, --pairs and --ratings, got --{' and --'.join(answers)}")
        if refused := [name for name, value in others.items() if value]:
            raise ValueError(f"{refused[0]} goes with rows that have labels, not with answers: leave it out")
        ((kind, path),) = answers.items()
        table = answer_table(data, kind, path, by=by, ids=ids, seed=seed)
        groups, chosen = by, answer_learners(table.X, learners, seed)
    elif by is not None or ids is not None:
        raise ValueError("--by and --ids go with --triplets, --pairs or --ratings: leave them out")
    else:
        table = labelled_table(
            data, label, bins, purpose="by which learners are compared", classes=bins is not None, drop=drop or (),
            keep=keep or (), extra=[name for name in (groups, time) if name is not None], identifiers=keep_ids,
            decimal=decimal, first_index=first_index,
        )  # fmt: skip
        table, chosen = _rows_and_learners(table, label, learners, seed, numbers)
        show_columns(() if as_json else table.columns)
    interrupt = None
    progress = task_progress("Comparing", terminal(stderr=True).is_terminal)
    with options.computing(device, scheduler), progress as update, terminated_as_interrupted():
        try:
            board = mahala.compare(
                table.X, table.labels, None if learners is None else chosen, folds=folds, repeats=repeats or "auto",
                n_neighbors=n_neighbors, metric=metric, scaling=scaling,
                groups=table.extra.get(groups or ""), times=times_of(table.extra.get(time or "")),
                budget=None if seconds is None else _COMPARED * seconds,
                baselines=baselines, random_state=seed, n_jobs=n_jobs,
                preprocessor=None if answers else table.preprocessor,
                resume=folder / CELLS, callback=lambda done, total, learner: update(done, learner, total),
                preview=_preview,
            )  # fmt: skip
        except ComparisonInterrupted as error:
            board, interrupt = error.leaderboard, error
    result = _Result(replace(board, columns=table.columns), chosen, table, clock)
    with terminal(stderr=True).status("Fitting the winner to all rows…"):
        examples = result.examples()
        commands = _commands(data, label, folder / leaderboard.MODEL, answers=result.board.answers is not None)
        page = {"title": name, "commands": commands, "measured": provenance("compare", data), "examples": examples}
        writers = result.writers(page if report else None)
    earlier = [CELLS] if interrupt is None and not board.partial else []
    facts = leaderboard.as_facts(result.board, data)
    facts["predictions"] = [] if examples is None else [example._asdict() for example in examples.examples]
    leaderboard.finish(folder, writers, facts, leaderboard.parts(result.board, examples), as_json, earlier)
    if interrupt is not None:
        raise interrupt


def _preview(board: Leaderboard) -> None:
    """Say on stderr what the finished rounds of a comparison show."""
    terminal(stderr=True).print(f"So far, on {board.verdict.n:,} {board.verdict.units}: {board.summary}", markup=False)


def _rows_and_learners(
    table: Table, label: str | None, learners: str | None, seed: int, numbers: bool | None
) -> tuple[Table, dict[str, Any]]:
    """Return the rows whose classes can be tested, and the learners by name."""
    from mahala.evaluation.cross_validation.panel import default_panel, default_predictor, members
    from mahala.evaluation.cross_validation.plan import target_of
    from mahala.evaluation.cross_validation.splits import most_rows

    numbers = target_of(table.labels, table.X.shape[0], numbers).is_number
    table = table if numbers else without_single_rows(table, label)
    size = min(table.X.shape[0], most_rows(table.X.shape[1])), table.X.shape[1]
    if learners is None:
        return table, {**default_panel(*size, seed, numbers=numbers)}
    panel = {**members(*size, seed, numbers=numbers), **default_predictor(seed, numbers=numbers)}
    return table, _chosen(learners, panel, seed)


class _Result(NamedTuple):
    """A leaderboard, its learners by name, what they were compared on, and the time that is left."""

    board: Leaderboard
    learners: Mapping[str, Any]
    table: Table
    clock: Clock

    def fitted(self, entry: mahala.evaluation.Entry) -> mahala.Metric:
        """Return the metric of an entry, fitted to all that was compared."""
        from mahala.evaluation.cross_validation.fitting import refit, refit_answers
        from mahala.evaluation.cross_validation.panel import UNSUPERVISED

        board, table = self.board, self.table
        learner = self.learners.get(entry.name, entry.name if entry.name in UNSUPERVISED else None)
        model: mahala.Metric
        if board.answers is not None:
            model = refit_answers(table.X, learner, unit_rows=entry.unit_rows, seconds=self.clock.seconds(_EACH))
        else:
            X, y = table.X[board.rows], cast(Any, table.labels)[board.rows]
            numbers = not board.classes
            model = refit(
                X, y, learner, entry.scaling, table.feature_names, seconds=self.clock.seconds(_EACH), numbers=numbers
            )
        partial = {"partial": f"{board.parts} of {board.planned} test parts"} if board.partial else {}
        origin = {**(model.origin or {}), **partial, "verdict": board.verdict.kind}
        return replace(model, preprocessor=table.preprocessor, origin=origin)

    def writers(self, page: dict[str, Any] | None) -> dict[str, Writer]:
        """Return the writers of the files; `page` has arguments of the report, if there is to be one."""
        board, model, writers = self.board, self.fitted(self.board.winner), dict[str, Writer]()
        if page is not None:
            from mahala.report.html import report

            text = report(board, self._shown(model), saved=leaderboard.saved_model(board), **page)
            writers[leaderboard.REPORT] = text_writer(text)
        writers[leaderboard.MODEL] = model.save
        if board.candidate is not None and board.candidate is not board.winner:
            writers[leaderboard.LEARNED] = self.fitted(board.candidate).save
        return writers | {leaderboard.TABLE: records_writer(board.table())}

    def examples(self) -> Examples | None:
        """Return predictions of a few rows by the first of mahala's models, if one was compared."""
        from mahala.evaluation.cross_validation.panel import default_predictor
        from mahala.evaluation.examples import examples_of

        board, table = self.board, self.table
        known: dict[str, Any] = {**default_predictor(board.random_state, numbers=not board.classes), **self.learners}
        name = next((entry.name for entry in board.models if entry.failure is None and entry.name in known), None)
        if name is None:
            return None
        names = None if table.preprocessor is None else table.preprocessor.feature_groups()
        if names is None and table.feature_names is not None:
            names = {feature: [j] for j, feature in enumerate(table.feature_names)}
        return examples_of(
            table.X, table.labels, known[name], board, names=names, preprocessor=table.preprocessor,
            numbers=table.rows, seconds=self.clock.seconds(_EACH),
        )  # fmt: skip

    def _shown(self, model: mahala.Metric) -> Shown | None:
        """Return the metric that the figures show: the winner, or the best learner if the plain distance wins."""
        from mahala.evaluation.compare import held_out
        from mahala.report.chart_data import Shown

        board, table = self.board, self.table
        entry = board.winner if board.winner.learned else board.best_learner
        if entry is None:
            return None
        if board.answers is not None:
            final = model if entry is board.winner else self.fitted(entry)
            if not isinstance(final, mahala.MahalanobisMetric):
                return None  # a similarity has no distances
            final = replace(final, feature_names=table.feature_names)
            return Shown(entry.name, final, final, table.X.X, None, None, names=table.names, answers=table.X)
        metric, mask = held_out(
            table.X, table.labels, self.learners[entry.name], board, entry.scaling, seconds=self.clock.seconds(_EACH)
        )
        metric = replace(metric, feature_names=table.feature_names, preprocessor=table.preprocessor)
        final = cast(mahala.MahalanobisMetric, model) if entry is board.winner else metric
        codes = class_codes(table.labels, table.X.shape[0])[board.rows] if board.classes else None
        numbers = None if table.rows is None else table.rows[board.rows]
        names = None if table.names is None else table.names[board.rows]
        return Shown(entry.name, metric, final, table.X[board.rows], codes, mask, numbers, names)


def _check_folder(folder: Path, report: bool, inputs: list[Path], force: bool) -> None:
    """Raise ValueError if the files cannot be written, before the long computation."""
    parent = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not parent.is_dir():
        raise ValueError(f"--output must name a folder, but {parent} is a file")
    if not os.access(parent, os.W_OK):
        raise ValueError(f"--output is {folder}, but {parent} is not writable")
    # The leaderboard beside a model is that of an earlier comparison.
    earlier = is_model_file(folder / leaderboard.MODEL)
    for name in leaderboard.FILES if folder.is_dir() else ():
        if report or name != leaderboard.REPORT:
            replaceable = force or (earlier and name == leaderboard.TABLE)
            options.check_output(folder / name, inputs=inputs, force=replaceable)


def _chosen(names: str, panel: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return learners and predictors by name, with the settings of the panel if they are in it."""
    from mahala.evaluation.cross_validation.panel import named_learners

    chosen: dict[str, Any] = {}
    for name in filter(None, map(str.strip, names.split(","))):
        try:
            chosen |= named_learners([name], panel)
        except ValueError:  # it is another learner
            learner = learner_named(name, [], seed, "--learners")
            chosen[type(learner).__name__] = learner
    if not chosen:
        raise ValueError(f"--learners must name learners, such as {','.join(list(panel)[:3])}, got {names!r}")
    return chosen


def _commands(data: str, label: str | None, path: Path, *, answers: bool) -> list[str]:
    """Return examples of what to do with the model file."""
    source, model = shlex.quote(data) if Path(data).exists() else "rows.csv", shlex.quote(str(path))
    option = "" if label is None else f" --label {shlex.quote(label)}"
    predictor = [
        f"mahala fit {source}{option} --output predictor.safetensors",
        f"mahala predict {source} --model predictor.safetensors --why",
    ]
    return [
        *([] if answers else predictor),
        f"mahala transform {source} --model {model} --output vectors.npy",
        f"mahala search {source} --row 0 --model {model}{option}",
        f"mahala show {model} {source} 0 1",
        f"import mahala\nmetric = mahala.Metric.load({str(path)!r})\n"
        "vectors = metric.transform(X)  # their Euclidean distances are the learned distances",
    ]

"""`mahala teach ITEMS`: learn a metric from answers to "which of two is more like a third one?"."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import typer

import mahala
from mahala.cli.parts import options
from mahala.cli.parts.items import read_named_items
from mahala.cli.parts.output import Facts, Json, escape, fact_grid, say, show, write_files
from mahala.cli.parts.tables import show_columns
from mahala.data.scaling import feature_scales, tried_scalings
from mahala.metric import Scales

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mahala.data.scaling import Scaling
    from mahala.data.tables import Table


# Answers between two times that the model file is written.
_SAVED = 10


def teach(
    items: Annotated[
        str, typer.Argument(metavar="ITEMS", help="Vectors of items (.npy, .npz or .parquet), or a table such as .csv.")
    ],
    model: Annotated[Path, typer.Option(help="The model file to write; if it exists, teaching resumes from it.")],
    names: Annotated[
        Path | None, typer.Option(help="A text file with the name of each item on a line; default: ids or row numbers.")
    ] = None,
    ids: Annotated[
        str | None, typer.Option(help="Column or array of the names; default: found, or row numbers.")
    ] = None,
    metric: Annotated[Path | None, typer.Option(help="Write the metric alone to this model file.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the labels, which is not a feature.")] = None,
    scaling: Annotated[
        options.ScalingName,
        typer.Option(help="Divide features by their deviation, range or quartiles; auto: numbers of tables only."),
    ] = "auto",
    drop: options.Drop = None,
    keep: options.Keep = None,
    keep_ids: options.KeepIds = False,
    decimal: options.Decimal = None,
    first_index: options.FirstIndex = 1,
    seed: Annotated[int, typer.Option(help="The random_state of a new model.", min=0)] = 0,
    force: options.Force = False,
    as_json: Json = False,
) -> None:
    """Learn a metric from answers to questions: which of two items is more like a third one?

    Answer with `a`, `b`, `s` (skip, never asked again) or `q` (quit), each followed by Enter; lines from a pipe work as
    well. Everything is written to --model at the end, also after Ctrl-C, and the same command resumes there. Questions
    are chosen where an answer teaches most. Scale vectors to length 1 first if you compare them by cosine. The columns
    of a table are converted and scaled as in `fit`, and --metric takes such tables, too.

    At the end, folds over items tell whether the learned metric predicts answers about items it did not learn from. If
    it does not help, --metric gets the Euclidean distance. Other commands take --model as a model, too.

    Examples:

        mahala teach items.npy --model taught.safetensors

        mahala teach items.npy --names names.txt --model taught.safetensors --metric metric.safetensors

        mahala teach customers.csv --ids id --drop churned --model taught.safetensors --metric metric.safetensors
    """
    inputs = [Path(items), names]
    options.check_output(model, option="--model", inputs=inputs, force=force)
    if metric is not None:
        options.check_output(metric, option="--metric", inputs=[*inputs, model], force=force)
    table = read_named_items(
        items, ids, label=label, drop=drop or (), keep=keep or (), identifiers=keep_ids, decimal=decimal,
        first_index=first_index,
    )  # fmt: skip
    if not as_json:
        show_columns(table.columns)
    steps = _steps(table, scaling)
    rows, n = steps[0].apply(table.X) if steps else table.X, table.X.shape[0]
    titles = [str(name) for name in (range(n) if table.names is None else table.names.tolist())]
    if names is not None:
        titles = names.read_text(encoding="utf-8").splitlines()
        if len(titles) != n:
            raise ValueError(f"--names must have a line for each of the {n} items, but {names} has {len(titles)}")
    if not model.exists() or model.stat().st_size == 0:
        teacher = mahala.Teacher(rows, random_state=seed)
    else:
        teacher = mahala.Teacher.load(model)
        if not np.array_equal(teacher.X, np.asarray(rows, dtype=teacher.X.dtype)):
            raise ValueError(f"--model {model} was taught about other vectors than those of {items}: name another file")
    counts = _ask(teacher, titles, model)
    files = {model: teacher.save}
    if metric is not None:
        useful = teacher.verdict_.kind != "does not help"
        judged = teacher.metric_ if useful else mahala.MahalanobisMetric.euclidean(rows.shape[1])
        learned, made_by = judged.after(*steps), table.preprocessor
        files[metric] = replace(learned, feature_names=table.feature_names, preprocessor=made_by).save
    write_files(files)
    facts = counts | {"in_all": len(teacher.answers_), "verdict": teacher.verdict_.as_dict()}
    show(facts | {"model": str(model), "metric": None if metric is None else str(metric)}, as_json, _parts)


def _steps(table: Table, scaling: Literal["auto"] | Scaling) -> list[Scales]:
    """Return the scales of the features; none for vectors, which are compared as they are."""
    if scaling == "auto":
        scaling = "none" if table.preprocessor is None else tried_scalings(table.X)[0]
    return [] if scaling == "none" else [Scales(feature_scales(table.X, scaling))]


def _ask(teacher: mahala.Teacher, titles: Sequence[str], model: Path) -> dict[str, int]:
    """Ask until the input ends; return the numbers of answers and of skipped questions."""
    counts = {"answered": 0, "skipped": 0}
    with suppress(KeyboardInterrupt):  # what was answered is written
        while True:
            try:
                query, a, b = question = teacher.ask()
            except ValueError as error:  # all were answered or skipped
                say(str(error), err=True)
                break
            say(f"\n{titles[query]}\n  is more like  a  {titles[a]}\n            or  b  {titles[b]}", err=True)
            if (key := _key()) == "q":
                break
            if key == "s":
                teacher.skip(*question)
                counts["skipped"] += 1
                continue
            teacher.answer(*question, nearer=a if key == "a" else b)
            counts["answered"] += 1
            if counts["answered"] % _SAVED == 0:
                teacher.save(model)
    return counts


def _key() -> str:
    """Return a, b, s or q from the next line that is one of them; q at the end of the input."""
    while True:
        say("a, b, s(kip) or q(uit)?", err=True)
        line = sys.stdin.readline()
        key = line.strip().lower() if line else "q"
        if key in ("a", "b", "s", "q"):
            return key


def _parts(facts: Facts) -> Iterator[RenderableType]:
    lines: list[tuple[str, str | None]] = [
        ("answers", f"{facts['answered']:,} now, {facts['in_all']:,} in all; {facts['skipped']:,} skipped"),
        ("verdict", f"[bold]{escape(facts['verdict']['sentence'])}[/bold]"),
    ]
    lines += [(name, None if facts[name] is None else escape(facts[name])) for name in ("model", "metric")]
    yield fact_grid(lines)

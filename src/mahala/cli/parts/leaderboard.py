"""The results of a comparison: its files, and a leaderboard on the terminal and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mahala
from mahala.cli.parts.output import Writer, escape, say, show, table, terminal, write_files

if TYPE_CHECKING:
    from mahala.evaluation.cross_validation.leaderboard import Line
    from mahala.evaluation.examples import Examples

# Files in the output folder.
FILES = REPORT, MODEL, LEARNED, TABLE = "report.html", "model.safetensors", "learned.safetensors", "leaderboard.csv"
_STYLES = {"winner": "bold", "plain": "dim"}


def finish(
    folder: Path,
    writers: Mapping[str, Writer],
    facts: dict[str, Any],
    parts: Iterable[Any],
    as_json: bool,
    earlier: Iterable[str] = (),
) -> None:
    """Write the files of a comparison, by name, and show its result and their paths.

    The learned model of an `earlier` comparison, and other files of it, are removed if they are not written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {folder / name: writer for name, writer in writers.items()}
    write_files(files, earlier=[folder / name for name in (LEARNED, *earlier)])
    show(facts | {"files": list(map(str, files))}, as_json, lambda _: parts)
    for file in () if as_json else files:
        say(f"  {file}")


def saved_model(board: mahala.evaluation.Leaderboard) -> str:
    """Describe the contents of the model file."""
    rows = "all rows" if len(board.rows) == board.n_rows else f"the {len(board.rows):,} rows of the sample"
    rows = "all answers" if board.answers is not None else rows
    winner = board.winner
    what = f"{winner.name}, fitted to {rows}" if winner.learned else f"the plain distance ({winner.spoken})"
    learned = board.candidate
    text = f"model.safetensors holds {what}; apply it to raw features."
    if learned is None or learned is winner:
        return text
    judged = next(part for part in board.boards if part.chosen == learned.name)
    helps = "is shown to help" if judged.verdict.kind == "shown to help" else "probably helps"
    of_items = {"new items": " for new items", "same items": " for the same items"}.get(judged.metric, "")
    return f"{text} {learned.name}, which {helps}{of_items}, is in learned.safetensors."


def as_facts(board: mahala.evaluation.Leaderboard, data: str) -> dict[str, Any]:
    """Return what `--json` prints, but the files."""
    of_run = ("metric", "folds", "parts", "partial", "notes", "chosen", "reference")
    facts = {
        "data": data,
        "features": board.n_features,
        "seed": board.random_state,
        **{name: getattr(board, name) for name in of_run},
        "winner": board.winner.name,
        "verdict": board.verdict.as_dict(),
        "entries": board.table(),
    }
    if board.answers is not None:
        of_answers = ("kind", "n_answers", "n_items", "n_repeated", "agreement", "ceiling", "unit_rows")
        facts |= {name: getattr(board.answers, name) for name in of_answers}
        same = board.boards[-1]
        return facts | {"same_chosen": same.chosen, "same_verdict": same.verdict.as_dict()}
    of_rows = ("classes", "majority", "majority_error", "columns", "n_neighbors", "repeats", "scaling", "left_out")
    return facts | {
        "rows": len(board.rows),
        **{name: getattr(board, name) for name in of_rows},
        "cautions": list(map(str, board.cautions)),
        "advice": None if board.advice is None else board.advice._asdict(),
        "models": [entry.numbers() for entry in board.models],
        "baselines": [entry.numbers() for entry in board.baselines],
    }


def parts(board: mahala.evaluation.Leaderboard, examples: Examples | None = None) -> Iterator[Any]:
    """Yield the tables, notes, the advice and the verdict, and predictions of a few rows."""
    yield ""
    if board.models:
        yield _table(board, board.model_lines(), terminal().width)
        yield ""
    if board.answers is not None:
        yield from (escape(board.heading()), "")
    for own in board.boards:
        yield _table(own, own.lines(), terminal().width)
    if board.choice_of_k:
        yield f"[dim]{board.choice_of_k}[/]"
    yield ""
    failed = [
        f"{entry.name} could not be fitted: {entry.failure}"
        for entry in (*board.models, *(entry for own in board.boards for entry in own.entries))
        if entry.failure
    ]
    resume = ["What is finished is kept: the same command again resumes."] if board.partial else []
    for text in (*dict.fromkeys(failed), *board.remarks(), *board.notes, *resume):
        yield f"[yellow]{escape(text)}[/]"
    yield from (f"[bold yellow]{escape(str(caution))}[/]" for caution in board.cautions)
    yield from (f"[bold]{escape(text)}[/]" for text in board.sentences())
    yield from map(escape, filter(None, (board.context(), saved_model(board))))
    yield ""
    if examples is not None:
        yield from _shown_examples(examples)
        yield ""


def _shown_examples(examples: Examples) -> Iterator[Any]:
    yield escape(examples.heading())
    titles, *lines = examples.cells()
    result = table(titles, ["predicted", "actual"])
    for cells in lines:
        result.add_row(*map(escape, cells))
    yield result
    yield ""
    yield f"Why row {examples.examples[0].row} is predicted so:"
    yield escape(str(examples.reasons))


def _table(board: mahala.evaluation.Leaderboard, lines: Sequence[Line], width: int) -> Any:
    """Return the table of the metrics, or of the models."""
    from mahala.evaluation.cross_validation.leaderboard import percent

    # A narrow terminal has room for the numbers only.
    wide, wider = width >= 80, width >= 110
    bar_width = 20 if width >= 95 else 12
    of_answers = board.metric in ("new items", "same items")
    other = {"plain_error": "error"} if board.metric == "balanced" else {"balanced_error": "balanced"}
    others = {} if of_answers or not wide else other
    of_models = bool(lines) and lines[0].entry.kind == "model"
    first = "model" if of_models else "metric"
    result = table([first], [first])
    result.add_column(board.loss_name if of_models else board.measure, justify="right", overflow="fold")
    if wide:
        result.add_column(f"0 {percent(board.axis_end):>{bar_width - 2}}", no_wrap=True)
    for title in others.values():
        result.add_column(title, justify="right", no_wrap=True)
    with_k = ["k"] if board.n_neighbors is None and wide and not of_models else []
    wider = wider and not of_models and not of_answers
    for title in (*with_k, "difference", "fit", *(("scaling",) if wider else ())):
        result.add_column(title, justify="right", overflow="fold")
    for entry, style, texts, _ in lines:
        if style == "failed":
            continue
        bar = [_interval(entry.low, entry.error, entry.high, board.axis_end, bar_width)] if wide else []
        bar += [texts[name] for name in others]
        numbers = [
            *(texts["n_neighbors"] for _ in with_k),
            texts["difference"],
            texts["seconds"] if entry.learned or of_models else "",
        ]
        last = [texts["scaling"]] if wider else []
        result.add_row(escape(entry.name), texts["error"], *bar, *numbers, *last, style=_STYLES.get(style, ""))
    return result


def _interval(low: float, middle: float, high: float, scale: float, width: int = 20) -> str:
    """Draw an interval as a line of characters, with a dot at the mean, on an axis from 0 to `scale`.

    A mean of one test part has no interval: its ends are NaN.
    """
    low, high = (middle if math.isnan(end) else end for end in (low, high))
    at = [min(int(value / scale * (width - 1) + 0.5), width) for value in (low, middle, high)]
    cells = ["━" if at[0] <= place <= at[2] else " " for place in range(width)]
    cells[min(at[1], width - 1)] = "●" if at[1] < width else "›"
    return "".join(cells)

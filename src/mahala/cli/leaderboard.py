"""A leaderboard on the terminal and as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from mahala.evaluation.leaderboard import Leaderboard

AGAIN = "What is finished is kept: the same command again resumes."


def saved_model(board: Leaderboard) -> str:
    """Describe the contents of the model file."""
    rows = "all rows" if len(board.rows) == board.n_rows else f"the {len(board.rows):,} rows of the sample"
    winner = board.winner
    what = f"{winner.name}, fitted to {rows}" if winner.learned else f"the plain distance, {winner.name}"
    votes = "" if board.n_neighbors else f" It did best with k = {winner.n_neighbors}."
    return f"model.safetensors holds {what}; it takes raw features.{votes}"


def leaderboard_json(board: Leaderboard, data: str, paths: list[Path]) -> dict[str, Any]:
    """Return what `--json` prints."""
    of_data = ("classes", "majority", "majority_error", "columns")
    of_run = ("metric", "n_neighbors", "folds", "repeats", "parts", "partial", "scaling", "left_out", "notes")
    return {
        "data": data,
        "rows": len(board.rows),
        "features": board.n_features,
        "seed": board.random_state,
        **{name: getattr(board, name) for name in (*of_data, *of_run, "beats_euclidean")},
        "winner": board.winner.name,
        "verdict": board.verdict(),
        "entries": board.table(),
        "baselines": [asdict(own) for own in board.baselines],
        "files": [str(path) for path in paths],
    }


def show_leaderboard(board: Leaderboard, paths: list[Path], console: Console) -> None:
    """Print the table, what to know of it, the verdict and the files written."""
    from rich.markup import escape
    from rich.table import Table as Grid

    from mahala.evaluation.leaderboard import p_text, percent

    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    # A narrow terminal has room for the numbers only.
    wide, wider = console.width >= 80, console.width >= 110
    width = 20 if console.width >= 95 else 12
    grid.add_column("metric", overflow="fold")
    grid.add_column(board.measure, justify="right", overflow="fold")
    if wide:
        grid.add_column(f"0 {percent(board.axis_end):>{width - 2}}", no_wrap=True)
        grid.add_column("error" if board.metric == "balanced" else "balanced", justify="right", no_wrap=True)
    for title in ("difference", "p", "fit", *(("k", "scaling") if wider else ())):
        grid.add_column(title, justify="right", overflow="fold")
    for entry in board.ranked:
        style = "bold" if entry is board.winner else "" if entry.learned else "dim"
        points = "reference" if entry is board.euclidean else f"{100.0 * entry.difference:+.1f}"
        p = "" if entry.p_value != entry.p_value else p_text(entry.p_value).removeprefix("p ").removeprefix("= ")
        seconds = f"{entry.seconds:.2f} s" if entry.learned else ""
        second = percent(entry.plain_error if board.metric == "balanced" else entry.balanced_error)
        bar = [_interval(entry.low, entry.error, entry.high, board.axis_end, width), second] if wide else []
        last = [str(entry.n_neighbors), entry.scaling] if wider else []
        grid.add_row(escape(entry.name), percent(entry.error), *bar, points, p, seconds, *last, style=style)
    console.print()
    console.print(grid)
    console.print()
    failed = [f"{own.name} could not be fitted: {own.failure}" for own in board.entries if own.failure is not None]
    for text in (*failed, *board.remarks(), *board.notes, *([AGAIN] if board.partial else [])):
        console.print(escape(text), style="yellow")
    console.print(escape(board.verdict()), style="bold")
    if (context := board.context()) is not None:
        console.print(escape(context))
    console.print(escape(saved_model(board)))
    console.print()
    for path in paths:
        console.print(f"  {escape(str(path))}", soft_wrap=True)


def _interval(low: float, middle: float, high: float, scale: float, width: int = 20) -> str:
    """Draw an interval as a line of characters, with a dot at the mean, on an axis from 0 to `scale`.

    A mean of one test part has no interval: its ends are NaN.
    """
    low, high = (middle if math.isnan(end) else end for end in (low, high))
    at = [min(int(value / scale * (width - 1) + 0.5), width) for value in (low, middle, high)]
    cells = ["━" if at[0] <= place <= at[2] else " " for place in range(width)]
    if at[1] < width:
        cells[at[1]] = "●"
    else:
        cells[-1] = "›"
    return "".join(cells)

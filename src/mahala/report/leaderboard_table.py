"""The leaderboard of a report as a table of HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from mahala.evaluation.entries import Entry
from mahala.evaluation.leaderboard import Leaderboard
from mahala.evaluation.leaderboard_lines import TITLES, Line, percent


def leaderboard_table(board: Leaderboard) -> str:
    """Return a line for each entry and a column for each number that any of them has; a click sorts by it.

    The ends of an interval stand beside the number.
    """
    lines = board.lines()
    twice = {"error": "plain_error", "balanced": "balanced_error"}.get(board.metric)  # the first column has it
    columns = [name for name in TITLES if name != twice and any(line.texts[name] for line in lines)]
    heads = [
        head("metric", "text"),
        head(board.measure, "number"),
        f"<th class=wide>0 <span class=end>{percent(board.axis_end)}</span></th>",
        *(head(TITLES[name], "text" if name == "scaling" else "number") for name in columns),
    ]
    body = "".join(_line(board, line, columns) for line in lines)
    table = f"<table class='board sortable'><thead><tr>{''.join(heads)}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div class=scroll>{table}</div>"


def leaderboard_note(board: Leaderboard) -> str:
    """Return what the columns mean."""
    n = sum(entry.learned for entry in board.ranked)
    adjusted = f", adjusted for {n} learners (Holm)" if n > 1 else ""
    return (
        "Dot: mean error; line and small numbers: 95 % interval. To Euclidean: difference to the best Euclidean "
        f"distance in percentage points, with its interval. p: p-value of no difference{adjusted}. Detectable: "
        "the smallest difference, in points, that this comparison could have shown. Fit: CPU seconds "
        "on one thread, the median over training parts. A click on a heading sorts."
    )


def head(title: str, kind: str) -> str:
    """Return a heading that sorts the lines by their values, "text" or "number"."""
    side = "" if kind == "text" else " class=n"
    return f"<th{side} data-kind={kind}><button type=button>{escape(title)}</button></th>"


def text_cell(text: str) -> str:
    """Return a cell of text."""
    return f"<td data-value='{escape(text)}'>{escape(text)}</td>"


def _line(board: Leaderboard, line: Line, columns: Sequence[str]) -> str:
    entry, name = line.entry, text_cell(line.entry.name)
    if entry.failure is not None:
        return f"<tr class=failed>{name}<td colspan=20>could not be fitted: {escape(entry.failure)}</td></tr>"
    style = line.style if entry.learned else "plain"
    cells = "".join(_cell(line, column) for column in columns)
    return f"<tr class='{style}'>{name}{_cell(line, 'error')}<td class=wide>{_bar(board, entry)}</td>{cells}</tr>"


def _cell(line: Line, column: str) -> str:
    text = line.texts[column]
    if not text:
        return "<td></td>"
    if column == "scaling":
        return text_cell(text)
    shown = f"<b>{text}</b>" if column == "error" else escape(text)
    if column in line.intervals:
        shown += f" <small>{line.intervals[column]}</small>"
    return f"<td class=n data-value={float(getattr(line.entry, column))!r}>{shown.replace('-', '−')}</td>"


def _bar(board: Leaderboard, entry: Entry) -> str:
    alone = math.isnan(entry.low)  # a mean of one test part, which has no interval
    ends = (entry.error, entry.error) if alone else (entry.low, entry.high)
    low, middle, high = (min(100.0 * value / board.axis_end, 100.0) for value in (ends[0], entry.error, ends[1]))
    dot = f'<i class=dot style="left:{middle:.2f}%"></i>' if entry.error <= board.axis_end else "<i class=beyond>›</i>"
    title = percent(entry.error) + ("" if alone else f", 95 % interval {percent(ends[0])} to {percent(ends[1])}")
    reach = f'<i class=reach style="left:{low:.2f}%;width:{high - low:.2f}%"></i>'
    return f'<div class=track title="{title}">{reach}{dot}</div>'

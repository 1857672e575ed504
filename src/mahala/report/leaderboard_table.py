"""The leaderboard of a report as a table of HTML, with the columns that its entries have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from mahala.evaluation.entries import Entry
from mahala.evaluation.leaderboard import Leaderboard, p_text, percent

# Titles of numbers; others that an entry may have are shown under their own names.
_TITLES = {"difference": "to Euclidean", "p_value": "p", "seconds": "fit", "n_neighbors": "k"}
_NO_COLUMNS = {"name", "learned", "failure", "low", "high"}


def leaderboard_table(board: Leaderboard) -> str:
    """Return a line for each entry and a column for each of its fields, which a click sorts by.

    The ends of an interval, fields NAME_low and NAME_high, stand beside the number, and a field that is True is a mark
    beside the name.
    """
    lines = board.table()
    twice = {"error": "plain_error", "balanced": "balanced_error"}.get(board.metric)  # the first column has it
    columns = [name for name in lines[0] if name != twice and _is_column(name, [line[name] for line in lines])]
    heads = [head("metric", "text")]
    for name in columns:
        title = board.measure if name == "error" else _TITLES.get(name, name.replace("_", " "))
        heads.append(head(title, "text" if any(isinstance(line[name], str) for line in lines) else "number"))
        if name == "error":
            heads.append(f"<th class=wide>0 <span class=end>{percent(board.axis_end)}</span></th>")
    body = "".join(_line(board, entry, line, columns) for entry, line in zip(board.entries, lines, strict=True))
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


def _is_column(name: str, values: Sequence[object]) -> bool:
    """Whether any value is a text or a number; counts that are all 0 say nothing."""
    if name in _NO_COLUMNS or name.endswith(("_low", "_high")):
        return False
    known = [v for v in values if isinstance(v, int | float | str) and not isinstance(v, bool) and v == v]
    return any(isinstance(v, float) or v for v in known)


def _line(board: Leaderboard, entry: Entry, line: Mapping[str, Any], columns: Sequence[str]) -> str:
    marks = [name for name, value in line.items() if value is True and name not in _NO_COLUMNS]
    tags = "".join(f" <span class=tag>{escape(mark.replace('_', ' '))}</span>" for mark in marks)
    name = f"<td data-value='{escape(entry.name)}'>{escape(entry.name)}{tags}</td>"
    if entry.failure is not None:
        return f"<tr class=failed>{name}<td colspan=20>could not be fitted: {escape(entry.failure)}</td></tr>"
    kind = "winner" if entry is board.winner and entry.learned else "" if entry.learned else "plain"
    cells = [name]
    for column in columns:
        if column == "difference" and entry is board.euclidean:
            cells.append("<td class=n data-value=0>reference</td>")
            continue
        ends = ("low", "high") if column == "error" else (f"{column}_low", f"{column}_high")
        cells.append(_cell(column, line[column], *(line.get(end) for end in ends)))
        if column == "error":
            cells.append(f"<td class=wide>{_bar(board, entry)}</td>")
    return f"<tr class='{kind}'>{''.join(cells)}</tr>"


def _cell(column: str, value: Any, low: Any, high: Any) -> str:
    if value is None or value != value:
        return "<td></td>"
    if isinstance(value, str):
        return f"<td data-value='{escape(value)}'>{escape(value)}</td>"
    text = f"<b>{percent(value)}</b>" if column == "error" else escape(_text(column, value))
    known = low is not None and low == low
    ends = f" <small>{_text(column, low, bare=True)} to {_text(column, high, bare=True)}</small>" if known else ""
    return f"<td class=n data-value={float(value)!r}>{text}{ends}</td>"


def _text(column: str, value: float, bare: bool = False) -> str:
    """Format a number of this column; `bare`, without its unit, if it is an end of an interval."""
    if column == "detectable":
        return f"{100.0 * value:.1f}"  # percentage points, too
    if column == "difference":
        shown = f"{100.0 * value:+.1f}"  # percentage points
        return "0.0" if float(shown) == 0.0 else shown.replace("-", "−")
    if column.endswith("error"):
        return f"{100.0 * value:.1f}" if bare else percent(value)
    if column == "p_value":
        return p_text(value).removeprefix("p ").removeprefix("= ")
    return f"{value:.2f} s" if column == "seconds" else f"{value:.3g}"


def _bar(board: Leaderboard, entry: Entry) -> str:
    alone = math.isnan(entry.low)  # a mean of one test part, which has no interval
    ends = (entry.error, entry.error) if alone else (entry.low, entry.high)
    low, middle, high = (min(100.0 * value / board.axis_end, 100.0) for value in (ends[0], entry.error, ends[1]))
    dot = f'<i class=dot style="left:{middle:.2f}%"></i>' if entry.error <= board.axis_end else "<i class=beyond>›</i>"
    told = percent(entry.error) + ("" if alone else f", 95 % interval {percent(ends[0])} to {percent(ends[1])}")
    reach = f'<i class=reach style="left:{low:.2f}%;width:{high - low:.2f}%"></i>'
    return f'<div class=track title="{told}">{reach}{dot}</div>'

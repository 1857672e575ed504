"""HTML for the display of objects in notebooks; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def as_table(heading: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table, with the first column to the left and the others to the right.

    >>> as_table(["name", "error"], [["<a>", "1 %"]]).count("&lt;a&gt;")
    1
    """
    head = "".join(f'<th style="text-align:{_side(at)}">{escape(text)}</th>' for at, text in enumerate(heading))
    body = "".join(f"<tr>{_cells(line)}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraph(text: str, *, bold: bool = False) -> str:
    """Return a paragraph."""
    return f"<p><b>{escape(text)}</b></p>" if bold else f"<p>{escape(text)}</p>"


def _cells(line: Sequence[str]) -> str:
    return "".join(f'<td style="text-align:{_side(at)}">{escape(text)}</td>' for at, text in enumerate(line))


def _side(at: int) -> str:
    return "left" if at == 0 else "right"

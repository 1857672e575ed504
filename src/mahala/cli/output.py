"""Output of the commands: text from files made safe for terminals and spreadsheets, and JSON."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

if TYPE_CHECKING:
    from rich.console import Console

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables, for scripts.")]


# Characters by which text would command a terminal, or change the direction of the text around it.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# What makes a spreadsheet take a cell for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def printable(text: str) -> str:
    """Return text with escapes such as \\x1b for control characters other than newlines and tabs.

    >>> print(printable("red \x1b[31m, backwards \u202e"))
    red \\x1b[31m, backwards \\u202e
    """
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def say(text: str, err: bool = False) -> None:
    """Print text, which may come from a file, on stdout or stderr."""
    typer.echo(printable(text), err=err)


def terminal(stderr: bool = False) -> Console:
    """Return a console of Rich that makes all text printable."""
    from rich.console import Console
    from rich.text import Text

    class Safe(Console):
        def render_str(self, text: str, *args: Any, **options: Any) -> Text:
            return super().render_str(printable(text), *args, **options)

    return Safe(stderr=stderr, highlight=False)


def write_csv(file: TextIO, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows to a CSV file; text that a spreadsheet would take for a formula gets an apostrophe before it."""
    csv.writer(file, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)


def _cell(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def print_json(value: Any) -> None:
    """Print a value as one line of strict JSON: arrays as lists, NaN and infinities as null."""
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)
    typer.echo(_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's types; importing NumPy to check them would slow down --help
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def bar(value: float, largest: float, width: int) -> str:
    """Draw a bar in Rich's markup, `width` characters long for the largest value; negative values look different."""
    length = round(width * abs(value) / largest) if largest else 0
    return f"[cyan]{'█' * length}[/]" if value >= 0 else f"[red]{'▒' * length}[/]"

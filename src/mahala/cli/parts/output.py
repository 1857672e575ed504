"""Output of the commands: show results as text or JSON, and write files; text from files is made safe first."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mahala.support.files import named, whole_file

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

Writer = Callable[[Path], object]
Facts = dict[str, Any]  # what a command says, by name
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables, for scripts.")]

# Characters that control a terminal, or change the direction of the text around them.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# What errors call the streams.
STDOUT, STDERR = "standard output", "standard error"
# How cells begin that a spreadsheet reads as formulas.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def printable(text: str) -> str:
    """Return text with escapes such as \\x1b for control characters other than newlines and tabs.

    >>> print(printable("red \x1b[31m, backwards \u202e"))
    red \\x1b[31m, backwards \\u202e
    """
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def escape(text: str) -> str:
    """Return text that Rich prints as it is, without taking it for markup."""
    from rich.markup import escape as escape_markup

    return escape_markup(text)


def say(text: str, err: bool = False) -> None:
    """Print text, which may come from a file, on stdout or stderr."""
    with named(STDERR if err else STDOUT):
        typer.echo(printable(text), err=err)


def terminal(stderr: bool = False) -> Console:
    """Return a console of Rich that makes all text printable."""
    from rich.console import Console

    class Safe(Console):
        def render_str(self, text: str, *args: Any, **options: Any) -> Text:
            return super().render_str(printable(text), *args, **options)

        def print(self, *objects: Any, **options: Any) -> None:
            with named(STDERR if stderr else STDOUT):
                super().print(*objects, **options)

    return Safe(stderr=stderr, highlight=False)


def show(facts: Facts, as_json: bool, text: str | Callable[[Facts], Iterable[RenderableType]]) -> None:
    """Print the result of a command: its facts as JSON, or text, or what a function makes of the facts for Rich."""
    if as_json:
        print_json(facts)
    elif isinstance(text, str):
        say(text)
    else:
        console = terminal()
        for part in text(facts):
            console.print(part)


def fact_grid(lines: Iterable[tuple[str, str | None]]) -> Table:
    """Return lines of a name in bold and what is said of it, in Rich's markup; those with None are left out."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    for name, text in lines:
        if text is not None:
            grid.add_row(name, text)
    return grid


def table(titles: Sequence[str], text: Collection[str], ruled: bool = False) -> Table:
    """Return a table to add rows to; columns whose titles are in `text` are folded, the others hold numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    plain: dict[str, Any] = {"box": None, "pad_edge": False, "padding": (0, 2, 0, 0), "header_style": "dim"}
    result = Table(box=SIMPLE_HEAD) if ruled else Table(**plain)
    for title in titles:
        if title in text:
            result.add_column(title, overflow="fold")
        else:
            result.add_column(title, justify="right", no_wrap=True)
    return result


def write_files(writers: Mapping[Path, Writer], earlier: Iterable[Path] = ()) -> None:
    """Write all files or none: each function gets the path of a temporary file, which replaces the file at the end.

    `earlier` files that are not written are removed, because they would belong to another result.
    """
    with ExitStack() as stack:
        places = [(stack.enter_context(whole_file(path)), write) for path, write in writers.items()]
        for place, write in places:
            write(place)
    for path in earlier:
        if path not in writers:
            path.unlink(missing_ok=True)


def text_writer(text: str) -> Writer:
    """Return a function for `write_files` that writes text, with escapes for names of files that are not UTF-8."""
    return lambda path: path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def csv_writer(rows: Iterable[Iterable[object]]) -> Writer:
    """Return a function for `write_files` that writes rows; text that looks like a formula gets an apostrophe."""
    return text_writer(csv_text(rows))


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as the text of a CSV file; text that looks like a formula gets an apostrophe."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return file.getvalue()


def rows_of(columns: Mapping[str, Sequence[object]]) -> Iterator[Iterable[object]]:
    """Return the names of columns, and then their rows."""
    return chain([columns], zip(*columns.values(), strict=True))


def columns_writer(path: Path, columns: Mapping[str, Sequence[object]]) -> Writer:
    """Return a function for `write_files` that writes columns to a .csv or .parquet file."""
    if path.suffix.lower() == ".csv":
        return csv_writer(rows_of(columns))
    mixed = [name for name, values in columns.items() if len(set(map(type, values))) > 1]
    texts = {name: list(map(str, columns[name])) for name in mixed}  # a column of Parquet has one type

    def write(path: Path) -> None:
        import polars

        polars.DataFrame({**columns, **texts}).write_parquet(path)

    return write


def records_writer(records: Sequence[Mapping[str, object]]) -> Writer:
    """Return a function for `write_files` that writes records with the same fields to a .csv file; NaN stays empty."""
    rows = (["" if value != value else value for value in record.values()] for record in records)
    return csv_writer([list(records[0]), *rows])


def provenance(command: str, data: str = "") -> dict[str, str]:
    """Return the command line and the versions of libraries, for the report of a command."""
    from mahala.support.versions import versions

    typed = shlex.join(["mahala", *sys.argv[1:]]) if sys.argv[1:2] == [command] else f"mahala {command} {data}".strip()
    return {"Command": typed, "Versions": ", ".join(f"{library} {number}" for library, number in versions().items())}


def _cell(value: object) -> object:
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def print_json(value: object) -> None:
    """Print a value as one line of strict JSON: arrays as lists, NaN and infinities as null."""
    text = json.dumps(plain_value(value), ensure_ascii=False, allow_nan=False)
    with named(STDOUT):
        typer.echo(_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def plain_value(value: object) -> object:
    """Return a value of types that JSON has: arrays as lists, NaN and infinities as None."""
    if isinstance(value, dict):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's types; importing NumPy to check them would slow down --help
        return plain_value(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def bar(value: float, largest: float, width: int) -> str:
    """Draw a bar in Rich's markup, `width` characters long for the largest value; negative values look different."""
    length = round(width * abs(value) / largest) if largest else 0
    return f"[cyan]{'█' * length}[/]" if value >= 0 else f"[red]{'▒' * length}[/]"

"""How `python -m papers` shows studies in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from papers.agreement import Agreement
    from papers.check import Checked
    from papers.results import Line
    from papers.study import Cell, Quantity, Study


MARKS = ", * over two standard deviations, † means differ by a t-test, p < 0.05"


def list_studies(console: Console, papers: Iterable[str]) -> None:
    """Print the studies of all papers."""
    from rich.table import Table

    from papers.study import studies

    shown = Table("paper", "option", "what it shows", title="python -m papers PAPER --table N --figure N", box=None)
    for paper in papers:
        for study in studies(paper).values():
            kind, number = study.name[:-1], study.name[-1]
            shown.add_row(paper, f"--{kind} {number}", study.title)
    console.print(shown)


def print_agreement(found: Mapping[str, Sequence[Agreement]], console: Console) -> None:
    """Print how many cells of each paper are near the published ones."""
    from rich.table import Table

    shown = Table("paper", "study", "what", "cells", "near", "equal", "median difference", box=None)
    for paper, own in found.items():
        for one in own:
            counts = map(str, (len(one.lines), one.within, one.equal))
            shown.add_row(paper, one.study, one.quantity, *counts, f"{one.median:.2g}")
    console.print(shown)


def print_checked(checked: Sequence[Checked], n_cells: int, console: Console) -> None:
    """Print which cells were measured again, what differs, and why it may."""
    from rich.table import Table

    from papers.check import time_ratio

    shown = Table("study", "cell", "stored", "now", "", box=None)
    for one in checked:
        study, cell = one.stored.study, one.stored.cell
        lines = [(f"{name} {_short(a)}", _short(b)) for name, (a, b) in one.differences.items()]
        # The curves of a cell have many numbers.
        more = [(f"and {len(lines) - 3} more", "")] if len(lines) > 3 else []
        stored, now = ("\n".join(column) for column in zip(*lines[:3], *more, strict=True)) if lines else ("", "")
        verdict = f"may differ: {one.reason}" if one.reason else "DIFFERS" if lines else "the same"
        what = f"{cell.dataset}, {cell.method}, run {cell.run}"
        shown.add_row(f"{study.paper} {study.name}", what, stored, now, verdict)
    console.print(shown)
    differ, wrong = sum(bool(one.differences) for one in checked), sum(one.wrong for one in checked)
    console.print(
        f"{len(checked)} of {n_cells:,} cells were measured again: {len(checked) - differ} are the same, "
        f"{differ - wrong} may differ, {wrong} differ without a known reason.",
        highlight=False,
    )
    if (ratio := time_ratio(checked)) is not None:
        console.print(f"Fits took {ratio:.2g} times the stored seconds (median).", highlight=False)


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def print_study(study: Study, cells: list[Cell], console: Console) -> None:
    """Print the tables of a study, ours and the paper's."""
    from rich.markdown import Markdown

    from papers.results import ranks, ranks_in_words, summarise

    console.print(f"\n[bold]{study.title}[/bold]", highlight=False)
    if study.summary is not None:
        console.print(Markdown(study.summary(cells)))
    for quantity in study.quantities:
        lines = summarise(study, quantity, cells)
        if not lines:
            continue
        wide = _wide_table(study, quantity, lines)
        fits = console.measure(wide, options=console.options.update(width=10_000)).maximum <= console.width
        console.print(wide if fits else _long_table(study, quantity, lines))
        comparison = ranks(study, quantity, lines)
        if comparison is not None:
            console.print(ranks_in_words(comparison), highlight=False)


def _wide_table(study: Study, quantity: Quantity, lines: list[Line]) -> Table:
    """Return a table with a row per data set and a column per method."""
    from rich.table import Table

    from papers.results import table

    compared = any(line.published for line in lines)
    caption = f"beneath ours: the paper's (difference{MARKS if quantity.spread else ''})" if compared else None
    header, rows = table(study, quantity, lines, newline="\n")
    shown = Table(title=quantity.title, caption=caption, show_lines=compared)
    for name in header:
        shown.add_column(name, justify="left" if name == study.axis else "right", no_wrap=True)
    for row in rows:
        shown.add_row(*row)
    return shown


def _long_table(study: Study, quantity: Quantity, lines: list[Line]) -> Table:
    """Return a table with a row per data set and method, for narrow terminals."""
    from rich import box
    from rich.table import Table

    from papers.results import in_words

    caption = MARKS.removeprefix(", ") if quantity.spread else None
    # Without rules between the columns the table fits into 60 characters.
    shown = Table(title=quantity.title, caption=caption, box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for name in (study.axis, "method"):
        shown.add_column(name, overflow="fold")
    for name in ("ours", "paper", "difference"):
        shown.add_column(name, justify="right", no_wrap=True)
    for at, line in enumerate(lines):
        first = at == 0 or lines[at - 1].dataset != line.dataset
        last = at + 1 == len(lines) or lines[at + 1].dataset != line.dataset
        name = line.dataset if first else ""
        shown.add_row(name, line.method, *in_words(quantity, line), end_section=last)
    return shown

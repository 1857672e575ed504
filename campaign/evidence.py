"""Stored cells of papers/, drawn at random and measured again: what the pages of results show is what is measured.

It needs the folder MAHALA_DATA, and draws among the cells of few seconds; without the folder, and in short, among those
of data sets that need no file. `python -m papers PAPER --check 10` draws among all cells of a paper.
"""

from __future__ import annotations

import functools

from mahala.data.datasets import data_folder
from papers.check import RESULTS, Stored, check_cells, draw_cells, stored_cells
from papers.study import PAPERS, studies

from .runner import Failed

AMOUNT, SHORT = 120, 6  # cells
CPU_SECONDS = 600.0


def n_cases(amount: int) -> int:
    return amount


def prepare(amount: int) -> None:
    """Read the stored cells before processes are forked."""
    for paper in PAPERS:
        _cells(paper, amount)


@functools.cache
def _cells(paper: str, amount: int) -> list[Stored]:
    """Return the stored cells of a paper that are not slow or, if it has no cheap ones, of all papers."""
    cheap = amount <= SHORT or data_folder() is None
    found = stored_cells(studies(paper).values(), RESULTS, cheap=cheap)
    quick = [stored for stored in found if stored.cell.numbers.get("seconds", 0.0) < 5.0]
    return quick or _cells(PAPERS[0], amount)


def run(case: int, seed: int, amount: int) -> int:
    cells = draw_cells(_cells(PAPERS[case % len(PAPERS)], amount), amount, seed)
    (checked,) = check_cells([cells[case // len(PAPERS) % len(cells)]], None)
    if checked.wrong:
        raise Failed(f"differs without a known reason: {checked.as_row()}")
    return 1

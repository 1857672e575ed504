"""Pages of prose about a paper's results: the numbers in them come from the cells.

`papers/prose/PAPER.md` is a format string. `{table2[wine, GML]}` is our mean of a cell, in the first quantity of the
study, `{table2.paper[wine, GML]}` is the published one, and so on: see `Facts`. The module of a paper may add names by
a function `facts`. `{cells}`, `{near}`, `{far}` and `{unequal}` count the cells that the paper has, too, of all tables.
"""

from __future__ import annotations

import importlib
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from mahala.support.arrays import FloatArray
from papers.ranks import FriedmanResult
from papers.results import Line, ranks, summarise
from papers.study import PAPERS, Cell, Study, read_cells, studies

TEMPLATES = Path(__file__).parent / "prose"


class Lookup:
    """Numbers by name, for format strings: `{lookup[name]}`."""

    def __init__(self, find: Callable[[str], float]) -> None:
        self._find = find

    def __getitem__(self, name: str) -> float:
        return self._find(name)


class Facts:
    """What a page says of a study: means, deviations, counts and ranks, of the first quantity.

    A cell is named by its row and its column: `facts["wine, GML"]`.
    """

    def __init__(self, study: Study, cells: Sequence[Cell]) -> None:
        self.study, self.own_cells = study, cells
        self.lines = summarise(study, study.quantities[0], cells) if study.quantities else []
        self._by_cell = {(line.dataset, line.method): line for line in self.lines}

    def line(self, name: str) -> Line:
        dataset, _, method = name.rpartition(", ")
        return self._by_cell[dataset, method]

    def __getitem__(self, name: str) -> float:
        return self.line(name).mean

    @property
    def sd(self) -> Lookup:
        return Lookup(lambda name: self.line(name).sd)

    @property
    def paper(self) -> Lookup:
        """The published means."""

        def published(name: str) -> float:
            line = self.line(name)
            assert line.published is not None, f"the paper has no {name}"
            return line.published.mean

        return Lookup(published)

    @property
    def seconds(self) -> Lookup:
        """CPU seconds of a fit."""
        (quantity,) = (own for own in self.study.quantities if own.name == "seconds")
        means = {(line.dataset, line.method): line.mean for line in summarise(self.study, quantity, self.own_cells)}
        return Lookup(lambda name: means[name.rpartition(", ")[0], name.rpartition(", ")[2]])

    @property
    def mean(self) -> Lookup:
        """The mean of a column over all rows."""
        return Lookup(lambda method: float(np.mean([line.mean for line in self.lines if line.method == method])))

    @property
    def cells(self) -> int:
        """The number of cells that the paper has, too."""
        return len(self._compared)

    @property
    def far(self) -> int:
        """The number of those that differ from the paper's by more than two standard deviations."""
        return sum(line.off for line in self._compared)

    @property
    def unequal(self) -> int:
        """The number of those whose means a t-test tells apart."""
        return sum(line.p_value < 0.05 for line in self._compared)

    @property
    def far_cells(self) -> str:
        """Which cells are far."""
        return "; ".join(f"{line.dataset}, {line.method}" for line in self._compared if line.off) or "none"

    @cached_property
    def _compared(self) -> list[Line]:
        return [line for line in self.lines if line.published and line.spread > 0.0]

    @cached_property
    def friedman(self) -> FriedmanResult:
        found = ranks(self.study, self.study.quantities[0], self.lines)
        assert found is not None, f"{self.study.name} has too few rows or columns for ranks"
        return found

    @property
    def rank(self) -> Lookup:
        """The mean rank of a column."""
        return Lookup(lambda method: float(self.friedman.ranks[self.friedman.methods.index(method)]))

    @property
    def p(self) -> Lookup:
        """The p-value of the ranks of two columns, adjusted for all pairs."""

        def adjusted(names: str) -> float:
            i, j = map(self.friedman.methods.index, names.split(", "))
            return float(self.friedman.adjusted[i, j])

        return Lookup(adjusted)

    @cached_property
    def _both(self) -> tuple[list[str], FloatArray, FloatArray]:
        """The columns that we and the paper have, and our errors and the paper's, a row per data set."""
        methods = [m for m in self.study.methods if any(line.method == m and line.published for line in self.lines)]
        rows = {line.dataset: [self._by_cell.get((line.dataset, method)) for method in methods] for line in self.lines}
        whole = [row for row in rows.values() if all(line is not None and line.published for line in row)]
        ours = np.array([[line.mean for line in row if line] for row in whole])
        theirs = np.array([[line.published.mean for line in row if line and line.published] for row in whole])
        return methods, ours, theirs

    @property
    def same_order(self) -> int:
        """In how many rows the columns have the order that they have in the paper."""
        _, ours, theirs = self._both
        return int(np.sum(np.all(rankdata(ours, axis=1) == rankdata(theirs, axis=1), axis=1)))

    @property
    def same_best(self) -> int:
        """In how many rows the best column is the paper's."""
        _, ours, theirs = self._both
        return int(np.sum(ours.argmin(axis=1) == theirs.argmin(axis=1)))

    @property
    def order(self) -> str:
        """The columns by our mean ranks."""
        return self._order(1)

    @property
    def paper_order(self) -> str:
        """The columns by the mean ranks of the published numbers."""
        return self._order(2)

    def _order(self, at: int) -> str:
        methods, errors = self._both[0], self._both[at]
        means = rankdata(errors, axis=1).mean(axis=0)
        return ", ".join(f"{methods[i]} {means[i]:.1f}" for i in np.argsort(means, kind="stable"))


def all_facts(paper: str, folder: Path) -> Mapping[str, object]:
    """Return the facts of all studies of a paper by their names, and those that its module adds."""
    found: dict[str, Facts] = {}
    for study in studies(paper).values():
        cells = [cell for cell in read_cells(folder / paper / study.cells_file) if cell.dataset in study.datasets]
        found[study.name] = Facts(study, cells)
    tables = [facts for facts in found.values() if facts.study.cells_of is None and facts.cells]
    counts = {name: sum(getattr(facts, name) for facts in tables) for name in ("cells", "far", "unequal")}
    counts["near"] = counts["cells"] - counts["far"]
    more = getattr(importlib.import_module(f"papers.{paper}"), "facts", None)
    return {**found, **counts, **(more(found) if more else {})}


def written_papers() -> list[str]:
    """Return the papers that have a page of prose."""
    return [paper for paper in PAPERS if (TEMPLATES / f"{paper}.md").exists()]


def prose(paper: str, folder: Path) -> str:
    """Return the page of a paper, with the numbers of the cells in a folder of results."""
    template = (TEMPLATES / f"{paper}.md").read_text(encoding="utf-8")
    return rewrapped(template.format_map(all_facts(paper, folder)))


def rewrapped(page: str) -> str:
    """Wrap the paragraphs and lists of a page of Markdown; numbers are shorter than what they replace.

    >>> print(rewrapped("A\\nB.\\n\\n- one\\n  item\\n- two\\n\\n| a\\n| b"))
    A B.
    <BLANKLINE>
    - one item
    - two
    <BLANKLINE>
    | a
    | b
    """
    blocks, code = [], False
    for block in page.split("\n\n"):
        heading, text = block.split("\n", 1) if block.startswith("#") and "\n" in block else ("", block)
        if not (code or text.startswith(("#", "|", "!", "<", "```")) or "\n```" in text):
            end = "\n" if text.endswith("\n") else ""
            text = "\n".join(map(_filled, re.split(r"\n(?=- )", text.rstrip("\n")))) + end
        code ^= bool(block.count("```") % 2)
        blocks.append(f"{heading}\n{text}" if heading else text)
    return "\n\n".join(blocks)


def _filled(paragraph: str) -> str:
    indent = "  " if paragraph.startswith("- ") else ""
    options = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(" ".join(paragraph.split()), 120, subsequent_indent=indent, **options)  # type: ignore[arg-type]

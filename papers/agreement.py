"""Ours against the published numbers, over all cells of a paper: a picture per paper, and a page of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from papers.results import Line, summarise, wrapped
from papers.study import PAPERS, read_cells, studies

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {
    "pa2013": "Passive-aggressive online metrics (2013)",
    "pola2004": "POLA (2004)",
    "sors2015": "Sparse online relative similarity (2015)",
    "gml2014": "Global metric learning by gradient descent (2014)",
    "boostmetric2009": "BoostMetric (2009)",
}

REMARKS = {
    "pa2013": "the paper's glass data is probably not the public one",
    "sors2015": "only bbc is the paper's data, and how the paper scaled it is unknown; two data sets have fewer runs",
    "boostmetric2009": "without USPS-1, which has one split and so no deviation",
}


class Agreement(NamedTuple):
    """The cells of a quantity of a study that the paper has, too, and that have a standard deviation."""

    study: str
    quantity: str
    lines: list[Line]

    @property
    def within(self) -> int:
        """How many cells are within two standard deviations of the published mean."""
        return sum(not line.off for line in self.lines)

    @property
    def equal(self) -> int:
        """How many cells have means that a t-test does not tell apart."""
        return sum(not line.p_value < 0.05 for line in self.lines)

    @property
    def median(self) -> float:
        """The median of the differences' sizes."""
        return float(np.median([abs(line.difference) for line in self.lines]))


def agreements(folder: Path) -> dict[str, list[Agreement]]:
    """Return what agrees, by paper, from the cells in a folder of results; seconds of other machines are left out."""
    found: dict[str, list[Agreement]] = {}
    for paper in PAPERS:
        for study in studies(paper).values():
            cells = [cell for cell in read_cells(folder / paper / study.cells_file) if cell.dataset in study.datasets]
            # What has no deviation in either has no measure of what would be far.
            for quantity in (own for own in study.quantities if own.spread and own.better is not None):
                lines = [line for line in summarise(study, quantity, cells) if line.published and line.spread > 0.0]
                if lines:
                    found.setdefault(paper, []).append(Agreement(study.name, quantity.title, lines))
    return found


def draw_agreement(title: str, found: Sequence[Agreement]) -> Figure:
    """Draw our mean of each cell, with two standard deviations, against the published one, and name what is off."""
    from matplotlib.figure import Figure

    from papers.plots import COLOURS

    figure = Figure(figsize=(4.6, 4.6), layout="constrained")
    axes = figure.subplots()
    lines = [(line, line.published.mean) for own in found for line in own.lines if line.published is not None]
    top = 1.05 * max(max(line.mean, theirs) for line, theirs in lines)
    axes.plot([0.0, top], [0.0, top], color="#888888", linewidth=0.8)
    for off, colour, name in ((False, COLOURS[0], "within two deviations"), (True, COLOURS[1], "farther apart")):
        own = [(theirs, line.mean, 2.0 * line.sd) for line, theirs in lines if line.off == off]
        if own:
            x, y, spread = zip(*own, strict=True)
            label = f"{name}: {len(own)} cells"
            axes.errorbar(x, y, spread, fmt="o", markersize=3.5, elinewidth=0.6, alpha=0.75, color=colour, label=label)
    axes.set(xlim=(0.0, top), ylim=(0.0, top), xlabel="the paper's", ylabel="ours", title=title)
    axes.set_aspect("equal")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="upper left")
    return figure


def front_page(found: Mapping[str, Sequence[Agreement]], pictures: Mapping[str, str]) -> str:
    """Return the page in Markdown: a table of all studies, and the pictures."""
    text = [
        "# Results",
        "",
        wrapped(
            "This page compares our results with those of the papers, in per cent: errors, or mean average precision "
            "(MAP). A cell is one number of a paper's table, the mean of several runs. It is near our mean if the two "
            "differ by at most two standard deviations of a run. Of the paper's deviation and ours, the larger one "
            "counts. Two means are equal here if Welch's t-test, which compares their difference with its standard "
            "error, does not tell them apart at 0.05. Means of ten runs can be near and not equal: then splits, data "
            "or programs differ by a little. Our means are over as many runs as in the paper, unless the last column "
            "says otherwise."
        ),
        "",
        wrapped(
            "The POLA paper (2004) reports no error rates; [its page](pola2004/README.md) compares its statements with "
            "our results. In a checkout of the repository, `python -m papers --show all --output docs/results` writes "
            "this page from the stored results. The figures show our means, with two standard deviations, against "
            "those of the papers; on the line, the two are equal."
        ),
        "",
        "| paper | measure | cells | near | equal | median difference | remarks |",
        "|---|---|---|---|---|---|---|",
    ]
    for paper, own in found.items():
        for one in own:
            where = f"[{TITLES[paper]}]({paper}/README.md), [{one.study}]({paper}/{one.study}.md)"
            numbers = f"{len(one.lines)} | {one.within} | {one.equal} | {one.median:.2g}"
            text.append(f"| {where} | {one.quantity} | {numbers} | {REMARKS.get(paper, '')} |")
    text += ["", *(f"![{TITLES[paper]}: ours against the paper's]({name})\n" for paper, name in pictures.items())]
    return "\n".join(text)

"""Figures of the papers: lines in panels, lines with error bars, and mean ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from mahala.support.arrays import FloatArray
from papers.ranks import FriedmanResult

Lines = Mapping[str, Sequence[tuple[float, float]]]

# Colours that colour-blind readers can tell apart (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osv^DPX"
# Seconds of what learns nothing.
_NO_TIME = 1e-4


def line_panels(panels: Mapping[str, Lines], x: str, y: str) -> Figure:
    """Draw a panel per name with its lines, and one legend for all panels.

    Lines whose names differ only in the suffix "-I" or "-II", or "+" or "-", share a colour, and the second is dashed.
    A single point gets a horizontal dotted line.
    """
    columns = min(3, max(1, len(panels)))
    rows = max(1, math.ceil(len(panels) / columns))
    figure = Figure(figsize=(max(6.0, 3.9 * columns), 3.0 * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    families = list(dict.fromkeys(_family(name) for lines in panels.values() for name in lines))
    handles = {}
    for ax, (title, lines) in zip(axes.flat, panels.items(), strict=False):
        for name, points in lines.items():
            number = families.index(_family(name))
            colour = COLOURS[number % len(COLOURS)]
            if len(points) == 1:
                ax.axhline(points[0][1], color=colour, linestyle=":", linewidth=1.2)
            (handles[name],) = ax.plot(
                *zip(*points, strict=True),
                color=colour,
                marker=_MARKERS[number % len(_MARKERS)],
                markersize=4,
                linestyle="--" if name.endswith(("-II", "-")) else "-",
                label=name,
            )
        ax.set_title(title)
        ax.grid(alpha=0.3)
        ax.margins(x=0.03)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    figure.supxlabel(x, fontsize="medium")
    figure.supylabel(y, fontsize="medium")
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=3 * columns, frameon=False)
    return figure


def _family(name: str) -> str:
    return name.removesuffix("-II").removesuffix("-I").rstrip("+-")


def curves(points: Mapping[str, Sequence[tuple[float, float, float]]], title: str, x: str, y: str) -> Figure:
    """Draw one line per name through its points (x, mean, deviation), with error bars."""
    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    axes = figure.subplots()
    for number, (name, own) in enumerate(points.items()):
        xs, means, deviations = zip(*sorted(own), strict=True)
        colour = COLOURS[number % len(COLOURS)]
        axes.errorbar(xs, means, deviations, label=name, color=colour, marker="o", markersize=4, capsize=3)
    axes.set_ylim(bottom=0.0)
    axes.set(xlabel=x, ylabel=y, title=title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure


def critical_difference(comparison: FriedmanResult) -> Figure:
    """Draw mean ranks on an axis, the best at the left; bars join methods that Nemenyi's test cannot distinguish."""
    order = np.argsort(comparison.ranks, kind="stable")
    ranks = comparison.ranks[order]
    k = len(order)
    half = (k + 1) // 2
    groups = _groups(ranks, comparison.critical_difference)
    depth = 0.9 + 0.28 * len(groups)
    figure = Figure(figsize=(8.0, 0.42 * (half + depth) + 1.0), layout="constrained")
    axes = figure.subplots()
    axes.set_xlim(0.3 - 0.28 * k, k + 0.7 + 0.28 * k)
    axes.set_ylim(half + depth + 0.2, -2.0)
    axes.axis("off")
    axes.plot([1, k], [0, 0], color="black", linewidth=1.2)
    for tick in range(1, k + 1):
        axes.plot([tick, tick], [-0.15, 0], color="black", linewidth=1.2)
        axes.text(tick, -0.3, str(tick), ha="center", va="bottom")
    axes.plot([1, 1 + comparison.critical_difference], [-1.5, -1.5], color="black", linewidth=2.0)
    axes.text(
        1 + comparison.critical_difference / 2,
        -1.6,
        f"critical difference {comparison.critical_difference:.2f} ({comparison.n_datasets} data sets, "
        f"α = {comparison.alpha:g})",
        ha="center",
        va="bottom",
        fontsize="small",
    )
    for at, method in enumerate(order):
        left = at < half
        height = depth + (at if left else k - 1 - at)
        edge = 0.7 if left else k + 0.3
        axes.plot([ranks[at], ranks[at], edge], [0, height, height], color="#888888", linewidth=0.9)
        parts = [comparison.methods[method], f"{ranks[at]:.2f}"]
        text = "  ".join(parts if left else reversed(parts))
        axes.text(edge - 0.05 if left else edge + 0.05, height, text, ha="right" if left else "left", va="center")
    for number, (first, last) in enumerate(groups):
        height = 0.45 + 0.28 * number
        axes.plot([ranks[first] - 0.04, ranks[last] + 0.04], [height, height], color=COLOURS[0], linewidth=4.0)
    return figure


def ranks_and_seconds(comparison: FriedmanResult, seconds: FloatArray, reference: str) -> Figure:
    """Draw the mean rank of each method, the best at the top, beside the seconds that it takes.

    Colours say which methods differ from the reference after Holm's adjustment. The reference has no seconds.
    """
    order = np.argsort(-comparison.ranks, kind="stable")
    at = comparison.methods.index(reference)
    p_values = comparison.against(reference)
    differs = p_values < comparison.alpha
    kinds = {
        f"better than {reference} (p < {comparison.alpha:g})": (differs & (comparison.ranks < comparison.ranks[at]), 0),
        "not shown to differ": (~differs, 6),
        f"worse than {reference}": (differs & (comparison.ranks > comparison.ranks[at]), 1),
    }
    figure = Figure(figsize=(8.0, 0.6 + 0.2 * len(order)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    heights = np.argsort(order)
    for label, (own, colour) in kinds.items():
        timed = own & (seconds > _NO_TIME)
        left.plot(comparison.ranks[own], heights[own], "o", color=COLOURS[colour], markersize=5, label=label)
        right.plot(seconds[timed], heights[timed], "o", color=COLOURS[colour], markersize=5)
    left.axvline(comparison.ranks[at], color="#888888", linewidth=0.8)
    left.set_yticks(range(len(order)), [comparison.methods[i] for i in order], fontsize="small")
    left.set_ylim(-0.7, len(order) - 0.3)
    left.set_xlabel(f"mean rank over {comparison.n_datasets} tables, 1 is the best")
    right.set(xlabel="median CPU seconds of a fit", xscale="log")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize="small")
    return figure


def _groups(ranks: np.ndarray, difference: float) -> list[tuple[int, int]]:
    """Return the first and last index of each maximal run of sorted ranks within the difference, except single ranks.

    >>> _groups(np.array([1.0, 1.5, 2.2, 4.0]), 1.0)
    [(0, 1), (1, 2)]
    """
    found: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = int(np.searchsorted(ranks, ranks[first] + difference, side="left")) - 1
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found

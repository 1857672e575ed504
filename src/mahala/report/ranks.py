"""Critical difference diagrams."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from mahala.evaluation.statistics import FriedmanResult
from mahala.report.plots import COLOURS


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

"""Line plots in several panels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from mahala.report.plots import COLOURS

_MARKERS = "osv^DPX"

Lines = Mapping[str, Sequence[tuple[float, float]]]


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

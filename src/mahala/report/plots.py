"""Matplotlib figures of results, which can be saved as PNG, SVG or PDF."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from mahala.online.history import History

# Colours that colour-blind readers can tell apart (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# More points would not be visible in a figure.
_MOST_POINTS = 1000


def error_curves(histories: Mapping[str, History], title: str = "Predictive error of the stream") -> Figure:
    """Draw the predictive 0-1 error by step, one line per history; "-" versions are dashed."""
    figure = Figure(figsize=(8.0, 4.8), layout="constrained")
    axes = figure.subplots()
    names = list(histories)
    for name, history in histories.items():
        steps = np.unique(np.geomspace(1, len(history), _MOST_POINTS).astype(int))
        family = names.index(name.rstrip("+-") + "+") if name.rstrip("+-") + "+" in histories else names.index(name)
        axes.plot(
            steps,
            history.error_curve()[steps - 1],
            label=name,
            color=COLOURS[family % len(COLOURS)],
            linestyle="--" if name.endswith("-") else "-",
        )
    axes.set_xscale("log")
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("pairs seen")
    axes.set_ylabel("share of pairs predicted wrongly so far")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, ncols=2)
    return figure

"""Matplotlib figures of results."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mahala.online.history import History
from mahala.support.arrays import BoolArray, FloatArray, IndexArray

# Colours that colour-blind readers can tell apart (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Ten such colours for classes (Tol, "muted"), and markers that differ without colours.
_CLASS_COLOURS = (
    "#332288", "#CC6677", "#117733", "#DDAA33", "#88CCEE", "#882255", "#44AA99", "#999933", "#AA4499", "#666666",
)  # fmt: skip
_MARKERS = "osD^vPXp*h"
_GREY = "#888888"
_PERCENT = FuncFormatter(lambda share, _: f"{100.0 * share:.3g} %")
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


def errors_by_neighbors(lines: Mapping[str, FloatArray], counts: IndexArray, at: int, plain: Sequence[str]) -> Figure:
    """Draw the mean error by number of neighbours, one line per name; those in `plain` are grey and dashed.

    The first of `plain` is always visible; others may lie above the axes, and the legend says so.
    """
    with _user_text():
        figure, axes = _card(5.8, 4.2)
        # A line far above the others would compress them.
        framed = [float(errors.max()) for name, errors in lines.items() if name not in plain[1:]]
        top = 1.5 * max(framed) or 0.01
        axes.axvline(at, color="#dddddd", linewidth=6.0, zorder=0)
        learned = [name for name in lines if name not in plain]
        for name, errors in lines.items():
            if name in plain:
                style: dict[str, Any] = {"color": _GREY, "linestyle": ("-", "--", ":")[1 + plain.index(name) % 2]}
            else:
                style = {"color": COLOURS[learned.index(name) % len(COLOURS)]}
            above = " (above)" if errors.min() > top else ""
            axes.plot(counts, errors, label=_shown(name) + above, linewidth=2.0, **style)
        axes.set_ylim(0.0, min(top, 1.05 * max(float(errors.max()) for errors in lines.values())) or 0.01)
        axes.set_xlim(counts[0] - 0.5, counts[-1] + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(_PERCENT)
        axes.set(xlabel="number of neighbours", ylabel="misclassified test rows")
        figure.legend(frameon=False, loc="outside lower center", ncols=3)
    return figure


def distances_of_pairs(similar: FloatArray, dissimilar: FloatArray, title: str) -> Figure:
    """Draw histograms of the distances of similar and dissimilar pairs, divided by the median of all."""
    with _user_text():
        figure, axes = _card(4.6, 3.2)
        both = np.concatenate([similar, dissimilar])
        median = float(np.median(both)) or 1.0
        edges = np.linspace(0.0, max(float(np.quantile(both, 0.995)) / median, 1e-9), 41)
        for name, distances, colour in (("same class", similar, COLOURS[0]), ("other class", dissimilar, COLOURS[1])):
            style: dict[str, Any] = {"bins": edges, "density": True, "color": colour}
            inside = np.minimum(distances / median, edges[-1])
            if not len(inside):
                continue  # one held-out row per class gives no similar pairs
            axes.hist(inside, histtype="stepfilled", alpha=0.25, **style)
            axes.hist(inside, histtype="step", linewidth=1.8, label=name, **style)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set(xlabel="distance / median", title=_shown(title, 40))
        # Leave room for the legend above the data.
        axes.set_ylim(top=1.28 * axes.get_ylim()[1])
        axes.legend(frameon=False, loc="upper center", ncols=2)
    return figure


def plane(points: FloatArray, codes: IndexArray, classes: Sequence[str], held_out: BoolArray, title: str) -> Figure:
    """Draw points of the plane by class, faint unless held out; up to ten classes get a legend."""
    with _user_text():
        figure, axes = _card(4.6, 4.4)
        size = float(np.interp(len(points), [100, 1000], [30.0, 11.0]))
        for code, name in enumerate(classes):
            style: dict[str, Any] = {"color": _CLASS_COLOURS[code % 10], "marker": _MARKERS[code % 10], "linewidth": 0}
            for own, alpha in ((~held_out, 0.25), (held_out, 0.9)):
                chosen = points[(codes == code) & own]
                # Points drawn as one line need fewer SVG elements.
                axes.plot(*chosen.T, linestyle="none", markeredgewidth=0, alpha=alpha, markersize=size**0.5, **style)
            axes.plot([], [], linestyle="none", label=_shown(name, 18), **style)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_title(_shown(title, 40))
        if len(classes) <= 10:
            columns = 2 if max(map(len, classes)) > 9 else min(len(classes), 5)
            figure.legend(frameon=False, loc="outside lower center", ncols=columns, handletextpad=0.1)
    return figure


def spectrum(values: FloatArray) -> Figure:
    """Draw the share of each eigenvalue in their sum, largest first, and the cumulative shares."""
    with _user_text():
        figure, axes = _card(5.8, 3.4)
        shares = np.maximum(values, 0.0) / (float(np.maximum(values, 0.0).sum()) or 1.0)
        numbers = np.arange(1, len(shares) + 1)
        axes.bar(numbers, shares, width=0.8 if len(shares) <= 60 else 1.0, color=COLOURS[0], label="each direction")
        axes.plot(
            numbers, np.cumsum(shares), color=COLOURS[1], linewidth=2.0, marker="o" if len(shares) <= 30 else "",
            markersize=4, label="cumulative",
        )  # fmt: skip
        axes.set_ylim(0.0, 1.03)
        axes.set_xlim(0.4, len(shares) + 0.6)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(_PERCENT)
        axes.set(xlabel="direction", ylabel="share of the eigenvalues")
        figure.legend(frameon=False, loc="outside lower center", ncols=2)
    return figure


def gains_of_queries(gains: FloatArray, measure: str) -> Figure:
    """Draw the gain of each query, largest first; losses have another colour."""
    with _user_text():
        figure, axes = _card(5.8, 3.4)
        n = len(gains)
        shown = np.sort(gains)[::-1][np.linspace(0, n - 1, min(n, _MOST_POINTS)).round().astype(int)]
        edges = np.linspace(0.0, n, len(shown) + 1)
        # One outline for all bars needs fewer SVG elements.
        axes.stairs(np.maximum(shown, 0.0), edges, fill=True, color=COLOURS[0], label="gain")
        axes.stairs(np.minimum(shown, 0.0), edges, fill=True, color=COLOURS[1], label="loss")
        axes.axhline(0.0, color=_GREY, linewidth=0.8)
        axes.set_xlim(0.0, n)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="queries, by gain", ylabel=f"gain in {measure}")
        figure.legend(frameon=False, loc="outside lower center", ncols=2)
    return figure


def svg(figure: Figure, name: str) -> str:
    """Return the figure as an <svg> element; `name` keeps its ids distinct from those of other figures."""
    file = StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with _user_text(), matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(file, format="svg", metadata=nothing)
    text = file.getvalue()
    return text[text.index("<svg") :]


@contextmanager
def _user_text() -> Iterator[None]:
    """Treat names as text, not formulas, and ignore glyphs that only the browser's font has."""
    with matplotlib.rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


def _card(width: float, height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.title.set_fontsize(11)
    return figure, axes


def _shown(name: str, most: int = 24) -> str:
    """Shorten a name to one line; a leading space keeps names with an underscore in the legend."""
    line = " ".join("".join(mark if mark.isprintable() else " " for mark in name).split())
    line = line if len(line) <= most else f"{line[: most - 1]}…"
    return f" {line}" if line.startswith("_") else line

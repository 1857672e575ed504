"""Pictures on Matplotlib's axes, drawn from numbers and names. Matplotlib is imported when the first one is drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala.support.arrays import BoolArray, FloatArray, IndexArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Bars, classes with a colour, and points that a picture has room for.
_MOST_BARS, _MOST_CLASSES, MOST_POINTS = 15, 20, 2_000
# Characters in a line of a name, lines of a name, and characters in a line of a title.
_LINE, _LINES, _TITLE = 30, 3, 60
_BLUE, _RED, _GREY, _GREEN = "#2563a8", "#c0392b", "#8a8f98", "#2a7f62"


Kind = Literal["learned", "plain", "model"]


class Interval(NamedTuple):
    """A number with its 95 % interval, which is NaN if there is none."""

    name: str
    value: float
    low: float
    high: float
    kind: Kind


def new_axes(n: int = 1, width: float = 6.0, height: float = 4.0) -> list[Axes]:
    """Return the axes of a new figure, side by side."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need Matplotlib: pip install matplotlib") from None
    figure = plt.figure(figsize=(width, height), layout="constrained")
    return [figure.add_subplot(1, n, place) for place in range(1, n + 1)]


def plain_frame(ax: Axes, title: str | None = None, **labels: str) -> Axes:
    """Set the title and labels, and leave out the frame at the top and at the right."""
    ax.set(**labels)
    if title is not None:
        ax.set_title(textwrap.fill(title, _TITLE))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def draw_bars(values: Mapping[str, float], form: str, ax: Axes | None = None, **texts: str) -> Axes:
    """Draw horizontal bars of the largest values, the largest on top, with numbers at their ends."""
    shown = sorted(values.items(), key=lambda pair: -abs(pair[1]))[:_MOST_BARS][::-1]
    ax = ax or new_axes(height=_height([name for name, _ in shown]))[0]
    lengths = [value for _, value in shown]
    drawn = ax.barh(range(len(shown)), lengths, color=[_BLUE if value >= 0.0 else _RED for value in lengths])
    ax.set_yticks(range(len(shown)), [_in_lines(name) for name, _ in shown])
    ax.bar_label(drawn, [format(value, form) for value in lengths], padding=3, fontsize="small")
    ax.margins(x=0.18)
    in_percent = form.endswith("%")  # ticks such as 2.5% are not rounded
    ax.xaxis.set_major_formatter(lambda value, place: f"{100.0 * value:.3g}%" if in_percent else format(value, form))
    return plain_frame(ax, **texts)


def draw_points(
    ax: Axes,
    points: FloatArray,
    labels: NDArray[Any] | None = None,
    classes: NDArray[Any] | None = None,
    *,
    label_name: str | None = None,
    marked: Mapping[str, BoolArray] | None = None,
    legend: bool = True,
) -> Axes:
    """Draw rows in two dimensions, coloured by class or number.

    Parameters
    ----------
    points : array of shape (n_rows, 2)
    labels : codes of `classes`, or numbers if these are None
    label_name : what the numbers are
    marked : rows to put a ring around, by what is said of them
    legend : whether to draw a legend or a colour bar
    """
    x, y = points.T
    size = 14 if len(points) <= 800 else 7
    if labels is None:
        ax.scatter(x, y, color=_BLUE, s=size, linewidths=0)
    elif classes is None:
        drawn = ax.scatter(x, y, c=labels, s=size, cmap="viridis", linewidths=0)
        if legend:
            ax.figure.colorbar(drawn, ax=ax, label=label_name or "number")
    else:
        for code, colour in enumerate(_colours(len(classes))):
            of_class = labels == code
            ax.scatter(
                x[of_class], y[of_class], color=colour, s=size, linewidths=0, label=_in_lines(str(classes[code]))
            )
        rest = labels >= _MOST_CLASSES
        if rest.any():
            name = f"{len(classes) - _MOST_CLASSES:,} other classes"
            ax.scatter(x[rest], y[rest], color=_GREY, s=size, linewidths=0, label=name)
    for name, rows in (marked or {}).items():
        if rows.any():
            ax.scatter(x[rows], y[rows], s=45, facecolors="none", edgecolors=_RED, linewidths=0.9, label=name)
    if legend and ax.get_legend_handles_labels()[0]:
        has_colour_bar = labels is not None and classes is None
        beside: dict[str, Any] = {} if has_colour_bar else {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        ax.legend(fontsize="small", frameon=False, **beside)
    ax.set_aspect("equal", adjustable="datalim")
    return plain_frame(ax, xlabel="first direction", ylabel="second direction")


def draw_lines(ax: Axes, points: FloatArray, ends: tuple[IndexArray, IndexArray], right: BoolArray) -> None:
    """Draw a line between each two points: blue, or red if it is not right."""
    corners = np.stack([points[ends[0]], points[ends[1]], np.full((len(right), 2), np.nan)], axis=1)
    for colour, chosen, name in ((_BLUE, right, "answer that holds"), (_RED, ~right, "contradicted answer")):
        ax.plot(*corners[chosen].reshape(-1, 2).T, color=colour, linewidth=0.6, alpha=0.4, zorder=0)
        ax.plot([], [], color=colour, label=name)


def write_names(ax: Axes, points: FloatArray, names: Iterable[object]) -> None:
    """Write names beside their points, except those that would lie on names before them."""
    ax.margins(0.12)
    is_right = points[:, 0] > 0.5 * (points[:, 0].min() + points[:, 0].max())  # whose names stand to the left
    texts = [
        ax.annotate(
            _in_lines(str(name)),
            point,
            (-4 if right else 4, 3),
            textcoords="offset points",
            fontsize="x-small",
            ha="right" if right else "left",
        )
        for point, name, right in zip(points, names, is_right, strict=True)
    ]
    ax.figure.canvas.figure.draw_without_rendering()
    boxes: list[Any] = []
    for text in texts:
        box = text.get_window_extent()
        if box.count_overlaps(boxes):
            text.remove()
        else:
            boxes.append(box)


def draw_predictions(ax: Axes | None, truth: FloatArray, predicted: FloatArray, level: float) -> Axes:
    """Draw predicted against true numbers, with a band that holds a share `level` of the rows."""
    ax = ax or new_axes(1, 5.0, 5.0)[0]
    spread = float(np.quantile(np.abs(truth - predicted), level))
    ends = np.array([min(truth.min(), predicted.min()), max(truth.max(), predicted.max())])
    band = f"{level:.0%} of the rows"
    ax.fill_between(ends, ends - spread, ends + spread, color=_BLUE, alpha=0.12, linewidth=0, label=band)
    ax.plot(ends, ends, color=_GREY, linewidth=1)
    ax.scatter(predicted, truth, s=10, color=_BLUE, linewidths=0, alpha=0.6)
    ax.legend(fontsize="small", frameon=False, loc="upper left")
    return plain_frame(ax, title="Rows that were left out", xlabel="predicted", ylabel="true")


def draw_calibration(ax: Axes | None, right: BoolArray, probabilities: FloatArray) -> Axes:
    """Draw how often the most probable class is right, by its probability, in ten groups of as many rows."""
    ax = ax or new_axes(1, 5.0, 5.0)[0]
    order = np.argsort(probabilities, kind="stable")
    groups = [part for part in np.array_split(order, min(10, max(1, len(order) // 10))) if len(part)]
    means = np.array([probabilities[part].mean() for part in groups])
    shares = np.array([right[part].mean() for part in groups])
    errors = np.array([np.sqrt(max(s * (1.0 - s), 0.01) / len(part)) for s, part in zip(shares, groups, strict=True)])
    ax.plot([0.0, 1.0], [0.0, 1.0], color=_GREY, linewidth=1)
    ax.errorbar(means, shares, yerr=errors, fmt="o-", color=_BLUE, markersize=4, linewidth=1, elinewidth=0.8)
    low = max(0.0, float(min(means.min(), shares.min())) - 0.05)
    ax.set(xlim=(low, 1.01), ylim=(low, 1.01), title="Rows that were left out")
    return plain_frame(ax, xlabel="probability of the predicted class", ylabel="share of correct predictions")


def draw_curves(ax: Axes | None, counts: IndexArray, curves: Mapping[str, FloatArray], plain: Sequence[str]) -> Axes:
    """Draw an error for each number of neighbours and each name.

    The names in `plain` are grey; the first of them is in full, and others may be above the frame.
    """
    ax = ax or new_axes(width=7.0)[0]
    colours = iter([colour for at, colour in enumerate(_colours(10)) if at != 7])  # without the grey
    lines = iter(("--", ":", "-."))
    for name, errors in curves.items():
        look = {"color": _GREY, "linestyle": next(lines)} if name in plain else {"color": next(colours)}
        ax.plot(counts, errors, marker="" if len(counts) > 1 else "o", label=_in_lines(name), **look)
    if len(curves) > 1:
        ax.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    framed = [errors.max() for name, errors in curves.items() if name not in plain[1:]]
    ax.set_ylim(0.0, 1.05 * float(max(framed)) or 0.01)
    ax.locator_params(axis="x", integer=True)
    ax.yaxis.set_major_formatter(lambda value, place: f"{100.0 * value:.3g}%")
    return plain_frame(ax, xlabel="number of neighbours")


def draw_intervals(ax: Axes | None, entries: Sequence[Interval], reference: float, end: float) -> Axes:
    """Draw shares with their intervals, the first on top, and a line at the reference.

    Of entries beyond `end` only the number is written.
    """
    ax = ax or new_axes(width=6.5, height=_height([entry.name for entry in entries]))[0]
    colours: dict[Kind, str] = {"learned": _BLUE, "plain": _GREY, "model": _GREEN}
    ax.axvline(reference, color=_GREY, linewidth=1, linestyle="--", zorder=0)
    for place, entry in enumerate(entries):
        colour = colours[entry.kind]
        if entry.value > end:
            ax.text(end, place, f"{entry.value:.1%} ›", ha="right", va="center", color=colour, fontsize="small")
            continue
        ax.hlines(place, entry.low, min(entry.high, end), color=colour, linewidth=3, alpha=0.4)
        ax.plot(entry.value, place, "o", color=colour, markersize=6)
    for kind in dict.fromkeys(entry.kind for entry in entries):
        name = {"learned": "learned metric", "plain": "plain metric", "model": "model"}[kind]
        ax.plot([], [], "o", color=colours[kind], label=name)
    ax.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    ax.set_yticks(range(len(entries)), [_in_lines(entry.name) for entry in entries])
    ax.set_ylim(len(entries) - 0.5, -0.5)
    ax.xaxis.set_major_formatter(lambda value, place: f"{100.0 * value:.3g}%")
    return plain_frame(ax)


def _height(names: Sequence[str]) -> float:
    """Return the inches of a picture with a line for each name, or more for names of several lines."""
    lines = max((_in_lines(name).count("\n") + 1 for name in names), default=1)
    return 1.0 + max(0.32, 0.18 * lines) * max(len(names), 4)


def _in_lines(name: str) -> str:
    """Return a name in lines, broken at spaces and underscores; only the end of a very long one is left out."""
    lines = textwrap.fill(name.replace("_", "_ "), _LINE, max_lines=_LINES, placeholder=" …")
    return lines.replace("_ ", "_")


def _colours(n: int) -> list[Any]:
    import matplotlib

    palette = matplotlib.colormaps["tab10" if n <= 10 else "tab20"]
    return [palette(code) for code in range(min(n, _MOST_CLASSES))]

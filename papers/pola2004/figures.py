"""Figures of the POLA paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mahala.support.arrays import BoolArray, FloatArray
from papers.plots import COLOURS

_BLUE, _ORANGE, _GREEN, _PINK = COLOURS[:4]


def images_and_distances(columns: Mapping[str, tuple[FloatArray, FloatArray]], side: int) -> Figure:
    """Draw 64 images per name, eight in a row, above the distances of all pairs."""
    figure = Figure(figsize=(3.4 * len(columns), 7.0), layout="constrained")
    for at, (name, (images, distances)) in enumerate(columns.items()):
        top, bottom = (figure.add_subplot(2, len(columns), at + 1 + row * len(columns)) for row in (0, 1))
        # Draw a white border around every image.
        tiles = np.pad(images.reshape(8, 8, side, side), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=np.nan)
        top.imshow(tiles.transpose(0, 2, 1, 3).reshape(8 * (side + 2), -1), cmap="gray_r", vmin=-0.75, vmax=1.75)
        top.set_title(name)
        top.axis("off")
        bottom.imshow(distances, cmap="viridis")
        bottom.set_xticks([15.5, 47.5], ["2", "5"])
        bottom.set_yticks([15.5, 47.5], ["2", "5"])
        bottom.tick_params(length=0)
    return figure


def scatter_against(axes: Axes, x: Sequence[float], y: Sequence[float], names: tuple[str, str]) -> None:
    """Draw the errors of two methods in per cent; below the diagonal the second is better."""
    top = 1.08 * max(*x, *y)
    axes.plot([0.0, top], [0.0, top], color="#888888", linewidth=0.8)
    axes.plot(x, y, "o", color=_BLUE, markersize=4, alpha=0.7)
    axes.set(xlim=(0.0, top), ylim=(0.0, top), xlabel=f"{names[0]}, error in %", ylabel=f"{names[1]}, error in %")
    better = sum(second < first for first, second in zip(x, y, strict=True))
    axes.set_title(f"{names[1]} better in {better} of {len(x)}", fontsize="medium")
    axes.set_aspect("equal")


def digits(
    scatters: Sequence[tuple[tuple[str, str], list[float], list[float]]],
    projections: Mapping[str, FloatArray],
    is_first: BoolArray,
    classes: tuple[str, str],
) -> Figure:
    """Draw up to four scatter plots of errors, above projections of two classes by each of two methods, if given."""
    n_rows = 3 if projections else 2
    figure = Figure(figsize=(8.0, 3.8 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, 2)
    for place, (names, x, y) in zip(axes.flat, scatters, strict=False):
        scatter_against(place, x, y, names)
    for place in axes[:2].flat[len(scatters) :]:
        place.axis("off")
    for place, (name, points) in zip(axes[2:].flat, projections.items(), strict=True):
        for rows, label, colour, marker in ((is_first, classes[0], _BLUE, "o"), (~is_first, classes[1], _ORANGE, "x")):
            place.plot(*points[rows].T, marker, color=colour, label=label, markersize=4)
        place.set_title(f"Two leading directions of {name}", fontsize="medium")
        place.set(xticks=[], yticks=[])
        place.legend(frameon=False)
    return figure


def filters(errors: Mapping[str, Mapping[str, float]], pair: tuple[str, str]) -> Figure:
    """Draw bars of the errors by topic, and a scatter plot of the two methods of the pair."""
    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2.0, 1.0))
    topics = [topic for topic in next(iter(errors.values())) if all(topic in own for own in errors.values())]
    width = 0.8 / len(errors)
    for at, ((method, own), colour) in enumerate(zip(errors.items(), (_BLUE, _ORANGE, _GREEN, _PINK), strict=False)):
        places = np.arange(len(topics)) + (at - (len(errors) - 1) / 2) * width
        left.bar(places, [own[topic] for topic in topics], width, color=colour, label=method)
    left.set_xticks(range(len(topics)), topics, rotation=45, ha="right")
    left.set(ylabel="mean of false positives and negatives in %", title="Reuters-21578")
    left.legend(frameon=False, ncols=2)
    if all(method in errors for method in pair):
        x, y = ([errors[method][topic] for topic in topics] for method in pair)
        scatter_against(right, x, y, pair)
    return figure

"""Pictures of a model that predicts, on Matplotlib's axes."""

from typing import TYPE_CHECKING, Any

import numpy as np

from mahala.support.arrays import Array, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mahala.neighbors.inspection import Inspection
    from mahala.neighbors.reasons import Reasons

# Columns, rows or classes that a picture has room for.
_MOST_BARS, _MOST_CLASSES, _MOST_POINTS = 15, 10, 5_000
_BLUE, _RED, _GREY = "#2563a8", "#c0392b", "#8a8f98"


def axes(ax: "Axes | None" = None, width: float = 6.0, height: float = 4.0) -> "Axes":
    """Return the axes, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need Matplotlib: pip install matplotlib") from None
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def bars(ax: "Axes", values: dict[str, float], form: str) -> None:
    """Draw horizontal bars of the largest values, the largest on top, with numbers at their ends."""
    shown = sorted(values.items(), key=lambda pair: -abs(pair[1]))[:_MOST_BARS][::-1]
    names, lengths = [name if len(name) <= 30 else f"{name[:29]}…" for name, _ in shown], [value for _, value in shown]
    places = range(len(shown))
    drawn = ax.barh(places, lengths, color=[_BLUE if value >= 0.0 else _RED for value in lengths])
    ax.set_yticks(places, names)
    ax.bar_label(drawn, [format(value, form) for value in lengths], padding=3, fontsize="small")
    ax.margins(x=0.18)
    ax.xaxis.set_major_formatter(lambda value, place: format(value, form))
    ax.spines[["top", "right"]].set_visible(False)


def plot_reasons(reasons: "Reasons", ax: "Axes | None" = None) -> "Axes":
    """Draw what sets one row apart from others, as shares of the columns, under a headline with the prediction."""
    ax = axes(ax)
    bars(ax, {name: value for name, value in reasons.columns.items() if abs(value) >= 0.005}, ".0%")
    other = "rows with another number" if reasons.other is None else f"rows of {reasons.other}"
    ax.set(title=str(reasons).splitlines()[0], xlabel=f"share of the distance to the nearest {other}")
    return ax


def plot_weights(model: "Inspection", ax: "Axes | None" = None) -> "Axes":
    """Draw the share of each column in the mean squared distance of two training rows."""
    ax = axes(ax)
    bars(ax, model.column_weights(), ".0%")
    ax.set(title="What distances consist of", xlabel="share of the mean squared distance")
    return ax


def plot_map(model: "Inspection", ax: "Axes | None" = None) -> "Axes":
    """Draw the training rows in the two leading directions of the metric; those that others contradict are ringed."""
    ax = axes(ax, 6.5, 5.0)
    at = model.map_points()
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.permutation(len(at.points))[:_MOST_POINTS])
    x, y = at.points[chosen].T
    if at.classes is None:
        drawn = ax.scatter(x, y, c=at.labels[chosen], s=12, cmap="viridis", linewidths=0)
        ax.figure.colorbar(drawn, ax=ax, label=model.target_name_ or "number")
    else:
        codes, cycle = at.labels[chosen], _colours(len(at.classes))
        for code, name in enumerate(at.classes[:_MOST_CLASSES]):
            ax.scatter(x[codes == code], y[codes == code], color=cycle[code], s=12, linewidths=0, label=str(name))
        rest = codes >= _MOST_CLASSES
        if rest.any():
            ax.scatter(x[rest], y[rest], color=_GREY, s=12, linewidths=0, label="other classes")
    wrong = at.wrong[chosen]
    if wrong.any():
        label = "wrong when left out" if at.classes is not None else "far off when left out"
        ax.scatter(x[wrong], y[wrong], s=45, facecolors="none", edgecolors=_RED, linewidths=0.9, label=label)
    if at.classes is not None or wrong.any():
        beside: dict[str, Any] = {} if at.classes is None else {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        ax.legend(fontsize="small", frameon=False, **beside)
    ax.set(title="Training rows under the learned metric", xlabel="first direction", ylabel="second direction")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_predictions(model: "Inspection", ax: "Axes | None" = None, level: float = 0.9) -> "Axes":
    """Draw left-out predictions beside the truth: numbers with a band, or the calibration of classes."""
    ax = axes(ax, 5.0, 5.0)
    truth, predicted = model.left_out_pairs()
    if model.is_classifier:
        _calibration(ax, truth, predicted)
        return ax
    spread = float(np.quantile(np.abs(truth - predicted), level))
    low, high = float(min(truth.min(), predicted.min())), float(max(truth.max(), predicted.max()))
    ends = np.array([low, high])
    ax.fill_between(
        ends, ends - spread, ends + spread, color=_BLUE, alpha=0.12, linewidth=0, label=f"{level:.0%} of the rows"
    )
    ax.plot(ends, ends, color=_GREY, linewidth=1)
    ax.scatter(predicted, truth, s=10, color=_BLUE, linewidths=0, alpha=0.6)
    ax.set(title="Rows that were left out", xlabel="predicted", ylabel="true")
    ax.legend(fontsize="small", frameon=False, loc="upper left")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _calibration(ax: "Axes", right: Array, probabilities: FloatArray) -> None:
    """Draw how often the most probable class is right, by its probability, in ten groups of as many rows."""
    order = np.argsort(probabilities, kind="stable")
    groups = [part for part in np.array_split(order, min(10, max(1, len(order) // 10))) if len(part)]
    means = np.array([probabilities[part].mean() for part in groups])
    shares = np.array([right[part].mean() for part in groups])
    errors = np.array([np.sqrt(max(s * (1.0 - s), 0.01) / len(part)) for s, part in zip(shares, groups, strict=True)])
    ax.plot([0.0, 1.0], [0.0, 1.0], color=_GREY, linewidth=1)
    ax.errorbar(means, shares, yerr=errors, fmt="o-", color=_BLUE, markersize=4, linewidth=1, elinewidth=0.8)
    low = max(0.0, float(min(means.min(), shares.min())) - 0.05)
    ax.set(xlim=(low, 1.01), ylim=(low, 1.01), title="Rows that were left out")
    ax.set(xlabel="probability of the predicted class", ylabel="share of correct predictions")
    ax.spines[["top", "right"]].set_visible(False)


def _colours(n: int) -> Any:
    import matplotlib

    name = "tab10" if n <= _MOST_CLASSES else "tab20"
    return [matplotlib.colormaps[name](code) for code in range(_MOST_CLASSES)]

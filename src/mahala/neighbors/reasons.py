"""Why a prediction is what it is: the rows that voted, the columns that set others apart, the line, the experts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mahala.compiled.sums.vote_sums import leading_votes
from mahala.metric.plots import distance_shares
from mahala.neighbors.fitted import EXPERTS, Fitted, Points
from mahala.neighbors.mixture import mixed
from mahala.neighbors.rows import RowName
from mahala.support.arrays import IndexArray, RealArray
from mahala.support.display import as_table, paragraph, text_table
from mahala.support.plots import draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Nearest rows of another class, with which a row is compared.
_OTHERS = 5
# Columns that are shown.
_SHOWN = 5


@dataclass(frozen=True)
class Reasons:
    """Why one prediction is what it is.

    Attributes
    ----------
    prediction : the predicted class or number
    probability : of the predicted class; None for a number
    rows : list of (name, label, share), the training rows with the largest shares of the votes
    columns : dict of the share of each column in the squared distance to the nearest rows that say something else
    line : dict of what each column adds to the linear expert's score of the predicted class over the mean of the
        others, or to its number, compared with the mean of the training rows; empty without a line
    experts : dict of what each expert says on its own: the probability of the predicted class, or a number
    weights : dict of the experts' weights
    other : the class of the nearest rows of another class, or None
    """

    prediction: object
    probability: float | None
    rows: list[tuple[RowName, object, float]]
    columns: dict[str, float]
    line: dict[str, float]
    experts: dict[str, float]
    weights: dict[str, float]
    other: object

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        return [
            self._headline(),
            *self._sentences(),
            "Rows that voted:",
            *(f"  {line}" for line in text_table([["row", "label", "share"], *self._row_cells()])),
        ]

    def _headline(self) -> str:
        if self.probability is None:
            return f"{_shown(self.prediction)} is predicted."
        return f"{_shown(self.prediction)} is predicted, with a probability of {self.probability:.0%}."

    def _sentences(self) -> list[str]:
        kind = "" if self.other is None else f" of {_shown(self.other)}"
        nearest = f"the nearest rows{kind}" if self.other is not None else "the nearest rows with another number"
        columns = ", ".join(f"{name} ({share:.0%})" for name, share in _largest(self.columns) if share >= 0.005)
        sentences = [f"What sets it apart from {nearest}: {columns}."] if columns else []
        if self.line:
            parts = ", ".join(f"{name} ({value:+.2g})" for name, value in _largest(self.line) if value)
            sentences += [f"The line moves it by {parts}."] if parts else []
        if len(self.experts) > 1:
            form = "{:.0%}" if self.probability is not None else "{:.4g}"
            each = (
                f"{name} {form.format(value)} (weight {self.weights[name]:.2f})" for name, value in self.experts.items()
            )
            sentences.append(f"Experts: {', '.join(each)}.")
        return sentences

    def _row_cells(self) -> list[list[str]]:
        return [[_shown(name), _shown(label), f"{share:.1%}"] for name, label, share in self.rows]

    def _repr_html_(self) -> str:
        sentences = "".join(paragraph(text) for text in self._sentences())
        table = as_table(["row", "label", "share of the votes"], self._row_cells())
        return f"{paragraph(self._headline(), bold=True)}{sentences}{table}"

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the shares of the columns in the distance to rows that say something else; return Matplotlib's axes."""
        shares = {name: value for name, value in self.columns.items() if abs(value) >= 0.005}
        other = "rows with another number" if self.other is None else f"rows of {self.other}"
        texts = {"title": self._headline(), "xlabel": f"share of the distance to the nearest {other}"}
        return draw_bars(shares, ".0%", ax, **texts)


def reasons_of(
    model: Fitted,
    points: Points,
    k: int,
    names: Callable[[IndexArray], list[RowName]],
    labels: Callable[[IndexArray], list[object]],
) -> dict[str, Any]:
    """Return the parts of `Reasons` of one row, with numbers in the model's units.

    names, labels : functions of places of rows that return what they are called and what is known of them
    """
    target, voters = model.rows.target, model.distinct_voters
    predictions = model.experts(points)
    mixture = mixed(predictions, [*model.used_weights.values()], target)[0]
    Z = model.embed(points)
    numbers, shares = leading_votes(Z, voters.Z, min(k, len(voters.Z)), voters.weights)
    places = voters.places[numbers[0]]
    rows = list(zip(names(places), labels(places), shares[0].tolist(), strict=True))
    predicted = int(mixture.argmax()) if target.n_classes else None
    others = _others(model, Z, predicted, float(mixture[0]))
    return {
        "mixture": mixture,
        "rows": rows,
        "columns": {} if others is None else _column_shares(model, points, others[0]),
        "line": {} if model.line is None else _line_parts(model, points, predicted),
        "experts": {
            name: float(values[0, predicted or 0]) for name, values in zip(model.used_weights, predictions, strict=True)
        },
        "weights": dict(zip(EXPERTS, model.weights, strict=True)),
        "other": None if others is None else others[1],
    }


def _others(model: Fitted, Z: RealArray, predicted: int | None, number: float) -> tuple[IndexArray, int | None] | None:
    """Return the places of the nearest rows that say something else, and the code of their most frequent class."""
    voters = model.distinct_voters
    y = model.rows.target.y[voters.places]
    # Numbers that differ by at least half of a standard deviation are something else.
    apart = np.flatnonzero(y != predicted if predicted is not None else np.abs(y - number) > 0.5)
    if not len(apart):
        return None
    near = apart[np.argsort(np.square(voters.Z[apart] - Z).sum(axis=1), kind="stable")[:_OTHERS]]
    code = None if predicted is None else int(np.bincount(y[near]).argmax())
    chosen = near if code is None else near[y[near] == code]
    return voters.places[chosen], code


def _column_shares(model: Fitted, points: Points, places: IndexArray) -> dict[str, float]:
    """Return the share of each column in the squared distances from a row to others; they sum to 1."""
    if points.coordinates is not None:
        return {}
    L = model.map.astype(np.float64)
    others = model.encoder.encoded(model.rows.points.plain[places])
    differences = (model.encoder.encoded(points.plain) - others).astype(np.float64)
    return distance_shares(differences, L, model.encoder.feature_groups())


def _line_parts(model: Fitted, points: Points, predicted: int | None) -> dict[str, float]:
    """Return what each column adds to the line's score of a class over the mean of the others, or to its number."""
    assert model.line is not None, "a model without a line is asked for its parts"
    slopes = model.line.slopes.astype(np.float64)
    if predicted is None:
        slope = slopes[:, 0]
    else:
        others = np.delete(slopes, predicted, axis=1)
        slope = slopes[:, predicted] - (others.mean(axis=1) if others.shape[1] else 0.0)
    training = model.rows.points.plain
    mean = model.encoder.encoded(training[:: max(1, len(training) // 5_000)]).mean(axis=0, dtype=np.float64)
    parts = slope * (model.encoder.encoded(points.plain)[0] - mean)
    return {name: float(parts[columns].sum()) for name, columns in model.encoder.feature_groups().items()}


def _largest(values: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(values.items(), key=lambda pair: -abs(pair[1]))[:_SHOWN]


def _shown(value: object) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    return f"{value:.5g}" if isinstance(value, float) else str(value)

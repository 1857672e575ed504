"""Predictions of a few rows that a model has not seen, and why one of them is what it is."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from mahala.data.preprocessing import TablePreprocessor
from mahala.evaluation.cross_validation.leaderboard import Leaderboard
from mahala.neighbors.model import NeighborModel
from mahala.neighbors.reasons import Reasons
from mahala.support.arrays import IndexArray
from mahala.support.limits import time_limit

# Rows that are shown.
_SHOWN = 5


class Example(NamedTuple):
    """A row by its number, what is predicted, with which probability if it is a class, and what it really is."""

    row: int
    predicted: Any
    probability: float | None
    actual: Any


@dataclass(frozen=True)
class Examples:
    """Predictions of a model that was fitted to the first training part, and reasons for the first of them.

    The rows are from the least certain to the most certain one, or from the smallest predicted number to the largest.
    """

    name: str
    n_fitted: int
    examples: tuple[Example, ...]
    reasons: Reasons

    def heading(self) -> str:
        """Return what the predictions are, in a sentence."""
        order = "the least certain first" if self.examples[0].probability is not None else "the smallest first"
        return f"{self.name}, fitted to {self.n_fitted:,} rows, predicts others, {order}:"

    def cells(self) -> list[list[str]]:
        """Return the heading and the cells of a table."""
        classes = self.examples[0].probability is not None
        lines = [["row", "predicted", *(["probability"] if classes else []), "actual"]]
        for own in self.examples:
            share = [] if own.probability is None else [f"{100.0 * own.probability:.0f} %"]
            lines.append([f"{own.row}", _text(own.predicted), *share, _text(own.actual)])
        return lines


def examples_of(
    X: Any,
    y: Any,
    model: NeighborModel,
    leaderboard: Leaderboard,
    *,
    names: Mapping[str, list[int]] | None = None,
    preprocessor: TablePreprocessor | None = None,
    numbers: IndexArray | None = None,
    seconds: float | None = None,
) -> Examples:
    """Fit a model to the first training part of a comparison, and predict some rows of its test part.

    Parameters
    ----------
    X, y : features of all rows and what is predicted, as they were compared
    names : the numbers of the features of each column; None for feature numbers
    preprocessor : what made X, if it was a table
    numbers : of the rows in their file, if some of its rows were left out
    seconds : time after which the fit stops early
    """
    assert leaderboard.first_part is not None, "rows were compared"
    train, test = leaderboard.first_part
    numbers = leaderboard.rows if numbers is None else numbers[leaderboard.rows]
    X, y = X[leaderboard.rows], np.asarray(y)[leaderboard.rows]
    rows, held_out = (X[train], X[test]) if preprocessor is None else preprocessor.refitted(X[train], X[test])
    with time_limit(seconds):
        fitted: Any = clone(model).fit(rows, y[train])
    predicted = fitted.predict(held_out)
    shares = fitted.predict_proba(held_out).max(axis=1) if fitted.is_classifier else None
    order = np.argsort(predicted if shares is None else shares, kind="stable")
    shown = order[np.unique(np.linspace(0, len(test) - 1, _SHOWN).round().astype(np.intp))]
    examples = [
        Example(int(numbers[test[at]]), predicted[at], None if shares is None else float(shares[at]), y[test[at]])
        for at in shown
    ]
    reasons = fitted.explain(held_out[shown[:1]])
    reasons = replace(reasons, rows=[(int(numbers[train[row]]), *others) for row, *others in reasons.rows])
    if names is not None:
        reasons = replace(reasons, columns=_by_column(reasons.columns, names), line=_by_column(reasons.line, names))
    return Examples(type(model).__name__, len(train), tuple(examples), reasons)


def _by_column(values: Mapping[str, float], names: Mapping[str, list[int]]) -> dict[str, float]:
    """Return the sums of what features x0, x1, ... have over the columns that they are of."""
    sums = {name: sum(values.get(f"x{j}", 0.0) for j in features) for name, features in names.items()}
    return sums if all(name.startswith("x") for name in values) else dict(values)


def _text(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    return f"{value:.5g}" if isinstance(value, float) else str(value)

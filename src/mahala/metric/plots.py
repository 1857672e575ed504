"""Rows in two dimensions, and what distances consist of: numbers for pictures, and the pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mahala.comparisons import Comparisons, Pairs
from mahala.data.labels import is_continuous
from mahala.support import plots
from mahala.support.arrays import BoolArray, FloatArray, IndexArray, RealArray, Rows, RowsLike
from mahala.support.validation import check_labels, is_sparse

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mahala.metric.mahalanobis import MahalanobisMetric

# Rows of which the weights of columns are computed, at most.
_MOST_WEIGHED = 5_000
# More answers could not be told apart in a picture.
_MOST_ANSWERS = 300


def leading_plane(rows: Rows) -> FloatArray:
    """Return rows in the two directions of their largest variance; the second is zero if there is only one."""
    n, d = rows.shape
    rows = rows.toarray() if is_sparse(rows) else np.asarray(rows)
    centred = rows.astype(np.float64) - rows.mean(axis=0)
    if d <= n:
        flat = centred @ np.linalg.eigh(centred.T @ centred)[1][:, :-3:-1]
    else:
        values, vectors = np.linalg.eigh(centred @ centred.T)
        flat = vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0.0))
    return np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))


def distance_shares(
    differences: FloatArray, L: FloatArray | None, groups: Mapping[str, Sequence[int]]
) -> dict[str, float]:
    """Return the share of each group of features in the mean squared length of differences that L maps, if it is given.

    The term of two features is divided between them. So shares sum to 1, and one may be negative.
    """
    terms = (differences * (differences if L is None else (differences @ L.T) @ L)).mean(axis=0)
    total = float(terms.sum()) or 1.0
    return {name: float(terms[list(features)].sum()) / total for name, features in groups.items()}


def row_differences(rows: Rows) -> FloatArray:
    """Return differences of some rows from their mean: the terms of their squares are those of two rows, halved."""
    rows = rows[:: max(1, rows.shape[0] // _MOST_WEIGHED)]
    rows = rows.toarray() if is_sparse(rows) else np.asarray(rows, dtype=np.float64)
    return np.asarray(rows - rows.mean(axis=0))


def column_weights(metric: MahalanobisMetric, X: RowsLike | None) -> dict[str, float]:
    """Do the work of `MahalanobisMetric.column_weights`."""
    groups = {name: [j] for j, name in enumerate(metric._names())}
    groups = groups if metric.preprocessor is None else metric.preprocessor.feature_groups()
    if X is None:  # differences of one feature each
        return distance_shares(np.eye(metric.n_features_in), metric.components, groups)
    return distance_shares(row_differences(metric._rows(X, "X")), metric.components, groups)


def plot_map(
    metric: MahalanobisMetric, X: RowsLike, y: object, ax: Axes | Sequence[Axes] | None, names: Sequence[object] | None
) -> Axes:
    """Draw rows under the plain and the learned distance, or, into one axes, under the learned one."""
    rows = metric._rows(X, "X")
    n = rows.shape[0]
    if names is not None and len(names) != n:
        raise ValueError(f"names must have {n} names, one for each row of X, got {len(names)}")
    answers = y if isinstance(y, Comparisons) else None
    labels, classes = (None, None) if y is None or answers is not None else _labels(y, n)
    chosen = np.arange(n)
    if n > plots.MOST_POINTS and answers is None:
        chosen = np.sort(np.random.default_rng(0).choice(n, plots.MOST_POINTS, replace=False))
    plain, learned = leading_plane(rows[chosen]), leading_plane(rows[chosen] @ metric.components.T)
    learned *= np.where((plain * learned).sum(axis=0) < 0.0, -1.0, 1.0)  # both maps are seen from one side
    learner = str((metric.origin or {}).get("learner", "Learned metric"))
    panels = [("Plain distance", plain, True), (learner, learned, False)]
    places = plots.new_axes(2, 11.0, 4.8) if ax is None else list(ax) if isinstance(ax, Iterable) else [ax]
    for place, (title, points, is_plain) in zip(places, panels[-len(places) :], strict=True):
        if answers is not None:
            title += _draw_answers(place, points, metric.plain() if is_plain else metric, answers)
        codes, last = None if labels is None else labels[chosen], place is places[-1]
        plots.draw_points(place, points, codes, classes, label_name=getattr(y, "name", None), legend=last)
        place.set_title(title)
    for place, (_, points, _) in zip(places, panels[-len(places) :], strict=True):
        if names is not None:  # after legends, which move the points
            plots.write_names(place, points, [names[row] for row in chosen])
    return places[-1]


def _draw_answers(ax: Axes, points: FloatArray, metric: MahalanobisMetric, answers: Comparisons) -> str:
    """Draw lines between items that were said to be near; return how many of all answers the metric predicts.

    The threshold of pairs is the one that suits them best, and those that are dissimilar are drawn, too.
    """
    right = answers_hold(metric, answers)
    some, left, other = some_answers(answers)
    plots.draw_lines(ax, points, (left, other), right[some])
    return f": {right.mean():.0%} of the answers hold"


def answers_hold(metric: MahalanobisMetric, answers: Comparisons) -> BoolArray:
    """Return which answers a metric predicts; of pairs, with the threshold that suits them best."""
    if not isinstance(answers, Pairs):
        return np.asarray(metric.margins(answers) > 0.0)
    calibrated = metric.calibrate_threshold(answers)
    return np.asarray((calibrated.margins(answers) >= 0.0) == answers.similar)


def some_answers(answers: Comparisons) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Return the numbers of as many answers as a picture has room for, and the two items of each."""
    some = np.unique(np.linspace(0, len(answers) - 1, _MOST_ANSWERS).round().astype(np.intp))
    left, other = (getattr(answers, role)[some] for role in answers._names[:2])
    return some, left, other


def _labels(y: object, n: int) -> tuple[RealArray, RealArray | None]:
    """Return codes and classes, or numbers and None."""
    values = check_labels(y, n)
    if is_continuous(values):
        return values.astype(np.float64), None
    classes, codes = np.unique(values, return_inverse=True)
    return codes, classes

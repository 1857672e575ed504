"""The numbers of a report's charts, as they are written to its JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mahala.comparisons import Comparisons
from mahala.data.scaling import divided, feature_scales, unit_length
from mahala.engine import current_engine
from mahala.evaluation.cross_validation.entries import Entry
from mahala.evaluation.cross_validation.fitting import embedded
from mahala.evaluation.cross_validation.leaderboard import Leaderboard
from mahala.evaluation.cross_validation.panel import EUCLIDEAN, UNSUPERVISED
from mahala.metric import MahalanobisMetric, UnitRows
from mahala.metric.plots import answers_hold, leading_plane, some_answers
from mahala.support.arrays import BoolArray, FloatArray, IndexArray, IntArray
from mahala.support.validation import is_sparse

if TYPE_CHECKING:
    from mahala.support.arrays import Array


# More points would overlap too much, and pairs of more rows would not change the histograms.
_MOST_POINTS = 2000
_MOST_ROWS_OF_PAIRS = 600
MOST_PREDICTED = 1000
_MOST_LINES = 5
_MOST_CLASSES = 40
_NEIGHBOURS = 10
_LONGEST_NAME = 80
_BINS = 40
# Of the spectrum: the first directions are all drawn, of the others as many as can be told apart.
_HEAD = 30
_MOST_DIRECTIONS = 300


@dataclass(frozen=True, eq=False)
class Shown:
    """The learned metric that the figures show, and the rows, some of which were held out when it was fitted.

    Attributes
    ----------
    name : of the learner
    metric : fitted to the rows that are not held out
    final : fitted to all rows, for the spectrum and the weights
    X : the rows
    codes : the classes of the rows; None of numbers and of answers
    held_out : which rows are held out; None of answers
    numbers : of the rows in their file, if some of its rows were left out; else those that the leaderboard has
    names : of the rows, if they have any
    answers : what was compared, if it is answers; `metric` was fitted to all of them
    """

    name: str
    metric: MahalanobisMetric
    final: MahalanobisMetric
    X: Any
    codes: IndexArray | None
    held_out: BoolArray | None
    numbers: IndexArray | None = None
    names: Array | None = None
    answers: Comparisons | None = None


def errors_by_k(board: Leaderboard) -> dict[str, object]:
    """Return the errors by number of neighbours; the leading learners and the Euclidean distances are on at first."""
    framed = [*[entry for entry in board.ranked if entry.learned][:_MOST_LINES], board.euclidean]
    # A line far above the others would compress them.
    top = 1.5 * max(float(entry.errors.mean(axis=0).max()) for entry in framed)
    series = []
    for entry in board.ranked:
        errors = entry.errors.mean(axis=0)
        on = entry in framed or (not entry.learned and float(errors.min()) <= top)
        series.append({"name": entry.name, "plain": not entry.learned, "on": on, "errors": _rounded(errors)})
    counts, at = board.neighbor_counts.tolist(), board.n_neighbors
    return {"counts": counts, "at": at, "series": series, "measure": board.measure.replace(f"{at}-NN", "k-NN")}


def drawn_classes(board: Leaderboard) -> IndexArray:
    """Return the classes that are drawn, in their order: all, or those with the most errors or else the most rows."""
    confusion = board.euclidean.confusion
    key = np.array(board.class_counts) if confusion is None else confusion.sum(axis=1) - confusion.diagonal()
    return np.sort(np.argsort(-key, kind="stable")[:_MOST_CLASSES])


def errors_by_class(board: Leaderboard, drawn: IndexArray, name: str) -> dict[str, object]:
    """Return the sizes of classes and their errors; the reference and the learner `name` are on at first."""
    entries = []
    for entry, matrix in _confusions(board):
        errors = 1.0 - matrix.diagonal()[drawn] / np.maximum(matrix.sum(axis=1)[drawn], 1)
        on = entry.name == name or entry is board.euclidean
        entries.append({"name": entry.name, "plain": not entry.learned, "on": on, "errors": _rounded(errors)})
    names = [board.classes[code] for code in drawn]
    counts = board.class_counts
    return {"names": names, "counts": [counts[code] for code in drawn], "total": sum(counts), "entries": entries}


def confusions(board: Leaderboard, drawn: IndexArray, name: str) -> dict[str, object]:
    """Return the confusion matrices of all entries; that of the learner `name` is the first to be seen."""
    entries = []
    for entry, matrix in _confusions(board):
        cells, totals = matrix[np.ix_(drawn, drawn)].ravel(), matrix.sum(axis=1)[drawn]
        entries.append({"name": entry.name, "cells": cells.tolist(), "totals": totals.tolist()})
    first = next((at for at, entry in enumerate(entries) if entry["name"] == name), 0)
    return {"names": [board.classes[code] for code in drawn], "first": first, "entries": entries}


def _confusions(board: Leaderboard) -> list[tuple[Entry, IntArray]]:
    return [(entry, entry.confusion) for entry in board.ranked if entry.confusion is not None]


def predictions(board: Leaderboard, numbers: IndexArray) -> dict[str, object] | None:
    """Return true and predicted numbers of some rows, whose numbers in the file are given; None of classes.

    The models come first, then the winner, the best learner and the plain distance. The best is the first to be seen.
    """
    metrics = dict.fromkeys(entry for entry in (board.winner, board.best_learner, board.euclidean) if entry is not None)
    errors = {entry.name: entry.error for entry in (*board.models, *metrics)}
    predicted = {name: values for name, values in board.predictions().items() if name in errors}
    if board.targets is None or not predicted:
        return None
    names = [name for name in errors if name in predicted]
    tested = np.isfinite(np.stack(list(predicted.values()))).all(axis=0)
    chosen = _some(np.flatnonzero(tested), MOST_PREDICTED, np.random.default_rng(board.random_state))
    return {
        "first": min(range(len(names)), key=lambda at: errors[names[at]]),
        "rows": numbers[chosen].tolist(),
        "truth": _rounded(board.targets[chosen]),
        "entries": [{"name": name, "predicted": _rounded(predicted[name][chosen])} for name in names],
    }


@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """Distances, places and neighbours of rows under the plain distance and under the learned one."""

    pairs: list[dict[str, object]]  # of classes
    plane: dict[str, object]
    n_held_out: int  # rows whose pairs are in the histograms
    n_points: int
    spread: bool  # whether rows were spread because they overlap


def before_and_after(board: Leaderboard, shown: Shown) -> BeforeAfter:
    """Compare the best plain distance with the learned one."""
    before, after = _plain_rows(board, shown), shown.metric.transform(shown.X)
    # Those that vote, so that the page has one k; answers have none.
    k = board.n_neighbors or board[shown.name].n_neighbors or _NEIGHBOURS
    rng = np.random.default_rng(board.random_state)
    held_out = np.zeros(len(before), dtype=bool) if shown.held_out is None else shown.held_out
    rows = _some(np.flatnonzero(held_out), _MOST_ROWS_OF_PAIRS, rng)
    lines = None if shown.answers is None else _answer_lines(board, shown)
    points = _some(np.arange(len(before)), _MOST_POINTS, rng)
    if lines is not None:  # items with answers first
        others = np.setdiff1d(points, lines[:2])[: max(0, _MOST_POINTS - len(np.unique(lines[:2])))]
        points = np.union1d(lines[:2], others)
    pairs: list[dict[str, object]] = []
    panels, spreads = [], []
    for title, mapped in ((f"before: {board.euclidean.name}", before), (f"after: {shown.name}", after)):
        if shown.codes is not None:
            similar, dissimilar = _distances(mapped[rows], shown.codes[rows])
            median = float(np.median(np.concatenate([similar, dissimilar]))) or 1.0
            pairs.append({"title": title, **_histograms(similar / median, dissimilar / median)})
        places, spread = _spread(leading_plane(mapped)[points], rng)
        spreads.append(spread)
        places = (places - places.min(axis=0)) / (float(np.ptp(places, axis=0).max()) or 1.0)
        neighbours, distances = _neighbours(mapped, points, k)
        if shown.codes is None:
            median = float(np.median(distances)) or 1.0
        x, y = places.round(4).T.tolist()
        near = {"neighbours": neighbours.ravel().tolist(), "distances": (distances.ravel() / median).round(3).tolist()}
        panels.append({"title": title, "x": x, "y": y, **near})
    numbers = np.arange(len(before)) if shown.answers is not None else board.rows
    numbers = numbers if shown.numbers is None else shown.numbers
    plane = {
        "classes": board.classes,
        "rows": None if np.array_equal(numbers, np.arange(len(numbers))) else numbers.tolist(),
        "codes": None if shown.codes is None else shown.codes.tolist(),
        "values": None if board.targets is None else _rounded(board.targets),
        "names": None if shown.names is None else [str(name)[:_LONGEST_NAME] for name in shown.names],
        "answers": None if lines is None else [part.tolist() for part in lines],
        "points": points.tolist(),
        "held_out": None if shown.held_out is None else shown.held_out[points].astype(int).tolist(),
        "panels": panels,
    }
    return BeforeAfter(pairs, plane, len(rows), len(points), any(spreads))


def _plain_rows(board: Leaderboard, shown: Shown) -> Array:
    """Return the rows whose Euclidean distances are the best plain ones."""
    X, plain = shown.X, board.euclidean
    if shown.answers is not None:
        X = unit_length(X) if plain.unit_rows else X
    elif plain.name != EUCLIDEAN:
        assert shown.held_out is not None, "rows were held out"
        learned_from = np.flatnonzero(~shown.held_out)
        X = divided(X, feature_scales(X[learned_from], plain.scaling))
        if plain.name in UNSUPERVISED:
            X = embedded(plain.name, X[learned_from], None, X)[1]
    return X.toarray() if is_sparse(X) else np.asarray(X, dtype=np.float64)


def _answer_lines(board: Leaderboard, shown: Shown) -> tuple[IndexArray, IndexArray, IntArray, IntArray]:
    """Return both ends of some answers, and whether the plain and the learned distance predict each."""
    assert shown.answers is not None, "answers were compared"
    plain = MahalanobisMetric(np.eye(shown.X.shape[1]), steps=[UnitRows()] * board.euclidean.unit_rows)
    some, *ends = some_answers(shown.answers)
    before, after = (answers_hold(metric, shown.answers)[some].astype(int) for metric in (plain, shown.metric))
    return ends[0], ends[1], before, after


def spectrum(values: FloatArray) -> dict[str, object]:
    """Return the share of each eigenvalue in their sum, largest first, and the cumulative shares."""
    shares = np.maximum(values, 0.0) / (float(np.maximum(values, 0.0).sum()) or 1.0)
    thinned = np.geomspace(1, len(shares), _MOST_DIRECTIONS).round().astype(int)
    numbers = np.unique(np.concatenate([np.arange(1, min(len(shares), _HEAD) + 1), thinned]))
    drawn, sums = _rounded(shares[numbers - 1]), _rounded(np.cumsum(shares)[numbers - 1])
    return {"numbers": numbers.tolist(), "head": _HEAD, "shares": drawn, "cumulative": sums}


def _some(rows: IndexArray, most: int, rng: np.random.Generator) -> IndexArray:
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


def _rounded(values: FloatArray) -> list[float]:
    """Return numbers of four digits, which take less room."""
    return [float(f"{value:.4g}") for value in values]


def _distances(rows: Array, codes: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Return the distances of all pairs within a class, and of all other pairs."""
    from scipy.spatial.distance import pdist

    i, j = np.triu_indices(len(rows), 1)
    distances = pdist(rows) if rows.shape[1] else np.zeros(len(i))
    same = codes[i] == codes[j]
    return distances[same], distances[~same]


def _histograms(similar: FloatArray, dissimilar: FloatArray) -> dict[str, list[float]]:
    """Return shares of the pairs of each kind in bins; the last bin has those beyond it as well."""
    both = np.concatenate([similar, dissimilar])
    edges = np.linspace(0.0, max(float(np.quantile(both, 0.995)), 1e-9), _BINS + 1)
    shares = {
        kind: np.histogram(np.minimum(distances, edges[-1]), edges)[0] / max(len(distances), 1)
        for kind, distances in (("same", similar), ("other", dissimilar))
    }
    return {"edges": _rounded(edges), **{kind: _rounded(share) for kind, share in shares.items()}}


def _neighbours(mapped: Array, points: IndexArray, k: int) -> tuple[IndexArray, FloatArray]:
    """Return the k nearest other rows of each point, and their distances."""
    k = min(k, len(mapped) - 1)
    nearest, squared = current_engine().nearest(mapped, mapped[points], k + 1)
    is_self = nearest == points[:, None]
    is_self[~is_self.any(axis=1), -1] = True  # so many copies of a row that it is not among its nearest itself
    return nearest[~is_self].reshape(-1, k), np.sqrt(np.maximum(squared[~is_self], 0.0)).reshape(-1, k)


def _spread(points: Array, rng: np.random.Generator) -> tuple[Array, bool]:
    """Return the points, spread if they lie on a line or most of them coincide, and whether they were spread."""
    extent = float(np.ptp(points, axis=0).max()) or 1.0
    if np.ptp(points[:, 1]) <= 0.01 * extent:  # hardly more than one direction, as for LDA with two classes
        return points + np.array([0.0, 0.1 * extent]) * rng.uniform(-1.0, 1.0, (len(points), 1)), True
    distinct = len(np.unique((points / extent).round(6), axis=0))
    if 2 * distinct >= len(points):
        return points, False
    reach = 0.2 * extent / distinct**0.5  # less than half a cell of a grid, so that the grid stays visible
    return points + rng.uniform(-reach, reach, points.shape), True

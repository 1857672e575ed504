"""The fit: a map for each fold, one metric of all, the line and the trees, and the weights of the three."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from mahala.compiled.threads import in_threads, n_threads
from mahala.data.encoding import Encoder
from mahala.metric import MahalanobisMetric
from mahala.neighbors.fitted import Fitted, Rows
from mahala.neighbors.folds import deal, row_order
from mahala.neighbors.line import MOST_ROWS, final_line, left_out_lines, ridge
from mahala.neighbors.maps import MapFit, first_map, joined
from mahala.neighbors.mixture import best_weights, gain, mixed
from mahala.support.arrays import IndexArray, RealArray
from mahala.support.limits import out_of_time

# Of more rows, so many are drawn to learn from; all of them vote. Of these, so many are left out once.
MOST_LEARNED, MOST_LEFT_OUT = 100_000, 20_000
# Factors of a fixed metric, from which left-out votes choose.
FACTORS = 2.0 ** np.arange(-3.0, 3.25, 0.25)


class Settings(NamedTuple):
    """What a fit is asked for."""

    fixed_metric: MahalanobisMetric | None
    n_components: int
    linear: str | bool
    trees: str | bool
    seed: int


# Rows times classes from which the trees of the first fold decide whether those of the others are worth their time.
COSTLY = 10_000
# An expert of less weight is left out.
LEAST_WEIGHT = 0.01
Show = Callable[[int, float], None]
# The steps that are shown: four folds, the line and the trees.
N_STEPS = 6


def learn(
    rows: Rows, encoder: Encoder, settings: Settings, show: Show, starts: Sequence[RealArray] = ()
) -> tuple[Fitted, BaseException | None]:
    """Return what is learned from rows, and the Ctrl-C that ended it early, if any.

    The maps may begin at those of an earlier fit, which have not seen the rows of their folds.
    """
    rng = np.random.default_rng(settings.seed)
    more = np.empty(0, dtype=np.intp)  # rows that vote and are not learned from
    chosen = np.arange(len(rows))
    if len(chosen) > MOST_LEARNED:
        chosen, more = np.split(rng.permutation(len(chosen)), [MOST_LEARNED])
    voters, rows = rows.part(more), rows.part(chosen)
    encoded = encoder.encoded(rows.points.plain)
    order = row_order(encoded, rows.target.y)
    rows, encoded = rows.part(order), encoded[order]
    rows = replace(rows, folds=_folds(rows, rng))
    maps, votes, interrupt = _maps(rows, encoded, settings, starts, show, rng)
    L = joined(maps, settings.n_components) if settings.fixed_metric is None else np.mean(maps, axis=0)
    fitted = Fitted(encoder, settings.fixed_metric, rows, maps, L, settings.seed, left_out=votes)
    try:
        if interrupt is None and (rows.folds >= 0).any() and len(np.unique(rows.target.y)) > 1:
            mixing = _Mixing(fitted, votes)
            if settings.linear is not False:
                _add_line(mixing, encoded, always=settings.linear is True)
            show(N_STEPS - 1, 0.0)
            if settings.trees is not False and not out_of_time():
                _add_trees(mixing, always=settings.trees is True)
            show(N_STEPS, 0.0)
    except KeyboardInterrupt as error:
        interrupt = error
    if len(more):
        fitted = fitted.with_rows(voters.points, voters.target, voters.numbers)
    return fitted, interrupt


def _folds(rows: Rows, rng: np.random.Generator) -> IndexArray:
    """Return the fold of each row, -1 for those that are never left out; rows keep the folds of an earlier fit."""
    n, folds = len(rows), rows.folds.copy()
    new = np.flatnonzero(folds < 0)
    room = MOST_LEFT_OUT - (n - len(new))
    new = new if len(new) <= room else np.sort(rng.choice(new, max(room, 0), replace=False))
    groups = None if rows.groups is None else rows.groups[new]
    if not len(new) or n < 2:
        return folds
    n_folds = int(folds.max()) + 1
    if not n_folds:
        folds[new] = deal(len(new), groups, rng)
    elif groups is None or len(np.unique(groups)) > 1:
        folds[new] = deal(len(new), groups, rng) % n_folds
    else:
        folds[new] = rng.integers(n_folds)
    return folds


def _maps(
    rows: Rows,
    encoded: RealArray,
    settings: Settings,
    starts: Sequence[RealArray],
    show: Show,
    rng: np.random.Generator,
) -> tuple[list[RealArray], RealArray, BaseException | None]:
    """Return a map for each fold, what the others vote for its rows, and the Ctrl-C that ended it early, if any."""
    target, interrupt, maps = rows.target, None, []
    X, learned = (encoded, True) if rows.points.coordinates is None else (rows.points.coordinates, False)
    first = first_map(X, target.n_classes, rng, square=not learned)
    votes = np.full((len(X), max(target.n_classes, 1)), np.nan, dtype=np.float32)
    for fold in range(int(rows.folds.max()) + 1):
        part, rest = np.flatnonzero(rows.folds != fold), rows.in_fold(fold)
        fit = MapFit(X[part], target.part(part), X[rest], target.part(rest), settings.seed + fold)
        L = starts[fold] if learned and fold < len(starts) else first
        try:
            if interrupt is None:
                L = fit.learn(L, partial(show, fold)) if learned else _scaled(fit, L)
        except KeyboardInterrupt as error:
            interrupt = error
        maps.append(L)
        votes[rest] = fit.votes(L)
    return maps or [first], votes, interrupt


def _scaled(fit: MapFit, start: RealArray) -> RealArray:
    """Return the multiple of a map under which the rest is predicted best."""
    return min((start * np.float32(factor) for factor in FACTORS), key=fit.judge)


class _Mixing:
    """The experts that are mixed so far, and what each predicts for the rows that were left out."""

    def __init__(self, fitted: Fitted, votes: RealArray) -> None:
        self.fitted = fitted
        self.rated = np.flatnonzero(fitted.rows.folds >= 0)
        self._target = fitted.rows.target.part(self.rated)
        self._predictions, self._weights = [votes[self.rated]], [1.0]

    def add(self, predicted: RealArray, least: float) -> float | None:
        """Mix in an expert's predictions; return its weight, or None if the gain is below `least` standard errors."""
        before = mixed(self._predictions, self._weights, self._target)
        first, second = best_weights(before, predicted[self.rated], self._target)
        weights = [*(first * weight for weight in self._weights), second]
        predictions = [*self._predictions, predicted[self.rated]]
        after = mixed(predictions, weights, self._target)
        mean, error = gain(before, after, self._target)
        if not mean > least * error or (second < LEAST_WEIGHT and least > -np.inf):
            return None
        self._predictions, self._weights = predictions, weights
        self.fitted.left_out[self.rated] = after
        return second

    def promises(self, predicted: RealArray) -> bool:
        """Whether an expert gains half a standard error in the rows for which its predictions are known."""
        known = np.isfinite(predicted[self.rated, 0])
        target, before = self._target.part(known), mixed(self._predictions, self._weights, self._target)[known]
        both = [before, predicted[self.rated[known]]]
        mean, error = gain(before, mixed(both, best_weights(both[0], both[1], target), target), target)
        return mean > 0.5 * error

    @property
    def weights(self) -> list[float]:
        return self._weights


def _add_line(mixing: _Mixing, encoded: RealArray, *, always: bool) -> None:
    """Mix a line with the votes, unless it does not help what was left out."""
    fitted, target, folds = mixing.fitted, mixing.fitted.rows.target, mixing.fitted.rows.folds
    part = np.arange(len(encoded))
    if len(part) > MOST_ROWS:
        part = np.union1d(part[:: -(-len(part) // MOST_ROWS)], mixing.rated)
    rows, known = encoded[part], target.part(part)
    lines = left_out_lines(rows, known, folds[part])
    predicted = np.full_like(fitted.left_out, np.nan)
    for fold, line in enumerate(lines):
        rest = np.flatnonzero(folds == fold)
        predicted[rest] = line.predict(encoded[rest], target.n_classes)
    if mixing.add(predicted, -np.inf if always else 0.0) is not None:
        fitted.lines, fitted.weights = lines, (mixing.weights[0], mixing.weights[1], 0.0)
        start = np.mean([line.slopes for line in lines], axis=0)
        fitted.line = final_line(rows, known, lines[0].penalty, start) if target.n_classes else ridge(rows, known)


def _add_trees(mixing: _Mixing, *, always: bool) -> None:
    """Mix boosted trees with the other experts, unless they do not clearly help what was left out."""
    fitted, rows = mixing.fitted, mixing.fitted.rows
    fitted.tree_rows = np.ones(len(rows), dtype=bool)
    predicted, weight = np.full_like(fitted.left_out, np.nan), None
    costly = len(rows) * max(rows.target.n_classes, 1) > COSTLY

    def predict(fold: int) -> None:
        rest = rows.in_fold(fold)
        if not out_of_time():
            predicted[rest] = fitted.trees(fold).predict(rows.points.plain[rest], rows.target.n_classes)

    predict(0)
    if always or not costly or mixing.promises(predicted):
        in_threads(predict, range(1, fitted.n_folds), threads=n_threads())
    if np.isfinite(predicted[mixing.rated]).all():
        weight = mixing.add(predicted, -np.inf if always else 1.0)
    if weight is None:
        fitted.tree_rows = None
        fitted.forget_trees()
        return
    line = mixing.weights[1] if fitted.line is not None else 0.0
    fitted.weights = (mixing.weights[0], line, weight)
    fitted.trees()

"""The fit: a map for each fold, one metric of all, the line and the trees, and the weights of the three."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mahala.data.encoding import Encoder
from mahala.metric import MahalanobisMetric
from mahala.neighbors.fitted import Fitted
from mahala.neighbors.folds import deal
from mahala.neighbors.line import MOST_ROWS, final_line, left_out_lines
from mahala.neighbors.maps import MapFit, Target, first_map, joined
from mahala.neighbors.mixture import best_weights, gain, mixed
from mahala.support.arrays import FloatArray, IndexArray, RealArray
from mahala.support.contexts import out_of_time

# Of more rows, so many are drawn to learn from; all of them vote. Of these, so many are left out once.
MOST_LEARNED, MOST_LEFT_OUT = 100_000, 20_000
# Factors of a given metric, from which left-out votes choose.
FACTORS = 2.0 ** np.arange(-3.0, 3.25, 0.25)


class Rows(NamedTuple):
    """Rows to learn from, in the order of `row_order`."""

    encoder: Encoder
    given: MahalanobisMetric | None
    plain: FloatArray
    encoded: RealArray
    coordinates: RealArray | None
    target: Target
    numbers: IndexArray
    groups: IndexArray | None


class Settings(NamedTuple):
    """What a fit is asked for."""

    n_components: int
    linear: str | bool
    trees: str | bool
    seed: int


Show = Callable[[int, float], None]
# The steps that are shown: four folds, the line and the trees.
N_STEPS = 6


def learn(rows: Rows, settings: Settings, show: Show, start: RealArray | None = None) -> tuple[Fitted, Any]:
    """Return what is learned from rows, and the Ctrl-C that ended it early, if any; maps may begin at `start`."""
    rng = np.random.default_rng(settings.seed)
    n = len(rows.plain)
    chosen = np.arange(n) if n <= MOST_LEARNED else np.sort(rng.choice(n, MOST_LEARNED, replace=False))
    left_out = chosen if len(chosen) <= MOST_LEFT_OUT else np.sort(rng.choice(chosen, MOST_LEFT_OUT, replace=False))
    folds = np.full(n, -1)
    if len(left_out) > 1:
        folds[left_out] = deal(len(left_out), None if rows.groups is None else rows.groups[left_out], rng)
    maps, votes, interrupt = _maps(rows, folds, chosen, settings.seed, start, show, rng)
    L = joined(maps, settings.n_components) if rows.given is None else np.mean(maps, axis=0)
    fitted = Fitted(
        rows.encoder, rows.given, rows.plain, rows.coordinates, rows.target, rows.numbers, folds, maps, L,
        lines=[], line=None, tree_rows=None, weights=(1.0, 0.0, 0.0), seed=settings.seed, left_out=votes,
    )  # fmt: skip
    try:
        if interrupt is None and len(left_out) > 1:
            _add_line(fitted, rows, settings, chosen)
            show(N_STEPS - 1, 0.0)
            if not out_of_time():
                _add_trees(fitted, settings, chosen)
            show(N_STEPS, 0.0)
    except KeyboardInterrupt as error:
        interrupt = error
    return fitted, interrupt


def _maps(
    rows: Rows, folds: IndexArray, chosen: IndexArray, seed: int, start: RealArray | None, show: Show, rng: Any
) -> tuple[list[RealArray], RealArray, BaseException | None]:
    """Return a map for each fold, what the others vote for its rows, and the Ctrl-C that ended it early, if any."""
    target, interrupt, maps = rows.target, None, []
    X = rows.encoded if rows.coordinates is None else rows.coordinates
    first = first_map(X[chosen], target.n_classes, rng, square=rows.given is not None)
    if start is None or start.shape[1] != first.shape[1]:
        start = first
    votes = np.full((len(X), max(target.n_classes, 1)), np.nan, dtype=np.float32)
    for fold in range(int(folds.max()) + 1):
        part, rest = chosen[folds[chosen] != fold], np.flatnonzero(folds == fold)
        fit = MapFit(X[part], target.part(part), X[rest], target.part(rest), seed + fold)
        L = start
        try:
            if interrupt is None:
                # The variable of the loop is bound as a default.
                L = fit.learn(start, lambda loss, fold=fold: show(fold, loss)) if rows.given is None else _scaled(fit, start)  # type: ignore[misc]
        except KeyboardInterrupt as error:
            interrupt = error
        maps.append(L)
        votes[rest] = fit.votes(L)
    return maps or [start], votes, interrupt


def _scaled(fit: MapFit, start: RealArray) -> RealArray:
    """Return the multiple of a map under which the rest is predicted best."""
    return min((start * np.float32(factor) for factor in FACTORS), key=fit.judge)


def _add_line(fitted: Fitted, rows: Rows, settings: Settings, chosen: IndexArray) -> None:
    """Mix a line with the votes, unless it is not wanted or does not help what was left out."""
    if settings.linear is False:
        return
    target, folds = fitted.target, fitted.folds
    part = chosen if len(chosen) <= MOST_ROWS else np.union1d(chosen[:: -(-len(chosen) // MOST_ROWS)], np.flatnonzero(folds >= 0))
    lines = left_out_lines(rows.encoded[part], target.part(part), folds[part])
    rated = np.flatnonzero(folds >= 0)
    predicted = np.full_like(fitted.left_out, np.nan)
    for fold, line in enumerate(lines):
        rest = np.flatnonzero(folds == fold)
        predicted[rest] = line.predict(rows.encoded[rest], target.n_classes)
    weights = _mix(fitted, predicted, rated, settings.linear is True, least=0.0)
    if weights is not None:
        fitted.lines, fitted.weights = lines, (*weights, 0.0)
        fitted.line = final_line(rows.encoded[part], target.part(part), lines[0].penalty)


def _add_trees(fitted: Fitted, settings: Settings, chosen: IndexArray) -> None:
    """Mix boosted trees with the other experts, unless they are not wanted or do not clearly help what was left out."""
    if settings.trees is False:
        return
    rated = np.flatnonzero(fitted.folds >= 0)
    predicted = np.full_like(fitted.left_out, np.nan)
    fitted.tree_rows = np.zeros(len(fitted.plain), dtype=bool)
    fitted.tree_rows[chosen] = True
    for fold in range(fitted.n_folds):
        rest = np.flatnonzero(fitted.folds == fold)
        predicted[rest] = fitted.trees(fold).predict(fitted.plain[rest], fitted.target.n_classes)
        if out_of_time():
            break
    else:
        weights = _mix(fitted, predicted, rated, settings.trees is True, least=1.0)
        if weights is not None:
            fitted.weights = (*(weights[0] * weight for weight in fitted.weights[:2]), weights[1])
            fitted.trees()
            return
    fitted.tree_rows = None
    fitted.forget_trees()


def _mix(
    fitted: Fitted, predicted: RealArray, rated: IndexArray, always: bool, least: float
) -> tuple[float, float] | None:
    """Mix left-out predictions with those so far; return the weights, or None if the gain is too small.

    least : the least gain, in its standard errors
    """
    target, before = fitted.target.part(rated), fitted.left_out[rated]
    weights = best_weights(before, predicted[rated], target)
    after = mixed([before, predicted[rated]], weights, target)
    mean, error = gain(before, after, target)
    if not always and not mean > least * error:
        return None
    fitted.left_out[rated] = after
    return weights

"""Models that predict, over many sets of rows: the order of rows, weights, files, rows that come and go, and coverage.

A case fits `NeighborClassifier` or `NeighborRegressor` to made-up rows, and changes what must not matter.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

import mahala
from mahala import NeighborClassifier, NeighborRegressor

from .runner import Failed
from .values import Rng, chance, pick

AMOUNT, SHORT = 3_000, 5  # cases
CPU_SECONDS = 240.0
# The share of fresh rows that sets and intervals of a level must hold at least, and the probability of a false alarm.
_SHORT_OF, _ALARM = 0.05, 1e-6
_NEAR = 1e-5


def n_cases(amount: int) -> int:
    return amount


def prepare(amount: int) -> None:
    """Compile what the models need."""
    for kind in (NeighborClassifier, NeighborRegressor):
        X, y = _rows(np.random.default_rng(0), 60, kind, plain=True)
        model = kind(trees=False).fit(X, y)
        model.predict(X)
        model.neighbors(X[:2])


def _rows(rng: Rng, n: int, kind: Any, *, plain: bool = False, gaps: bool = True) -> tuple[Any, Any]:
    """Rows as an array or a data frame with gaps and words, and classes or numbers that depend on them."""
    d = int(rng.integers(2, 6))
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
    target = X[:, 0] + np.abs(X[:, 1]) + rng.uniform(0.2, 1.0) * rng.normal(size=n)
    y: Any = target * 10.0 ** rng.uniform(-3, 3)
    if kind is NeighborClassifier:
        codes = np.digitize(target, np.quantile(target, np.linspace(0.0, 1.0, int(rng.integers(2, 5)) + 1)[1:-1]))
        y = codes if chance(rng, 0.5) else np.array(["ash", "elm", "fir", "oak"])[codes]
    if plain or chance(rng, 0.5):
        return X, y
    frame = pd.DataFrame({f"f{j}": X[:, j] for j in range(d)})
    frame["word"] = np.where(X[:, 0] > 0.5, "red", np.where(rng.random(n) < 0.5, "blue", "green"))
    if gaps:
        frame.loc[rng.random(n) < 0.1, "f1"] = np.nan
    return frame, y


def _part(X: Any, rows: Any) -> Any:
    return X.iloc[rows].reset_index(drop=True) if isinstance(X, pd.DataFrame) else X[rows]


def _seen(model: Any, X: Any) -> np.ndarray:
    """What a model predicts: probabilities, or numbers in units of their deviation."""
    if isinstance(model, NeighborClassifier):
        return np.asarray(model.predict_proba(X))
    return np.asarray(model.predict(X)) / model._unit


def _compare(got: np.ndarray, expected: np.ndarray, what: str, near: float = _NEAR) -> None:
    off = float(np.abs(got - expected).max())
    if not off <= near:
        raise Failed(f"{what}: predictions are off by {off:.2g}")


def run(case: int, seed: int, amount: int) -> int:
    rng = np.random.default_rng([seed, case])
    kind = pick(rng, (NeighborClassifier, NeighborRegressor))
    return _CHECKS[case % len(_CHECKS)](rng, kind)


def _model(rng: Rng, kind: Any) -> Any:
    return kind(
        int(rng.integers(1, 20)), n_bins=int(rng.integers(2, 10)), linear=pick(rng, ("auto", True, False)),
        trees=bool(chance(rng, 0.1)),
    )  # fmt: skip


def _order(rng: Rng, kind: Any) -> int:
    n = int(rng.integers(60, 150))
    (X, y), model = _rows(rng, n, kind), _model(rng, kind)
    expected, order = _seen(model.fit(X, y), X), rng.permutation(n)
    _compare(_seen(model.fit(_part(X, order), y[order]), X), expected, f"{model!r}, rows in another order")
    return 1


def _weights(rng: Rng, kind: Any) -> int:
    """Whole weights are repeats of a row, and zero is its absence; but not for what fills gaps of a data frame."""
    n = int(rng.integers(60, 120))
    (X, y), model = _rows(rng, n, kind, gaps=False), _model(rng, kind)
    weights = rng.integers(0, 3, size=n)
    weights[np.unique(y, return_index=True)[1] if kind is NeighborClassifier else [0]] = 1
    there = _part(X, np.flatnonzero(weights))
    weighted = _seen(model.fit(X, y, sample_weight=weights), there)
    if len(model.rows_) != np.count_nonzero(weights):
        raise Failed(f"{model!r}: rows of weight zero vote, or others do not")
    repeated = np.repeat(np.arange(n), weights)
    _compare(_seen(model.fit(_part(X, repeated), y[repeated]), there), weighted, f"{model!r}, weights as repeats")
    return 1


def _files(rng: Rng, kind: Any) -> int:
    (X, y), model = _rows(rng, int(rng.integers(30, 120)), kind), _model(rng, kind)
    model.fit(X, y)
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        paths = [Path(folder, name) for name in ("one", "two")]
        model.save(paths[0])
        loaded = mahala.load(paths[0])
        loaded.save(paths[1])
        if paths[0].read_bytes() != paths[1].read_bytes():
            raise Failed(f"{model!r}: saving, loading and saving again gives other bytes")
    _compare(_seen(loaded, X), _seen(model, X), f"{model!r}, loaded", 0.0)
    for mine, other in zip(model.neighbors(X, k=3), loaded.neighbors(X, k=3), strict=True):
        if not np.array_equal(mine, other):
            raise Failed(f"{model!r}: other rows vote after loading")
    return 1


def _rows_that_come_and_go(rng: Rng, kind: Any) -> int:
    """After `forget` of what was added, votes are those of before."""
    n, n_more = int(rng.integers(40, 120)), int(rng.integers(1, 30))
    X, y = _rows(rng, n + n_more, kind)
    if kind is NeighborClassifier:
        n = max(n, 1 + int(np.unique(y, return_index=True)[1].max()))  # classes must be there from the first
    model = _model(rng, kind).set_params(trees=False)
    first, later = np.arange(n), np.arange(n, n + n_more)
    model.fit(_part(X, first), y[first])
    before, votes = _seen(model, X), model.neighbors(X, k=4)
    added = _part(X, later)
    if len(later):
        model.add(added, y[later])
        if not np.isin(later, model.rows_).all():
            raise Failed(f"{model!r}: rows that were added do not vote")
        if not np.isfinite(_seen(model, X)).all():
            raise Failed(f"{model!r}: predictions with more rows are not finite")
        model.forget(rng.permutation(later))
    # The line is fitted again.
    near = _NEAR if model.linear is False else 1e-2
    _compare(_seen(model, X), before, f"{model!r}, rows that were added and forgotten", near)
    rows, shares = model.neighbors(X, k=4)
    if not np.allclose(shares, votes[1], atol=_NEAR):
        raise Failed(f"{model!r}: shares of votes are others after rows were added and forgotten")
    if np.isin(rows, later).any():
        raise Failed(f"{model!r}: rows that were forgotten vote")
    return 1


def _coverage(rng: Rng, kind: Any) -> int:
    """Of fresh rows, sets and intervals hold nearly as many as they say."""
    n, n_fresh, level = int(rng.integers(150, 400)), 1_000, pick(rng, (0.8, 0.9, 0.95))
    X, y = _rows(rng, n + n_fresh, kind)
    model = _model(rng, kind)
    model.fit(_part(X, np.arange(n)), y[:n])
    fresh, truth = _part(X, np.arange(n, n + n_fresh)), y[n:]
    if kind is NeighborClassifier:
        sets = model.predict_set(fresh, level)
        held = sets[np.arange(n_fresh), np.searchsorted(model.classes_, truth)]
        if not sets.any(axis=1).all():
            raise Failed(f"{model!r}: a prediction set is empty")
    else:
        ends = model.predict_interval(fresh, level)
        held = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    # The share that a model holds differs from fit to fit, as Beta(level n, (1 - level) n) does.
    least = level - _SHORT_OF - 3.0 * np.sqrt(level * (1.0 - level) / n)
    if held.sum() < binom.ppf(_ALARM, n_fresh, least):
        raise Failed(f"{model!r}: {held.mean():.3f} of the rows are held at level {level}")
    return 1


_CHECKS = (_order, _weights, _files, _rows_that_come_and_go, _coverage)

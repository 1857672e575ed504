"""The interval of a verdict holds the true gain as often as it says, on made-up data of which the gain is known.

A case draws many data sets. Three in four judge made-up values of candidates that all gain the same; the others run
`compare` on rows, with the gain of the same metrics on many fresh rows as the truth.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

import mahala
from mahala.evaluation.compare import compare
from mahala.judge import judge

from .runner import Failed
from .values import Rng, chance

AMOUNT, SHORT = 200, 1  # cases of so many data sets:
MADE_UP, OF_ROWS = 100, 20
CPU_SECONDS = 300.0
# The share that intervals of 95 % must hold, and the probability of a false alarm in a case.
SHARE, ALARM = 0.93, 1e-6
# On rows of a table, fresh rows judge one metric, and the folds several from four fifths of the rows.
SHARE_OF_ROWS = 0.85
_FRESH, _DIMENSIONS = 2_000, 6


def n_cases(amount: int) -> int:
    return amount


def prepare(amount: int) -> None:
    """Compile what comparisons need."""
    if amount > SHORT:
        _of_rows(np.random.default_rng(0))


def run(case: int, seed: int, amount: int) -> int:
    rng = np.random.default_rng([seed, case])
    of_rows = case % 4 == 3
    n, share = (OF_ROWS, SHARE_OF_ROWS) if of_rows else (MADE_UP, SHARE)
    n = n if amount > SHORT else 20
    covered = sum((_of_rows if of_rows else _made_up)(rng) for _ in range(n))
    if covered < binom.ppf(ALARM, n, share):
        raise Failed(f"{covered} of {n} intervals hold the true gain, {'of rows' if of_rows else 'of made-up values'}")
    return n


def _made_up(rng: Rng) -> bool:
    """Whether the interval holds the gain of candidates that gain the same, so that any choice of them has it."""
    n, n_candidates, n_repeats = int(rng.integers(60, 300)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
    gain = rng.uniform(0.02, 0.3)
    values = np.empty((n_repeats, n, 1 + n_candidates))
    if chance(rng, 0.5):  # rows are right or wrong, more or less alike for all candidates
        ease = rng.random(size=(1, n, 1))
        same = ease + 0.0 * values
        same[rng.random(same.shape) < 0.3] = np.nan
        draws = np.where(np.isnan(same), rng.random(size=same.shape), same)
        plain = rng.uniform(0.3, 0.95 - gain)
        values[...] = draws < np.concatenate([[plain], np.full(n_candidates, plain + gain)])
    else:
        values[...] = rng.normal(size=(1, n, 1)) + rng.uniform(0.1, 1.0) * rng.normal(size=values.shape)
        values[:, :, 1:] += gain
    folds = np.array([rng.permutation(np.arange(n) % 5) for _ in range(n_repeats)])
    verdict = judge(values, folds, measure="accuracy", units="rows").verdict
    return verdict.low <= gain <= verdict.high


def _of_rows(rng: Rng) -> bool:
    """Whether the interval of `compare` holds the gain on fresh rows, of a learner that may leave noise out."""
    n, noise = int(rng.integers(90, 200)), rng.uniform(1.0, 4.0)

    def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.permutation(np.arange(n) % 3)
        X = rng.normal(size=(n, _DIMENSIONS)) * ([1.0, 1.0] + [noise] * (_DIMENSIONS - 2))
        X[:, :2] += 2.0 * np.eye(3)[y][:, :2]
        return X, y

    X, y = rows(n)
    learners = {"LDA": mahala.LDA()}
    options = {"scaling": "none", "n_neighbors": 3, "baselines": False, "budget": None, "repeats": 2, "metric": "error"}
    verdict = compare(X, y, learners, random_state=int(rng.integers(999)), **options).verdict
    X_fresh, y_fresh = rows(_FRESH)
    learned = mahala.LDA().fit(X, y).metric_
    plain = mahala.MahalanobisMetric.euclidean(_DIMENSIONS)
    errors = [np.mean(_votes(metric, X, y, X_fresh) != y_fresh) for metric in (plain, learned)]
    return verdict.low <= errors[0] - errors[1] <= verdict.high


def _votes(metric: mahala.MahalanobisMetric, X: np.ndarray, y: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """The class of most of the three nearest rows, or of the nearest one if each says another."""
    near = y[np.argsort(metric.pairwise(fresh, X), axis=1)[:, :3]]
    counts = (near[:, :, np.newaxis] == np.arange(3)).sum(axis=1)
    return np.where(counts.max(axis=1) > 1, counts.argmax(axis=1), near[:, 0])

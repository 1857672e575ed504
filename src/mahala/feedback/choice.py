"""Which expert to use, by cross-validation over judged queries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mahala.evaluation.statistics import paired_gains
from mahala.feedback.gains import ROUNDING, CrossValidation, Gain
from mahala.feedback.judged import Averaged, Search, expert_values
from mahala.support.arrays import FloatArray, IndexArray

# A map is used if its cross-validated gain is above 0 by so many standard errors.
SEEN = 1.0


def choose(
    search: Search,
    learned: Callable[[IndexArray], Averaged],
    experts: FloatArray,
    folds: int,
    k: int,
    rng: np.random.Generator,
) -> tuple[int, Gain | None, CrossValidation]:
    """Return the number of the best expert, its gain in nDCG@k, and the values by query.

    Expert 0 is the raw ranking, for which there is no gain. `learned(rows)` learns from queries.
    """
    n = len(search.queries)
    fold_of = rng.permutation(n) % folds
    values = np.empty((n, len(experts)))
    for fold in range(folds):
        test = np.flatnonzero(fold_of == fold)
        model = learned(np.flatnonzero(fold_of != fold))
        values[test] = expert_values(search, test, model, experts, k)
    gains = values - values[:, :1]
    gains[np.abs(gains) < ROUNDING] = 0.0  # equal rankings differ by rounding
    # The gain of the choice is honest where the choice is made on the other folds.
    honest = np.empty(n)
    for fold in range(folds):
        honest[fold_of == fold] = values[fold_of == fold, _best(gains[fold_of != fold])]
    found = paired_gains((honest - values[:, 0])[:, np.newaxis], 2000, 0.95, rng)[0]
    chosen = _best(gains)
    gain = Gain(f"nDCG@{k}", found.mean, found.low, found.high, n) if chosen else None
    return chosen, gain, CrossValidation(search.rows, values[:, 0], honest)


def _best(gains: FloatArray) -> int:
    """Return the expert with the largest mean gain, or the raw ranking unless that gain is above its standard error."""
    means = gains.mean(axis=0)
    best = int(means.argmax())
    error = float(gains[:, best].std(ddof=1)) / np.sqrt(len(gains)) if len(gains) > 1 else np.inf
    return best if means[best] > SEEN * error else 0

"""Signals of results from another engine: their checks, and the weighted sum that is added to the engine's score."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mahala_search.adapter.memory.bonuses import Bonus, Keys, limited_order
from mahala_search.arrays import Arrays, FloatArray, IndexArray

# The most signals, the score of the engine included.
SIGNALS = 32
# Deviations from the mean of a page count up to this many spreads, so that one outlier does not decide a page.
CLIP = 3.0
# Larger numbers are refused: their squares overflow.
LARGEST = 1e100

Signals = dict[str, FloatArray]


def check_signals(signals: Any, n: int) -> Signals:
    """Return the signals of n results as arrays in which NaN is a missing value."""
    if not isinstance(signals, Mapping):
        raise TypeError(f"signals must be a mapping from names to numbers, got {type(signals).__name__}")
    if "score" not in signals:
        raise ValueError("signals must have 'score', the scores by which the engine ranks (larger is better), got none")
    if "similarity" in signals:
        raise ValueError("signals must not have 'similarity', the name of the score by vectors: use another name")
    if len(signals) > SIGNALS:
        raise ValueError(f"signals must have at most {SIGNALS} names, got {len(signals)}")
    arrays = {}
    for name, values in signals.items():
        if not isinstance(name, str):
            raise TypeError(f"signals must have names that are strings, got {name!r:.80}")
        try:
            array = np.asarray(values, dtype=np.float64)  # None becomes NaN
        except (TypeError, ValueError):
            raise ValueError(f"signals[{name!r}] must be numbers or None, got {values!r:.80}") from None
        if array.shape != (n,):
            raise ValueError(f"signals[{name!r}] must have one number for each of {n} results, got {array.shape}")
        if (np.abs(array) > LARGEST).any() or (name == "score" and np.isnan(array).any()):
            missing = "" if name == "score" else ", or None where missing"
            raise ValueError(f"signals[{name!r}] must be numbers from -1e100 to 1e100{missing}, got {values!r:.80}")
        arrays[name] = array
    return arrays


class SignalWeights(NamedTuple):
    """The names of signals, "score" first, the weight of each, and its usual spread within a page.

    A signal of a result is its difference from the mean of the page in usual spreads, clipped to ±3; a missing value
    is 0. The score of a result is the engine's own, in usual spreads, plus the weighted sum of its signals.

    >>> weights = SignalWeights(["score", "fresh"], np.array([0.0, 2.0]), np.array([1.0, 10.0]))
    >>> weights.scores({"score": np.array([2.0, 1.0, 0.0]), "fresh": np.array([5.0, 25.0, np.nan])})
    array([-1.,  2., -1.])
    """

    names: Sequence[str]
    weights: FloatArray
    spreads: FloatArray

    def standardised(self, signals: Signals) -> tuple[FloatArray, FloatArray]:
        """Return the score of the engine in usual spreads, and a clipped column of each signal."""
        columns = np.zeros((len(signals["score"]), len(self.names)))
        for at, name in enumerate(self.names):
            values = signals.get(name)
            if values is not None and not np.isnan(values).all():
                columns[:, at] = np.nan_to_num((values - np.nanmean(values)) / self.spreads[at])
        return columns[:, 0].copy(), np.clip(columns, -CLIP, CLIP)

    def scores(self, signals: Signals) -> FloatArray:
        """Return the scores of the results."""
        base, features = self.standardised(signals)
        return np.asarray(base + features @ self.weights)

    def rank(self, signals: Signals, similarity: FloatArray, bonus: Bonus, keys: Keys) -> tuple[IndexArray, FloatArray]:
        """Return the numbers of the results, best first, and their scores in that order.

        Parameters
        ----------
        similarity : of each result, NaN where it is missing
        bonus, keys : what is remembered for the query, added to the similarity, and the keys of the results
        """
        added, is_held = bonus.of_items(keys)
        plain, scores = (self.scores(signals | {"similarity": similarity + more}) for more in (0.0, added))
        order = limited_order(plain, scores, is_held)
        return order, scores[order]

    def to_arrays(self) -> Arrays:
        """Return all of it as arrays."""
        names = np.frombuffer(json.dumps(list(self.names)).encode(), dtype=np.uint8)
        return {"names": names, "weights": self.weights, "spreads": self.spreads}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "SignalWeights":
        """Return what `to_arrays` was called on."""
        return cls(json.loads(arrays["names"].tobytes()), arrays["weights"], arrays["spreads"])


# The order of the engine.
ENGINE = SignalWeights(["score"], np.zeros(1), np.ones(1))

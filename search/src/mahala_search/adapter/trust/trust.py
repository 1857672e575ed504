"""How much of learned signals is used: exponential weights over mixtures with the engine's order, judged by pages."""

import numpy as np

from mahala import ModelFileError
from mahala.extend import Array, Number, Stateful
from mahala_search.arrays import FloatArray, PagePairs

# An expert scores an item by raw + α (learned - raw); these are the α.
SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


def page_pairs(reactions: FloatArray) -> PagePairs:
    """Return the numbers of the better and the worse result of each pair on a page, and its weight from 0 to 1.

    >>> page_pairs(np.array([0.0, 2.0, 1.0]))
    (array([1, 1, 2]), array([0, 2, 0]), array([1. , 0.5, 0.5]))
    """
    shares = reactions / (np.abs(reactions).max() or 1.0)  # so that no difference overflows
    differences = shares[:, np.newaxis] - shares
    better, worse = np.nonzero(differences > 0.0)
    weights: FloatArray = differences[better, worse] / (differences.max() or 1.0)
    return better, worse, weights


def page_losses(scores: FloatArray, pairs: PagePairs) -> FloatArray:
    """Return for each column of scores the share of pairs in the wrong order; equal scores count half."""
    better, worse, weights = pairs
    ahead = scores[better] - scores[worse]
    return np.asarray(weights @ ((ahead < 0.0) + 0.5 * (ahead == 0.0)) / weights.sum())


def mixtures(cap: float) -> FloatArray:
    """Return the shares of the scores by (raw, mean model, last model) of each expert; the first is the plain ranking.

    >>> mixtures(0.05)
    array([[1.  , 0.  , 0.  ],
           [0.98, 0.02, 0.  ],
           [0.95, 0.05, 0.  ],
           [0.98, 0.  , 0.02],
           [0.95, 0.  , 0.05]])
    """
    shares = np.unique(np.minimum(SHARES, cap)) if cap > 0.0 else np.empty(0)
    zeros = np.zeros_like(shares)
    learned = [np.column_stack([1.0 - shares, shares, zeros]), np.column_stack([1.0 - shares, zeros, shares])]
    return np.vstack([[1.0, 0.0, 0.0], *learned])


class Hedge(Stateful):
    """Exponential weights over experts whose losses are from 0 to 1; half the prior weight is on the first one.

    Before update t, the weights are in proportion to π_e exp(-η_t L_e), with the prior π, the loss L_e of an expert so
    far, η_t = sqrt(8 H / t) and H = max_e -ln π_e. Then for every sequence of losses, whoever chooses them and whatever
    was seen before, the weighted mean loss, summed over T updates, is at most

        L_e + sqrt(T) (-ln π_e / sqrt(8 H) + sqrt(H / 2))

    for every expert e. This is a bound on the loss of an expert drawn by the weights.
    """

    FIELDS = (Number("n", least=0.0), Array("losses", least=0.0))

    def __init__(self, n_experts: int) -> None:
        prior = np.full(n_experts, 0.5 / max(n_experts - 1, 1))
        prior[0] = 0.5 if n_experts > 1 else 1.0
        self._logs, self._H = np.log(prior), -float(np.log(prior.min()))
        self.losses = np.zeros(n_experts)
        self.n = 0.0

    def weights(self) -> FloatArray:
        """Return the weights of the experts for the next update."""
        logs = self._logs - np.sqrt(8.0 * self._H / (self.n + 1.0)) * self.losses
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    def update(self, losses: FloatArray, weight: float = 1.0) -> None:
        """Count the losses of the experts, with a weight from 0 to 1; T is the sum of the weights."""
        self.losses = self.losses + weight * losses
        self.n += weight

    def bound(self, expert: int) -> float:
        """Return the most by which the weighted mean loss can exceed that of an expert, over all updates so far."""
        if self._H == 0.0:
            return 0.0
        return float(np.sqrt(self.n) * (np.sqrt(self._H / 2.0) - self._logs[expert] / np.sqrt(8.0 * self._H)))

    def _check(self) -> None:
        if self.losses.max() > self.n * (1.0 + 1e-9):
            raise ModelFileError(f"'losses' should be at most the number of updates, {self.n}")

"""How far a learned map is trusted: exponential weights over mixtures of it with the raw scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from mahala.feedback.gains import Gain, RunningGain
from mahala.feedback.hedge import Hedge, mixtures, prior
from mahala.support.arrays import FloatArray, IndexArray
from mahala.support.model_files import header_value

# How fast trust moves: evidence from a query's first impression is rare and weighs much, so it moves trust slowly.
RATES = {"new": 0.5, "known": 1.0}
# The weight, in the prior after a choice, of all experts but the chosen one.
DOUBT = 1e-3


class Trust:
    """The weights of the experts, for queries that are new and for those that are known, and the gains seen so far.

    A row of `experts` has the shares of the raw scores, of the mean of all models and of the last model.
    """

    def __init__(self, cap: float, half_life: float | None) -> None:
        self.experts = mixtures(cap)
        self.hedges = {kind: Hedge(prior(len(self.experts)), rate, half_life) for kind, rate in RATES.items()}
        self._seen = {kind: RunningGain() for kind in RATES}

    def prefer(self, expert: int) -> None:
        """Begin with nearly all the weight on one expert."""
        for hedge in self.hedges.values():
            hedge.prior = prior(len(self.experts), expert, 1.0 - DOUBT)

    def shares(self, kind: str) -> FloatArray:
        """Return the shares of raw scores, mean and last model in what is served."""
        shares: FloatArray = self.hedges[kind].weights() @ self.experts
        return shares

    def judge(
        self, kind: str, scores: FloatArray, pairs: tuple[IndexArray, IndexArray, FloatArray], weight: float
    ) -> float:
        """Judge the experts by a page; return the share of its pairs that was served in the wrong order.

        `scores` has a column each of raw scores, those of the mean and those of the last model. `pairs` are the numbers
        of the better and the worse results and the weights of the pairs, and `weight` is that of the page.
        """
        positive, negative, weights = pairs
        hedge = self.hedges[kind]
        experts = scores @ self.experts.T
        gaps = np.column_stack([experts, experts @ hedge.weights()])
        gaps = gaps[positive] - gaps[negative]
        losses = weights @ ((gaps < 0.0) + 0.5 * (gaps == 0.0)) / weights.sum()
        hedge.update(losses[:-1], weight)
        self._seen[kind].add(float(losses[0] - losses[-1]))
        return float(losses[-1])

    def gains(self) -> dict[str, Gain]:
        """Return the gains over the raw ranking, where there were impressions."""
        return {kind: seen.gain() for kind, seen in self._seen.items() if seen.n}

    def get_state(self) -> dict[str, object]:
        """Return the state for the header of a model file."""
        hedges = {kind: hedge.get_state() for kind, hedge in self.hedges.items()}
        return {"hedges": hedges, "seen": {kind: list(mean) for kind, mean in self._seen.items()}}

    def set_state(self, header: dict[str, Any]) -> None:
        """Restore what `get_state` returned."""
        hedges, seen = (header_value(header, name, dict) for name in ("hedges", "seen"))
        for kind, hedge in self.hedges.items():
            hedge.set_state(header_value(hedges, kind, dict))
            self._seen[kind] = RunningGain(*header_value(seen, kind, list))

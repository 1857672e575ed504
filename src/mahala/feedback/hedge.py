"""Trust in what was learned: exponential weights over experts, among which the raw ranking always is."""

from __future__ import annotations

from typing import Any

import numpy as np

from mahala.support.arrays import FloatArray
from mahala.support.model_files import ModelFileError, header_value, number_value

# An expert scores an item by raw + α (learned - raw); these are the α.
SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


def mixtures(cap: float) -> FloatArray:
    """Return the shares of the scores by (raw, mean model, last model) of each expert; the first is the raw ranking.

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


def prior(n_experts: int, first: int = 0, weight: float = 0.5) -> FloatArray:
    """Return prior weights of the experts: `weight` for one of them, and the rest in equal parts."""
    weights = np.full(n_experts, (1.0 - weight) / max(n_experts - 1, 1))
    weights[first] = weight if n_experts > 1 else 1.0
    return weights


class Hedge:
    """Exponential weights over experts whose losses are from 0 to 1.

    Before update t, the weights are in proportion to π_e exp(-η_t L_e), with the prior π, the loss L_e of an expert so
    far, η_t = rate · sqrt(8 H / t) and H = max_e -ln π_e. Then for every sequence of losses, whoever chooses them and
    whatever was seen before, the weighted mean loss, summed over T updates, is at most

        L_e + sqrt(T) (-ln π_e / (rate sqrt(8 H)) + rate sqrt(H / 2))

    for every expert e. This is a bound on the loss of an expert drawn by the weights; it needs `half_life` None. With
    a half-life losses are discounted, and T is the discounted number of updates; no bound is claimed then.
    """

    def __init__(self, prior: FloatArray, rate: float, half_life: float | None = None) -> None:
        self.prior = prior
        self.rate = rate
        self.discount = 1.0 if half_life is None else 0.5 ** (1.0 / half_life)
        self.losses = np.zeros(len(prior))
        self.n = 0.0

    def weights(self) -> FloatArray:
        """Return the weights of the experts for the next update."""
        H = -np.log(self.prior.min())
        eta = self.rate * np.sqrt(8.0 * H / (self.n + 1.0))
        logs = np.log(self.prior) - eta * self.losses
        weights: FloatArray = np.exp(logs - logs.max())
        weights /= weights.sum()
        return weights

    def update(self, losses: FloatArray, weight: float = 1.0) -> None:
        """Count the losses of the experts, with a weight from 0 to 1; T is the sum of the weights."""
        self.losses = self.discount * self.losses + weight * losses
        self.n = self.discount * self.n + weight

    def bound(self, expert: int) -> float:
        """Return the most by which the weighted mean loss can exceed that of an expert, over all updates so far."""
        H = -np.log(self.prior.min())
        if H == 0.0:
            return 0.0
        own = -np.log(self.prior[expert]) / (self.rate * np.sqrt(8.0 * H))
        return float(np.sqrt(self.n) * (own + self.rate * np.sqrt(H / 2.0)))

    def get_state(self) -> dict[str, object]:
        """Return the state for the header of a model file."""
        return {"prior": self.prior.tolist(), "losses": self.losses.tolist(), "n": self.n}

    def set_state(self, header: dict[str, Any]) -> None:
        """Restore what `get_state` returned."""
        prior, losses = (np.array(header_value(header, name, list), dtype=np.float64) for name in ("prior", "losses"))
        if prior.shape != self.prior.shape or losses.shape != prior.shape:
            raise ModelFileError(f"'prior' and 'losses' should have {len(self.prior)} numbers each")
        if not (np.isfinite(losses).all() and (losses >= 0.0).all() and (prior > 0.0).all() and prior.sum() < 1.5):
            raise ModelFileError("'losses' should be at least 0, and 'prior' should be positive weights")
        n = number_value(header, "n", least=0.0)
        if losses.max() > n * (1.0 + 1e-9):
            raise ModelFileError(f"'losses' should be at most the number of updates, {n}")
        self.prior, self.losses, self.n = prior, losses, n

"""How much of what was learned is used: exponential weights over mixtures with the raw scores, judged by pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import numpy as np

from mahala.feedback.gains import RunningGain
from mahala.judge import Verdict
from mahala.support.arrays import Arrays, FloatArray, IndexArray
from mahala.support.model_files import ModelFileError, finite_array, header_value, number_value
from mahala.support.states import prefixed, without_prefix

# An expert scores an item by raw + α (learned - raw); these are the α.
SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
# An expert with a memory scores an item by raw + λ times its net clicks times the usual difference between the raw
# scores on a page; these are the λ.
REMEMBERED = (0.3, 0.6, 1.2)
# How fast trust moves: evidence from a query's first impression is rare and weighs much, so it moves trust slowly.
RATES = {"new": 0.5, "known": 1.0}
# The prior weight of the raw ranking. A map has seen few queries, and must show more before new ones are served by it.
RAW = {"new": 0.8, "known": 0.5}
# What is added to the loss of every expert but the raw ranking: clicks that mean nothing make all experts lose alike.
PENALTY = 0.02
# The weight, in the prior after a choice, of all experts but the chosen one.
DOUBT = 1e-3

PagePairs = tuple[IndexArray, IndexArray, FloatArray]


def page_pairs(reactions: FloatArray, bias: Literal["skip-above"] | float | None) -> PagePairs:
    """Return the numbers of the better and the worse result of each pair on a page, and its weight from 0 to 1.

    Parameters
    ----------
    reactions : a number per result, from the top of the page; larger ones are better
    bias : the correction for positions of :class:`mahala.QueryAdapter`
    """
    values = reactions / (np.abs(reactions).max() or 1.0)  # whose differences do not overflow
    gaps = values[:, np.newaxis] - values
    above = gaps > 0.0
    if bias == "skip-above":
        above = np.tril(above)
    better, worse = np.nonzero(above)
    weights = gaps[better, worse] / (values.max() - values.min() or 1.0)
    if bias is not None and not isinstance(bias, str):
        weights = weights * ((better + 1.0) / len(values)) ** float(bias)
    some = weights > 0.0
    return better[some], worse[some], weights[some]


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


def family_prior(n_experts: int, n_maps: int, raw: float) -> FloatArray:
    """Return prior weights of the raw ranking, of maps and of memories; the two families have equal ones in sum.

    >>> family_prior(7, 5, 0.5)
    array([0.5   , 0.0625, 0.0625, 0.0625, 0.0625, 0.125 , 0.125 ])
    """
    families = [np.full(n, 1.0 / n) for n in (n_maps - 1, n_experts - n_maps) if n]
    return np.concatenate([[raw if families else 1.0], *((1.0 - raw) / len(families) * part for part in families)])


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
        start = -np.log(self.prior[expert]) / (self.rate * np.sqrt(8.0 * H))
        return float(np.sqrt(self.n) * (start + self.rate * np.sqrt(H / 2.0)))

    def get_state(self) -> tuple[dict[str, object], Arrays]:
        """Return the state as a header and arrays for a model file."""
        return {"n": self.n}, {"prior": self.prior, "losses": self.losses}

    def set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Restore what `get_state` returned."""
        prior, losses = (finite_array(arrays, name, self.prior.shape) for name in ("prior", "losses"))
        if not ((losses >= 0.0).all() and (prior > 0.0).all() and prior.sum() < 1.5):
            raise ModelFileError("'losses' should be at least 0, and 'prior' should be positive weights")
        n = number_value(header, "n", least=0.0)
        if losses.max() > n * (1.0 + 1e-9):
            raise ModelFileError(f"'losses' should be at most the number of updates, {n}")
        self.prior, self.losses, self.n = prior, losses, n


class Trust:
    """The weights of the experts, for queries that are new and for those that are known, and the gains so far.

    A row of `experts` has the shares of the raw scores, of the mean of all models and of the last model, and the
    weight of remembered clicks. The experts with a memory come last; new queries have none.
    """

    def __init__(self, cap: float, half_life: float | None) -> None:
        maps = mixtures(cap)
        self.cap = cap
        self.n_maps = len(maps)
        memory = np.array([(1.0, 0.0, 0.0, cap * weight) for weight in REMEMBERED])
        self.experts = np.vstack([np.pad(maps, ((0, 0), (0, 1))), memory if cap > 0.0 else memory[:0]])
        n = {"new": self.n_maps, "known": len(self.experts)}
        self.hedges = {
            kind: Hedge(family_prior(n[kind], self.n_maps, RAW[kind]), rate, half_life) for kind, rate in RATES.items()
        }
        self._gains = {kind: RunningGain() for kind in RATES}

    def prefer(self, expert: int) -> None:
        """Begin with nearly all the weight on one expert."""
        for hedge in self.hedges.values():
            hedge.prior = prior(len(hedge.prior), expert, 1.0 - DOUBT)

    def shares(self, kind: str, *, remembered: bool = True) -> FloatArray:
        """Return the weights of the four kinds of scores in what is served; without the memory, of the maps alone."""
        weights = self.hedges[kind].weights()
        if not remembered:
            weights = weights[: self.n_maps] / weights[: self.n_maps].sum()
        shares: FloatArray = weights @ self.experts[: len(weights)]
        return shares

    def judge(self, kind: str, scores: FloatArray, pairs: PagePairs, weight: float) -> float:
        """Judge the experts by a page; return the share of its pairs that was served in the wrong order.

        `scores` has a column for each of the four kinds of scores; `weight` is that of the page.
        """
        positive, negative, weights = pairs
        hedge = self.hedges[kind]
        experts = scores @ self.experts[: len(hedge.prior)].T
        gaps = np.column_stack([experts, experts @ hedge.weights()])
        gaps = gaps[positive] - gaps[negative]
        losses = weights @ ((gaps < 0.0) + 0.5 * (gaps == 0.0)) / weights.sum()
        penalised = np.minimum(losses[:-1] + PENALTY, 1.0)
        penalised[0] = losses[0]
        hedge.update(penalised, weight)
        self._gains[kind].add(float(losses[0] - losses[-1]))
        return float(losses[-1])

    def learned_share(self, kind: str) -> float:
        """Return the share of what was learned, by a map or a memory, in what is served."""
        weights = self.hedges[kind].weights()
        maps, memories = weights[: self.n_maps], weights[self.n_maps :]
        return float(maps @ (1.0 - self.experts[: self.n_maps, 0]) + self.cap * memories.sum())

    def verdicts(self) -> dict[str, Verdict]:
        """Return the verdicts on the gains over the raw ranking, where there were impressions."""
        return {kind: sums.verdict(self.learned_share(kind)) for kind, sums in self._gains.items() if sums.n}

    def _parts(self) -> dict[str, Part]:
        hedges: dict[str, Part] = {f"hedge_{kind}": hedge for kind, hedge in self.hedges.items()}
        return hedges | {f"gain_{kind}": running for kind, running in self._gains.items()}

    def get_state(self) -> tuple[dict[str, object], Arrays]:
        """Return the state as a header and arrays for a model file."""
        return packed(self._parts())

    def set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Restore what `get_state` returned."""
        unpack(self._parts(), header, arrays)


class Part(Protocol):
    """A part of an adapter whose state is in the model file."""

    def get_state(self) -> tuple[dict[str, object], Arrays]: ...

    def set_state(self, header: dict[str, Any], arrays: Arrays) -> None: ...


def packed(parts: Mapping[str, Part]) -> tuple[dict[str, object], Arrays]:
    """Return the states of parts by name as a header, and as arrays whose names begin with that of their part."""
    header: dict[str, object] = {}
    arrays: Arrays = {}
    for name, part in parts.items():
        header[name], entries = part.get_state()
        arrays |= prefixed(name, entries)
    return header, arrays


def unpack(parts: Mapping[str, Part], header: Mapping[str, object], arrays: Arrays) -> None:
    """Restore the states of parts from what `packed` returned."""
    for name, part in parts.items():
        part.set_state(header_value(header, name, dict), without_prefix(name, arrays))

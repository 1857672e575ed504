"""How much of what was learned is used: exponential weights over mixtures with the raw scores, judged by pages."""

import math
from typing import Literal

import numpy as np

from mahala import ModelFileError
from mahala.evaluation import Verdict
from mahala.extend import Array, Number, Part, Stateful
from mahala_search.arrays import FloatArray, IndexArray
from mahala_search.compiled import pages
from mahala_search.compiled.pages import exponential_weights, judge_page
from mahala_search.quality.gains import RunningGain

# An expert scores an item by raw + α (learned - raw); these are the α.
SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
# How fast trust moves. For new queries it rests on one impression of each query: by that alone, a map that makes new
# queries worse is hardly told from one that makes them better.
RATES = {"new": 0.25, "supported": 0.25, "known": 1.0}
# The prior weight of the first expert. So new queries are served 4 % of a map of which nothing is known, and 15 % of
# one that known queries support.
FIRST = {"new": 0.9, "supported": 0.6, "known": 0.75}
# Known queries support the map if it has this share of their pairs more in the right order than the plain ranking, by
# the lower end of the 95 % interval. That was at most 0.05 for the clicks of benchmarks/known_queries.py.
SUPPORT = 0.06
# What is added to the losses of all experts but the first: by random clicks, all lose alike, and clicks on pages that
# an expert ranked favour this expert.
PENALTIES = {"new": 0.0, "supported": 0.0, "known": 0.06}
# Remembered clicks do not count up to the first certainty that clicks repeat, and count most from the second one on:
# then a click adds this many usual differences of scores on a page.
CERTAINTY, CLICK_WEIGHT = (3.0, 8.0), 0.8
# They count fully if they put more pairs on pages in the right order than the map alone, by this many standard errors,
# and not at all without such a gain. This is measured with at least the second weight.
SURE, TRIED = 2.0, 0.2
# The certainty before the first page, as if pages had been seen whose squares have this sum; and the least sum.
BELIEF, PAGES, LEAST = 4.1, 2.5, 1e-12
# The weight, in the prior after a choice, of all experts but the chosen one.
DOUBT = 1e-3

_NOTHING = np.zeros(0)

PagePairs = tuple[IndexArray, IndexArray, FloatArray]


def page_pairs(reactions: FloatArray, bias: Literal["skip-above"] | float | None) -> PagePairs:
    """Return the numbers of the better and the worse result of each pair on a page, and its weight from 0 to 1.

    Parameters
    ----------
    reactions : a number per result, from the top of the page; larger ones are better
    bias : the correction for positions of :class:`mahala_search.QueryAdapter`
    """
    eta = 0.0 if bias is None or isinstance(bias, str) else float(bias)
    return pages.page_pairs(np.ascontiguousarray(reactions), bias == "skip-above", eta)


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


def prior(n_experts: int, first: int = 0, weight: float = 0.5) -> FloatArray:
    """Return prior weights of the experts: `weight` for one of them, and the rest in equal parts."""
    weights = np.full(n_experts, (1.0 - weight) / max(n_experts - 1, 1))
    weights[first] = weight if n_experts > 1 else 1.0
    return weights


class Hedge(Stateful):
    """Exponential weights over experts whose losses are from 0 to 1.

    Before update t, the weights are in proportion to π_e exp(-η_t L_e), with the prior π, the loss L_e of an expert so
    far, η_t = rate · sqrt(8 H / t) and H = max_e -ln π_e. Then for every sequence of losses, whoever chooses them and
    whatever was seen before, the weighted mean loss, summed over T updates, is at most

        L_e + sqrt(T) (-ln π_e / (rate sqrt(8 H)) + rate sqrt(H / 2))

    for every expert e. This is a bound on the loss of an expert drawn by the weights; it needs `half_life` None. With
    a half-life losses are discounted, and T is the discounted number of updates; no bound is claimed then.
    """

    FIELDS = (Number("n", least=0.0), Array("prior"), Array("losses"))

    def __init__(self, prior: FloatArray, rate: float, half_life: float | None = None) -> None:
        self.set_prior(prior)
        self.rate = rate
        self.discount = 1.0 if half_life is None else 0.5 ** (1.0 / half_life)
        self.losses = np.zeros(len(prior))
        self.n = 0.0

    def set_prior(self, prior: FloatArray) -> None:
        """Set the prior weights of the experts."""
        self.prior, self.logs = prior, np.log(prior)
        self._H = -float(self.logs.min())

    def weights(self) -> FloatArray:
        """Return the weights of the experts for the next update."""
        return exponential_weights(self.logs, self.eta, self.losses)

    @property
    def eta(self) -> float:
        """The η of the next update."""
        return self.rate * math.sqrt(8.0 * self._H / (self.n + 1.0))

    def update(self, losses: FloatArray, weight: float = 1.0) -> None:
        """Count the losses of the experts, with a weight from 0 to 1; T is the sum of the weights."""
        self.losses = self.discount * self.losses + weight * losses
        self.count(weight)

    def count(self, weight: float) -> None:
        """Count an update whose losses were added to `losses`."""
        self.n = self.discount * self.n + weight

    def bound(self, expert: int) -> float:
        """Return the most by which the weighted mean loss can exceed that of an expert, over all updates so far."""
        if self._H == 0.0:
            return 0.0
        start = -self.logs[expert] / (self.rate * np.sqrt(8.0 * self._H))
        return float(np.sqrt(self.n) * (start + self.rate * np.sqrt(self._H / 2.0)))

    def _check(self) -> None:
        if not ((self.losses >= 0.0).all() and (self.prior > 0.0).all() and self.prior.sum() < 1.5):
            raise ModelFileError("'losses' should be at least 0, and 'prior' should be positive weights")
        if self.losses.max() > self.n * (1.0 + 1e-9):
            raise ModelFileError(f"'losses' should be at most the number of updates, {self.n}")
        self.set_prior(self.prior)


class Repeats(Stateful):
    """How surely the clicks on items repeat for the same query, and so how much a remembered click counts.

    For each page, `ClickMemory.learn` says how far its clicks agree with earlier ones. If clicks had nothing to do with
    the items, these numbers would be 0 on average. `certainty` is their sum in standard errors of that; at first it is
    that of pages with the sum of squares `PAGES`.

    >>> repeats = Repeats(None)
    >>> round(repeats.certainty, 2), round(repeats.click_weight, 2)
    (4.1, 0.18)
    >>> for _ in range(20):
    ...     repeats.add(0.5)
    >>> round(repeats.certainty, 2), round(repeats.click_weight, 2)
    (6.02, 0.48)
    """

    FIELDS = (Number("sum"), Number("squares", least=LEAST))

    def __init__(self, half_life: float | None) -> None:
        self.discount = 1.0 if half_life is None else 0.5 ** (1.0 / half_life)
        self.sum, self.squares = BELIEF * math.sqrt(PAGES), PAGES

    def add(self, agreement: float) -> None:
        """Count a page."""
        self.sum = self.discount * self.sum + agreement
        self.squares = max(self.discount**2 * self.squares + agreement**2, LEAST)

    @property
    def certainty(self) -> float:
        """The sum in standard errors."""
        return self.sum / math.sqrt(self.squares)

    @property
    def click_weight(self) -> float:
        """What a remembered click adds to the score of an item, in usual differences of scores on a page."""
        none, full = CERTAINTY
        return CLICK_WEIGHT * min(max((self.certainty - none) / (full - none), 0.0), 1.0)


class Trust(Stateful):
    """The weights of the experts, for queries that are new and for those that are known, and the gains so far.

    New queries have two sets of weights: one for impressions before which known queries support the map, and one for
    the others. Each is updated by its own impressions, so that the bound of `Hedge` holds for each of them.

    A row of `experts` has the shares of the raw scores, of the mean of all models and of the last model. For known
    queries, remembered clicks add to that as far as `repeats` and their gain on pages support it.
    """

    FIELDS = (Part("hedge"), Part("_gain"), Part("_support"), Part("_memory_gain"), Part("repeats"))

    def __init__(self, cap: float, half_life: float | None) -> None:
        self.experts = mixtures(cap)
        n = len(self.experts)
        self.hedge = {name: Hedge(prior(n, 0, FIRST[name]), rate, half_life) for name, rate in RATES.items()}
        self._gain = {kind: RunningGain() for kind in ("new", "known")}
        self.cap, self.repeats = cap, Repeats(half_life)
        self._memory_gain = RunningGain()
        self._support = RunningGain()  # of the mean of all models, on known queries

    def prefer(self, expert: int) -> None:
        """Begin with nearly all the weight on one expert."""
        for hedge in self.hedge.values():
            hedge.set_prior(prior(len(self.experts), expert, 1.0 - DOUBT))

    def _name(self, kind: str) -> str:
        """Return the name of the weights by which a new or a known query is served now."""
        return "supported" if kind == "new" and self._support.low > SUPPORT else kind

    def shares(self, kind: str) -> FloatArray:
        """Return the shares of raw scores, mean and last model in what is served."""
        shares: FloatArray = self.hedge[self._name(kind)].weights() @ self.experts
        return shares

    @property
    def click_weight(self) -> float:
        """What a remembered click adds to the score of an item, in usual differences of scores on a page."""
        gain = self._memory_gain
        is_sure = min(max(gain.mean / (SURE * gain.error), 0.0), 1.0) if 0.0 < gain.error < math.inf else 1.0
        return self.cap * is_sure * self.repeats.click_weight

    def judge(
        self,
        kind: str,
        scores: FloatArray,
        remembered: FloatArray | None,
        pairs: PagePairs,
        weight: float,
        corrected: tuple[FloatArray, float],
    ) -> float:
        """Judge the experts by a page; return the share of its pairs that was served in the wrong order.

        Parameters
        ----------
        kind : "new" or "known"
        scores : columns of raw scores, those of the mean and those of the last model
        remembered : net clicks of each result, in usual differences of scores on a page; for known queries only
        pairs : of results on the page
        weight : that of the page
        corrected : weights of the pairs, corrected for positions, by which experts are judged; and their sum, as a
            share of what it was
        """
        name, certainty = self._name(kind), weight * corrected[1]
        hedge = self.hedge[name]
        click_weight = self.click_weight
        raw, mapped, loss, gain = judge_page(
            scores, _NOTHING if remembered is None else remembered, *pairs, corrected[0], self.experts, hedge.logs,
            hedge.eta, hedge.losses, PENALTIES[name], click_weight, max(click_weight, self.cap * TRIED), hedge.discount,
            certainty,
        )  # fmt: skip
        hedge.count(certainty)
        if remembered is not None:
            self._memory_gain.add(certainty * gain)
        self._gain[kind].add(raw - loss)
        if kind == "known":
            self._support.add(weight * (raw - mapped))
        return loss

    def learned_share(self, kind: str) -> float:
        """Return the share of the learned map in what is served."""
        return float(1.0 - self.shares(kind)[0])

    def verdicts(self) -> dict[str, Verdict]:
        """Return the verdicts on the gains over the plain ranking, where there were impressions."""
        return {kind: sums.verdict(self.learned_share(kind)) for kind, sums in self._gain.items() if sums.n}

"""SignalRanker: weights of signals that are learned from clicks, and used as far as they improve the engine's order."""

import numpy as np
from scipy.special import expit

from mahala import ModelFileError
from mahala.extend import Array, Part, Stateful, Texts
from mahala_search.adapter.trust.pairs import page_losses
from mahala_search.adapter.trust.signals import SIGNALS, Signals, SignalWeights
from mahala_search.arrays import FloatArray, PagePairs
from mahala_search.quality.gains import RunningGain

# The length of the first step; later ones are in proportion to 1 / sqrt(pages).
STEP = 0.15
# What the gain on a page is less: by random clicks, the engine's order and a learned one lose alike.
PENALTY = 0.03
# The spread of a signal is that of about this many last pages.
WINDOW = 1000

# Columns of the state of each signal: its weight, the sum of squared gradients, the mean variance within a page, and
# the pages with a variance, at most WINDOW.
WEIGHT, SQUARES, VARIANCE, PAGES = range(4)


class SignalRanker(Stateful):
    """Weights of named signals, learned from clicks, and used as far as the order of the engine is improved.

    The score is that of `SignalWeights`. For each page of which a result was clicked, the weights take one AdaGrad step
    on the mean logistic loss of its pairs. Before that, the page tests them: the gain is the share of pairs that they
    have in order, less that of the engine, less 0.03. The weights are used as far as the mean gain is certain: not at
    all up to a quarter of its standard error, wholly from two standard errors on.

    >>> ranker = SignalRanker(1.0)
    >>> page = {"score": np.array([2.0, 1.0, 0.0]), "fresh": np.array([0.0, 1.0, np.nan])}
    >>> for _ in range(100):
    ...     ranker.learn(page, (np.array([1, 1]), np.array([0, 2]), np.ones(2)))
    >>> int(ranker.served().scores(page).argmax())
    1
    """

    FIELDS = (Texts("names"), Part("gain"), Array("table", shape=lambda state: (len(state.names), 4)))

    def __init__(self, cap: float) -> None:
        self.cap = cap
        self.gain = RunningGain()
        self.names = ["score", "similarity"]
        self.table = np.zeros((2, 4))

    def learn(self, signals: Signals, pairs: PagePairs, weight: float = 1.0) -> None:
        """Test the weights by a page, then take a step.

        Parameters
        ----------
        signals : numbers of each result by name, NaN where missing; "score" has none missing
        pairs : of results on the page, as `page_pairs` returns them
        weight : that of the page
        """
        self._see(signals)
        better, worse, weights = pairs
        table = self.table
        base, features = SignalWeights(self.names, table[:, WEIGHT], self._spreads()).standardised(signals)
        scores = np.column_stack([base, base + features @ table[:, WEIGHT]])
        plain, learned = page_losses(scores, pairs)
        self.gain.add(weight * float(weights.mean()) * (plain - learned - PENALTY))
        margins = scores[better, 1] - scores[worse, 1]
        pulls = weight * weights * expit(-margins) / len(weights)
        gradient = pulls @ (features[better] - features[worse])
        table[:, SQUARES] += gradient**2
        table[:, WEIGHT] += STEP * gradient / np.sqrt(np.where(table[:, SQUARES] > 0.0, table[:, SQUARES], 1.0))

    def served(self) -> SignalWeights:
        """Return the weights that are served: what was learned, as far as it is used."""
        weights = self.cap * self.gain.share() * self.table[:, WEIGHT]
        return SignalWeights(list(self.names), weights, self._spreads())

    def check_room(self, signals: Signals) -> None:
        """Raise ValueError if there are new signals, and too many in all."""
        total = len({*self.names, *signals}) - 1  # the similarity does not count
        if total > SIGNALS:
            raise ValueError(f"signals must have at most {SIGNALS} names over all impressions, got {total}")

    def _see(self, signals: Signals) -> None:
        """Add the signals that are new, and count the variance of each on this page."""
        fresh = [name for name in signals if name not in self.names]
        self.names += fresh
        self.table = np.vstack([self.table, np.zeros((len(fresh), 4))])
        for name, values in signals.items():
            present = values[~np.isnan(values)]
            variance = float(present.var()) if len(present) else 0.0
            if variance > 0.0:
                row = self.table[self.names.index(name)]
                row[PAGES] = min(row[PAGES] + 1.0, WINDOW)
                row[VARIANCE] += (variance - row[VARIANCE]) / row[PAGES]

    def _spreads(self) -> FloatArray:
        spreads = np.sqrt(self.table[:, VARIANCE])
        return np.where(spreads > 0.0, spreads, 1.0)

    def _check(self) -> None:
        if self.names[:2] != ["score", "similarity"] or len(self.names) > SIGNALS + 1:
            raise ModelFileError(f"'names' should be up to {SIGNALS + 1}, and the first are 'score' and 'similarity'")
        if (self.table[:, SQUARES:] < 0.0).any():
            raise ModelFileError("'table' should have variances and counts of at least 0")

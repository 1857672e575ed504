"""SignalRanker: weights of signals that are learned from clicks, and used as far as they improve the engine's order."""

import numpy as np
from scipy.special import expit

from mahala import ModelFileError
from mahala.extend import Array, Number, Part, Stateful, Texts
from mahala_search.adapter.trust.signals import SIGNALS, Signals, SignalWeights
from mahala_search.adapter.trust.trust import Hedge, mixtures, page_losses
from mahala_search.arrays import FloatArray, PagePairs

# The length of the first step; later ones are in proportion to 1 / sqrt(pages).
STEP = 0.15
# What is added to the losses of all experts but the first: by random clicks, all lose alike.
PENALTY = 0.03
# The spread of a signal is that of about this many last pages.
WINDOW = 1000

# Columns of the state of each signal: its last weight, the sum of its weights over pages, the sum of squared gradients,
# the mean variance within a page, and the pages with a variance, at most WINDOW.
LAST, TOTAL, SQUARES, VARIANCE, PAGES = range(5)


class SignalRanker(Stateful):
    """Weights of named signals, learned from clicks, and used as far as the order of the engine is improved.

    The score is that of `SignalWeights`. For each page of which a result was clicked, the
    weights take one AdaGrad step on the mean logistic loss of its pairs. Before that, the page judges the experts of
    `mixtures`: the engine's order, and mixtures with the learned score by the mean and by
    the last weights. All but the first pay 0.03.

    >>> ranker = SignalRanker(1.0)
    >>> page = {"score": np.array([2.0, 1.0, 0.0]), "fresh": np.array([0.0, 1.0, np.nan])}
    >>> for _ in range(100):
    ...     ranker.learn(page, (np.array([1, 1]), np.array([0, 2]), np.ones(2)))
    >>> ranker.served().scores(page).argsort()[::-1]
    array([1, 0, 2])
    """

    FIELDS = (
        Texts("names"),
        Number("n_pages", least=0.0),
        Part("hedge"),
        Array("table", shape=lambda state: (len(state.names), 5)),
    )

    def __init__(self, cap: float) -> None:
        self.experts = mixtures(cap)
        self.hedge = Hedge(len(self.experts))
        self.names = ["score", "similarity"]
        self.table = np.zeros((2, 5))
        self.n_pages = 0.0

    def learn(self, signals: Signals, pairs: PagePairs, weight: float = 1.0) -> None:
        """Judge the experts by a page, then take a step.

        Parameters
        ----------
        signals : numbers of each result by name, NaN where missing; "score" has none missing
        pairs : of results on the page, as `page_pairs` returns them
        weight : that of the page
        """
        self._see(signals)
        better, worse, weights = pairs
        base, features = SignalWeights(self.names, self.table[:, LAST], self._spreads()).standardised(signals)
        columns = np.column_stack([base, *(base + features @ column for column in self._weights())])
        losses = page_losses(columns @ self.experts.T, pairs)
        losses[1:] = np.minimum(losses[1:] + PENALTY, 1.0)
        self.hedge.update(losses, weight * float(weights.mean()))
        margins = columns[better, 2] - columns[worse, 2]
        pulls = weight * weights * expit(-margins) / len(weights)
        gradient = pulls @ (features[better] - features[worse])
        table = self.table
        table[:, SQUARES] += gradient**2
        table[:, LAST] += STEP * gradient / np.sqrt(np.where(table[:, SQUARES] > 0.0, table[:, SQUARES], 1.0))
        table[:, TOTAL] += table[:, LAST]
        self.n_pages += 1.0

    def served(self) -> SignalWeights:
        """Return the weights that are served: those of the experts, weighted by trust."""
        _, mean, last = self.hedge.weights() @ self.experts
        means, lasts = self._weights()
        return SignalWeights(list(self.names), np.asarray(mean * means + last * lasts), self._spreads())

    def check_room(self, signals: Signals) -> None:
        """Raise ValueError if there are new signals, and too many in all."""
        total = len({*self.names, *signals}) - 1  # the similarity does not count
        if total > SIGNALS:
            raise ValueError(f"signals must have at most {SIGNALS} names over all impressions, got {total}")

    def _weights(self) -> tuple[FloatArray, FloatArray]:
        return self.table[:, TOTAL] / max(self.n_pages, 1.0), self.table[:, LAST]

    def _see(self, signals: Signals) -> None:
        """Add the signals that are new, and count the variance of each on this page."""
        fresh = [name for name in signals if name not in self.names]
        self.names += fresh
        self.table = np.vstack([self.table, np.zeros((len(fresh), 5))])
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

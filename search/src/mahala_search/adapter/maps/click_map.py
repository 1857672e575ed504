"""ClickMap: the map that all clicks so far explain best, used as far as clicks for other queries support it."""

import math

import numpy as np
from numpy.typing import NDArray

from mahala.extend import Array, Number, Part, Stateful, one_blas_thread
from mahala_search.adapter.maps.fitting import PairScores, click_likelihood, click_loss, plain_ratio
from mahala_search.adapter.memory.click_memory import Counts
from mahala_search.adapter.memory.vectors import Vectors
from mahala_search.arrays import FloatArray
from mahala_search.quality.gains import RunningGain

# The penalty on the squared length of the change: a weak one fits the queries that were asked and no others.
PENALTY = 300.0
# Scores that differ by the usual difference on a page stand for this difference of the logarithms of click rates.
CONTRAST = 4.0 / 3.0
# Clicks expected, on all items of a query, from which on the query counts no more.
ENOUGH = 10.0
# With fewer queries nothing is fitted.
FEWEST = 20
# Parts of the queries; the gain on each is that of a map that was fitted to the others, at this share of its length.
FOLDS, TRIED = 5, 0.5
# How far the change spreads the scores of items, over how far they spread without it.
SPREAD = 0.25
# The standard errors of the mean gain, and the sum of the gains, from which on the map is used wholly.
CERTAIN, SUM = 1.25, 1.0
# How far one query can move the share that is used.
REACH = 0.02


class ClickMap(Stateful):
    """The change D of the map I + D that makes clicks likely, and the share of it that is used.

    For a query q and an item z, the clicks over those expected at the ranks of z have the logarithm a + t qᵀ(I + D)z,
    where t is given by the usual differences of scores. D is fitted with an L2 penalty to what was counted. If t were
    fitted with D = 0, it would be too small: all results on a page have high scores. D could then not learn which
    directions of a high score mean little.

    For the gain of half of D, a and t are fitted to the scores without D and with it, of queries that D was not fitted
    to. The difference in log likelihood is summed by query. The share grows from 0, where the mean gain is a quarter
    of its standard error, to 1 at 1.25 standard errors, but is at most the sum of the gains: where clicks are
    random, t is near 0, and the sum is small whatever its error.

    The likelihood tells the direction of D, and whether to use it, but not how long it may be: items that were not
    shown move, too. D is served at such a length that the scores of all items that were shown spread by a quarter of
    what they spread without it.
    """

    FIELDS = (Array("change"), Number("share", least=0.0, most=1.0), Part("gain"))

    def __init__(self, n_features: int) -> None:
        self.change = np.zeros((n_features, n_features))
        self.share = 0.0
        self.gain = RunningGain()

    def fit(
        self, counts: Counts, queries: Vectors, items: Vectors, base: FloatArray, scale: float, n_asked: int
    ) -> None:
        """Fit the map to what was counted, and decide how much of it is used.

        Parameters
        ----------
        queries, items : the vectors of their keys
        base : the matrix that maps queries before
        scale : the usual difference of scores on a page
        n_asked : queries asked since the last time, which bound how far the share moves
        """
        if len(counts.queries) < FEWEST:
            return
        keys, item = np.unique(counts.items, return_inverse=True)
        sizes = queries.length(counts.queries), items.length(keys)
        if not all(0.0 < size < math.inf for size in (*sizes, scale)):
            return
        rows = (queries.of(counts.queries, sizes[0]) @ base).astype(np.float32)
        pairs = PairScores(rows, items.of(keys, sizes[1]), counts.query, item)
        totals = np.bincount(counts.query, counts.expected)
        weights = np.minimum(1.0, ENOUGH / np.maximum(totals, 1e-12))[counts.query]
        clicks, expected = weights * counts.clicks, weights * counts.expected
        slope = CONTRAST * sizes[0] * sizes[1] / scale
        plain, covariance = pairs.of(), np.cov(pairs.items, rowvar=False, bias=True)
        base_ratio = slope * (plain - np.average(plain, weights=clicks + expected))

        def spread_of(mapped: NDArray[np.floating]) -> float:
            """Return the mean deviation of the scores of all items."""
            return float(np.sqrt(np.maximum(np.einsum("ij,ij->i", mapped @ covariance, mapped), 0.0)).mean())

        def fitted(part: FloatArray) -> FloatArray:
            """Return the change that a part of the pairs gives, at the length at which it is served."""
            change = pairs.fit(click_loss(clicks * part, expected * part, base_ratio, slope), PENALTY)
            spread = spread_of(rows @ change)
            return change * (SPREAD * spread_of(rows) / spread) if spread > 0.0 else change

        def likelihood(scores: FloatArray) -> FloatArray:
            return click_likelihood(clicks, expected, plain_ratio(clicks, expected, scores))

        with one_blas_thread():
            added = np.zeros(len(clicks))
            fold_of = (counts.queries % np.uint64(FOLDS)).astype(np.intp)
            for fold in range(FOLDS):
                test = fold_of[counts.query] == fold
                added[test] = pairs.of(fitted(np.where(test, 0.0, 1.0)))[test]
            self.change = fitted(np.ones(len(clicks)))
            gains = np.bincount(counts.query, likelihood(plain + TRIED * added) - likelihood(plain))
        self.gain = RunningGain()
        for value in gains.tolist():
            self.gain.add(value)
        wanted = max(min(self.gain.share(CERTAIN), self.gain.mean * self.gain.n / SUM), 0.0)
        self.share += min(max(wanted - self.share, -REACH * n_asked), REACH * n_asked)

    def matrix(self, base: FloatArray, cap: float) -> FloatArray:
        """Return the matrix that maps queries."""
        return np.asarray(base + cap * self.share * (base @ self.change))

"""The change of a map that fits clicks or judgments: L-BFGS on a penalised loss of the scores of pairs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit

from mahala_search.arrays import FloatArray, IndexArray, slices

Rows = NDArray[np.float32]
# Of what is added to scores: returns the loss, and its derivative by each score.
Loss = Callable[[FloatArray], tuple[float, FloatArray]]

# Numbers of item vectors that are in memory at a time.
BLOCK = 2**22
# Steps of L-BFGS, and the relative change of the loss at which it ends; the penalties are strong: most end before.
STEPS, PRECISION = 25, 1e-5


class PairScores(NamedTuple):
    """Pairs of queries and items, of which a change D of the map adds qᵀ D z to the scores.

    The pairs are sorted by `query`; `query` and `item` are rows of `queries` and `items`.
    """

    queries: Rows
    items: Rows
    query: IndexArray
    item: IndexArray

    def of(self, change: NDArray[np.floating] | None = None) -> FloatArray:
        """Return the scores of the pairs, by a change of the map or by the plain inner product."""
        mapped = self.queries if change is None else self.queries @ change.astype(np.float32)
        result = np.empty(len(self.query))
        for part in slices(len(self.query), max(1, BLOCK // self.items.shape[1])):
            result[part] = np.einsum("ij,ij->i", mapped[self.query[part]], self.items[self.item[part]])
        return result

    def gradient(self, slopes: FloatArray) -> FloatArray:
        """Return the derivative by D of a loss, from those by the scores of the pairs."""
        pulls = csr_array((slopes.astype(np.float32), (self.query, self.item)), (len(self.queries), len(self.items)))
        return np.asarray(self.queries.T @ (pulls @ self.items), dtype=np.float64)

    def fit(self, loss: Loss, penalty: float) -> FloatArray:
        """Return the D with the least loss + penalty / 2 ‖D‖², from D = 0."""
        d, root = self.queries.shape[1], penalty**0.5  # D times the root is of length 1 in every direction

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            value, slopes = loss(self.of(flat.reshape(d, d) / root))
            return value + float(flat @ flat) / 2.0, self.gradient(slopes).ravel() / root + flat

        ends: Any = {"maxiter": STEPS, "ftol": PRECISION}
        found = minimize(objective, np.zeros(d * d), jac=True, method="L-BFGS-B", options=ends)
        return np.asarray(found.x.reshape(d, d) / root)


def click_likelihood(clicks: FloatArray, expected: FloatArray, scores: FloatArray) -> FloatArray:
    """Return log likelihoods: of telling clicks from those expected, where `scores` are logarithms of their ratio."""
    return np.asarray(-clicks * np.logaddexp(0.0, -scores) - expected * np.logaddexp(0.0, scores))


def click_loss(clicks: FloatArray, expected: FloatArray, base: FloatArray, scale: float) -> Loss:
    """Return the loss of scores that are added, times a scale, to those of the base."""

    def loss(scores: FloatArray) -> tuple[float, FloatArray]:
        total = base + scale * scores
        slopes = scale * ((clicks + expected) * expit(total) - clicks)
        return -float(click_likelihood(clicks, expected, total).sum()), slopes

    return loss


def plain_ratio(clicks: FloatArray, expected: FloatArray, scores: FloatArray) -> FloatArray:
    """Return the logarithms of clicks over those expected that a + b · score explains best, by Newton's method."""
    weights = clicks + expected
    mean = np.average(scores, weights=weights)
    spread = np.sqrt(np.average(np.square(scores - mean), weights=weights)) or 1.0
    columns = np.column_stack([(scores - mean) / spread, np.ones(len(scores))])
    slopes = np.zeros(2)
    for _ in range(50):
        chances = expit(columns @ slopes)
        gradient = columns.T @ (weights * chances - clicks) + slopes
        curvature = (columns.T * (weights * chances * (1.0 - chances))) @ columns + np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        slopes = slopes - step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-9:
            break
    return np.asarray(columns @ slopes)


def softmax_loss(starts: IndexArray, base: FloatArray, targets: FloatArray, scale: float) -> Loss:
    """Return the cross-entropy of the `targets`, shares of the grades of each query, under the softmax of scores.

    The pairs of query i begin at `starts[i]`.
    """
    lengths = np.diff(starts, append=len(base))

    def loss(scores: FloatArray) -> tuple[float, FloatArray]:
        total = scale * (base + scores)
        total -= np.repeat(np.maximum.reduceat(total, starts), lengths)
        shares = np.exp(total)
        sums = np.add.reduceat(shares, starts)
        value = float(np.log(sums).sum() - targets @ total)
        return value, scale * (shares / np.repeat(sums, lengths) - targets)

    return loss

"""Simba: feature weights by gradient ascent on nearest-neighbour margins (Gilad-Bachrach, Navot, Tishby, 2004)."""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.run import IterationParams, Run
from mahala.batch.triplets import hits_and_misses, rows_in_shared_classes
from mahala.batch.whitening import centred, constant
from mahala.compiled.sums.weighting import simba_pass
from mahala.learner import LabelledRows
from mahala.support.arrays import IndexArray, RealArray, check_room, slices
from mahala.support.parameters import Count, NonNegative, Seed


@dataclass(eq=False, repr=False)
class Simba(IterationParams, BatchLearner):
    """Iterative search margin based algorithm: stochastic gradient ascent on the sum of nearest-neighbour margins.

    The margin of a row x under weights w is ½ (‖x - miss(x)‖_w - ‖x - hit(x)‖_w) with ‖z‖_w² = Σ_j w_j² z_j², where
    hit(x) is the nearest other row of the class of x and miss(x) the nearest row of any other class, both under the
    current weights. The metric's weights w² / ‖w²‖_∞ multiply squared differences.

    Parameters
    ----------
    n_starts : int, default=5
        Number of starts, each with its own random orders.
    n_samples : int or None, default=None
        Number of rows, drawn anew, that a start passes over in an iteration; None for all of them.
    max_iter : int, default=10
        Maximum number of iterations, which are passes over the rows.
    tol : float, default=1e-3
        The fit ends when an iteration lowers the objective by less than this share of it.
    warm_start, callback, verbose, random_state : see :class:`mahala.NCA`

    Attributes
    ----------
    feature_importances_ : ndarray of shape (n_features,), the metric's weights
    objective_, objectives_ : float and ndarray
        Minus the sum of the margins of all rows under these weights, at the end and after each iteration.
    metric_, n_iter_, stop_reason_ : see :class:`mahala.NCA`

    References
    ----------
    R. Gilad-Bachrach, A. Navot, N. Tishby: Margin based feature selection - theory and algorithms. Proceedings of the
    21st International Conference on Machine Learning (ICML), 2004.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> Simba(random_state=0).fit(X, X[:, 0] > 0).feature_importances_.round(2)
    array([1., 0., 0., 0., 0.])
    """

    _takes_chunks = False
    _test_settings = ({"n_starts": 2},)

    n_starts: Count = 5
    _: KW_ONLY
    n_samples: Count | None = None
    max_iter: Count = 10
    tol: NonNegative = 1e-3
    random_state: Seed = None

    def _learn(self, data: LabelledRows, run: Run) -> str:
        codes = data.codes
        rows = rows_in_shared_classes(codes)
        X, unit = centred(data.X)
        varies = ~constant(X)
        n_samples = len(rows) if self.n_samples is None else min(int(self.n_samples), len(rows))
        before = run.warm
        if before is None:
            check_room(8 * int(self.n_starts) * X.shape[1], None, f"n_starts={self.n_starts}", "give fewer")
            starts, best, weights = np.ones((int(self.n_starts), X.shape[1])), -np.inf, np.ones(X.shape[1])
        else:
            starts, weights = before["starts"].copy(), before["w"]
            best = _margin(X, codes, rows, weights)

        for _ in range(self.max_iter):
            last = best
            for w in starts:
                simba_pass(X, codes, self._rng.permutation(rows)[:n_samples], w)
                if not w[varies].any():  # weights of 0 would never change
                    w[:] = 1.0
                # Those of constant features, which nothing changes, are no measure of the others.
                used = np.where(varies | ~varies.any(), w, 0.0)
                normal = np.square(used / np.abs(used).max())
                margin = _margin(X, codes, rows, normal)
                if margin > best:
                    best, weights = margin, normal
            if run.step(-best * unit, {"w": weights, "starts": starts.copy()}):
                return "callback"
            if np.isfinite(last) and best - last <= self.tol * abs(last):
                return "converged"
        return "max_iter"


def _margin(X: RealArray, codes: IndexArray, rows: IndexArray, weights: RealArray) -> float:
    """Return the sum of the margins of the rows under weights of squared differences."""
    used = weights > 0.0
    scaled = X[:, used] * np.sqrt(weights[used]).astype(X.dtype)
    hits, misses = hits_and_misses(scaled, codes, rows)
    total = 0.0
    for block in slices(len(rows), 1024):
        x, hit, miss = (scaled[numbers[block]].astype(np.float64) for numbers in (rows, hits, misses))
        total += 0.5 * float(np.sum(np.linalg.norm(x - miss, axis=1) - np.linalg.norm(x - hit, axis=1)))
    return total

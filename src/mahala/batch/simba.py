"""Simba: gradient ascent on the margin of the nearest neighbour, over the weights of features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala.batch.batch_learner import BatchLearner, Given, Rows
from mahala.batch.run import Callback, Floats, Model, Run
from mahala.compiled.weighting import hits_and_misses, rows_with_company, simba_pass
from mahala.support.validation import check_count


class Simba(BatchLearner):
    """Simba, the iterative search margin based algorithm: stochastic gradient ascent on Σ_x θ_w(x), where

    θ_w(x) = ½ (‖x - miss(x)‖_w - ‖x - hit(x)‖_w),  ‖z‖_w² = Σ_j w_j² z_j².

    hit(x) is the nearest other row of the class of x and miss(x) the nearest row of any other class, both under the
    weights at that step. Rows without company in their class are no x, but may be a miss. A start begins with all
    weights 1, and goes in each iteration over the rows in a new random order; the best weights of all starts win. The
    paper's weights w multiply differences and are given back as w² / ‖w²‖_∞, which multiplies squared differences: this
    is the metric's weight of a feature, and the largest is 1.

    The length of the paper's steps is that of the data. Here X is divided by one number, the root mean square of the
    features' standard deviations, so that units do not matter; for features of variance one the steps are the paper's.

    A step costs O(n d), an iteration n steps and the margins of all rows for each start, O(n² d).

    R. Gilad-Bachrach, A. Navot, N. Tishby, "Margin based feature selection - theory and algorithms", ICML 2004.

    Parameters
    ----------
    n_starts : number of starts, each with orders of its own
    n_samples : number of rows that a start goes over in an iteration, drawn anew; None for all
    max_iter : most iterations, passes over the rows
    tol : relative gain of the margin below which an iteration is the last
    warm_start : whether a fit goes on from the weights of the fit before
    callback : called with each :class:`~mahala.batch.batch_learner.Iteration`; a true answer ends the fit
    verbose : whether to show a progress bar
    random_state : of the orders and draws

    Attributes
    ----------
    feature_importances_ : the metric's weights
    objective_ : sum of the margins of all rows under these weights, the larger the better
    objectives_ : the best sum so far after each iteration

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> simba = Simba(random_state=0).fit(scale(X), y)
    >>> round(simba.score(scale(X), y), 2)
    0.98
    """

    def __init__(
        self,
        n_starts: int = 5,
        n_samples: int | None = None,
        max_iter: int = 10,
        tol: float = 1e-3,
        warm_start: bool = False,
        callback: Callback | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_starts = n_starts
        self.n_samples = n_samples
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        check_count(self.n_starts, "n_starts")
        if self.n_samples is not None:
            check_count(self.n_samples, "n_samples")

    def _learn(self, given: Given, run: Run) -> tuple[Model, str]:
        assert isinstance(given, Rows)
        codes = given.codes
        rows = rows_with_company(codes)
        X, unit = _scaled(given.X)
        n_samples = len(rows) if self.n_samples is None else min(int(self.n_samples), len(rows))
        before = self._warm_model()
        if before is None:
            starts, best, weights = np.ones((int(self.n_starts), X.shape[1])), -np.inf, np.ones(X.shape[1])
        else:
            starts, weights = before["starts"].copy(), before["w"]
            best = _margin(X, codes, rows, weights)

        for _ in range(self.max_iter):
            last = best
            for w in starts:
                simba_pass(X, codes, self._rng.permutation(rows)[:n_samples], w)
                if not w.any():  # what has been unlearned altogether cannot be learned again
                    w[:] = 1.0
                normal = np.square(w / np.abs(w).max())
                margin = _margin(X, codes, rows, normal)
                if margin > best:
                    best, weights = margin, normal
            model = {"w": weights, "starts": starts.copy()}
            if run.step(best * unit, model):
                return model, "callback"
            if np.isfinite(last) and best - last <= self.tol * abs(last):
                return model, "converged"
        return model, "max_iter"


def _scaled(X: Floats) -> tuple[Floats, float]:
    """X centred and in units of the root mean square of its features' standard deviations, and that unit."""
    shifted = X - X[0]
    largest = max(float(shifted.max()), -float(shifted.min())) or 1.0
    shifted /= X.dtype.type(largest)
    deviation = float(np.sqrt(shifted.var(axis=0, dtype=np.float64).mean())) or 1.0
    shifted -= shifted.mean(axis=0, dtype=np.float64).astype(X.dtype)
    shifted /= X.dtype.type(deviation)
    return shifted, largest * deviation


def _margin(X: Floats, codes: NDArray[np.intp], rows: NDArray[np.intp], weights: Floats) -> float:
    """The sum of the margins of the rows under weights of squared differences."""
    used = weights > 0.0
    scaled = X[:, used] * np.sqrt(weights[used]).astype(X.dtype)
    hits, misses = hits_and_misses(scaled, codes, rows)
    total = 0.0
    for start in range(0, len(rows), 1024):
        x, hit, miss = (scaled[part[start : start + 1024]].astype(np.float64) for part in (rows, hits, misses))
        total += 0.5 * float(np.sum(np.linalg.norm(x - miss, axis=1) - np.linalg.norm(x - hit, axis=1)))
    return total

"""BoostMetric: a Mahalanobis metric as a sum of rank-one matrices, found one by one as AdaBoost finds its learners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mahala.batch.batch_learner import BatchLearner, Given, Rows
from mahala.batch.run import Callback, Model, Run
from mahala.batch.triplet_edges import TripletEdges, label_triplets
from mahala.comparisons import Triplets
from mahala.compiled.edges import best_step, log_loss, weights
from mahala.metric import MahalanobisMetric
from mahala.support.params import is_count, is_number
from mahala.support.validation import check_count, check_positive

# exp(-36) is below the rounding of 1: where a triplet's loss has fallen by so much, more is the same.
FALL = -float(np.log(np.finfo(np.float64).eps))
# A weight w is at most FALL / v; with rows as small as are accepted, larger ones would overflow.
SMALLEST_V = 1e-40


class BoostMetric(BatchLearner):
    """Minimises the exponential loss of triplets, one rank-one matrix an iteration.

    Over M = Σ w_j ξ_j ξ_jᵀ with w_j ≥ 0 and ‖ξ_j‖ = 1, and triplets r = (i, j, k) of which x_i is to be nearer to x_j::

        log Σ_r exp(-ρ_r) + v·s·tr M,   ρ_r = (x_i - x_k)ᵀM(x_i - x_k) - (x_i - x_j)ᵀM(x_i - x_j)

    An iteration takes as ξ the leading eigenvector of Σ u_r A_r, where ρ_r = ⟨A_r, M⟩ and u_r ∝ exp(-ρ_r), and the best
    w for it. s is the mean squared distance between two rows: the paper's v is in the units of X squared, ours has
    none, so that X in other units gives the same distances.

    As in the paper no weight is ever taken back: the last M is one to which nothing can be added with profit, which may
    lie above the minimum.

    Shen, Kim, Wang and van den Hengel: Positive Semidefinite Metric Learning with Boosting, NIPS 2009.

    An iteration costs 30 to 100 passes over the rows of the triplets, or the product of two n × d matrices where it is
    cheaper, and hardly more for more triplets of the same rows.

    Parameters
    ----------
    n_neighbors : of labelled rows each is an anchor, with as many nearest rows of its class, and of other classes
    v : weight of the trace
    max_iter : most iterations, so the most rank of M
    tol : stops where an iteration lowers the objective by less than this share of it (of 1 where it is below)
    validation_fraction : share of the anchors whose triplets are held out, or None
    n_iter_no_change : stops where for so many iterations no smaller share of the held-out triplets was in the wrong
        order, and goes back to the iteration of the smallest
    warm_start : a fit adds its iterations to those of the fit before
    callback : called with an `Iteration` after each; a true answer ends the fit
    verbose : draws a progress bar
    random_state : seed of what is held out

    Attributes
    ----------
    weights_ : w_j, one an iteration
    validation_errors_ : share of the held-out triplets in the wrong order after each iteration
    stop_reason_ : "converged" (λ < v·s: no direction lowers the objective, or `tol`), "max_iter", "early stopping",
        "separated", "callback" or "interrupted". Separated: all triplets are in the right order, and the sum of their
        losses is below exp(-36); or one direction puts them all in the right order by more than v·s, so that the
        objective has no minimum along it, and its w lowers the loss of each to exp(-36) of what it was.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = BoostMetric(max_iter=50).fit(X[::2], y[::2])
    >>> round(learner.score(X[1::2], y[1::2]), 2)
    0.97
    >>> learner.metric_at(3).n_components
    3
    """

    _learns_from = Triplets

    def __init__(
        self,
        n_neighbors: int = 3,
        v: float = 1e-7,
        validation_fraction: float | None = None,
        n_iter_no_change: int = 20,
        max_iter: int = 500,
        tol: float = 1e-7,
        warm_start: bool = False,
        callback: Callback | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.v = v
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        check_count(self.n_neighbors, "n_neighbors")
        check_positive(self.v, "v")
        if self.v < SMALLEST_V:
            raise ValueError(f"v must be at least {SMALLEST_V:g}, got {self.v!r}: matrices so large overflow")
        check_count(self.n_iter_no_change, "n_iter_no_change")
        share = self.validation_fraction
        if share is not None and not (is_number(share) and 0.0 < share < 1.0):
            raise ValueError(f"validation_fraction must be None or a number between 0 and 1, got {share!r}")

    def _learn(self, given: Given, run: Run) -> tuple[Model, str]:
        if isinstance(given, Rows):
            given = label_triplets(given.X, given.codes, self.n_neighbors)
        assert isinstance(given, Triplets)
        triplets, n_train = self._held_out_last(given)
        edges = TripletEdges(triplets)
        unit = np.sqrt(edges.scale)

        warm = self._warm_model()
        L = np.empty((0, edges.X.shape[1])) if warm is None else warm["L"]
        errors = np.empty(0) if warm is None else warm.get("validation_errors", np.empty(0))
        margins = np.zeros(len(triplets))
        for row in L:
            margins += edges.gains(row * unit)
        trace = float(np.square(L * unit).sum())
        objective = log_loss(margins[:n_train]) + self.v * trace
        start, n_start = objective, len(L)
        # Without a metric all are wrong: whatever the first iteration finds is better than nothing.
        best_error, best_length = _share_wrong(margins[n_train:]) if n_start else np.inf, n_start

        def model() -> Model:
            return {"L": L} | ({} if self.validation_fraction is None else {"validation_errors": errors})

        reason = "max_iter"
        rows = L  # room for L to grow: what it has is not written to again
        u = np.zeros(len(triplets))
        for _ in range(self.max_iter):
            u[:n_train] = weights(margins[:n_train])
            direction, gains = edges.leading_direction(u)
            if u @ gains < self.v:
                reason = "converged"
                break
            lowest = float(gains[:n_train].min())
            w = best_step(margins[:n_train], gains[:n_train], self.v, FALL / max(lowest, self.v))
            margins += w * gains
            trace += w
            if len(L) == len(rows):
                rows = np.vstack([rows, np.empty((len(L) + 16, L.shape[1]))])
            rows[len(L)] = np.sqrt(w) / unit * direction
            L = rows[: len(L) + 1]
            before = objective
            loss = log_loss(margins[:n_train])
            objective = loss + self.v * trace
            error = _share_wrong(margins[n_train:])
            errors = np.append(errors, error)
            if run.step(objective, model()):
                reason = "callback"
                break
            if lowest > self.v or loss < -FALL:
                reason = "separated"
                break
            if error < best_error:
                best_error, best_length = error, len(L)
            if self.validation_fraction is not None and len(L) - best_length >= self.n_iter_no_change:
                n_more = len(L) - best_length
                L, errors = L[:best_length], errors[:-n_more]
                run.back_to(len(run.objectives) - n_more, model())
                objective, reason = start, "early stopping"
                break
            if before - objective <= self.tol * max(1.0, abs(objective)):
                reason = "converged"
                break
        if run.model is None:  # there is nothing to add to the start
            run.step(objective, model())
        L = L.copy()
        return model(), reason

    def _held_out_last(self, triplets: Triplets) -> tuple[Triplets, int]:
        """The triplets with those held out at the end, and the number of the others."""
        if self.validation_fraction is None:
            return triplets, len(triplets)
        anchors, numbers = np.unique(triplets.anchor, return_inverse=True)
        n_held_out = round(self.validation_fraction * len(anchors))
        if not 0 < n_held_out < len(anchors):
            raise ValueError(
                f"validation_fraction={self.validation_fraction} of {len(anchors)} anchors holds out {n_held_out}; "
                "at least one must be held out, and one left"
            )
        # By the seed, not by the generator: a warm start must not learn from what was held out before.
        chosen = np.random.default_rng(self._seed).permutation(len(anchors))[:n_held_out]
        held_out = np.isin(numbers, chosen)
        return triplets[np.argsort(held_out, kind="stable")], int(np.sum(~held_out))

    @property
    def weights_(self) -> NDArray[np.float64]:
        """The weight w_j of each rank-one matrix, in the order in which they were found."""
        check_is_fitted(self, "_model")
        weights: NDArray[np.float64] = np.square(self._model["L"]).sum(axis=1)
        return weights

    @property
    def validation_errors_(self) -> NDArray[np.float64]:
        """Share of the held-out triplets in the wrong order after each iteration."""
        check_is_fitted(self, "_model")
        if "validation_errors" not in self._model:
            raise AttributeError("validation_errors_ are there after a fit with validation_fraction")
        return self._model["validation_errors"]

    def metric_at(self, n_iter: int) -> MahalanobisMetric:
        """The metric after the first `n_iter` iterations, those before a warm start counted."""
        check_is_fitted(self, "_model")
        L = self._model["L"]
        if not (is_count(n_iter) and n_iter <= len(L)):
            raise ValueError(f"n_iter must be an integer from 1 to {len(L)}, the number of iterations, got {n_iter!r}")
        return self._staged(L[:n_iter].T @ L[:n_iter])

    def staged_metrics(self) -> Iterator[MahalanobisMetric]:
        """The metrics after 1, 2, ... iterations."""
        check_is_fitted(self, "_model")
        M = np.zeros((self.n_features_in_, self.n_features_in_))
        for row in self._model["L"]:
            M += np.outer(row, row)
            yield self._staged(M)

    def _staged(self, M: NDArray[np.float64]) -> MahalanobisMetric:
        return MahalanobisMetric(M, feature_names=self.metric_.feature_names, origin=self._origin())


def _share_wrong(margins: NDArray[np.float64]) -> float:
    return float(np.mean(margins <= 0.0)) if len(margins) else 0.0

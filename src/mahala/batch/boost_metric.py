"""BoostMetric: a Mahalanobis metric as a sum of rank-one matrices (Shen, Kim, Wang, van den Hengel, 2009)."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated

import numpy as np

from mahala.batch.run import IterationParams, Model, Run, matrix_of
from mahala.batch.triplets import TripletEdges, TripletLearner
from mahala.comparisons import Triplets
from mahala.compiled.sums.edges import best_step, log_loss, weights
from mahala.learner import LabelledRows
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import FloatArray
from mahala.support.parameters import Count, Fraction, NonNegative, Seed, Where, between, is_count

# exp(-36) is below the rounding of 1, so lowering a triplet's loss by a larger factor changes nothing.
FALL = -float(np.log(np.finfo(np.float64).eps))
# A weight w is at most FALL / lam; for rows as small as are accepted, larger ones would overflow.
SMALLEST_LAM = 1e-40

Lam = Annotated[float, Where(between(SMALLEST_LAM), f"a number of at least {SMALLEST_LAM:g}")]


@dataclass(eq=False, repr=False)
class BoostMetric(IterationParams, TripletLearner):
    """Minimise the exponential loss of triplets, adding one rank-one matrix per iteration as AdaBoost adds learners.

    The objective, over M = Σ w_j ξ_j ξ_jᵀ with w_j ≥ 0 and ‖ξ_j‖ = 1, for triplets r = (i, j, k) in which x_i is to be
    nearer to x_j than to x_k, is log Σ_r exp(-ρ_r) + lam·s·tr M, where ρ_r is the squared distance of x_i and x_k less
    that of x_i and x_j, and s the mean squared distance between two rows. No iteration lowers an earlier weight, so
    that the objective ends near its minimum, not at it.

    Parameters
    ----------
    n_neighbors : int, default=3
        Each labelled row is the anchor of triplets with its n_neighbors nearest rows of its class and of other classes.
    lam : float, default=1e-7
        Weight of the trace.
    validation_fraction : float or None, default=None
        Share of the anchors whose triplets are held out.
    n_iter_no_change : int, default=20
        With validation_fraction, the fit ends when the share of held-out triplets in the wrong order has not decreased
        for this many iterations, and returns to the iteration with the smallest share.
    shrinkage : "auto" or float, see :class:`mahala.LMNN`
    max_iter : int, default=500
        Maximum number of iterations and therefore of the rank of M.
    tol : float, default=1e-7
        The fit ends when an iteration lowers the objective by less than this share of it, or of 1 if it is below 1.
    warm_start, callback, verbose, random_state : see :class:`mahala.NCA`; a warm start adds iterations

    Attributes
    ----------
    weights_ : ndarray, the weight w_j of each iteration
    shrinkage_ : float, see :class:`mahala.LMNN`
    validation_errors_ : ndarray, the share of the held-out triplets in the wrong order after each iteration
    stop_reason_ : str
        "converged" (an iteration gains less than `tol`, or no direction lowers the objective), "max_iter",
        "early stopping", "separated", "callback" or "interrupted". "separated" means that all triplets are in the right
        order and the sum of their losses is below exp(-36), or that one direction puts all of them in the right order
        by more than lam·s, so that the objective has no minimum along it; then w lowers each loss by a factor exp(-36).
    metric_, components_, objective_, objectives_, n_iter_ : see :class:`mahala.NCA`

    References
    ----------
    C. Shen, J. Kim, L. Wang, A. van den Hengel: Positive semidefinite metric learning with boosting. Advances in Neural
    Information Processing Systems 22 (NIPS), 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> round(BoostMetric(max_iter=50).fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2)
    0.97
    """

    _test_settings = ({"max_iter": 30, "validation_fraction": 0.2},)

    n_neighbors: Count = 3
    _: KW_ONLY
    lam: Lam = 1e-7
    validation_fraction: Fraction | None = None
    n_iter_no_change: Count = 20
    max_iter: Count = 500
    tol: NonNegative = 1e-7
    random_state: Seed = None

    def _learn(self, data: LabelledRows | Triplets, run: Run) -> str:
        triplets, n_train = self._held_out_last(self._triplets(data))
        edges = TripletEdges(triplets)
        unit = np.sqrt(edges.scale)

        warm = run.warm
        rows: list[FloatArray] = [] if warm is None else list(warm["L"])
        errors: list[float] = [] if warm is None else warm.get("validation_errors", np.empty(0)).tolist()
        margins, trace = np.zeros(len(triplets)), 0.0
        for row in rows:
            margins += edges.gains(row * unit)
            trace += float(np.square(row * unit).sum())
        objective = start = log_loss(margins[:n_train]) + self.lam * trace
        # Without a metric all triplets are wrong, so the first iteration is an improvement.
        best_error, best_length = _share_wrong(margins[n_train:]) if rows else np.inf, len(rows)

        def model(n_rows: int, n_errors: int) -> Model:
            L = np.reshape(rows[:n_rows], (n_rows, edges.X.shape[1]))
            held_out = {} if self.validation_fraction is None else {"validation_errors": np.array(errors[:n_errors])}
            return {"L": L} | held_out

        reason = "max_iter"
        u = np.zeros(len(triplets))
        for _ in range(self.max_iter):
            u[:n_train] = weights(margins[:n_train])
            direction, gains = edges.leading_direction(u)
            if u @ gains < self.lam:
                reason = "converged"
                break
            lowest = float(gains[:n_train].min())
            w = best_step(margins[:n_train], gains[:n_train], self.lam, FALL / max(lowest, self.lam))
            margins += w * gains
            trace += w
            rows.append(np.sqrt(w) / unit * direction)
            before, loss = objective, log_loss(margins[:n_train])
            objective = loss + self.lam * trace
            errors.append(error := _share_wrong(margins[n_train:]))
            if run.step(objective, partial(model, len(rows), len(errors))):
                reason = "callback"
                break
            if lowest > self.lam or loss < -FALL:
                reason = "separated"
                break
            if error < best_error:
                best_error, best_length = error, len(rows)
            n_more = len(rows) - best_length
            if self.validation_fraction is not None and n_more >= self.n_iter_no_change:
                del rows[best_length:], errors[-n_more:]
                run.back_to(len(run.objectives) - n_more, model(len(rows), len(errors)))
                objective, reason = start, "early stopping"
                break
            if before - objective <= self.tol * max(1.0, abs(objective)):
                reason = "converged"
                break
        if not run.model:  # nothing can be added to the start
            run.step(objective, model(len(rows), len(errors)))
        return reason

    def _held_out_last(self, triplets: Triplets) -> tuple[Triplets, int]:
        """Return the triplets, with those held out at the end, and the number of the others."""
        if self.validation_fraction is None:
            return triplets, len(triplets)
        anchors, numbers = np.unique(triplets.anchor, return_inverse=True)
        n_held_out = round(self.validation_fraction * len(anchors))
        if not 0 < n_held_out < len(anchors):
            share = f"validation_fraction={self.validation_fraction} of {len(anchors)} anchors holds out {n_held_out}"
            raise ValueError(f"{share}; at least one anchor must be held out and at least one must remain")
        # From the seed rather than the generator, so that a warm start holds out the same anchors.
        chosen = np.random.default_rng(self._seed).permutation(len(anchors))[:n_held_out]
        held_out = np.isin(numbers, chosen)
        return triplets[np.argsort(held_out, kind="stable")], int(np.sum(~held_out))

    @property
    def weights_(self) -> FloatArray:
        """The weight w_j of each rank-one matrix, in the order in which they were found."""
        return np.asarray(np.square(self._learned("L")).sum(axis=1))

    @property
    def validation_errors_(self) -> FloatArray:
        """Share of the held-out triplets in the wrong order after each iteration."""
        self._check_fitted()
        if "validation_errors" not in self._model:
            raise AttributeError("validation_errors_ needs a fit with validation_fraction")
        return self._model["validation_errors"]

    def metric_at(self, n_iter: int) -> MahalanobisMetric:
        """Return the metric after the first `n_iter` iterations, including those before a warm start."""
        L = self._learned("L")
        if not (is_count(n_iter) and n_iter <= len(L)):
            raise ValueError(f"n_iter must be an integer from 1 to {len(L)}, the number of iterations, got {n_iter!r}")
        return MahalanobisMetric(matrix_of(self._model | {"L": L[:n_iter]}), **self._about())

    def staged_metrics(self) -> Iterator[MahalanobisMetric]:
        """Return the metrics after 1, 2, ... iterations."""
        return map(self.metric_at, range(1, len(self._learned("L")) + 1))


def _share_wrong(margins: FloatArray) -> float:
    return float(np.mean(margins <= 0.0)) if len(margins) else 0.0

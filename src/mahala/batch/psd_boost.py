"""PSDBoost: a Mahalanobis metric of trace one by linear programs, whose columns are rank-one matrices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from mahala.batch.batch_learner import BatchLearner, Given, Rows
from mahala.batch.run import Callback, Model, Run
from mahala.batch.triplet_edges import TripletEdges, label_triplets
from mahala.comparisons import Triplets
from mahala.support.params import is_number
from mahala.support.validation import check_count

Floats = NDArray[np.float64]

# A linear program starts with so many triplets on either side of the margin, and gets more as it needs them.
FIRST_TRIPLETS = 500
# What HiGHS holds its constraints to, where margins are about 1.
LP_TOLERANCE = 1e-7


class PSDBoost(BatchLearner):
    """Maximises a soft margin of triplets over matrices of trace one, one rank-one matrix an iteration.

    Over M = Σ w_j ξ_j ξ_jᵀ with w_j ≥ 0, Σ w_j = 1 and ‖ξ_j‖ = 1, and n triplets r = (i, j, k) of which x_i is to be
    nearer to x_j, it minimises::

        C Σ_r [ρ - ρ_r]₊ - ρ,   ρ_r = (x_i - x_k)ᵀM(x_i - x_k) - (x_i - x_j)ᵀM(x_i - x_j),   C = 1 / (nu·n)

    which is, with its sign turned, the mean of the smallest share `nu` of the margins ρ_r. A linear program gives the
    best weights of the matrices so far, and its dual the weights u_r of the triplets, 0 ≤ u_r ≤ C; the next ξ is the
    leading eigenvector of Σ u_r A_r, where ρ_r = ⟨A_r, M⟩. Its eigenvalue bounds what any M can reach.

    Shen, Welsh and Wang: PSDBoost: Matrix-Generation Linear Programming for Positive Semidefinite Matrices Learning,
    NIPS 2008.

    Memory grows with (triplets) × (iterations). The linear program holds only triplets near the margin: those far
    from it have u_r = 0 or C, and are let in where that turns out wrong.

    Parameters
    ----------
    n_neighbors : of labelled rows each is an anchor, with as many nearest rows of its class, and of other classes
    nu : share of the triplets that count, from 0 to 1: the worst ones; at 1 the mean margin is maximised
    max_iter : most iterations, so the most rank of M
    tol : stops where the objective is known to be above that of the best M by less than this share of it
    warm_start : a fit starts with the matrices of the fit before
    callback : called with an `Iteration` after each; a true answer ends the fit
    verbose : draws a progress bar

    Attributes
    ----------
    gap_ : the most by which `objective_` is above that of the best M
    stop_reason_ : "converged", "max_iter", "precision" (a linear program found no better weights), "callback" or
        "interrupted"

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = PSDBoost().fit(X[::2], y[::2])
    >>> round(learner.score(X[1::2], y[1::2]), 2)
    0.96
    >>> learner.stop_reason_
    'converged'
    """

    _learns_from = Triplets

    def __init__(
        self,
        n_neighbors: int = 3,
        nu: float = 0.3,
        max_iter: int = 100,
        tol: float = 1e-3,
        warm_start: bool = False,
        callback: Callback | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.nu = nu
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose

    def _check_params(self) -> None:
        super()._check_params()
        check_count(self.n_neighbors, "n_neighbors")
        if not (is_number(self.nu) and 0.0 < self.nu <= 1.0):
            raise ValueError(f"nu must be above 0 and at most 1, got {self.nu!r}")

    def _learn(self, given: Given, run: Run) -> tuple[Model, str]:
        if isinstance(given, Rows):
            given = label_triplets(given.X, given.codes, self.n_neighbors)
        assert isinstance(given, Triplets)
        edges, n_worst = TripletEdges(given), self.nu * len(given)

        directions: Floats = np.empty((0, edges.X.shape[1]))
        gains: Floats = np.empty((0, len(given)))
        w: Floats = np.empty(0)
        u: Floats = np.full(len(given), 1.0 / len(given))
        margin = -np.inf
        bound = np.inf

        def model() -> Model:
            used = w > 0.0
            return {
                "L": np.sqrt(w[used])[:, None] * directions[used],
                "gap": np.array([max(0.0, (bound - margin) * edges.scale)]),
            }

        def add(new: Floats) -> bool:
            """Let directions in; false where the linear program, as exact as it is, finds no better weights."""
            nonlocal directions, gains, w, u, margin
            w = np.append(w, np.zeros(len(new))) if len(w) else np.full(len(new), 1.0 / len(new))
            directions = np.vstack([directions, new])
            gains = np.vstack([gains, [edges.gains(direction) for direction in new]])
            margin = mean_of_worst(w @ gains, n_worst)
            solution = _weights(gains, n_worst, w)
            better = -np.inf if solution is None else mean_of_worst(solution[0] @ gains, n_worst)
            if solution is None or better < margin:
                return False
            (w, u), margin = solution, better
            return True

        warm = self._warm_model()
        if warm is not None:
            add(warm["L"] / np.linalg.norm(warm["L"], axis=1, keepdims=True))
        reason = "max_iter"
        for _ in range(self.max_iter):
            direction, its_gains = edges.leading_direction(u)
            bound = min(bound, float(u @ its_gains))
            if len(w) and bound - margin <= self.tol * abs(margin):
                reason = "converged"
                break
            if not add(direction[None]):
                reason = "precision"
                break
            if run.step(-margin * edges.scale, model()):
                reason = "callback"
                break
        if run.model is None:  # the start is as good as it gets
            run.step(-margin * edges.scale, model())
        return model(), reason

    @property
    def gap_(self) -> float:
        """The most by which `objective_` is above that of the best M."""
        self.metric_  # noqa: B018 - says so where nothing is learned
        return float(self._model["gap"][0])


def mean_of_worst(margins: Floats, n_worst: float) -> float:
    """max over ρ of ρ - Σ [ρ - margins]₊ / n_worst: the mean of the n_worst smallest, the last one in part.

    >>> mean_of_worst(np.array([5.0, 1.0, 2.0]), 1.5)
    1.3333333333333333
    """
    whole = int(n_worst)
    ordered = np.partition(margins, min(whole, len(margins) - 1))
    rest = (n_worst - whole) * ordered[whole] if whole < len(margins) else 0.0
    return float((ordered[:whole].sum() + rest) / n_worst)


def _weights(gains: Floats, n_worst: float, guess: Floats) -> tuple[Floats, Floats] | None:
    """The best weights w of the rows of `gains`, and the weights u of the triplets that prove it.

    The program is the dual, min π with gains @ u ≤ π, Σ u = 1 and 0 ≤ u ≤ 1/n_worst, in q = n_worst·u: it has a row for
    each matrix only. By the margins under the guess of w, q = 1 far below the margin and 0 far above; the others are
    free. None where HiGHS gives up.
    """
    n_rows, n = gains.shape
    margins = guess @ gains
    order = np.argsort(margins)
    middle, width = int(n_worst), FIRST_TRIPLETS + 2 * n_rows
    q = np.zeros(n)
    q[order[:middle]] = 1.0
    free = np.zeros(n, dtype=bool)
    free[order[max(0, middle - width) : middle + width]] = True
    unit = float(np.abs(margins[free]).mean()) or 1.0
    while True:
        fixed = ~free & (q == 1.0)
        chosen = np.flatnonzero(free)
        result = linprog(
            np.append(np.zeros(len(chosen)), 1.0),
            A_ub=np.hstack([gains[:, chosen] / unit, np.full((n_rows, 1), -1.0)]),
            b_ub=-gains[:, fixed].sum(axis=1) / unit,
            A_eq=np.append(np.ones(len(chosen)), 0.0)[None],
            b_eq=[n_worst - fixed.sum()],
            bounds=[(0.0, 1.0)] * len(chosen) + [(None, None)],
            method="highs",
        )
        if result.status != 0:
            return None
        w = np.clip(-result.ineqlin.marginals, 0.0, None)
        if not w.sum() > 0.0:
            return None
        w /= w.sum()
        q[chosen] = np.clip(np.asarray(result.x, dtype=np.float64)[:-1], 0.0, 1.0)
        margins = w @ gains / unit
        margin = float(np.asarray(result.eqlin.marginals, dtype=np.float64)[0])
        wrong = ~free & np.where(fixed, margins > margin + LP_TOLERANCE, margins < margin - LP_TOLERANCE)
        if not wrong.any():
            return w, q / q.sum()
        free |= wrong

"""PSDBoost: a Mahalanobis metric of trace one by linear programming (Shen, Welsh, Wang, 2008)."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated

import numpy as np
from scipy.optimize import linprog

from mahala.batch.run import IterationParams, Model, Run
from mahala.batch.triplets import TripletEdges, TripletLearner
from mahala.batch.whitening import check_varies, major_directions
from mahala.comparisons import Triplets
from mahala.engine.moments import rows_times
from mahala.learner import LabelledRows
from mahala.support.arrays import FloatArray
from mahala.support.parameters import Count, NonNegative, Where, is_number

# Triplets on either side of the margin with which a linear program starts; it adds others that violate its solution.
FIRST_TRIPLETS = 500
# Tolerance of HiGHS for constraints whose margins are about 1.
LP_TOLERANCE = 1e-7

Nu = Annotated[float, Where(lambda nu: is_number(nu) and 0.0 < nu <= 1.0, "a number above 0 and at most 1")]


@dataclass(eq=False, repr=False)
class PSDBoost(IterationParams, TripletLearner):
    """Maximise a soft margin of triplets over matrices of trace one, adding one rank-one matrix per iteration.

    Over M ⪰ 0 with tr M = 1, for n triplets r = (i, j, k) in which x_i is to be nearer to x_j than to x_k, PSDBoost
    minimises C Σ_r [ρ - ρ_r]₊ - ρ, with ρ_r the squared distance of x_i and x_k less that of x_i and x_j, and
    C = 1 / (nu·n). With the best ρ that is the negative mean of the smallest share `nu` of the margins ρ_r. Directions
    in which rows hardly differ, with variances below 1e-5 of a typical feature's, have weight zero. Memory grows with
    (triplets) × (iterations).

    Parameters
    ----------
    n_neighbors : int, default=3
        Each labelled row is the anchor of triplets with its n_neighbors nearest rows of its class and of other classes.
    nu : float, default=0.3
        Share of the triplets, those with the smallest margins, whose mean margin is maximised; at most 1.
    shrinkage : "auto" or float, see :class:`mahala.LMNN`
    max_iter : int, default=100
        Maximum number of iterations and therefore of the rank of M.
    tol : float, default=1e-3
        The fit ends when the objective is proved to be above its minimum by less than this share of it.
    warm_start, callback, verbose : see :class:`mahala.NCA`; a warm start begins with the matrices of the previous fit

    Attributes
    ----------
    shrinkage_ : float, see :class:`mahala.LMNN`
    gap_ : float, an upper bound of the difference between `objective_` and the minimum
    stop_reason_ : str
        "converged", "max_iter", "precision" (a linear program found no better weights), "callback" or "interrupted".
    metric_, components_, objective_, objectives_, n_iter_ : see :class:`mahala.NCA`

    References
    ----------
    C. Shen, A. Welsh, L. Wang: PSDBoost: matrix-generation linear programming for positive semidefinite matrices
    learning. Advances in Neural Information Processing Systems 21 (NIPS), 2008, 1473-1480.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> round(PSDBoost().fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2)
    0.96
    """

    _test_settings = ({"max_iter": 3},)

    n_neighbors: Count = 3
    _: KW_ONLY
    nu: Nu = 0.3
    max_iter: Count = 100
    tol: NonNegative = 1e-3

    def _learn(self, data: LabelledRows | Triplets, run: Run) -> str:
        data = self._triplets(data)
        check_varies(data.X)
        # Where no metric puts the worst triplets in order, the best would be one under which all rows are equal.
        span = major_directions(data.X)
        edges = TripletEdges(data.over(rows_times(data.X, span.astype(data.X.dtype))))
        n_worst = max(1.0, self.nu * len(data))  # a share of one triplet has the margin of that triplet

        directions: FloatArray = np.empty((0, edges.X.shape[1]))
        gains: FloatArray = np.empty((0, len(data)))
        w: FloatArray = np.empty(0)
        u: FloatArray = np.full(len(data), 1.0 / len(data))
        margin = -np.inf
        bound = np.inf

        def model() -> Model:
            used, gap = w > 0.0, max(0.0, (bound - margin) * edges.scale)
            return {"L": np.sqrt(w[used])[:, None] * directions[used] @ span.T, "gap": np.array([gap])}

        def add(new: FloatArray) -> bool:
            """Add directions; return whether the linear program finds weights that are not worse."""
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

        warm = run.warm
        if warm is not None:
            L = warm["L"] @ span
            add(L / np.linalg.norm(L, axis=1, keepdims=True))
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
        if not run.model:  # no direction improves the start
            run.step(-margin * edges.scale, model())
        run.back_to(len(run.objectives), model())  # with the last bound
        return reason

    @property
    def gap_(self) -> float:
        """Upper bound of the difference between `objective_` and the minimum."""
        return float(self._learned("gap")[0])


def mean_of_worst(margins: FloatArray, n_worst: float) -> float:
    """Return the mean of the n_worst smallest margins, the last one in part.

    It is the maximum over ρ of ρ - Σ [ρ - margins]₊ / n_worst.

    >>> mean_of_worst(np.array([5.0, 1.0, 2.0]), 1.5)
    1.3333333333333333
    """
    whole = int(n_worst)
    ordered = np.partition(margins, min(whole, len(margins) - 1))
    rest = (n_worst - whole) * ordered[whole] if whole < len(margins) else 0.0
    return float((ordered[:whole].sum() + rest) / n_worst)


def _weights(gains: FloatArray, n_worst: float, guess: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Return the best weights w of the rows of `gains` and the dual weights u of the triplets; None if HiGHS fails.

    The program is the dual, min π with gains @ u ≤ π, Σ u = 1 and 0 ≤ u ≤ 1/n_worst, in terms of q = n_worst·u, because
    it has only one constraint per matrix. From the margins under the guess of w, q is fixed to 1 far below the margin
    and to 0 far above it; the others are free.
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

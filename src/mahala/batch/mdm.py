"""MDM: weights that make the largest distance within classes small, with a least distance between them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from sklearn.utils.validation import check_is_fitted

from mahala.batch.batch_learner import BatchLearner, Given
from mahala.batch.run import Callback, Floats, Model, Run
from mahala.comparisons import Pairs, Triplets
from mahala.compiled.weighting import extreme_pairs, rows_with_company, to_unit_range
from mahala.learner import CHUNK_ELEMENTS

# Pairs of each kind that enter the linear program in an iteration.
NEW_PAIRS = 64

# Dissimilar rows that differ by less than this, in features of range 1, count as equal: no weights of a sensible size
# can set them apart.
CLOSEST = 1e-6

Indices = NDArray[np.intp]
# Pairs, the most extreme first: the rows of each, and their squared distance.
Extremes = tuple[Indices, Indices, Floats]


class MDM(BatchLearner):
    """Maximum distance minimization: weights w of squared differences that solve the linear program

    min t over w ≥ 0 and t, such that Σ_j w_j v_j² ≤ t for similar pairs and Σ_j w_j v_j² ≥ 1 for dissimilar ones,

    where v is the difference of a pair: all pairs of labelled rows, or those given as :class:`~mahala.Pairs`. The
    paper's weights are those of the metric. They do not depend on the units of the features, and most of them are 0.

    The program is solved for a few pairs at a time; the pairs that violate its solution the most join it until none
    does. So no iteration holds more than blocks of the pairs' distances. Scaled so that the dissimilar pairs keep their
    distance, the weights of any iteration satisfy all the constraints, with a t that is no less than the optimum; the
    program's own t is no more than it. It ends where the two meet.

    Dissimilar pairs of equal rows, or that differ by less than 1e-6 of the features' ranges, cannot keep any distance.
    They are left out, and `n_dropped_` tells how many they are.

    J. Hocke, T. Martinetz, "Feature weighting by maximum distance minimization", ICANN 2013.

    Parameters
    ----------
    max_iter : most iterations, each of them a linear program
    tol : how far t may be from the optimum, relative to it where it is above 1
    warm_start : whether a fit goes on from the weights of the fit before
    callback : called with each :class:`~mahala.batch.batch_learner.Iteration`; a true answer ends the fit
    verbose : whether to show a progress bar

    Attributes
    ----------
    feature_importances_ : the weights w
    objective_ : t, the largest squared distance of a similar pair, where the smallest of a dissimilar pair is 1
    objectives_ : the lowest t so far after each iteration
    n_dropped_ : number of dissimilar pairs that were left out
    stop_reason_ : "converged", "max_iter", "callback", or "precision" where rounding lets t fall no further

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> mdm = MDM().fit(X, y)
    >>> mdm.stop_reason_, round(mdm.objective_, 2), round(mdm.score(X, y), 2)
    ('converged', 111.68, 0.96)
    """

    _learns_from = Pairs

    def __init__(
        self,
        max_iter: int = 200,
        tol: float = 1e-5,
        warm_start: bool = False,
        callback: Callback | None = None,
        verbose: bool = False,
    ) -> None:
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose

    @property
    def n_dropped_(self) -> int:
        """Number of dissimilar pairs that lie too close together to be set apart."""
        check_is_fitted(self, "_model")
        return int(self._model["n_dropped"][0])

    def _learn(self, given: Given, run: Run) -> tuple[Model, str]:
        assert not isinstance(given, Triplets)
        source = _GivenPairs(given) if isinstance(given, Pairs) else _AllPairs(given.X, given.codes)
        program = _Program(source.features)
        u = np.ones(source.features.shape[1])  # weights of features of range 1
        similar, dissimilar = source.extremes(u)
        if not len(dissimilar[0]):
            raise ValueError("no two dissimilar rows of X differ, so no weights can set them apart")
        most, least = 0.0, np.inf  # the distances that the program grants to similar and asks of dissimilar pairs
        before = self._warm_model()
        if before is not None:
            warm = before["w"] * np.where(np.isfinite(source.extent), source.extent, 0.0) ** 2
            found = source.extremes(warm)
            if found[1][2][0] > 0.0:  # these rows, too, are set apart by the weights
                program.add(similar, dissimilar, most, least)
                u, (similar, dissimilar) = warm, found

        lowest, weights = np.inf, u
        for _ in range(self.max_iter):
            if dissimilar[2][0] > 0.0 and similar[2][0] < lowest * dissimilar[2][0]:
                lowest, weights = similar[2][0] / dissimilar[2][0], u / dissimilar[2][0]
            model = {"w": weights / source.extent**2, "n_dropped": np.array([float(source.n_dropped)])}
            if run.step(lowest, model):
                return model, "callback"
            if lowest <= most + self.tol * max(1.0, most):
                return model, "converged"
            solution = program.solve(lowest) if program.add(similar, dissimilar, most, least) else None
            if solution is None:
                return model, "precision"
            (u, most), least = solution, 1.0
            similar, dissimilar = source.extremes(u)
        return model, "max_iter"


class _AllPairs:
    """All pairs of labelled rows; rows of one class are similar."""

    def __init__(self, X: Floats, codes: Indices) -> None:
        rows_with_company(codes)
        self.features, self.extent = to_unit_range(X)
        self._codes = codes
        self.n_dropped = 0

    def extremes(self, u: Floats) -> tuple[Extremes, Extremes]:
        """Of each row the similar pair that is farthest apart, and the dissimilar pair that is nearest."""
        far, far_rows, near, near_rows, n_close = extreme_pairs(self.features, self._codes, u, CLOSEST**2)
        self.n_dropped = max(self.n_dropped, n_close)  # all of them the first time, when every feature counts
        farthest = np.argsort(-far, kind="stable")[: np.count_nonzero(far >= 0.0)]
        nearest = np.argsort(near, kind="stable")[: np.count_nonzero(near < np.inf)]
        return (farthest, far_rows[farthest], far[farthest]), (nearest, near_rows[nearest], near[nearest])


class _GivenPairs:
    """Pairs as they were given."""

    def __init__(self, pairs: Pairs) -> None:
        similar = np.asarray(pairs.similar)
        if similar.all() or not similar.any():
            raise ValueError("pairs must hold similar and dissimilar ones, got one kind only")
        self.features, self.extent = to_unit_range(pairs.X)
        self._left, self._right = pairs.left, pairs.right
        self._similar = np.flatnonzero(similar)
        apart = self._distances(np.flatnonzero(~similar), np.ones(pairs.n_features)) > CLOSEST**2
        self._dissimilar = np.flatnonzero(~similar)[apart]
        self.n_dropped = int(np.count_nonzero(~apart))

    def extremes(self, u: Floats) -> tuple[Extremes, Extremes]:
        """The similar pairs, the farthest apart first, and the dissimilar ones, the nearest first."""
        return self._sorted(self._similar, u, -1.0), self._sorted(self._dissimilar, u, 1.0)

    def _sorted(self, pairs: Indices, u: Floats, sign: float) -> Extremes:
        distances = self._distances(pairs, u)
        order = np.argsort(sign * distances, kind="stable")
        return self._left[pairs[order]], self._right[pairs[order]], distances[order]

    def _distances(self, pairs: Indices, u: Floats) -> Floats:
        distances = np.empty(len(pairs))
        step = max(1, CHUNK_ELEMENTS // len(u))
        for start in range(0, len(pairs), step):
            block = pairs[start : start + step]
            distances[start : start + step] = _squares(self.features, self._left[block], self._right[block]) @ u
        return distances


class _Program:
    """The linear program with some of the constraints, over the weights u of features of range 1."""

    def __init__(self, features: Floats) -> None:
        self._features = features
        self._known: set[tuple[int, int, bool]] = set()
        self._squares: list[Floats] = []  # the squared differences of its pairs
        self._similar: list[NDArray[np.bool_]] = []

    def add(self, similar: Extremes, dissimilar: Extremes, most: float, least: float) -> bool:
        """Add constraints of some pairs farther apart than `most`, or nearer than `least`; false where none is new."""
        n_known = len(self._known)
        self._add(similar, True, similar[2] > most)
        self._add(dissimilar, False, dissimilar[2] < least)
        return len(self._known) > n_known

    def _add(self, pairs: Extremes, similar: bool, violated: NDArray[np.bool_]) -> None:
        chosen = []
        for k in np.flatnonzero(violated):
            key = (int(pairs[0][k]), int(pairs[1][k]), similar)
            if key not in self._known:
                self._known.add(key)
                chosen.append(k)
                if len(chosen) == NEW_PAIRS:
                    break
        self._squares.append(_squares(self._features, pairs[0][chosen], pairs[1][chosen]))
        self._similar.append(np.full(len(chosen), similar))

    def solve(self, highest: float) -> tuple[Floats, float] | None:
        """The optimal u and t, which is at most `highest`; None where rounding keeps the solver from it."""
        squares, similar = np.vstack(self._squares), np.concatenate(self._similar)[:, None]
        # HiGHS takes coefficients below 1e-9 for 0 and violations up to 1e-7 for none. So it gets variables between 0
        # and about 1, u · unit and t / highest, and rows with the largest coefficient above 1 by as much as the least.
        largest = squares.max(axis=1, keepdims=True)
        unit = float(largest[~similar].min())
        side = np.where(similar, unit * highest, unit)
        divisor = np.sqrt(np.maximum(largest, side)) * np.sqrt(side)
        side = side / divisor
        rows = np.where(similar, 1.0, -1.0) * squares / divisor
        rows = np.hstack([rows, np.where(similar, -side, 0.0)])
        cost = np.zeros(rows.shape[1])
        cost[-1] = 1.0
        result: Any = linprog(cost, A_ub=rows, b_ub=np.where(similar, 0.0, -side).ravel(), method="highs")
        if result.status != 0:
            return None
        return np.maximum(result.x[:-1], 0.0) / unit, max(float(result.fun), 0.0) * highest


def _squares(features: Floats, left: Indices, right: Indices) -> Floats:
    """The squared differences of rows, in float64."""
    result: Floats = np.square(np.subtract(features[left], features[right], dtype=np.float64))
    return result

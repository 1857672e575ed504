"""MDM: feature weights by maximum distance minimization (Hocke, Martinetz, 2013)."""

from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any

import numpy as np
from scipy.optimize import linprog

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.pair_costs import drawn
from mahala.batch.run import IterationParams, Run
from mahala.batch.triplets import rows_in_shared_classes
from mahala.batch.whitening import to_unit_range
from mahala.comparisons import Pairs
from mahala.compiled.sums.weighting import extreme_pairs
from mahala.learner import LabelledRows
from mahala.support.arrays import BoolArray, IndexArray, RealArray, row_blocks
from mahala.support.parameters import Count, NonNegative

# Number of pairs of each kind that are added to the linear program per iteration.
NEW_PAIRS = 64
# Dissimilar rows that differ by less than this, in features of range 1, count as equal, because only very large weights
# could separate them.
CLOSEST = 1e-6

# Pairs, the most extreme first: the two rows of each, and their squared distance.
Extremes = tuple[IndexArray, IndexArray, RealArray]


@dataclass(eq=False, repr=False, kw_only=True)
class MDM(IterationParams, BatchLearner):
    """Maximum distance minimization: weights w of squared differences that solve a linear program.

    It minimises t over w ≥ 0, such that Σ_j w_j v_j² ≤ t for similar pairs and Σ_j w_j v_j² ≥ 1 for dissimilar ones,
    where v is the difference of a pair, for all pairs of labelled rows or for given :class:`~mahala.Pairs`.

    Parameters
    ----------
    max_iter : int, default=200
        Maximum number of iterations, each of which solves a linear program.
    tol : float, default=1e-5
        The fit ends when t is within this of the optimum, relative to it if it is above 1.
    warm_start, callback, verbose : see :class:`mahala.NCA`

    Attributes
    ----------
    feature_importances_ : ndarray of shape (n_features,), the weights w
    n_dropped_ : int, the number of dissimilar pairs that were left out
    objective_, objectives_ : float and ndarray
        The smallest t, at the end and after each iteration: the largest squared distance of a similar pair, if the
        smallest of a dissimilar pair is 1.
    metric_, n_iter_, stop_reason_ : see :class:`mahala.NCA`

    References
    ----------
    J. Hocke, T. Martinetz: Feature weighting by maximum distance minimization. Artificial Neural Networks and Machine
    Learning (ICANN), Springer, 2013, 420-425.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> round(MDM().fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2)
    0.97
    """

    _learns_from = Pairs
    _takes_chunks = False

    max_iter: Count = 200
    tol: NonNegative = 1e-5

    @property
    def n_dropped_(self) -> int:
        """Number of dissimilar pairs that are too close together to be separated."""
        return int(self._learned("n_dropped")[0])

    def _learn(self, data: LabelledRows | Pairs, run: Run) -> str:
        data = drawn(data, "auto", self._rng)
        source = _GivenPairs(data) if isinstance(data, Pairs) else _AllPairs(data.X, data.codes)
        program = _Program(source.features)
        u = np.ones(source.features.shape[1])  # weights of features of range 1
        similar, dissimilar = source.extremes(u)
        if not len(dissimilar[0]):
            raise ValueError("no two dissimilar rows of X differ, so no weights can separate them")
        most, least = 0.0, np.inf  # bounds of the program: similar pairs at most, dissimilar pairs at least
        before = run.warm
        if before is not None:
            warm = before["w"] * np.where(np.isfinite(source.extent), source.extent, 0.0) ** 2
            extremes = source.extremes(warm)
            if extremes[1][2][0] > 0.0:  # the previous weights separate these rows, too
                program.add(similar, dissimilar, most, least)
                u, (similar, dissimilar) = warm, extremes

        lowest, weights = np.inf, u
        for _ in range(self.max_iter):
            if dissimilar[2][0] > 0.0 and similar[2][0] < lowest * dissimilar[2][0]:
                lowest, weights = similar[2][0] / dissimilar[2][0], u / dissimilar[2][0]
            model = {"w": weights / source.extent**2, "n_dropped": np.array([float(source.n_dropped)])}
            if run.step(lowest, model):
                return "callback"
            if lowest <= most + self.tol * max(1.0, most):
                return "converged"
            solution = program.solve(lowest) if program.add(similar, dissimilar, most, least) else None
            if solution is None:
                return "precision"
            (u, most), least = solution, 1.0
            similar, dissimilar = source.extremes(u)
        return "max_iter"


class _AllPairs:
    """All pairs of labelled rows; rows of one class are similar."""

    def __init__(self, X: RealArray, codes: IndexArray) -> None:
        rows_in_shared_classes(codes)
        self.features, self.extent = to_unit_range(X)
        self._codes = codes
        self.n_dropped = 0

    def extremes(self, u: RealArray) -> tuple[Extremes, Extremes]:
        """Return the farthest similar pair and the nearest dissimilar pair of each row."""
        far, far_rows, near, near_rows, n_close = extreme_pairs(self.features, self._codes, u, CLOSEST**2)
        self.n_dropped = max(self.n_dropped, n_close)  # complete in the first call, with all weights 1
        farthest = np.argsort(-far, kind="stable")[: np.count_nonzero(far >= 0.0)]
        nearest = np.argsort(near, kind="stable")[: np.count_nonzero(near < np.inf)]
        return (farthest, far_rows[farthest], far[farthest]), (nearest, near_rows[nearest], near[nearest])


class _GivenPairs:
    """The given pairs."""

    def __init__(self, pairs: Pairs) -> None:
        similar = np.asarray(pairs.similar)
        if similar.all() or not similar.any():
            raise ValueError("pairs must contain similar and dissimilar ones, got only one kind")
        self.features, self.extent = to_unit_range(pairs.X)
        self._ends = pairs.left, pairs.right
        dropped = ~similar & (self._distances(np.ones(pairs.n_features)) <= CLOSEST**2)
        self._similar, self._dissimilar = np.flatnonzero(similar), np.flatnonzero(~similar & ~dropped)
        self.n_dropped = int(np.count_nonzero(dropped))

    def extremes(self, u: RealArray) -> tuple[Extremes, Extremes]:
        """Return the similar pairs, the farthest first, and the dissimilar ones, the nearest first."""
        (left, right), distances = self._ends, self._distances(u)
        far = self._similar[np.argsort(-distances[self._similar], kind="stable")]
        near = self._dissimilar[np.argsort(distances[self._dissimilar], kind="stable")]
        return (left[far], right[far], distances[far]), (left[near], right[near], distances[near])

    def _distances(self, u: RealArray) -> RealArray:
        left, right = self._ends
        blocks = row_blocks(len(left), len(u))
        return np.concatenate([_squares(self.features, left[block], right[block]) @ u for block in blocks])


class _Program:
    """The linear program with some of the constraints, over the weights u of features of range 1."""

    def __init__(self, features: RealArray) -> None:
        self._features = features
        self._pairs: set[tuple[int, int, bool]] = set()
        self._squares: list[RealArray] = []  # the squared differences of its pairs
        self._similar: list[BoolArray] = []

    def add(self, similar: Extremes, dissimilar: Extremes, most: float, least: float) -> bool:
        """Add similar pairs farther than `most` and dissimilar ones nearer than `least`; return whether any is new."""
        n_before = len(self._pairs)
        for pairs, kind, violated in ((similar, True, similar[2] > most), (dissimilar, False, dissimilar[2] < least)):
            keys = dict.fromkeys(zip(*(end[violated].tolist() for end in pairs[:2]), repeat(kind)))
            chosen = list(islice((key for key in keys if key not in self._pairs), NEW_PAIRS))
            self._pairs.update(chosen)
            ends = np.array([key[:2] for key in chosen], dtype=np.intp).reshape(-1, 2).T
            self._squares.append(_squares(self._features, *ends))
            self._similar.append(np.full(len(chosen), kind))
        return len(self._pairs) > n_before

    def solve(self, highest: float) -> tuple[RealArray, float] | None:
        """Return the optimal u and t, which is at most `highest`; None if the solver fails because of rounding."""
        squares, similar = np.vstack(self._squares), np.concatenate(self._similar)[:, None]
        # HiGHS ignores coefficients below 1e-9 and violations up to 1e-7. So the variables are scaled to lie between 0
        # and about 1, as u · unit and t / highest, and the rows so that their coefficients are centred around 1.
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


def _squares(features: RealArray, left: IndexArray, right: IndexArray) -> RealArray:
    """Return the squared differences of rows in float64."""
    return np.asarray(np.square(np.subtract(features[left], features[right], dtype=np.float64)))

"""ITML: information-theoretic metric learning (Davis, Kulis, Jain, Sra, Dhillon, 2007)."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.logdet import UNIT, LogDetProblem, Prior, prior_components
from mahala.batch.pair_costs import as_pairs
from mahala.batch.run import IterationParams, Run
from mahala.comparisons import Pairs
from mahala.comparisons.target_distances import Target, check_targets, targets_for
from mahala.compiled.sums.lmnn import squared_distances
from mahala.compiled.threads import product, squared_norms
from mahala.learner import LabelledRows
from mahala.support.arrays import BoolArray, FloatArray
from mahala.support.parameters import Count, NonNegative, Positive, Seed
from mahala.support.states import Array

# Largest factor between targets and distances; larger ones would bring M to the limits of float64.
FURTHEST = 1e80
# Rows whose squared distance is at most this share of their squared norms count as equal.
COINCIDING = (4.0 * np.finfo(np.float64).eps) ** 2
# Smallest ratio of a distance to its target.
SMALLEST_RATIO = 1e-300
# Smallest variance in the coordinates of the descent, as a share of the largest.
RIDGE = 1e-2


@dataclass(eq=False, repr=False)
class ITML(IterationParams, BatchLearner):
    r"""Information-theoretic metric learning: the metric nearest to a prior that keeps similar pairs near.

    ITML minimises D(M, M₀) + γ Σ D(ξ, ξ₀) over M ≻ 0 and a target ξ for the squared distance of each pair, which is at
    most ξ for similar pairs and at least ξ for dissimilar ones. D is the LogDet divergence, and ξ₀ one target for all
    similar and one for all dissimilar pairs. M is of float64.

    Parameters
    ----------
    gamma : float, default=1.0
        Weight of changed targets relative to a changed M; large values keep the targets.
    similar_target, dissimilar_target : float or "auto", default="auto"
        Upper bound of the squared distances of similar pairs, and lower bound of those of dissimilar pairs. "auto" is
        the 5th or 95th percentile of the pairs' squared distances under the prior.
    n_pairs : int or "auto", default="auto"
        Number of pairs drawn from labelled rows; "auto" is 40 c (c - 1) for c classes.
    prior : "identity", "covariance" or MahalanobisMetric, default="identity"
        M₀: Euclidean distances, the inverse of the rows' covariance (as `RCA` inverts it), or a metric. Directions of
        weight zero in M₀ have weight zero in M.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-6
        The fit ends when the objective is at most this share above its minimum, by the duality gap.
    warm_start : bool, default=False
        Whether `fit` starts from the previous M.
    callback, verbose, random_state : see :class:`mahala.NCA`

    Attributes
    ----------
    similar_target_, dissimilar_target_ : float, the targets ξ₀ that were used
    metric_, components_, objective_, objectives_, n_iter_, stop_reason_ : see :class:`mahala.NCA`

    References
    ----------
    J. V. Davis, B. Kulis, P. Jain, S. Sra, I. S. Dhillon: Information-theoretic metric learning. Proceedings of the
    24th International Conference on Machine Learning (ICML), 2007, 209-216.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> round(ITML(prior="covariance", random_state=0).fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2)
    0.98
    """

    _learns_from = Pairs
    _test_settings = ({"prior": "covariance", "gamma": 0.1},)
    _MORE = (Array("model.targets", dtype=np.float64, shape=(2,), least=float(np.finfo(np.float64).tiny)),)

    gamma: Positive = 1.0
    _: KW_ONLY
    similar_target: Literal["auto"] | Positive = "auto"
    dissimilar_target: Literal["auto"] | Positive = "auto"
    n_pairs: Literal["auto"] | Count = "auto"
    prior: Prior = "identity"
    max_iter: Count = 1000
    tol: NonNegative = 1e-6
    random_state: Seed = None

    def _check_params(self) -> None:
        check_targets(self.similar_target, self.dissimilar_target)

    @property
    def similar_target_(self) -> float:
        """Upper bound of the squared distances of similar pairs."""
        return float(self._learned("targets")[0])

    @property
    def dissimilar_target_(self) -> float:
        """Lower bound of the squared distances of dissimilar pairs."""
        return float(self._learned("targets")[1])

    def _learn(self, data: LabelledRows | Pairs, run: Run) -> str:
        prior = prior_components(self.prior, data.X)
        data = as_pairs(data, self.n_pairs, self._rng)
        problem = _Problem(data, prior, (self.similar_target, self.dissimilar_target), float(self.gamma))
        return problem.solve(run)


class _Problem(LogDetProblem):
    """ITML's objective; the largest distance under the prior is about 1.

    The best ξ for an M is ξ₀, or vᵀMv if that violates the constraint, so the objective is a smooth function of M.
    """

    def __init__(self, pairs: Pairs, prior: FloatArray | None, targets: tuple[Target, Target], gamma: float) -> None:
        X = pairs.X.astype(np.float64) - pairs.X.mean(axis=0, dtype=np.float64)
        X = X if prior is None else product(X, prior.T)
        distances = squared_distances(X, pairs.left, pairs.right)
        chosen = targets_for(distances, *targets)
        exponent = math.frexp(math.sqrt(float(distances.max()) or chosen[1]))[1]
        scale = math.ldexp(1.0, -exponent)  # a power of two, which does not round
        low, high = (value * scale * scale for value in chosen)
        if not 1.0 / FURTHEST < low < high < FURTHEST:
            limit = f"a factor of {FURTHEST:g} of the pairs' squared distances, which are up to {scale**-2:.3g}"
            got = f"got {chosen[0]:g} and {chosen[1]:g}"
            raise ValueError(f"similar_target and dissimilar_target must be within {limit}, {got}")
        X, distances, norms = X * scale, distances * scale**2, squared_norms(X) * scale**2
        differ = distances > COINCIDING * (norms[pairs.left] + norms[pairs.right])
        assert pairs.similar is not None, "fit requires labels"
        super().__init__(X, prior, pairs.left[differ], pairs.right[differ])
        self._more = {"targets": np.array(chosen)}
        self._similar, self._gamma = pairs.similar[differ], gamma
        self._initial = np.where(self._similar, low, high)
        d = self._X.shape[1]
        factor = math.sqrt(_best_factor(distances[differ] / self._initial, self._similar, d, gamma))
        # In units in which the rows are nearly white, the descent takes fewer iterations.
        lengths = np.sqrt(self._variances + (RIDGE * self._variances[-1] or 1.0))
        self._first, self._basis = np.full(d, factor), factor / UNIT * lengths[0] / lengths

    def _loss(self, distances: FloatArray) -> tuple[float, FloatArray]:
        ratios = np.maximum(distances / self._initial, SMALLEST_RATIO)
        moved = _violated(ratios, self._similar)
        slopes = np.where(moved, self._gamma * (1.0 - 1.0 / ratios) / self._initial, 0.0)
        return self._gamma * float((ratios[moved] - 1.0 - np.log(ratios[moved])).sum()), slopes


def _violated(ratios: FloatArray, similar: BoolArray) -> BoolArray:
    """Return which constraints the ratios of vᵀMv to ξ₀ violate."""
    return np.where(similar, ratios > 1.0, ratios < 1.0)


def _best_factor(ratios: FloatArray, similar: BoolArray, dimension: int, gamma: float) -> float:
    """Return the factor a of M = a I that minimises the objective, given vᵀv / ξ₀."""

    # SciPy keeps this function, and all that it refers to, until the next garbage collection.
    def slope(exponent: float) -> float:  # the derivative times a, which increases
        a = math.exp(exponent)
        scaled = a * ratios[_violated(a * ratios, similar)]
        return float(dimension * (a - 1.0) + gamma * (scaled - 1.0).sum())

    furthest = math.log(FURTHEST) + 1.0
    return math.exp(brentq(slope, -furthest, furthest))

"""ITML: information-theoretic metric learning (Davis, Kulis, Jain, Sra, Dhillon, 2007)."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import brentq

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.descent import descend
from mahala.batch.pair_costs import pairs_of
from mahala.batch.run import IterationParams, Model, Run
from mahala.batch.whitening import constant, covariances, whiten_within
from mahala.comparisons import Pairs
from mahala.comparisons.pairs import draw_pairs
from mahala.comparisons.target_distances import Target, check_targets, targets_for
from mahala.compiled.sums.lmnn import add_pull, squared_distances
from mahala.compiled.threads import product, squared_norms, transposed_product
from mahala.learner import LabelledRows
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import Arrays, BoolArray, FloatArray, RealArray
from mahala.support.model_files import ModelFileError, array_value
from mahala.support.parameters import Count, NonNegative, Positive, Seed

# Smallest eigenvalue of a prior's covariance, as a share of the largest, with features in units of their deviation.
FLOOR = 1e-6
# Largest factor between targets and distances; larger ones would bring M to the limits of float64.
FURTHEST = 1e80
# Rows whose squared distance is at most this share of their squared norms count as equal.
COINCIDING = (4.0 * np.finfo(np.float64).eps) ** 2
# Smallest ratio of a distance to its target.
SMALLEST_RATIO = 1e-300
# Smallest length of a direction of L, as a share of the largest.
SHORTEST = 1e-6
# Smallest variance in the coordinates of the descent, as a share of the largest.
RIDGE = 1e-2
# The first step of a descent has length 1; in units in which L has this one, it changes little.
UNIT = 4.0


@dataclass(eq=False, repr=False)
class ITML(IterationParams, BatchLearner):
    r"""Information-theoretic metric learning: the metric nearest to a prior that keeps similar pairs near.

    ITML minimises D(M, M₀) + γ Σ D(ξ, ξ₀) over M ≻ 0 and a target ξ for the squared distance of each pair, which is at
    most ξ for similar pairs and at least ξ for dissimilar ones. D is the LogDet divergence, and ξ₀ one target for all
    similar and one for all dissimilar pairs. M is of float64.

    Parameters
    ----------
    gamma : float
        Weight of changed targets relative to a changed M; large values keep the targets.
    similar_target, dissimilar_target : float or "auto"
        Upper bound of the squared distances of similar pairs, and lower bound of those of dissimilar pairs. "auto" is
        the 5th or 95th percentile of the pairs' squared distances under the prior.
    n_pairs : int or "auto"
        Number of pairs drawn from labelled rows; "auto" is 40 c (c - 1) for c classes.
    prior : "identity", "covariance" or MahalanobisMetric
        M₀: Euclidean distances, the inverse of the rows' covariance (as `RCA` inverts it), or a metric. Directions of
        weight zero in M₀ have weight zero in M.
    max_iter : int
        Maximum number of iterations.
    tol : float
        The fit ends when the objective is at most this share above its minimum, by the duality gap.
    warm_start : bool
        Whether `fit` starts from the previous M.
    callback, verbose, random_state : see :class:`mahala.NCA`

    Attributes
    ----------
    similar_target_, dissimilar_target_ : float, the targets ξ₀ that were used
    metric_, components_, objective_, objectives_, n_iter_, stop_reason_ : see :class:`mahala.NCA`
    """

    _learns_from = Pairs

    gamma: Positive = 1.0
    _: KW_ONLY
    similar_target: Literal["auto"] | Positive = "auto"
    dissimilar_target: Literal["auto"] | Positive = "auto"
    n_pairs: Literal["auto"] | Count = "auto"
    prior: Literal["identity", "covariance"] | MahalanobisMetric = "identity"
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

    def _learn(self, data: Any, run: Run) -> str:
        prior = self._prior_components(data.X)
        if isinstance(data, LabelledRows):
            data = pairs_of(data.X, *draw_pairs(data.codes, self.n_pairs, None, self._rng, name="n_pairs"))
        problem = _Problem(data, prior, (self.similar_target, self.dissimilar_target), float(self.gamma))
        start = problem.start(None if (warm := self._warm_model()) is None else warm["M"])

        def solved() -> bool:
            return problem.gap() <= self.tol * problem.value and not problem.limited

        reason = descend(problem, start, run, max_iter=self.max_iter, tol=0.0, to_model=problem.to_model, solved=solved)
        return {"solved": "converged", "converged": "precision"}.get(reason, reason)

    def _prior_components(self, X: Any) -> FloatArray | None:
        """Return L₀ with M₀ = L₀ᵀL₀, or None for the identity."""
        prior = self.prior
        if isinstance(prior, MahalanobisMetric):
            d = X.shape[1]
            if prior.kernel_map is not None or prior.matrix.shape != (d, d):
                raise ValueError(f"prior must be a Mahalanobis metric of {d} features without a kernel, got {prior!r}")
            if prior.n_components == 0 or not prior.is_psd:
                raise ValueError("prior must be a metric with positive eigenvalues and no negative ones")
            return prior.components
        if prior == "identity" or constant(X).all():
            return None
        scatter = covariances(X, np.zeros(len(X), dtype=np.intp))
        return scatter.in_features(whiten_within(scatter.total, scatter.total, FLOOR)[0])

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        super()._set_state(header, arrays)
        low, high = array_value(arrays, "model.targets", np.float64, (2,))
        if not 0.0 < low < high:
            raise ModelFileError(f"the targets should be positive, the first below the second, found {low} and {high}")


class _Problem:
    """ITML's objective as a function of L with M = LᵀL, and its duality gap.

    Coordinates are those in which the prior is I and the largest distance about 1, in the span of the rows if they are
    fewer than the features: outside it M is M₀. The best ξ for an M is ξ₀, or vᵀMv if that violates the constraint, so
    the objective is a smooth function of M alone.
    """

    def __init__(self, pairs: Pairs, prior: FloatArray | None, targets: tuple[Target, Target], gamma: float) -> None:
        X = pairs.X.astype(np.float64) - pairs.X.mean(axis=0, dtype=np.float64)
        X = X if prior is None else product(X, prior.T)
        distances = squared_distances(X, pairs.left, pairs.right)
        self._targets = targets_for(distances, *targets)
        exponent = math.frexp(math.sqrt(float(distances.max()) or self._targets[1]))[1]
        scale = math.ldexp(1.0, -exponent)  # a power of two, which does not round
        low, high = (value * scale * scale for value in self._targets)
        if not 1.0 / FURTHEST < low < high < FURTHEST:
            limit = f"a factor of {FURTHEST:g} of the pairs' squared distances, which are up to {scale**-2:.3g}"
            given = f"got {self._targets[0]:g} and {self._targets[1]:g}"
            raise ValueError(f"similar_target and dissimilar_target must be within {limit}, {given}")
        X, distances, norms = X * scale, distances * scale**2, squared_norms(X) * scale**2
        differ = distances > COINCIDING * (norms[pairs.left] + norms[pairs.right])
        assert pairs.similar is not None, "fit requires labels"
        span = None
        if 1 < len(X) <= X.shape[1]:
            span = np.linalg.qr((X[1:] - X[0]).T)[0]
            X = product(X, span)
        # In the coordinates of the descent, L = V diag(basis), the rows are nearly white: that takes fewer iterations.
        variances, axes = np.linalg.eigh(transposed_product(X, X))
        lengths = np.sqrt(variances.clip(min=0.0) + (RIDGE * variances[-1] or 1.0))
        self._X, self._gamma = product(X, axes), gamma
        self._axes = axes if span is None else product(span, axes)
        self._given = prior
        self._prior = self._axes.T if prior is None else product(self._axes.T, prior)
        self._outside: FloatArray | None = None  # what M₀ is outside the span
        if span is not None:
            self._outside = -transposed_product(self._prior, self._prior)
            self._outside += np.eye(len(span)) if prior is None else transposed_product(prior, prior)
        self._left, self._right, self._similar = pairs.left[differ], pairs.right[differ], pairs.similar[differ]
        self._initial = np.where(self._similar, low, high)
        ratios = distances[differ] / self._initial
        self._factor = math.sqrt(_best_factor(ratios, self._similar, self._X.shape[1], gamma))
        self._basis = self._factor / UNIT * lengths[0] / lengths
        self.limited = False

    def start(self, warm: RealArray | None) -> FloatArray:
        """Return the first variables, for the best multiple of I or a learned M."""
        L: FloatArray = self._factor * np.eye(len(self._basis))
        if warm is not None:
            back = self._axes if self._given is None else product(np.linalg.pinv(self._given), self._axes)
            M = transposed_product(back, product(warm, back))
            given = MahalanobisMetric(0.5 * (M + M.T)).components
            if given.shape == L.shape and np.linalg.cond(given) < 1.0 / SHORTEST:
                L = given
        return np.asarray(L / self._basis)

    def __call__(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its gradient."""
        L = variables * self._basis
        factor, pivots, _ = lapack.dgetrf(L)
        diagonal = np.abs(factor.diagonal())
        if not diagonal.all():
            return np.inf, np.zeros_like(variables)
        self._inverse = lapack.dgetri(factor, pivots)[0]
        Z = product(self._X, L.T)
        ratios = np.maximum(squared_distances(Z, self._left, self._right) / self._initial, SMALLEST_RATIO)
        moved = _violated(ratios, self._similar)
        weights = np.where(moved, self._gamma * (1.0 - 1.0 / ratios) / self._initial, 0.0)
        pull = np.zeros_like(Z)
        add_pull(Z, self._left, self._right, weights, pull)
        logs = np.log(ratios[moved])
        self._half = L + transposed_product(pull, self._X)
        self._logs = self._gamma * float(logs.sum())
        divergence = float(np.square(L).sum()) - 2.0 * float(np.log(diagonal).sum()) - len(L)
        self.value = divergence + self._gamma * float((ratios[moved] - 1.0 - logs).sum())
        return self.value, 2.0 * (self._half - self._inverse.T) * self._basis

    def gap(self) -> float:
        """Return by how much the objective at the last model is above a lower bound of its minimum.

        The bound is the dual objective log|M₀M_λ⁻¹| - γ Σ log(ξ/ξ₀) at M_λ⁻¹ = M₀⁻¹ ± Σ λ v vᵀ with the λ that belong
        to this ξ.
        """
        precision = self._inverse @ self._half  # L⁻¹ (L + L Σ ± λ v vᵀ)
        try:
            root = np.linalg.cholesky(0.5 * (precision + precision.T))
        except np.linalg.LinAlgError:
            return np.inf
        return self.value - 2.0 * float(np.log(root.diagonal()).sum()) + self._logs

    def to_model(self, variables: FloatArray) -> Callable[[], Model]:
        """Return a function that returns the model, in which no direction is much shorter than others."""
        L = variables * self._basis
        # Outside the span all lengths are 1.
        sizes = (max(float(np.linalg.norm(A)), float(self._outside is not None)) for A in (L, self._inverse))
        self.limited = math.prod(sizes) > 1.0 / SHORTEST
        if self.limited:
            _, lengths, axes = np.linalg.svd(L)
            L = np.maximum(lengths, SHORTEST * max(lengths[0], float(self._outside is not None)))[:, None] * axes
        return partial(self._in_features, L)

    def _in_features(self, L: FloatArray) -> Model:
        """Return the model of an L in the coordinates of the descent."""
        largest = float(np.linalg.norm(L, 2)) if self._outside is not None else 0.0
        L = product(L, self._prior)
        M = transposed_product(L, L)
        if self._outside is not None:
            M += max(1.0, SHORTEST * largest) ** 2 * self._outside
        return {"M": 0.5 * (M + M.T), "targets": np.array(self._targets)}


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

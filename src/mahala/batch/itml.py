"""ITML: information-theoretic metric learning (Davis, Kulis, Jain, Sra, Dhillon, 2007)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from scipy.linalg import lapack

from mahala.batch.batch_learner import BatchLearner, TrainingData
from mahala.batch.covariance import covariances
from mahala.batch.run import IterationParams, Model, Run
from mahala.batch.whitening import whiten_within
from mahala.comparisons import Pairs
from mahala.comparisons.sampling import draw_pairs
from mahala.comparisons.target_distances import Target, check_targets, squared_distances, targets_for
from mahala.compiled.itml import sweep
from mahala.learner import LabelledRows
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import Arrays, FloatArray
from mahala.support.model_files import ModelFileError, array_value
from mahala.support.rows import row_blocks
from mahala.support.validation import Count, NonNegative, Positive, Seed

# Smallest eigenvalue of a prior's covariance, as a share of the largest, with features in units of their deviation.
FLOOR = 1e-6
# Largest factor between targets and distances; larger ones would bring M to the limits of float64.
FURTHEST = 1e80
# Duals are reused if the M that they give differs by at most this from the learned one.
SAME = 1e-5


@dataclass(eq=False, repr=False)
class ITML(IterationParams, BatchLearner):
    r"""Information-theoretic metric learning: the metric nearest to a prior that keeps similar pairs near.

    ITML minimises, over M ≻ 0 and a target ξ for the squared distance of each pair,

        D(M, M₀) + γ Σ D(ξ, ξ₀)   subject to   vᵀMv ≤ ξ for similar pairs, vᵀMv ≥ ξ for dissimilar ones,

    with v = x - x', the LogDet divergence D(A, B) = tr(AB⁻¹) - log|AB⁻¹| - d, and ξ₀ one target for all similar and one
    for all dissimilar pairs. It projects (M, ξ) cyclically onto one constraint after the other, and keeps a dual
    variable λ ≥ 0 for each: M⁻¹ = M₀⁻¹ ± Σ λ v vᵀ and 1/ξ = 1/ξ₀ ∓ λ/γ. So M stays positive definite, and the objective
    approaches its minimum, from above or below, as the constraints become satisfied. A projection is that of the
    authors' program: with p = vᵀMv it changes λ by γ/(1+γ) (1/p - 1/ξ), which makes p = ξ (the number printed in the
    paper does not).

    Two limits keep M numerically definite: a projection changes no distance by more than a factor of 10,000 (the next
    sweep continues), and none raises the condition number of M relative to M₀ above 1e8 times the number of features.
    If the targets require more than that, `stop_reason_` is "precision". Pairs of equal rows are left out.

    A sweep takes two products of the pairs' differences with a d × d matrix, and memory is that of X and of a few such
    matrices. M is kept in float64, whatever the dtype of X.

    Reference: J. V. Davis, B. Kulis, P. Jain, S. Sra, I. S. Dhillon, Information-theoretic metric learning, ICML 2007.

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
        Maximum number of iterations, which are sweeps over all constraints.
    tol : float
        The fit ends when the sum of the changes of the duals in a sweep is at most this share of their norm.
    warm_start : bool
        Whether `fit` resumes from the previous model: from its duals if the pairs and the prior are the same as before
        (the same pairs are drawn again from labelled rows), else with its M as the prior.
    callback, verbose, random_state
        See :class:`mahala.NCA`.

    Attributes
    ----------
    similar_target_, dissimilar_target_ : float
        The targets ξ₀ that were used.
    metric_, components_, objective_, objectives_, n_iter_, stop_reason_
        See :class:`mahala.NCA`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mahala import ITML
    >>> X, y = load_wine(return_X_y=True)
    >>> itml = ITML(prior="covariance", random_state=0).fit(X[::2], y[::2])
    >>> itml.score(X[1::2], y[1::2]) > 0.9
    True
    >>> itml.stop_reason_
    'converged'
    """

    _learns_from = Pairs

    gamma: Positive = 1.0
    _: KW_ONLY
    similar_target: Literal["auto"] | Positive = "auto"
    dissimilar_target: Literal["auto"] | Positive = "auto"
    n_pairs: Literal["auto"] | Count = "auto"
    prior: Literal["identity", "covariance"] | MahalanobisMetric = "identity"
    max_iter: Count = 1000
    tol: NonNegative = 1e-3
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

    def _learn(self, data: TrainingData, run: Run) -> str:
        if not isinstance(data, Pairs):
            # Always the same seed, so that a warm start draws the pairs to which its duals belong.
            rng = np.random.default_rng(self._seed)
            assert isinstance(data, LabelledRows)
            data = Pairs._build(data.X, *draw_pairs(data.codes, self.n_pairs, None, rng, name="n_pairs"))
        warm = self._warm_model()
        state = self._state(data, self._prior_components(data))
        if warm is not None and not state.resume(warm):
            state = self._state(data, MahalanobisMetric(warm["M"]).components)
        return self._sweeps(state, run)

    def _state(self, pairs: Pairs, L: FloatArray | None) -> _State:
        targets = self.similar_target, self.dissimilar_target
        return _State(pairs, L, targets, float(self.gamma))

    def _prior_components(self, pairs: Pairs) -> FloatArray | None:
        """Return L₀ with M₀ = L₀ᵀL₀, or None for the identity."""
        X, prior = pairs.X, self.prior
        if isinstance(prior, MahalanobisMetric):
            d = X.shape[1]
            if prior.kernel_map is not None or prior.matrix.shape != (d, d):
                raise ValueError(f"prior must be a Mahalanobis metric of {d} features without a kernel, got {prior!r}")
            if prior.n_components == 0 or not prior.is_psd:
                raise ValueError("prior must be a metric with positive eigenvalues and no negative ones")
            return prior.components
        if prior == "identity" or np.array_equal(X.min(axis=0), X.max(axis=0)):
            return None
        scatter = covariances(X, np.zeros(len(X), dtype=np.intp))
        return scatter.in_features(whiten_within(scatter.total, scatter.total, FLOOR)[0])

    def _sweeps(self, state: _State, run: Run) -> str:
        for _ in range(int(self.max_iter)):
            before = state.duals.copy()
            held_back = state.sweep()
            stop = run.step(state.objective(), state.to_model())
            change = float(np.abs(state.duals - before).sum())
            size = float(np.linalg.norm(state.duals) + np.linalg.norm(before))
            if stop:
                return "callback"
            if change <= self.tol * size:
                return "precision" if held_back else "converged"
        return "max_iter"

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        super()._set_state(header, arrays)
        low, high = array_value(arrays, "model.targets", np.float64, (2,))
        if not 0.0 < low < high:
            raise ModelFileError(f"the targets should be positive, the first below the second, found {low} and {high}")
        array_value(arrays, "model.duals", np.float64, (None,))


class _State:
    """M, the duals and the slack of a run, in coordinates in which the prior is I and the largest distance about 1."""

    def __init__(self, pairs: Pairs, L: FloatArray | None, targets: tuple[Target, Target], gamma: float) -> None:
        self.L = L
        self.gamma = gamma
        if L is not None:
            X = pairs.X - pairs.X.mean(axis=0, dtype=np.float64)
            pairs = pairs.over(X @ L.T)
        self.pairs = pairs
        distances = squared_distances(pairs)
        self.targets = targets_for(distances, *targets)
        exponent = math.frexp(math.sqrt(float(distances.max()) or self.targets[1]))[1]
        self.scale = math.ldexp(1.0, -exponent)  # a power of two, which does not round
        low, high = (value * self.scale * self.scale for value in self.targets)
        if not 1.0 / FURTHEST < low < high < FURTHEST:
            raise ValueError(
                f"similar_target and dissimilar_target must be within a factor of {FURTHEST:g} of the pairs' squared "
                f"distances, which are up to {self.scale**-2:.3g}, got {self.targets[0]:g} and {self.targets[1]:g}"
            )
        self.precisions = 1.0 / low, 1.0 / high
        assert pairs.similar is not None, "fit requires labels"
        self.signs = np.where(pairs.similar, 1.0, -1.0)
        self.initial = np.where(pairs.similar, *self.precisions)  # 1/ξ₀
        self.slack = self.initial.copy()  # 1/ξ
        self.duals = np.zeros(len(pairs))
        self._set(np.eye(pairs.n_features))

    def _set(self, M: FloatArray) -> None:
        """Set M, and log |M| and tr M⁻¹ from its Cholesky factor."""
        self.M = M
        self.log_determinant, root = _factor(M)
        self.inverse_trace = float(np.einsum("ij,ij->", root, root))

    def sweep(self) -> bool:
        """Project onto each constraint once; return whether the limit on the condition of M shortened a projection."""
        pairs, M = self.pairs, self.M.copy()
        held_back = sweep(
            pairs.X, pairs.left, pairs.right, self.scale, self.signs, self.precisions, self.gamma, M,
            self.inverse_trace, self.duals, self.slack,
        )  # fmt: skip
        self._set(M)
        return bool(held_back)

    def objective(self) -> float:
        """Return D(M, M₀) + γ Σ D(ξ, ξ₀), which does not depend on the coordinates."""
        ratio = self.initial / self.slack
        moved = float(np.sum(ratio - np.log(ratio) - 1.0))
        return float(np.trace(self.M)) - self.log_determinant - len(self.M) + self.gamma * moved

    def to_model(self) -> Model:
        """Return the model in units of the features; the duals scale as the inverse of the squared distances."""
        duals = self.duals * self.scale * self.scale
        return {"M": self._in_features(self.M), "duals": duals, "targets": np.array(self.targets)}

    def _in_features(self, M: FloatArray) -> FloatArray:
        if self.L is None:
            return M
        result = self.L.T @ M @ self.L
        return 0.5 * (result + result.T)

    def resume(self, model: Model) -> bool:
        """Resume from the model's duals if they give its M under these constraints; return whether they do."""
        duals = model["duals"] / self.scale / self.scale
        if len(duals) != len(self.duals):
            return False
        slack = self.initial - self.signs * duals / self.gamma
        if not (slack > 0.0).all():
            return False
        inverse = np.eye(len(self.M))
        for block in row_blocks(len(duals), self.pairs.n_features):
            V = self.pairs[block].differences() * self.scale
            inverse += (V.T * (self.signs * duals)[block]) @ V
        try:
            root = _factor(inverse)[1]
        except np.linalg.LinAlgError:
            return False
        M = root.T @ root
        if not np.abs(self._in_features(M) - model["M"]).max() <= SAME * np.abs(model["M"]).max():
            return False
        self.duals, self.slack = duals, slack
        self._set(M)
        return True


def _factor(A: FloatArray) -> tuple[float, FloatArray]:
    """Return log |A|, and R with A⁻¹ = RᵀR."""
    factor = np.linalg.cholesky(A)
    return 2.0 * float(np.log(factor.diagonal()).sum()), np.asarray(lapack.dtrtri(factor, lower=1)[0])

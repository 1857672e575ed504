"""ITML: information-theoretic metric learning (Davis, Kulis, Jain, Sra, Dhillon, 2007)."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from mahala.batch.batch_learner import BatchLearner, Given, Rows
from mahala.batch.covariance import covariances, whitening
from mahala.batch.run import Callback, Model, Run
from mahala.comparisons import Pairs
from mahala.comparisons.sampling import draw_pairs
from mahala.comparisons.target_distances import Target, check_targets, squared_distances, targets_for
from mahala.compiled.itml import sweep
from mahala.learner import CHUNK_ELEMENTS, Arrays
from mahala.metric import MahalanobisMetric, Metric
from mahala.support.model_files import ModelFileError, array_value
from mahala.support.params import is_count
from mahala.support.validation import check_positive

Floats = NDArray[np.float64]

# With features in units of their standard deviation, eigenvalues of a prior's covariance are at least this share of
# the largest.
FLOOR = 1e-6
# Targets further than this from the distances, as a factor, would take M to the limits of float64.
FURTHEST = 1e80
# Duals belong to these constraints where the M that they make differs by no more than this from the one learned.
SAME = 1e-5


class ITML(BatchLearner):
    r"""The metric nearest to a prior one under which similar pairs are near and dissimilar ones far.

    ITML minimises, over M ≻ 0 and a target ξ for the squared distance of each pair,

        D(M, M₀) + γ Σ D(ξ, ξ₀)   subject to   vᵀMv ≤ ξ for similar pairs, vᵀMv ≥ ξ for dissimilar ones,

    with v = x - x', the LogDet divergence D(A, B) = tr(AB⁻¹) - log|AB⁻¹| - d, and ξ₀ one target for all similar and one
    for all dissimilar pairs. It projects (M, ξ) onto one constraint after the other, in cycles, and keeps a dual
    variable λ ≥ 0 for each: M⁻¹ = M₀⁻¹ ± Σ λ v vᵀ and 1/ξ = 1/ξ₀ ∓ λ/γ. So M stays positive definite; the objective
    comes to its minimum as the constraints come to hold, from either side. A projection is that of the authors'
    program: with p = vᵀMv it moves λ by γ/(1+γ) (1/p - 1/ξ), which makes p = ξ (the paper prints another number, which
    does not).

    In floating point two limits keep M definite: a projection changes no distance by more than a factor of 10,000 (the
    next sweep goes on), and none takes the condition number of M relative to M₀ above 1e8 times the number of features.
    Where targets ask for more than that, `stop_reason_` is "precision". Pairs of equal rows are left out.

    A sweep takes two products of the pairs' differences with a d × d matrix; memory is that of X and of a few such
    matrices. M is held in float64, whatever the type of X.

    Reference: J. V. Davis, B. Kulis, P. Jain, S. Sra, I. S. Dhillon, Information-theoretic metric learning, ICML 2007.

    Parameters
    ----------
    gamma : float
        How much moved targets count against a moved M: large values hold the targets.
    similar_target, dissimilar_target : float or "auto"
        Squared distances that similar pairs are not to exceed, and dissimilar ones not to fall below. "auto" takes the
        5th and the 95th percentile of the pairs' squared distances under the prior.
    n_pairs : int or "auto"
        Pairs drawn from labelled rows; "auto" is 40 c (c - 1) for c classes.
    prior : "identity", "covariance" or Metric
        M₀: Euclidean distances, the inverse of the rows' covariance (as `RCA` inverts it), or a metric. Directions to
        which it gives no weight have none in M.
    max_iter : int
        Sweeps over all constraints.
    tol : float
        Converged is where the sum of the changes of the duals in a sweep is at most this share of their norm.
    warm_start : bool
        Whether `fit` goes on from the model before: with its duals where the pairs and the prior are the same as before
        (labelled rows draw the same pairs again), else with its M as the prior.
    callback : function of an Iteration, called after each sweep; a true value ends the fit
    verbose : bool, whether to show a progress bar
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    metric_ : Metric, what was learned
    similar_target_, dissimilar_target_ : float, the targets ξ₀ in force
    objective_, objectives_ : the objective at the end and after each sweep
    n_iter_ : int, sweeps
    stop_reason_ : "converged", "precision", "max_iter", "callback" or "interrupted"
    components_, n_features_in_, feature_names_in_

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

    def __init__(
        self,
        gamma: float = 1.0,
        similar_target: Target = "auto",
        dissimilar_target: Target = "auto",
        n_pairs: int | Literal["auto"] = "auto",
        prior: Literal["identity", "covariance"] | Metric = "identity",
        max_iter: int = 1000,
        tol: float = 1e-3,
        warm_start: bool = False,
        callback: Callback | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.gamma = gamma
        self.similar_target = similar_target
        self.dissimilar_target = dissimilar_target
        self.n_pairs = n_pairs
        self.prior = prior
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        check_positive(self.gamma, "gamma")
        check_targets(self.similar_target, self.dissimilar_target)
        if not (isinstance(self.n_pairs, str) and self.n_pairs == "auto") and not is_count(self.n_pairs):
            raise ValueError(f"n_pairs must be 'auto' or a positive integer, got {self.n_pairs!r}")
        names = ("identity", "covariance")
        if not isinstance(self.prior, Metric) and not (isinstance(self.prior, str) and self.prior in names):
            raise ValueError(f"prior must be 'identity', 'covariance' or a Metric, got {self.prior!r}")

    @property
    def similar_target_(self) -> float:
        """The squared distance that similar pairs were not to exceed."""
        check_is_fitted(self, "_model")
        return float(self._model["targets"][0])

    @property
    def dissimilar_target_(self) -> float:
        """The squared distance that dissimilar pairs were not to fall below."""
        check_is_fitted(self, "_model")
        return float(self._model["targets"][1])

    def _learn(self, given: Given, run: Run) -> tuple[Model, str]:
        if not isinstance(given, Pairs):
            # Always the same seed, so that a warm start meets the pairs to which its duals belong.
            rng = np.random.default_rng(self._seed)
            assert isinstance(given, Rows)
            given = Pairs._build(given.X, *draw_pairs(given.codes, self.n_pairs, None, rng, name="n_pairs"))
        with threadpool_limits(1, user_api="blas"):  # products in a sweep are small: threads would wait for each other
            warm = self._warm_model()
            state = self._state(given, self._prior_components(given))
            if warm is not None and not state.resume(warm):
                state = self._state(given, MahalanobisMetric(warm["M"]).components)
            return self._sweeps(state, run)

    def _state(self, pairs: Pairs, L: Floats | None) -> _State:
        targets = self.similar_target, self.dissimilar_target
        return _State(pairs, L, targets, float(self.gamma))

    def _prior_components(self, pairs: Pairs) -> Floats | None:
        """L₀ with M₀ = L₀ᵀL₀; None is the identity."""
        X, prior = pairs.X, self.prior
        if isinstance(prior, Metric):
            d = X.shape[1]
            if not isinstance(prior, MahalanobisMetric) or prior.kernel_map is not None or prior.matrix.shape != (d, d):
                raise ValueError(f"prior must be a Mahalanobis metric of {d} features without a kernel, got {prior!r}")
            if prior.n_components == 0 or not prior.is_psd:
                raise ValueError("prior must be a metric with positive eigenvalues and no negative ones")
            return prior.components
        if prior == "identity" or np.array_equal(X.min(axis=0), X.max(axis=0)):
            return None
        scatter = covariances(X, np.zeros(len(X), dtype=np.intp))
        return scatter.in_features(whitening(scatter.total, scatter.total, FLOOR)[0])

    def _sweeps(self, state: _State, run: Run) -> tuple[Model, str]:
        for _ in range(int(self.max_iter)):
            before = state.duals.copy()
            held_back = state.sweep()
            model = state.to_model()
            stop = run.step(state.objective(), model)
            change = float(np.abs(state.duals - before).sum())
            size = float(np.linalg.norm(state.duals) + np.linalg.norm(before))
            if stop:
                return model, "callback"
            if change <= self.tol * size:
                return model, "precision" if held_back else "converged"
        return model, "max_iter"

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        super()._set_state(header, arrays)
        low, high = array_value(arrays, "model.targets", np.float64, (2,))
        if not 0.0 < low < high:
            raise ModelFileError(f"the targets should be positive, the first below the second, found {low} and {high}")
        array_value(arrays, "model.duals", np.float64, (None,))


class _State:
    """M, the duals and the slack of a run, in coordinates where the prior is I and the largest distance about 1."""

    def __init__(self, pairs: Pairs, L: Floats | None, targets: tuple[Target, Target], gamma: float) -> None:
        self.L = L
        self.gamma = gamma
        if L is not None:
            X = pairs.X - pairs.X.mean(axis=0, dtype=np.float64)
            pairs = pairs.over(X @ L.T)
        self.pairs = pairs
        distances = squared_distances(pairs)
        self.targets = targets_for(distances, *targets)
        exponent = math.frexp(math.sqrt(float(distances.max()) or self.targets[1]))[1]
        self.scale = math.ldexp(1.0, -exponent)  # a power of two rounds nothing
        self.precisions = self._precisions()
        assert pairs.similar is not None, "the base has seen to that"
        self.signs = np.where(pairs.similar, 1.0, -1.0)
        self.initial = np.where(pairs.similar, *self.precisions)  # 1/ξ₀
        self.slack = self.initial.copy()  # 1/ξ
        self.duals = np.zeros(len(pairs))
        self._set(np.eye(pairs.n_features))

    def _precisions(self) -> tuple[float, float]:
        low, high = (value * self.scale * self.scale for value in self.targets)
        if not 1.0 / FURTHEST < low < high < FURTHEST:
            raise ValueError(
                f"similar_target and dissimilar_target must be within a factor of {FURTHEST:g} of the pairs' squared "
                f"distances, which are up to {self.scale**-2:.3g}, got {self.targets[0]:g} and {self.targets[1]:g}"
            )
        return 1.0 / low, 1.0 / high

    def _set(self, M: Floats) -> None:
        """Take M, with what its Cholesky factor tells: log |M| and tr M⁻¹."""
        self.M = M
        self.log_determinant, root = _factor(M)
        self.inverse_trace = float(np.einsum("ij,ij->", root, root))

    def sweep(self) -> bool:
        """Project onto each constraint once; true where the condition of M held a projection back."""
        pairs, M = self.pairs, self.M.copy()
        held_back = sweep(
            pairs.X, pairs.left, pairs.right, self.scale, self.signs, self.precisions, self.gamma, M,
            self.inverse_trace, self.duals, self.slack,
        )  # fmt: skip
        self._set(M)
        return bool(held_back)

    def objective(self) -> float:
        """D(M, M₀) + γ Σ D(ξ, ξ₀), which no change of coordinates changes."""
        ratio = self.initial / self.slack
        moved = float(np.sum(ratio - np.log(ratio) - 1.0))
        return float(np.trace(self.M)) - self.log_determinant - len(self.M) + self.gamma * moved

    def to_model(self) -> Model:
        """In the units of the features; the duals go as the inverse of the squared distances."""
        duals = self.duals * self.scale * self.scale
        return {"M": self._in_features(self.M), "duals": duals, "targets": np.array(self.targets)}

    def _in_features(self, M: Floats) -> Floats:
        if self.L is None:
            return M
        result = self.L.T @ M @ self.L
        return 0.5 * (result + result.T)

    def resume(self, model: Model) -> bool:
        """Go on from the model's duals, if these constraints make its M of them; else false, and nothing changes."""
        duals = model["duals"] / self.scale / self.scale
        if len(duals) != len(self.duals):
            return False
        slack = self.initial - self.signs * duals / self.gamma
        if not (slack > 0.0).all():
            return False
        inverse = np.eye(len(self.M))
        size = max(1, CHUNK_ELEMENTS // self.pairs.n_features)
        for start in range(0, len(duals), size):
            V = self.pairs.differences(start, start + size) * self.scale
            inverse += (V.T * (self.signs * duals)[start : start + size]) @ V
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


def _factor(A: Floats) -> tuple[float, Floats]:
    """log |A|, and R with A⁻¹ = RᵀR."""
    factor = np.linalg.cholesky(A)
    return 2.0 * float(np.log(factor.diagonal()).sum()), np.asarray(lapack.dtrtri(factor, lower=1)[0])

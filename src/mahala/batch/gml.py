"""GML: global metric learning by gradient descent (Hocke, Martinetz, 2014)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mahala.batch.batch_learner import BatchLearner, Given, Rows
from mahala.batch.coordinates import Coordinates, standardised, whitened
from mahala.batch.descent import Objective, descend
from mahala.batch.pair_costs import drawn, pair_costs
from mahala.batch.run import Callback, Floats, Model, Run
from mahala.batch.starts import Init, check_start
from mahala.comparisons import Pairs
from mahala.compiled.vsgd import N_MEANS, vsgd
from mahala.support.params import is_number
from mahala.support.validation import check_count, check_flag

# The cost (1 - d)² of a dissimilar pair at a distance d < 1, as the coefficients of 1, d and d².
TOO_CLOSE = (1.0, -2.0, 1.0)
# vSGD: pairs a step, and steps between two looks at the objective.
BATCH, STEPS = 10, 500
# vSGD has converged where so many looks have not found a gain.
PATIENCE = 5


class GML(BatchLearner):
    """The metric that pulls all similar pairs together and pushes dissimilar ones apart up to the distance 1.

    It minimises E(L) = α Σ_dissimilar (1 - min(d, 1))² + (1 - α) Σ_similar d² over the linear map L, d = ‖Lx - Lx'‖,
    with the sums over *all* unordered pairs of labelled rows, or over the pairs given. There are no constraints and
    no neighbourhoods. E is convex in M = LᵀL, so a square L has no local minimum beside the global one; and the minimum
    does not depend on the scale of the features. `diagonal=True` weights features.

    An evaluation takes n² m + n m d multiply-adds at most and memory O(n (d + m) + d²).

    Parameters
    ----------
    alpha : float
        Weight α of the dissimilar pairs, between 0 and 1.
    n_components : int or None
        Number m of rows of L; None is the number of features.
    diagonal : bool
        Learn weights of the features, L = diag(a), instead of a full L.
    solver : "lbfgs" or "vsgd"
        "lbfgs" takes all pairs into account in each iteration and is deterministic. "vsgd" is the paper's: stochastic
        gradient descent that finds the learning rate of each variable by itself; its iteration is 500 steps of 10
        random pairs.
    n_pairs : int or None
        Pairs drawn from labelled rows once; None takes all of them.
    init : "auto", "identity", "pca", "lda", "random" or Metric
        The first L, in coordinates in which the similar pairs scatter alike in all directions, scaled to a mean
        distance of about 1 between dissimilar pairs; a Metric is taken as it is.
    max_iter, tol, warm_start, callback, verbose, random_state
        As for :class:`mahala.NCA`.

    Attributes
    ----------
    metric_ : Metric
    feature_importances_ : the weights, where diagonal
    components_, n_features_in_, feature_names_in_
    objective_, objectives_ : E, at the end and after each iteration
    n_iter_ : int
    stop_reason_ : "converged", "max_iter", "precision", "callback" or "interrupted"

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = GML().fit(X, y)
    >>> learner.stop_reason_, round(learner.objective_, 1), round(learner.score(X, y), 2)
    ('converged', 177.6, 1.0)
    """

    _learns_from = Pairs

    def __init__(
        self,
        alpha: float = 0.9,
        n_components: int | None = None,
        diagonal: bool = False,
        solver: Literal["lbfgs", "vsgd"] = "lbfgs",
        n_pairs: int | None = None,
        init: Init = "auto",
        max_iter: int = 500,
        tol: float = 1e-6,
        warm_start: bool = False,
        callback: Callback | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.n_components = n_components
        self.diagonal = diagonal
        self.solver = solver
        self.n_pairs = n_pairs
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        if not (is_number(self.alpha) and 0.0 < self.alpha < 1.0):
            raise ValueError(f"alpha must be a number between 0 and 1, got {self.alpha!r}")
        check_flag(self.diagonal, "diagonal")
        check_start(self.init, self.n_components)
        if self.diagonal and self.n_components is not None:
            raise ValueError(f"n_components must be None where diagonal=True, got {self.n_components!r}")
        if self.solver not in ("lbfgs", "vsgd"):
            raise ValueError(f"solver must be 'lbfgs' or 'vsgd', got {self.solver!r}")
        if self.n_pairs is not None:
            check_count(self.n_pairs, "n_pairs")

    def _learn(self, given: Given, run: Run) -> tuple[Model, str]:
        given = drawn(given, self.n_pairs, self._rng)
        costs = pair_costs(given)
        scaled, factors = standardised(given.X)
        within, _, _ = costs.scatters(scaled)
        floor = float(np.finfo(scaled.dtype).eps) ** 0.5
        coordinates = whitened(scaled, factors, within, floor, diagonal=self.diagonal)
        alpha = float(self.alpha)

        def objective(variables: Floats) -> tuple[float, Floats]:
            Z = coordinates.map(variables)
            near, near_pull = costs.similar(Z)
            far, far_pull = costs.dissimilar(Z, TOO_CLOSE, 1.0)
            far_pull *= alpha
            far_pull += (1.0 - alpha) * near_pull
            return alpha * far + (1.0 - alpha) * near, coordinates.gradient(far_pull)

        codes = None if isinstance(given, Pairs) else given.codes
        start, scaled_already = coordinates.start(self.init, self.n_components, codes, self._rng, self._warm_model())
        if not scaled_already:
            _, far, n_far = costs.scatters(coordinates.map(start))
            start *= (n_far / far) ** 0.5 if far > 0.0 else 1.0
        if self.solver == "lbfgs":
            return descend(objective, start, run, max_iter=self.max_iter, tol=self.tol, to_model=coordinates.to_model)
        return self._vsgd(objective, start, coordinates, given, run)

    def _vsgd(
        self, objective: Objective, start: Floats, coordinates: Coordinates, given: Rows | Pairs, run: Run
    ) -> tuple[Model, str]:
        """The best model that a look at the objective found."""
        variables = np.array(np.atleast_2d(start), dtype=np.float64)
        memory = np.zeros((N_MEANS, *variables.shape))
        (lowest, _), best, idle = objective(start), variables.copy(), 0
        for _ in range(self.max_iter):
            pairs = _random_pairs(given, BATCH * STEPS, self._rng)
            vsgd(coordinates.X, *pairs, float(self.alpha), BATCH, self.diagonal, variables, memory)
            value, _ = objective(variables.reshape(start.shape).astype(start.dtype))
            idle = 0 if value < lowest * (1.0 - self.tol) else idle + 1
            if value < lowest:
                lowest, best = value, variables.copy()
            model = coordinates.to_model(best.reshape(start.shape).astype(start.dtype))
            if run.step(lowest, model):
                return model, "callback"
            if idle >= PATIENCE:
                return model, "converged"
        return model, "max_iter"


def _random_pairs(
    given: Rows | Pairs, n: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
    """Pairs drawn with replacement, all equally likely."""
    if isinstance(given, Pairs):
        chosen = rng.integers(len(given), size=n)
        assert given.similar is not None, "the base has seen to labels"
        return given.left[chosen], given.right[chosen], given.similar[chosen]
    n_rows = len(given.codes)
    left = rng.integers(n_rows, size=n)
    right = (left + rng.integers(1, n_rows, size=n)) % n_rows
    return left, right, given.codes[left] == given.codes[right]

"""MMC: a metric for clustering with side-information (Xing, Ng, Jordan, Russell, 2002), also called PGDM."""

from __future__ import annotations

from typing import Any

import numpy as np

from mahala.batch.batch_learner import BatchLearner, Given
from mahala.batch.coordinates import standardised, whitened
from mahala.batch.descent import descend
from mahala.batch.pair_costs import drawn, pair_costs
from mahala.batch.run import Callback, Floats, Model, Run
from mahala.batch.starts import Init, check_start
from mahala.comparisons import Pairs
from mahala.support.validation import check_count, check_flag, check_tolerance


class MMC(BatchLearner):
    """The metric that keeps similar pairs together while dissimilar ones are apart.

    It minimises Σ_similar d_M(x, x') subject to Σ_dissimilar √d_M(x, x') ≥ 1 over M ⪰ 0. Both sides are homogeneous in
    M, so that is the ratio of the first to the square of the second: `objective_`, its value at an M for which the
    second is 1. With M = LᵀL it has no constraint left and no local minimum beside the global one, and L-BFGS takes
    the place of the paper's projections, which need an eigendecomposition a step. `diagonal=True` weights features.

    Where similar pairs do not differ at all in a direction in which dissimilar ones do, the infimum is 0 and
    nothing attains it; `regularization` keeps M finite there.

    Parameters
    ----------
    diagonal : bool
        Learn weights of the features, M = diag(w), instead of a full M.
    n_pairs : int or None
        Pairs drawn from labelled rows; None takes all of them, in n² d multiply-adds an evaluation.
    regularization : float
        The scatter of the similar pairs is raised, in the directions where it is less, to this share of its mean over
        all directions, with features scaled to variance one. 0 is the paper's objective.
    init : "auto", "identity", "pca", "lda", "random" or Metric
        The first L, in coordinates in which the similar pairs scatter alike in all directions; "auto" is "identity".
    max_iter, tol, warm_start, callback, verbose, random_state
        As for :class:`mahala.NCA`.

    Attributes
    ----------
    metric_ : Metric
    feature_importances_ : the weights, where diagonal
    components_, n_features_in_, feature_names_in_
    objective_, objectives_ : the ratio, at the end and after each iteration
    n_iter_ : int
    stop_reason_ : "converged", "max_iter", "precision", "callback" or "interrupted"

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = MMC().fit(X, y)
    >>> learner.stop_reason_, round(learner.score(X, y), 2)
    ('converged', 0.93)
    """

    _learns_from = Pairs

    def __init__(
        self,
        diagonal: bool = False,
        n_pairs: int | None = None,
        regularization: float = 1e-6,
        init: Init = "auto",
        max_iter: int = 200,
        tol: float = 1e-7,
        warm_start: bool = False,
        callback: Callback | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.diagonal = diagonal
        self.n_pairs = n_pairs
        self.regularization = regularization
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        check_flag(self.diagonal, "diagonal")
        check_tolerance(self.regularization, "regularization")
        check_start(self.init, None)
        if self.n_pairs is not None:
            check_count(self.n_pairs, "n_pairs")

    def _learn(self, given: Given, run: Run) -> tuple[Model, str]:
        given = drawn(given, self.n_pairs, self._rng)
        scaled, factors = standardised(given.X)
        costs = pair_costs(given)
        within, far, _ = costs.scatters(scaled)
        for kind, scatter in (("similar", float(np.trace(within))), ("dissimilar", far)):
            if not scatter > 0.0:
                raise ValueError(f"the {kind} pairs do not differ at all: MMC needs {kind} pairs of different rows")
        spread = within.diagonal() if self.diagonal else np.linalg.eigvalsh(within)
        if self.regularization == 0.0 and spread.min() <= len(spread) * np.finfo(np.float64).eps * spread.max():
            raise ValueError(
                "regularization must be positive: in some direction similar pairs do not differ, so that no metric is "
                "the best"
            )
        coordinates = whitened(scaled, factors, within, self.regularization, diagonal=self.diagonal)

        evaluated: list[tuple[Floats, float]] = []  # the last variables, and the sum over dissimilar pairs there

        def objective(variables: Floats) -> tuple[float, Floats]:
            # The logarithm of the ratio: both sums range over many orders of magnitude.
            near = float(np.square(variables, dtype=np.float64).sum())
            far, pull = costs.dissimilar(coordinates.map(variables), (0.0, 1.0, 0.0), np.inf)
            evaluated[:] = [(variables, far)]
            if not near > 0.0 or not far > 0.0:
                return np.inf, np.zeros_like(variables)
            return (
                float(np.log(coordinates.unit * near) - 2.0 * np.log(far)),
                2.0 * variables / near - 2.0 * coordinates.gradient(pull) / far,
            )

        def to_model(variables: Floats) -> Model:
            if not np.array_equal(evaluated[0][0], variables):
                objective(variables)
            far = evaluated[0][1]
            return coordinates.to_model(variables / far)

        codes = None if isinstance(given, Pairs) else given.codes
        start, _ = coordinates.start(self.init, None, codes, self._rng, self._warm_model())
        return descend(objective, start, run, max_iter=self.max_iter, tol=self.tol, to_model=to_model, report=np.exp)

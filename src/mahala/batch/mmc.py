"""MMC: Mahalanobis metric for clustering with side information (Xing, Ng, Jordan, Russell, 2002)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.descent import Init, descend, first_variables
from mahala.batch.pair_costs import drawn, pair_costs
from mahala.batch.run import IterationParams, Model, Run
from mahala.batch.whitening import pair_coordinates, standardised
from mahala.comparisons import Pairs
from mahala.learner import LabelledRows
from mahala.support.arrays import RealArray
from mahala.support.parameters import Count, NonNegative, Seed


@dataclass(eq=False, repr=False, kw_only=True)
class MMC(IterationParams, BatchLearner):
    """Metric for clustering with side information, also called PGDM: similar pairs near, dissimilar ones apart.

    MMC minimises Σ_similar d_M(x, x') subject to Σ_dissimilar √d_M(x, x') ≥ 1 over M ⪰ 0, where d_M is a squared
    distance: the ratio of the first sum to the square of the second, which is `objective_`. M is scaled so that the
    second is 1.

    Parameters
    ----------
    diagonal : bool, default=False
        Whether to learn feature weights, M = diag(w), instead of a full M.
    n_pairs : int or "auto", default="auto"
        Number of pairs drawn from labelled rows; "auto" uses all pairs, in n² d multiply-adds per evaluation.
    regularization : float, default=1e-6
        The scatter of the similar pairs is raised in all directions to at least this share of its mean over directions,
        with features scaled to variance one. 0 is the paper's objective.
    init : "auto", "identity", "pca", "lda", "random" or MahalanobisMetric, default="auto"
        The first L, in coordinates in which the scatter of the similar pairs is isotropic; "auto" is "identity".
    max_iter, tol : int and float, default=200 and 1e-7; see :class:`mahala.NCA`
    warm_start, callback, verbose, random_state : see :class:`mahala.NCA`

    Attributes
    ----------
    feature_importances_ : ndarray of shape (n_features,), the feature weights, if diagonal
    metric_, components_, objective_, objectives_, n_iter_, stop_reason_ : see :class:`mahala.NCA`

    References
    ----------
    E. P. Xing, A. Y. Ng, M. I. Jordan, S. Russell: Distance metric learning, with application to clustering with
    side-information. Advances in Neural Information Processing Systems 15 (NIPS), 2002, 505-512.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> round(MMC().fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2)
    0.85
    """

    _learns_from = Pairs
    _test_settings = ({}, {"diagonal": True})

    diagonal: bool = False
    n_pairs: Literal["auto"] | Count = "auto"
    regularization: NonNegative = 1e-6
    init: Init = "auto"
    max_iter: Count = 200
    tol: NonNegative = 1e-7
    random_state: Seed = None

    def _learn(self, data: LabelledRows | Pairs, run: Run) -> str:
        data = drawn(data, self.n_pairs, self._rng)
        scaled, factors = standardised(data.X)
        costs = pair_costs(data)
        within, far = costs.scatter(scaled), costs.mean_dissimilar(costs.engine.place(scaled))
        for kind, scatter in (("similar", float(np.trace(within))), ("dissimilar", far)):
            if not scatter > 0.0:
                raise ValueError(f"the {kind} pairs do not differ at all; MMC needs {kind} pairs of different rows")
        spread = within.diagonal() if self.diagonal else np.linalg.eigvalsh(within)
        if self.regularization == 0.0 and spread.min() <= len(spread) * np.finfo(np.float64).eps * spread.max():
            reason = "similar pairs do not differ in some direction, so no metric attains the minimum"
            raise ValueError(f"regularization must be positive, because {reason}")
        floor, diagonal = self.regularization, self.diagonal
        run.first = {}  # the coordinates are learned
        coordinates = pair_coordinates(scaled, factors, within, floor, costs.engine, diagonal=diagonal)

        def objective(variables: RealArray) -> tuple[float, RealArray]:
            # The logarithm of the ratio, because both sums range over many orders of magnitude.
            nonlocal far
            near = float(np.square(variables, dtype=np.float64).sum())
            far, pull = costs.dissimilar(coordinates.map(variables), (0.0, 1.0, 0.0), np.inf)
            if not near > 0.0 or not far > 0.0:
                return np.inf, np.zeros_like(variables)
            gradient = 2.0 * variables / near - 2.0 * coordinates.gradient(pull) / far
            return float(np.log(coordinates.unit * near) - 2.0 * np.log(far)), gradient

        def to_model(variables: RealArray) -> Model:
            return coordinates.to_model(variables / far)

        codes = None if isinstance(data, Pairs) else data.codes
        start, _ = first_variables(coordinates, self.init, None, codes, run)
        return descend(objective, start, run, to_model=to_model, report=np.exp)

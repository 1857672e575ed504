"""GML: global metric learning by gradient descent (Hocke, Martinetz, 2014)."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np

from mahala.batch.batch_learner import WeightedLearner
from mahala.batch.descent import Init, Objective, descend, first_variables
from mahala.batch.pair_costs import drawn, pair_costs
from mahala.batch.run import IterationParams, Run
from mahala.batch.whitening import Coordinates, pair_coordinates, standardised
from mahala.comparisons import Pairs
from mahala.compiled.sums.vsgd import N_MEANS, vsgd
from mahala.engine.inputs import refuse_chunks
from mahala.learner import LabelledRows
from mahala.support.arrays import BoolArray, IndexArray, RealArray
from mahala.support.parameters import Count, Fraction, NonNegative, Seed
from mahala.support.validation import is_chunked

# The cost (1 - d)² of a dissimilar pair at a distance d < 1, as the coefficients of 1, d and d².
TOO_CLOSE = (1.0, -2.0, 1.0)
# vSGD: pairs per step, and steps between two evaluations of the objective.
BATCH, STEPS = 10, 500
# vSGD has converged when this many evaluations in a row have found no gain.
PATIENCE = 5


@dataclass(eq=False, repr=False)
class GML(IterationParams, WeightedLearner):
    """Global metric learning: pull all similar pairs together and push dissimilar ones apart up to the distance 1.

    GML minimises E(L) = α Σ_dissimilar (1 - min(d, 1))² + (1 - α) Σ_similar d² over the linear map L, with
    d = ‖Lx - Lx'‖ and sums over *all* unordered pairs of labelled rows, or over the given pairs. E is convex in
    M = LᵀL, so for a square L every local minimum is global. It does not depend on the scale of the features. With
    `sample_weight`, the weight of a pair is the product of its rows'. The solver "lbfgs" sorts rows and counts equal
    ones, so that neither their order nor their repetition instead of a weight changes a bit of the result.

    Parameters
    ----------
    alpha : float, default=0.9
        Weight α of the dissimilar pairs, between 0 and 1.
    n_components : int or None, default=None
        Number m of rows of L; None for the number of features.
    diagonal : bool, default=False
        Whether to learn feature weights, L = diag(a), instead of a full L.
    solver : "lbfgs" or "vsgd", default="lbfgs"
        "lbfgs" uses all pairs in each iteration and is deterministic. "vsgd" is the paper's: stochastic gradient
        descent with an automatic learning rate for each variable; its iteration is 500 steps of 10 random pairs.
    n_pairs : int or "auto", default="auto"
        Number of pairs drawn once from labelled rows; "auto" uses all pairs.
    init : "auto", "identity", "pca", "lda", "random" or MahalanobisMetric, default="auto"
        The first L, in coordinates in which the scatter of the similar pairs is isotropic, scaled to a mean distance
        of about 1 between dissimilar pairs; a metric is used unchanged.
    max_iter, tol : int and float, default=500 and 1e-6; see :class:`mahala.NCA`
    warm_start, callback, verbose, random_state : see :class:`mahala.NCA`

    Attributes
    ----------
    feature_importances_ : ndarray of shape (n_features,), the feature weights, if diagonal
    metric_, components_, objective_, objectives_, n_iter_, stop_reason_ : see :class:`mahala.NCA`

    References
    ----------
    J. Hocke, T. Martinetz: Global metric learning by gradient descent. Artificial Neural Networks and Machine Learning
    (ICANN), Springer, 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> round(GML().fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2)
    0.98
    """

    _learns_from = Pairs
    _test_settings = ({}, {"diagonal": True}, {"solver": "vsgd", "max_iter": 3}, {"n_components": 2, "alpha": 0.5})

    alpha: Fraction = 0.9
    _: KW_ONLY
    n_components: Count | None = None
    diagonal: bool = False
    solver: Literal["lbfgs", "vsgd"] = "lbfgs"
    n_pairs: Literal["auto"] | Count = "auto"
    init: Init = "auto"
    max_iter: Count = 500
    tol: NonNegative = 1e-6
    random_state: Seed = None

    def _check_params(self) -> None:
        if self.diagonal and self.n_components is not None:
            raise ValueError(f"n_components must be None if diagonal=True, got {self.n_components!r}")

    def _learn(self, data: LabelledRows | Pairs, run: Run) -> str:
        weights = None if isinstance(data, Pairs) else data.weights
        if weights is not None and (self.solver, self.n_pairs) != ("lbfgs", "auto"):
            raise ValueError('sample_weight needs solver="lbfgs" and n_pairs="auto", because it weights all pairs')
        data = drawn(data, self.n_pairs, self._rng)
        if self.solver == "lbfgs" and isinstance(data, LabelledRows) and not is_chunked(data.X):
            data = _distinct(data)
            weights = data.weights
        costs = pair_costs(data)
        rows, factors = standardised(data.X, weights)
        floor = float(np.finfo(rows.dtype).eps) ** 0.5
        run.first = {}  # the coordinates are learned
        coordinates = pair_coordinates(rows, factors, costs.scatter(rows), floor, costs.engine, diagonal=self.diagonal)
        alpha = float(self.alpha)

        def objective(variables: RealArray) -> tuple[float, RealArray]:
            Z = coordinates.map(variables)
            near, near_pull = costs.similar(Z)
            far, far_pull = costs.dissimilar(Z, TOO_CLOSE, 1.0)
            far_pull *= alpha
            far_pull += (1.0 - alpha) * near_pull
            return alpha * far + (1.0 - alpha) * near, coordinates.gradient(far_pull)

        codes = None if isinstance(data, Pairs) else data.codes
        start, scaled = first_variables(coordinates, self.init, self.n_components, codes, run)
        if not scaled:
            far = costs.mean_dissimilar(coordinates.map(start))
            start *= far**-0.5 if far > 0.0 else 1.0
        if self.solver == "lbfgs":
            # The sums have weights of mean 1.
            unit = 1.0 if weights is None else float(weights.mean()) ** 2
            recorded: Any = {"to_model": coordinates.to_model, "report": lambda value: unit * value}
            return descend(objective, start, run, **recorded)
        return self._vsgd(objective, start, coordinates, data, run)

    def _vsgd(
        self, objective: Objective, start: RealArray, coordinates: Coordinates, data: LabelledRows | Pairs, run: Run
    ) -> str:
        """Record the model with the lowest objective of those evaluated, and return the stop reason."""
        refuse_chunks(coordinates.X, 'solver must be "lbfgs", or n_pairs a number,')
        variables = np.array(np.atleast_2d(start), dtype=np.float64)
        memory = np.zeros((N_MEANS, *variables.shape))
        (lowest, _), best, idle = objective(start), variables.copy(), 0
        for _ in range(self.max_iter):
            pairs = _random_pairs(data, BATCH * STEPS, self._rng)
            vsgd(coordinates.X, *pairs, float(self.alpha), BATCH, self.diagonal, variables, memory)
            value, _ = objective(variables.reshape(start.shape).astype(start.dtype))
            idle = 0 if value < lowest * (1.0 - self.tol) else idle + 1
            if value < lowest:
                lowest, best = value, variables.copy()
            if run.step(lowest, coordinates.to_model(best.reshape(start.shape).astype(start.dtype))):
                return "callback"
            if idle >= PATIENCE:
                return "converged"
        return "max_iter"


def _distinct(data: LabelledRows) -> LabelledRows:
    """Return each row of a class once, in the order of their bytes, and with weights if one was repeated."""
    keys = np.ascontiguousarray(np.c_[data.X + data.X.dtype.type(0), data.codes])  # -0 becomes 0
    _, first, rows = np.unique(keys.view(f"V{keys[0].nbytes}").ravel(), return_index=True, return_inverse=True)
    repeated = data.weights is not None or len(first) < len(rows)
    weights = np.bincount(rows, data.weights).astype(np.float64) if repeated else None
    return LabelledRows(data.X[first], data.codes[first], weights)


def _random_pairs(
    data: LabelledRows | Pairs, n: int, rng: np.random.Generator
) -> tuple[IndexArray, IndexArray, BoolArray]:
    """Draw pairs uniformly with replacement."""
    if isinstance(data, Pairs):
        chosen = rng.integers(len(data), size=n)
        assert data.similar is not None, "fit requires labels"
        return data.left[chosen], data.right[chosen], data.similar[chosen]
    n_rows = len(data.codes)
    left = rng.integers(n_rows, size=n)
    right = (left + rng.integers(1, n_rows, size=n)) % n_rows
    return left, right, data.codes[left] == data.codes[right]

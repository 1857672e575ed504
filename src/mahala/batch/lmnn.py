"""LMNN: large margin nearest neighbours (Weinberger, Blitzer, Saul, 2005)."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from mahala.batch.descent import Init, descend, first_components
from mahala.batch.run import IterationParams, Model, Run
from mahala.batch.triplets import TripletHinges, TripletLearner, target_neighbors
from mahala.batch.whitening import row_coordinates
from mahala.comparisons import Triplets
from mahala.engine import current_engine
from mahala.engine.cores import Cores
from mahala.engine.engine import Engine, Hinges
from mahala.engine.hinges import RowHinges
from mahala.learner import LabelledRows
from mahala.support.arrays import FloatArray, RealArray
from mahala.support.parameters import Count, Fraction, NonNegative, Seed
from mahala.support.tags import TagSets

# Widths of the interval around the kink in which hinges are smoothed, because L-BFGS needs a continuous gradient. A
# second descent with a narrower interval comes closer to the minimum, where many triplets lie on a kink.
SMOOTHINGS = 1e-2, 1e-3
# The minimum has a low rank, and a map of little more rows reaches it in fewer and cheaper iterations. So after these
# numbers of iterations, maps of at least so many rows lose directions shorter than this share of the longest.
ITERATIONS_BEFORE_LOSS = 20, 40
FEWEST_ROWS = 64
WEAK = 1e-2


@dataclass(eq=False, repr=False)
class LMNN(IterationParams, TripletLearner):
    """Large margin nearest neighbours: target neighbours near, rows of other classes farther away by a margin.

    LMNN minimises (1 - mu) Σ_{i,j} d_M(xᵢ, xⱼ) + mu Σ_{i,j,l} [1 + d_M(xᵢ, xⱼ) - d_M(xᵢ, x_l)]₊ over M = LᵀL, with
    squared distances d_M. j runs over the targets of i, its `n_neighbors` nearest rows of the same class (all, if there
    are fewer), and l over all rows of other classes. With tags, rows that share one count as rows of one class. For
    Triplets (i, j, l), the first sum is over their distinct (i, j) and the second over the triplets. Without
    `n_components` the problem is convex in M.

    Parameters
    ----------
    n_neighbors : int, default=3
        Number of targets of each row.
    mu : float, default=0.5
        Weight of the hinges, between 0 and 1; the weight of the targets' distances is 1 - mu.
    n_components : int or None, default=None
        Number of rows of L; None for as many as the minimum needs, at most the dimension of the span of the rows. From
        64 dimensions on, that is the number of directions that the first iterations do not shorten to nearly nothing.
    init : "auto", "identity", "pca", "lda", "random" or MahalanobisMetric, default="auto"
        The first L, whose scale is then chosen; a metric is used unchanged.
    shrinkage : "auto" or float, default="auto"
        Share of the Euclidean distance in the metric, for a fit to Triplets; 0 for the paper's minimum. If there are
        fewer triplets than numbers in M, or no more items than features, "auto" is 1/2, and a warning says so.
        Otherwise, with `n_components` and with labels, "auto" is 0.
    max_iter, tol : int and float, default=1000 and 1e-6; see :class:`mahala.NCA`
    warm_start, callback, verbose, random_state : see :class:`mahala.NCA`

    Attributes
    ----------
    shrinkage_ : float, the share of the Euclidean distance in `metric_`, which the objective is without
    metric_, components_, objective_, objectives_, n_iter_, stop_reason_ : see :class:`mahala.NCA`

    References
    ----------
    K. Q. Weinberger, L. K. Saul: Distance metric learning for large margin nearest neighbor classification. Journal of
    Machine Learning Research 10, 2009, 207-244.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = LMNN().fit(X[::2], y[::2])
    >>> learner.stop_reason_, round(learner.score(X[1::2], y[1::2]), 2)
    ('converged', 0.97)
    """

    _test_settings = ({"max_iter": 20}, {"max_iter": 20, "n_components": 2, "n_neighbors": 1})

    n_neighbors: Count = 3
    _: KW_ONLY
    mu: Fraction = 0.5
    n_components: Count | None = None
    init: Init = "auto"
    max_iter: Count = 1000
    tol: NonNegative = 1e-6
    random_state: Seed = None

    def _learn(self, data: LabelledRows | Triplets, run: Run) -> str:
        hinges: Hinges[Any]
        best_scale: Callable[[RealArray], float]
        engine: Engine[Any]
        if isinstance(data, LabelledRows):
            edges, ends = target_neighbors(data.X, data.labels, self.n_neighbors)
            hinges = on_rows = RowHinges(data.labels, edges, ends, self.mu)
            best_scale = on_rows.best_scale
            if isinstance(data.labels, TagSets):
                codes, engine = None, Cores()
            else:
                codes, engine = data.labels, current_engine()
                hinges = engine.hinges(codes, edges, ends, self.mu)
        else:
            codes, engine, triplets = None, Cores(), TripletHinges(data, self.mu)
            hinges, best_scale = triplets, triplets.best_scale
        coordinates = row_coordinates(data.X, engine)

        warm = run.warm
        L = first_components(self.init, self.n_components, data.X, codes, run) if warm is None else warm["L"]
        start = _reduced(L.astype(np.float64) @ coordinates.inverse, self.n_components, self._rng)
        if warm is None and isinstance(self.init, str):
            start /= np.abs(start).max()
            start *= np.sqrt(engine.of_images(best_scale, coordinates.map(start.astype(data.X.dtype))))
        start = start.astype(data.X.dtype)

        hinge, smoothing = 0.0, 0.0

        def objective(A: RealArray) -> tuple[float, RealArray]:
            nonlocal hinge
            rounded, hinge, pull = hinges(coordinates.map(A), smoothing)
            return rounded, coordinates.gradient(pull)

        def to_model(A: RealArray) -> Model:
            nonlocal start
            start = A
            return coordinates.to_model(A)

        widest = len(start)
        losses = ITERATIONS_BEFORE_LOSS if self.n_components is None and widest >= FEWEST_ROWS else ()
        stages = [*((SMOOTHINGS[0], most) for most in losses), *((width, self.max_iter) for width in SMOOTHINGS)]
        for smoothing, most in stages:
            # The descent minimises smoothed hinges, but the run records the objective with plain ones.
            plain: Any = {"to_model": to_model, "report": lambda _: hinge}
            reason = descend(objective, start, run, most=most, **plain)
            if reason == "callback" or len(run.objectives) >= self.max_iter:
                break
            if most < self.max_iter:
                start = _strong(start)
            elif smoothing == SMOOTHINGS[-1] and len(_strong(start)) == len(start) < widest:
                # A minimum among maps of this rank, and perhaps not the minimum.
                start = _reduced(start, min(2 * len(start), widest), self._rng).astype(start.dtype)
                stages.append((smoothing, self.max_iter))
        return reason


def _strong(A: RealArray) -> RealArray:
    """Return the map without its weak directions, or the map itself if there are none."""
    _, lengths, axes = np.linalg.svd(A, full_matrices=False)
    n_strong = int(np.count_nonzero(lengths > WEAK * lengths[0]))
    return A if n_strong == len(A) else lengths[:n_strong, None] * axes[:n_strong]


def _reduced(A: FloatArray, n_components: int | None, rng: np.random.Generator) -> FloatArray:
    """Return a map with nearly the same distances, of n_components rows or as many as columns, none of them zero."""
    m = min(A.shape[1], n_components or A.shape[1])
    if len(A) > m == A.shape[1]:
        _, A = np.linalg.qr(A)  # the same distances, at a fraction of the cost
    elif len(A) > m:
        _, lengths, axes = np.linalg.svd(A, full_matrices=False)
        A = lengths[:m, None] * axes[:m]
    A = A[A.any(axis=1)]  # a row of zeros would never change, because its gradient is zero
    size = 1e-3 * np.sqrt(np.square(A).mean()) if len(A) else 1.0
    return np.vstack([A, size * rng.normal(size=(m - len(A), A.shape[1]))])

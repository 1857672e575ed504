"""Large margin nearest neighbours: targets near, rows of other classes a margin further away."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala.batch.batch_learner import BatchLearner, Given, Rows
from mahala.batch.descent import descend
from mahala.batch.margins import RowsLoss, TripletsLoss, targets
from mahala.batch.run import Callback, Floats, Model, Run
from mahala.batch.starts import Init, check_start, first_components
from mahala.batch.whitening import whiten
from mahala.comparisons import Triplets
from mahala.support.params import is_number
from mahala.support.validation import check_count

# Hinges are rounded off within half of this about their kink: L-BFGS needs a continuous gradient, and with it gets
# lower than with the kinks. From there a smaller one gets the rest, where many triplets have come to lie on a kink.
SMOOTHINGS = 1e-2, 1e-3


class LMNN(BatchLearner):
    """Large margin nearest neighbours (Weinberger, Blitzer and Saul 2005; Weinberger and Saul, JMLR 2009).

    Minimises over M = LᵀL, with d_M squared distances,

        (1 - mu) Σ_{i,j} d_M(xᵢ, xⱼ) + mu Σ_{i,j,l} [1 + d_M(xᵢ, xⱼ) - d_M(xᵢ, x_l)]₊

    where j runs over the targets of i, its `n_neighbors` nearest rows of the same class in the Euclidean space of the
    data as given, and l over all rows of other classes. Of a class with fewer rows the targets are all others; a row
    alone in its class has none, and is still an l for other rows. From Triplets (i, j, l) the first sum is over their
    distinct (i, j), the second over themselves.

    Without `n_components` the problem is convex in M, and the minimum does not depend on the start. L-BFGS descends, in
    coordinates in which the data are about white, on hinges rounded off at their kink, first within ±0.005 of it and
    then within ±0.0005; `objectives_` hold the objective itself. An evaluation takes O(n d²) for two products of n × d
    with d × d and O(n² p) to look, block by block, for the pairs of rows that matter, by p leading coordinates of which
    few are enough; then O(d) for each of those. From a start that mixes the classes these can be most of the n².
    Memory is O(n d + d²).

    Parameters
    ----------
    n_neighbors : targets of each row
    mu : weight of the hinges, between 0 and 1; that of the targets' distances is 1 - mu
    n_components : rows of L; None for as many as features, or as the data have dimensions
    init : "auto", "identity", "pca", "lda", "random" or a Metric: the start, but for its length, which is chosen; a
        Metric is taken as it is
    max_iter, tol : the descent ends after max_iter iterations, or where one gains less than tol of the objective
    warm_start : a further fit goes on from what has been learned
    callback : function of an Iteration; where it returns something true, the fit ends
    verbose : show progress on the terminal
    random_state : seed of init="random"

    Attributes
    ----------
    metric_, components_ : what has been learned
    objective_, objectives_ : the objective reached, and after each iteration
    n_iter_, stop_reason_ : iterations, and why there are no more: "converged", "max_iter", "precision" (no step lowers
        the objective, as far as rounding lets tell), "callback" or "interrupted"

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = LMNN().fit(X[::2], y[::2])
    >>> learner.stop_reason_, round(learner.score(X[1::2], y[1::2]), 2)
    ('converged', 0.97)
    """

    _learns_from = Triplets

    def __init__(
        self,
        n_neighbors: int = 3,
        mu: float = 0.5,
        n_components: int | None = None,
        init: Init = "auto",
        max_iter: int = 1000,
        tol: float = 1e-6,
        warm_start: bool = False,
        callback: Callback | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.mu = mu
        self.n_components = n_components
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        check_count(self.n_neighbors, "n_neighbors")
        if not (is_number(self.mu) and 0.0 < self.mu < 1.0):
            raise ValueError(f"mu must be a number between 0 and 1, both excluded, got {self.mu!r}")
        check_start(self.init, self.n_components)

    def _learn(self, given: Given, run: Run) -> tuple[Model, str]:
        loss: RowsLoss | TripletsLoss
        if isinstance(given, Rows):
            codes = given.codes
            loss = RowsLoss(codes, *targets(given.X, codes, self.n_neighbors), self.mu)
        else:
            assert isinstance(given, Triplets)
            codes, loss = None, TripletsLoss(given, self.mu)
        space = whiten(given.X)

        warm = self._warm_model()
        L = first_components(self.init, self.n_components, given.X, codes, self._rng) if warm is None else warm["L"]
        start = _reduced(L.astype(np.float64) @ space.back.T, self.n_components, self._rng)
        if warm is None and isinstance(self.init, str):
            start /= np.abs(start).max()
            start *= np.sqrt(loss.best_scale(space.X @ start.T.astype(space.X.dtype)))
        start = start.astype(space.X.dtype)

        hinge, seen, smoothing = 0.0, np.empty(0), 0.0

        def objective(A: Floats) -> tuple[float, Floats]:
            nonlocal hinge, seen
            rounded, hinge, laplacian = loss(space.X @ A.T, smoothing)
            seen = A
            return rounded, 2 * (laplacian.T @ space.X)

        def to_model(A: Floats) -> Model:
            nonlocal start
            if not np.array_equal(A, seen):
                objective(A)
            start = A
            return {"L": A.astype(np.float64) @ space.forth}

        for width in SMOOTHINGS:
            smoothing = width
            # The descent sees hinges rounded off; who watches it sees the objective itself.
            watched = Run(lambda iteration: run.step(hinge, iteration.model), lambda done, objective: None)
            left = self.max_iter - len(run.objectives)
            model, reason = descend(objective, start, watched, max_iter=left, tol=self.tol, to_model=to_model)
            if reason in ("callback", "max_iter") or len(run.objectives) >= self.max_iter:
                break
        return model, reason


def _reduced(A: NDArray[np.float64], n_components: int | None, rng: np.random.Generator) -> NDArray[np.float64]:
    """The same distances, or nearly, by as many rows as are wanted and there are dimensions for; none of them is zero.

    The gradient of a row of zeros is zero, so it would stay.
    """
    m = min(A.shape[1], n_components or A.shape[1])
    if len(A) > m:
        _, lengths, axes = np.linalg.svd(A, full_matrices=False)
        A = lengths[:m, None] * axes[:m]
    A = A[A.any(axis=1)]
    size = 1e-3 * np.sqrt(np.square(A).mean()) if len(A) else 1.0
    return np.vstack([A, size * rng.normal(size=(m - len(A), A.shape[1]))])

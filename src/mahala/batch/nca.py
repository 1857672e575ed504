"""NCA: neighbourhood components analysis (Goldberger, Roweis, Hinton, Salakhutdinov, 2004)."""

from __future__ import annotations

from typing import Any

from mahala.batch.batch_learner import BatchLearner, Given, Rows
from mahala.batch.descent import descend
from mahala.batch.run import Callback, Floats, Model, Run
from mahala.batch.starts import Init, check_start, first_components
from mahala.compiled.softmax_sums import sum_softmax


class NCA(BatchLearner):
    """The linear map under which a random neighbour is most often of the own class.

    Row i takes row j ≠ i for its neighbour with probability p_ij ∝ exp(-‖Lx_i - Lx_j‖²). NCA minimises the expected
    number of rows whose neighbour is of another class, `objective_` = Σ_i (1 - Σ_{j of the class of i} p_ij), over L,
    by L-BFGS. The objective is not convex: where all p_ij are 0 or 1 from the start, as on rows of large scale, it has
    no slope, and L stays. Scale the rows first.

    An evaluation takes n² m + n m d multiply-adds and memory O(n (d + m) + m d); pairs whose p_ij is lost in
    rounding cost their distance only.

    Parameters
    ----------
    n_components : int or None
        Number m of rows of L; None is the number of features.
    init : "auto", "identity", "pca", "lda", "random" or Metric
        The first L. "auto" is "identity" where L is square, else "lda" where there are more than m classes, else "pca".
    max_iter : int
    tol : float
        Ends where an iteration gains less than this, relative to the objective.
    warm_start : bool
        Go on from the last fit's L.
    callback : function of an Iteration, or None
        Called after each iteration; what it returns, if true, ends the fit.
    verbose : bool
        Show a progress bar.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    metric_ : Metric
    components_, n_features_in_, feature_names_in_
    objective_, objectives_ : the expected number of errors, at the end and after each iteration
    n_iter_ : int
    stop_reason_ : "converged", "max_iter", "precision", "callback" or "interrupted"

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = NCA(n_components=2, random_state=0).fit(X, y)
    >>> learner.stop_reason_, learner.objective_ < 5  # of 150 rows
    ('converged', True)
    >>> learner.transform(X).shape
    (150, 2)
    """

    def __init__(
        self,
        n_components: int | None = None,
        init: Init = "auto",
        max_iter: int = 100,
        tol: float = 1e-5,
        warm_start: bool = False,
        callback: Callback | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
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
        check_start(self.init, self.n_components)

    def _learn(self, given: Given, run: Run) -> tuple[Model, str]:
        assert isinstance(given, Rows)
        X = given.X - given.X.mean(axis=0)

        def objective(L: Floats) -> tuple[float, Floats]:
            hits, pull = sum_softmax(X @ L.T, given.codes)
            return len(X) - hits, -2.0 * (pull.T @ X)

        start = first_components(self.init, self.n_components, X, given.codes, self._rng, self._warm_model())
        return descend(objective, start, run, max_iter=self.max_iter, tol=self.tol, to_model=lambda L: {"L": L})

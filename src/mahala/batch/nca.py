"""NCA: neighbourhood components analysis (Goldberger, Roweis, Hinton, Salakhutdinov, 2004)."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.descent import Init, descend, first_components
from mahala.batch.run import IterationParams, Run
from mahala.batch.whitening import centred
from mahala.compiled.sums.softmax_sums import sum_softmax
from mahala.engine import current_engine
from mahala.engine.cores import Cores
from mahala.engine.engine import Engine
from mahala.learner import LabelledRows
from mahala.support.arrays import RealArray
from mahala.support.parameters import Count, NonNegative, Seed
from mahala.support.tags import TagSets


@dataclass(eq=False, repr=False)
class NCA(IterationParams, BatchLearner):
    """Neighbourhood components analysis: a random neighbour of a row is to be of the row's own class.

    Row i chooses row j ≠ i as its neighbour with probability p_ij ∝ exp(-‖Lx_i - Lx_j‖²). NCA minimises the expected
    number of rows whose neighbour is of another class, Σ_i (1 - Σ_{j of the class of i} p_ij), over the linear map L by
    L-BFGS. The objective is not convex, and its gradient vanishes where all p_ij are 0 or 1. So the descent starts in
    the unit in which features have a mean variance of 1, and the unit of X does not matter. The units of features
    relative to each other do: scale the features first. With tags, rows that share a tag count as rows of one class.

    Parameters
    ----------
    n_components : int or None, default=None
        Number m of rows of L; None for the number of features.
    n_samples : int or None, default=None
        Number of rows, drawn at random, that NCA learns from; None for all of them.
    init : "auto", "identity", "pca", "lda", "random" or MahalanobisMetric, default="auto"
        The first L, in that unit. "auto" is "identity" if L is square, else "lda" if there are more than m classes,
        else "pca". A metric is used unchanged.
    max_iter : int, default=100
        Maximum number of iterations.
    tol : float, default=1e-5
        The fit ends when an iteration lowers the objective by less than this share of it.
    warm_start : bool, default=False
        Whether `fit` resumes from the model of the previous fit.
    callback : callable or None, default=None
        Function of a :class:`mahala.batch.Iteration`, called after each one; a true result ends the fit.
    verbose : bool, default=False
        Whether to show a progress bar.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random choices.

    Attributes
    ----------
    metric_ : MahalanobisMetric, the learned metric
    components_ : ndarray of shape (m, n_features), the learned map L
    objective_, objectives_ : float and ndarray, the objective at the end and after each iteration
    n_iter_ : int, the number of iterations
    stop_reason_ : str
        "converged", "max_iter", "precision" (rounding keeps any step from lowering the objective), "callback" or
        "interrupted", or "time" if a time limit ended the fit.

    References
    ----------
    J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov: Neighbourhood components analysis. Advances in Neural
    Information Processing Systems 17 (NIPS), 2004, 513-520.

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

    _test_settings = ({"max_iter": 10, "n_components": 2},)

    n_components: Count | None = None
    _: KW_ONLY
    n_samples: Count | None = None
    init: Init = "auto"
    max_iter: Count = 100
    tol: NonNegative = 1e-5
    random_state: Seed = None

    def _learn(self, data: LabelledRows, run: Run) -> str:
        X, labels = data.X, data.labels
        if self.n_samples is not None and self.n_samples < len(X):
            chosen = np.sort(self._rng.choice(len(X), int(self.n_samples), replace=False))
            X, labels = X[chosen], labels[chosen]
        engine: Engine[Any]
        softmax: Callable[[Any], tuple[float, Any]]
        if isinstance(labels, TagSets):
            codes, engine, softmax = None, Cores(), partial(sum_softmax, codes=labels)
        else:
            codes, engine = np.unique(labels, return_inverse=True)[1], current_engine()
            softmax = partial(engine.softmax, codes=codes)
        X, unit = centred(X)
        rows = engine.place(X)

        def objective(L: RealArray) -> tuple[float, RealArray]:
            hits, pull = softmax(engine.map(rows, L))
            return len(X) - hits, -2.0 * engine.gradient(pull, rows)

        start = first_components(self.init, self.n_components, X, codes, run, unit)
        return descend(objective, start, run, to_model=lambda L: {"L": L / unit})

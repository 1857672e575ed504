"""LSML: metric learning by squared residuals of relative comparisons (Liu, Guo, Zhang, Jojic, Wang, 2012)."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.logdet import UNIT, LogDetProblem, Prior, prior_components
from mahala.batch.logistic.answers import Answers, weighted_answers
from mahala.batch.run import IterationParams, Run
from mahala.comparisons import Comparisons, Quadruplets
from mahala.comparisons.quadruplets import draw_quadruplets
from mahala.compiled.threads import product
from mahala.engine.inputs import gathered
from mahala.learner import LabelledRows, checked_options
from mahala.support.arrays import FloatArray, RowsLike
from mahala.support.parameters import Count, NonNegative, Positive, Seed


@dataclass(eq=False, repr=False)
class LSML(IterationParams, BatchLearner):
    r"""Least squared residuals of relative comparisons: the metric nearest to a prior under which pairs are in order.

    From quadruplets (a, b, c, d), in which a and b should be nearer to each other than c and d, LSML minimises

        D(M, M₀) + γ Σ w max(0, d_M(a, b) - d_M(c, d))² / Σ w

    over M ≻ 0. D is the LogDet divergence from a prior metric, and d_M a distance that is not squared. The problem is
    convex. M is of float64.

    Parameters
    ----------
    prior : "identity", "covariance" or MahalanobisMetric, default="identity"
        M₀: Euclidean distances, the inverse of the rows' covariance, or a metric. Directions of weight zero in M₀ have
        weight zero in M.
    gamma : float, default=1.0
        Weight of the comparisons relative to a changed M.
    n_quadruplets : int or "auto", default="auto"
        Number of quadruplets drawn from labelled rows; "auto" is 20 c² for c classes.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-6
        The fit ends when the objective is at most this share above its minimum, by the duality gap.
    warm_start : bool, default=False
        Whether `fit` starts from the previous M.
    callback, verbose, random_state : see :class:`mahala.NCA`

    Attributes
    ----------
    metric_, components_, objective_, objectives_, n_iter_, stop_reason_ : see :class:`mahala.NCA`

    References
    ----------
    E. Y. Liu, Z. Guo, X. Zhang, V. Jojic, W. Wang: Metric learning from relative comparisons by minimizing squared
    residual. IEEE 12th International Conference on Data Mining (ICDM), 2012, 978-983.

    Examples
    --------
    >>> import numpy as np
    >>> from mahala import Quadruplets
    >>> from mahala.batch import LSML
    >>> rng = np.random.default_rng(0)
    >>> X, rows = 3.0 * rng.normal(size=(50, 2)), rng.integers(50, size=(300, 4))
    >>> near = np.abs(X[rows[:, 0], 0] - X[rows[:, 1], 0]) < np.abs(X[rows[:, 2], 0] - X[rows[:, 3], 0])
    >>> rows[~near] = rows[~near][:, [2, 3, 0, 1]]  # only the first feature matters
    >>> LSML().fit(Quadruplets(X, *rows.T)).get_mahalanobis_matrix().diagonal().round(2)
    array([1.28, 0.31])
    """

    _learns_from = Quadruplets
    _test_settings = ({"gamma": 10.0},)

    prior: Prior = "identity"
    _: KW_ONLY
    gamma: Positive = 1.0
    n_quadruplets: Literal["auto"] | Count = "auto"
    max_iter: Count = 1000
    tol: NonNegative = 1e-6
    random_state: Seed = None

    @checked_options
    def fit(
        self, X: "RowsLike | Comparisons", y: "ArrayLike | None" = None, weights: "ArrayLike | None" = None
    ) -> Self:
        """Learn the metric from quadruplets, or from rows with class labels.

        Parameters
        ----------
        X : Quadruplets, an array of shape (n, 4, n_features), or rows
        y : class labels of rows; None with quadruplets
        weights : a positive weight w for each quadruplet; None for 1
        """
        return self._fit(X, y, None if weights is None else partial(weighted_answers, weights))

    def _learn(self, data: LabelledRows | Quadruplets | Answers, run: Run) -> str:
        prior = prior_components(self.prior, data.X)
        if isinstance(data, LabelledRows):
            rows = draw_quadruplets(data.labels, self.n_quadruplets, self._rng, name="n_quadruplets")
            data = Quadruplets._build(*gathered(data.X, *rows))
        if isinstance(data, Quadruplets):
            data = Answers.of(data)
        return _Problem(data, prior, float(self.gamma)).solve(run)


class _Problem(LogDetProblem):
    """LSML's objective; the first half of the pairs should be nearer than the second half."""

    def __init__(self, answers: Answers, prior: FloatArray | None, gamma: float) -> None:
        X = answers.X.astype(np.float64) - answers.X.mean(axis=0, dtype=np.float64)
        left, right = np.concatenate([answers.near, answers.far], axis=1)
        super().__init__(X if prior is None else product(X, prior.T), prior, left, right)
        self._weights = gamma / answers.weights.sum() * answers.weights
        near = self._X[answers.near[0]] - self._X[answers.near[1]]
        # The M that would be best if no pair had to be far, up to rotation: of the right size for any units of X.
        self._first = 1.0 / np.sqrt(1.0 + self._weights @ np.square(near))
        self._basis = self._first / UNIT

    def _loss(self, distances: FloatArray) -> tuple[float, FloatArray]:
        near, far = np.split(np.sqrt(distances), 2)
        violated = near > far
        value = float(self._weights @ np.square(np.where(violated, near - far, 0.0)))
        ratio = np.divide(near, far, out=np.ones_like(near), where=violated & (far > 0.0))
        # Equal rows, with far = 0, do not move apart.
        pull = np.where(violated, 1.0 - np.divide(far, near, out=np.ones_like(near), where=near > 0.0), 0.0)
        return value, np.concatenate([self._weights * pull, self._weights * (1.0 - ratio)])

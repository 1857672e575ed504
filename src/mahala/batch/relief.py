"""Relief: feature weights from nearest hits and misses (Kira, Rendell, 1992)."""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.run import Run
from mahala.batch.triplets import hits_and_misses, rows_in_shared_classes
from mahala.batch.whitening import to_unit_range
from mahala.engine.moments import squared_differences
from mahala.learner import LabelledRows
from mahala.support.arrays import FloatArray
from mahala.support.parameters import Count, Seed


@dataclass(eq=False, repr=False)
class Relief(BatchLearner):
    """Relief: a feature is relevant if rows differ in it more from their nearest miss than from their nearest hit.

    The relevance of feature j is the mean over rows x of diff_j(x, miss(x))² - diff_j(x, hit(x))², with
    diff_j(x, z) = (x_j - z_j) / range_j, the nearest other row hit(x) of the class of x, and the nearest row miss(x) of
    any other class. The metric's weights are w_j = max(relevance_j, 0) / range_j².

    Parameters
    ----------
    n_samples : int or None, default=None
        Number of rows drawn as x; None for all of them, which makes the result deterministic.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the draw.

    Attributes
    ----------
    relevance_ : ndarray of shape (n_features,), the paper's weights, from -1 to 1
    feature_importances_ : ndarray of shape (n_features,), the metric's weights w
    objective_ : float
        Mean over the rows x of the squared distance to the hit minus that to the miss, under the metric.

    References
    ----------
    K. Kira, L. A. Rendell: A practical approach to feature selection. Proceedings of the 9th International Workshop on
    Machine Learning, 1992, 249-256.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> Relief().fit(X, X[:, 0] > 0).relevance_.round(2)  # only the first feature matters
    array([0.04, 0.  , 0.  , 0.  , 0.  ])
    """

    _test_settings = ({"n_samples": 30},)

    n_samples: Count | None = None
    _: KW_ONLY
    random_state: Seed = None

    @property
    def relevance_(self) -> FloatArray:
        """The paper's weight of each feature: negative if rows differ more from their hits than from their misses."""
        return self._learned("relevance")

    def _learn(self, data: LabelledRows, run: Run) -> str:
        X, labels = data.X, data.labels
        rows = rows_in_shared_classes(labels)
        if self.n_samples is not None and self.n_samples < len(rows):
            rows = np.sort(self._rng.choice(rows, int(self.n_samples), replace=False))
        scaled, extent = to_unit_range(X)
        far, near = squared_differences(scaled, rows, *reversed(hits_and_misses(scaled, labels, rows)))
        relevance = (far - near) / len(rows)
        positive = np.maximum(relevance, 0.0)
        run.step(-float(positive @ relevance), {"w": positive / extent**2, "relevance": relevance})
        return "converged"

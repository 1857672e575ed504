"""Relief: weights from the differences to the nearest hit and the nearest miss of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mahala.batch.batch_learner import BatchLearner, Given, Rows
from mahala.batch.run import Floats, Model, Run
from mahala.compiled.weighting import hits_and_misses, rows_with_company, to_unit_range
from mahala.learner import CHUNK_ELEMENTS
from mahala.support.validation import check_count


class Relief(BatchLearner):
    """Relief: a feature is relevant where rows differ in it from their nearest miss more than from their nearest hit.

    The paper's weight of feature j is the mean over rows of diff_j(x, miss(x))² - diff_j(x, hit(x))², where
    diff_j(x, z) = (x_j - z_j) / range_j, hit(x) is the nearest other row of the class of x, and miss(x) the nearest row
    of any other class, however many there are, both in Euclidean distance of the features divided by their range.
    Rows without company in their class are no x, but may be a miss. The paper's weights multiply squared differences of
    features divided by their range; a negative one counts as 0. So the metric's weights, of squared differences of the
    features as they are, are w_j = max(relevance_j, 0) / range_j², and a constant feature has the weight 0. The metric
    does not depend on the units of the features.

    K. Kira, L. A. Rendell, "A practical approach to feature selection", ICML 1992.

    Parameters
    ----------
    n_samples : number of rows to draw as x; None for all of them, in which case nothing is random
    random_state : of the draw

    Attributes
    ----------
    relevance_ : the paper's weights, from -1 to 1
    feature_importances_ : the metric's weights w
    objective_ : mean over the rows x of the squared distance from the miss less that from the hit, under w

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> relief = Relief().fit(X, y)
    >>> relief.relevance_.argmax(), round(relief.score(X, y), 2)
    (np.int64(12), 0.98)
    """

    def __init__(self, n_samples: int | None = None, random_state: Any = None) -> None:
        self.n_samples = n_samples
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        if self.n_samples is not None:
            check_count(self.n_samples, "n_samples")

    @property
    def relevance_(self) -> Floats:
        """The paper's weight of each feature: negative where rows differ more from their hits."""
        check_is_fitted(self, "_model")
        return self._model["relevance"]

    def _learn(self, given: Given, run: Run) -> tuple[Model, str]:
        assert isinstance(given, Rows)
        X, codes = given
        rows = rows_with_company(codes)
        if self.n_samples is not None and self.n_samples < len(rows):
            rows = np.sort(self._rng.choice(rows, int(self.n_samples), replace=False))
        scaled, extent = to_unit_range(X)
        hits, misses = hits_and_misses(scaled, codes, rows)
        relevance = np.zeros(X.shape[1])
        step = max(1, CHUNK_ELEMENTS // X.shape[1])
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            x = scaled[rows[block]].astype(np.float64)
            relevance += np.square(x - scaled[misses[block]]).sum(axis=0)
            relevance -= np.square(x - scaled[hits[block]]).sum(axis=0)
        relevance /= len(rows)
        positive = np.maximum(relevance, 0.0)
        model = {"w": positive / extent**2, "relevance": relevance}
        run.step(float(positive @ relevance), model)
        return model, "converged"

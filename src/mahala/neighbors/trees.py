"""The expert of rules: scikit-learn's histogram gradient boosting, fitted on one thread so that it is deterministic."""

from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from mahala.neighbors.maps import Target
from mahala.support.arrays import FloatArray, RealArray

N_TREES, RATE, N_LEAVES = 50, 0.16, 15
# Of many classes, each of which has a tree of its own in each iteration, so many trees in all, and of many columns so
# many columns of all trees, but some iterations.
MOST_TREES, MOST_COLUMNS, LEAST_ITERATIONS = 500, 100_000, 15
# Rows of a leaf, at least, of fewer rows than this and of more.
FEW_ROWS, LEAF_OF_FEW, LEAF_OF_MANY = 500, 5, 20
# Of more columns than this, the values of a column have a bin for so many rows, on average, but at least some bins: the
# bins are most of the time of such trees.
_MANY_COLUMNS, _ROWS_OF_BIN, _LEAST_BINS, _MOST_BINS = 200, 20, 16, 255


def n_bins(n_rows: int, n_columns: int) -> int:
    """Return the number of bins of the values of a column for trees.

    >>> n_bins(1000, 10), n_bins(1000, 2000)
    (255, 50)
    """
    if n_columns <= _MANY_COLUMNS:
        return _MOST_BINS
    return int(np.clip(n_rows // _ROWS_OF_BIN, _LEAST_BINS, _MOST_BINS))


class Trees:
    """Boosted trees of some rows."""

    def __init__(self, plain: FloatArray, target: Target, seed: int) -> None:
        self._model: Any = None
        self._only = target.y[0]
        if (target.y == target.y[0]).all():
            return
        # Its import takes a second.
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        kind: Any = HistGradientBoostingClassifier if target.n_classes else HistGradientBoostingRegressor
        leaf = LEAF_OF_FEW if len(plain) < FEW_ROWS else LEAF_OF_MANY
        most = min(MOST_TREES, MOST_COLUMNS // plain.shape[1])
        n_iterations = int(np.clip(most // max(target.n_classes, 1), LEAST_ITERATIONS, N_TREES))
        settings = {
            "max_iter": n_iterations,
            "learning_rate": RATE,
            "max_leaf_nodes": N_LEAVES,
            "min_samples_leaf": leaf,
            "max_bins": n_bins(*plain.shape),
        }
        self._model = kind(**settings, early_stopping=False, random_state=seed)
        # With weights, scikit-learn takes ten times as long to find the bins of few rows.
        weights = None if (target.weights == target.weights[0]).all() else target.weights
        with _openmp().limit(limits=1):
            self._model.fit(plain, target.y, sample_weight=weights)

    def predict(self, plain: FloatArray, n_classes: int) -> RealArray:
        """Return the numbers in a column, or the probabilities of the classes."""
        if self._model is None:
            return np.tile(np.eye(n_classes)[self._only] if n_classes else [self._only], (len(plain), 1))
        with _openmp().limit(limits=1):
            if not n_classes:
                return np.asarray(self._model.predict(plain))[:, np.newaxis]
            result = np.zeros((len(plain), n_classes))
            result[:, self._model.classes_] = self._model.predict_proba(plain)
        return result


@cache
def _openmp() -> ThreadpoolController:
    """Return the libraries of threads that scikit-learn has loaded: each search for them takes 3 to 14 ms."""
    return ThreadpoolController().select(user_api="openmp")

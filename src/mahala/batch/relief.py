"""Relief: feature weights from nearest hits and misses (Kira, Rendell, 1992)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from mahala.batch.batch_learner import BatchLearner, TrainingData
from mahala.batch.label_neighbors import hits_and_misses, rows_with_company
from mahala.batch.run import Run
from mahala.compiled.sums.weighting import to_unit_range
from mahala.compiled.threads import PER_NUMBER, in_threads, n_threads
from mahala.learner import LabelledRows
from mahala.support.arrays import FloatArray, block_size, slices
from mahala.support.dask_rows import in_memory
from mahala.support.parameters import Count, Seed
from mahala.support.tensors import is_dask


@dataclass(eq=False, repr=False)
class Relief(BatchLearner):
    """Relief: a feature is relevant if rows differ in it more from their nearest miss than from their nearest hit.

    The paper's weight of feature j is the mean over rows x of diff_j(x, miss(x))² - diff_j(x, hit(x))², where
    diff_j(x, z) = (x_j - z_j) / range_j, hit(x) is the nearest other row of the class of x, and miss(x) the nearest row
    of any other class, both in Euclidean distance of the features divided by their range. Rows alone in their class
    are not used as x, but may be a miss. The paper's weights multiply squared differences of features divided by their
    range, and negative ones count as 0. The metric's weights multiply squared differences of the original features:
    w_j = max(relevance_j, 0) / range_j², and 0 for a constant feature. The metric does not depend on the units of the
    features.

    K. Kira, L. A. Rendell, "A practical approach to feature selection", ICML 1992.

    Parameters
    ----------
    n_samples : int or None
        Number of rows drawn as x; None for all of them, which makes the result deterministic.
    random_state : int, RandomState, Generator or None
        Seed of the draw.

    Attributes
    ----------
    relevance_ : ndarray of shape (n_features,)
        The paper's weights, from -1 to 1.
    feature_importances_ : ndarray of shape (n_features,)
        The metric's weights w.
    objective_ : float
        Mean over the rows x of the squared distance to the miss minus that to the hit, under the metric.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> relief = Relief().fit(X, y)
    >>> relief.relevance_.argmax(), round(relief.score(X, y), 2)
    (np.int64(12), 0.98)
    """

    _learns_on_dask = True

    n_samples: Count | None = None
    _: KW_ONLY
    random_state: Seed = None

    @property
    def relevance_(self) -> FloatArray:
        """The paper's weight of each feature: negative if rows differ more from their hits than from their misses."""
        return self._learned("relevance")

    def _learn(self, data: TrainingData, run: Run) -> str:
        assert isinstance(data, LabelledRows)
        X, codes = data.X, data.codes
        rows = rows_with_company(codes)
        if self.n_samples is not None and self.n_samples < len(rows):
            rows = np.sort(self._rng.choice(rows, int(self.n_samples), replace=False))
        scaled, extent = to_unit_range(X)
        hits, misses = hits_and_misses(scaled, codes, rows)

        if is_dask(scaled):
            x = scaled[rows].astype(np.float64)
            far, near = np.square(x - scaled[misses]), np.square(x - scaled[hits])
            return self._keep(in_memory((far - near).sum(axis=0)) / len(rows), extent, run)

        def part(block: slice) -> FloatArray:
            x = scaled[rows[block]].astype(np.float64)
            far, near = np.square(x - scaled[misses[block]]), np.square(x - scaled[hits[block]])
            return np.asarray(far.sum(axis=0) - near.sum(axis=0))

        threads = n_threads(PER_NUMBER * len(rows) * X.shape[1])
        blocks = slices(len(rows), min(block_size(X.shape[1]), -(-len(rows) // threads)))
        relevance = np.sum(in_threads(part, blocks, threads=threads), axis=0) / len(rows)
        return self._keep(relevance, extent, run)

    def _keep(self, relevance: FloatArray, extent: FloatArray, run: Run) -> str:
        positive = np.maximum(relevance, 0.0)
        run.step(float(positive @ relevance), {"w": positive / extent**2, "relevance": relevance})
        return "converged"

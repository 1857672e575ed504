"""Errors of nearest-neighbour classification under a metric."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from mahala.engine import engine_for
from mahala.engine.inputs import apply_to_rows
from mahala.engine.neighbors import misclassified
from mahala.evaluation.sides import labelled_sides, value_at
from mahala.metric import MahalanobisMetric, Metric
from mahala.support.arrays import FloatArray, IndexArray, Rows, RowsLike
from mahala.support.plots import draw_curves, plain_frame
from mahala.support.validation import check_counts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEFAULT_NEIGHBORS = range(1, 26)
_SIDES = "X_train", "y_train", "X_test", "y_test"


@dataclass(frozen=True, eq=False)
class KNNErrors:
    """Error rates of k-nearest-neighbour classification, one per number of neighbours; result of :func:`knn_error`."""

    n_neighbors: IndexArray
    """Numbers of neighbours, ascending."""
    error: FloatArray
    """Error rate with each of them, from 0 to 1."""

    @property
    def best_n_neighbors(self) -> int:
        """The smallest number of neighbours with the lowest error."""
        return int(self.n_neighbors[np.argmin(self.error)])

    @property
    def best_error(self) -> float:
        """The lowest error."""
        return float(self.error.min())

    def at(self, n_neighbors: int) -> float:
        """Return the error with ``n_neighbors`` neighbours."""
        return value_at(self.n_neighbors, self.error, n_neighbors, "n_neighbors")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the error by the number of neighbours; return Matplotlib's axes."""
        return plain_frame(draw_curves(ax, self.n_neighbors, {"": self.error}, ()), ylabel="error")


def knn_error(
    metric: Metric | None,
    X_train: RowsLike,
    y_train: ArrayLike,
    X_test: RowsLike | None = None,
    y_test: ArrayLike | None = None,
    n_neighbors: int | Iterable[int] = DEFAULT_NEIGHBORS,
    average: Literal["sample", "class"] = "sample",
) -> KNNErrors:
    """Compute the error of k-nearest-neighbour classification for one or several numbers of neighbours.

    One neighbour search serves all of them. Neighbours at equal distances share the votes that are left for them, so
    the order of the training rows does not matter; tied votes go to the first class in sorted order.

    Parameters
    ----------
    metric : MahalanobisMetric or None
        A positive semi-definite metric; None is the Euclidean distance.
    X_train : array, CSR matrix or Dask array of shape (n_rows, n_features)
    y_train : array of shape (n_rows,)
        Labels, numbers or strings.
    X_test, y_test : as X_train and y_train, default=None
        Rows to classify and their labels. Without them, each training row is classified by the others
        (leave-one-out). A label that does not occur in ``y_train`` always counts as an error.
    n_neighbors : int or iterable of int, default=1 to 25
        Numbers of neighbours; the default has fewer if there are fewer rows.
    average : "sample" or "class", default="sample"
        Share of misclassified rows, or the mean of this share over the classes in ``y_test``.

    >>> X, y = [[0.0], [1.0], [2.0], [9.0], [10.0]], ["a", "a", "a", "b", "b"]
    >>> errors = knn_error(None, X, y)
    >>> errors.n_neighbors, errors.error
    (array([1, 2, 3, 4]), array([0. , 0.4, 0.4, 0.4]))
    >>> errors.best_n_neighbors, errors.at(3)
    (1, 0.4)
    """
    if average not in ("sample", "class"):
        raise ValueError(f"average must be 'sample' or 'class', got {average!r}")
    train, codes, tests, test_codes = labelled_sides(X_train, y_train, X_test, y_test, _SIDES)
    if tests is not None and tests.shape[1] != train.shape[1]:
        raise ValueError(f"X_test must have the {train.shape[1]} columns of X_train, got {tests.shape[1]}")
    available, what = train.shape[0] - (tests is None), "the number of available neighbours"
    counts = check_counts(n_neighbors, DEFAULT_NEIGHBORS, available, "n_neighbors", what)
    mapped = _embed(metric, train)
    with engine_for(train, train if tests is None else tests):
        wrong = misclassified(mapped, codes, None if tests is None else _embed(metric, tests), test_codes, counts)
    if average == "sample":
        error = wrong.mean(axis=0)
    else:
        error = np.mean([wrong[test_codes == code].mean(axis=0) for code in np.unique(test_codes)], axis=0)
    return KNNErrors(counts, error)


def _embed(metric: Metric | None, X: Rows) -> Any:
    """Return rows whose Euclidean distances are the metric's."""
    if metric is None:
        return apply_to_rows(lambda rows: rows, X, X.shape[1], X.dtype)
    if not isinstance(metric, Metric):
        raise TypeError(f"metric must be a Metric or None, got {type(metric).__name__}; pass the learner's metric_")
    if not isinstance(metric, MahalanobisMetric):
        problem = "got a bilinear similarity, which has no distances"
        advice = "learn a Mahalanobis metric for nearest-neighbour classification"
        raise ValueError(f"metric must be a Mahalanobis metric, {problem}; {advice}")
    if not metric.is_psd:
        advice = "use metric.projected(), the nearest one without them"
        raise ValueError(f"metric must be positive semi-definite, got one with negative eigenvalues; {advice}")
    return metric.transform(X)

"""Errors of nearest-neighbour classification under a metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mahala.engine import current_engine, engine_for
from mahala.engine.inputs import apply_to_rows, as_rows
from mahala.metric import MahalanobisMetric, Metric
from mahala.support.arrays import BoolArray, FloatArray, IndexArray, row_blocks
from mahala.support.validation import check_counts, check_labels

DEFAULT_NEIGHBORS = range(1, 26)


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
        places = np.flatnonzero(self.n_neighbors == n_neighbors)
        if not len(places):
            evaluated = self.n_neighbors.tolist()
            raise ValueError(f"n_neighbors must be one of the evaluated {evaluated}, got {n_neighbors}")
        return float(self.error[places[0]])


def knn_error(
    metric: Metric | None,
    X_train: Any,
    y_train: Any,
    X_test: Any = None,
    y_test: Any = None,
    n_neighbors: int | Iterable[int] = DEFAULT_NEIGHBORS,
    average: Literal["sample", "class"] = "sample",
) -> KNNErrors:
    """Compute the error of k-nearest-neighbour classification for one or several numbers of neighbours.

    One neighbour search serves all of them. Neighbours at equal distances share the votes that are left for them, so
    the order of the training rows does not matter; tied votes go to the first class in sorted order.

    Parameters
    ----------
    metric : a positive semi-definite :class:`~mahala.MahalanobisMetric`, or None for the Euclidean distance
    X_train, y_train : rows (dense, CSR or of Dask) and their labels, numbers or strings
    X_test, y_test : rows to classify and their labels. If omitted, each training row is classified by the others
        (leave-one-out). A label that does not occur in ``y_train`` always counts as an error.
    n_neighbors : one or several numbers of neighbours; the default is 1 to 25, or fewer if there are fewer rows
    average : "sample" for the share of misclassified rows, "class" for the mean of the shares of each class in
        ``y_test``

    >>> X, y = [[0.0], [1.0], [2.0], [9.0], [10.0]], ["a", "a", "a", "b", "b"]
    >>> errors = knn_error(None, X, y)
    >>> errors.n_neighbors, errors.error
    (array([1, 2, 3, 4]), array([0. , 0.4, 0.4, 0.4]))
    >>> errors.best_n_neighbors, errors.at(3)
    (1, 0.4)
    """
    if average not in ("sample", "class"):
        raise ValueError(f"average must be 'sample' or 'class', got {average!r}")
    if (X_test is None) != (y_test is None):
        raise ValueError("X_test and y_test must be given together, or neither for leave-one-out")
    leave_one_out = X_test is None
    X_train = as_rows(X_train, "X_train")
    y_train = check_labels(y_train, X_train.shape[0], "y_train")
    if leave_one_out:
        X_test, y_test = X_train, y_train
    else:
        X_test = as_rows(X_test, "X_test")
        y_test = check_labels(y_test, X_test.shape[0], "y_test")
        if X_test.shape[1] != X_train.shape[1]:
            raise ValueError(f"X_test must have the {X_train.shape[1]} columns of X_train, got {X_test.shape[1]}")
    available = X_train.shape[0] - leave_one_out
    if available < 1:
        raise ValueError("X_train must have at least 2 rows for leave-one-out, got 1")
    what = "the number of available neighbours"
    counts = check_counts(n_neighbors, DEFAULT_NEIGHBORS, available, "n_neighbors", what)
    codes, test_codes = _class_codes(y_train, y_test)
    train = _embed(metric, X_train)
    with engine_for(X_train, X_test):
        wrong = misclassified(train, codes, None if leave_one_out else _embed(metric, X_test), test_codes, counts)
    if average == "sample":
        error = wrong.mean(axis=0)
    else:
        error = np.mean([wrong[test_codes == code].mean(axis=0) for code in np.unique(test_codes)], axis=0)
    return KNNErrors(counts, error)


def misclassified(
    train: Any, codes: IndexArray, test: Any, test_codes: IndexArray, n_neighbors: IndexArray
) -> BoolArray:
    """Return which test rows (None: training rows, leave-one-out) are misclassified, rows × numbers of neighbours.

    The rows are valid and embedded, so that the Euclidean distance is the metric's.
    """
    values = one_hot(codes, 1 + max(int(codes.max()), int(test_codes.max())))
    predicted = [means.argmax(axis=2) for means in neighbor_means(train, values, test, n_neighbors)]
    result: BoolArray = test_codes[:, np.newaxis] != np.concatenate(predicted, axis=1).T
    return result


def one_hot(codes: IndexArray, n_classes: int) -> FloatArray:
    """Return a row for each code, with a 1 in the column of its class."""
    values = np.zeros((len(codes), n_classes))
    values[np.arange(len(codes)), codes] = 1.0
    return values


def neighbor_means(train: Any, values: FloatArray, test: Any, counts: IndexArray) -> Iterator[FloatArray]:
    """Yield means of `values` over the nearest training rows, for blocks of test rows (None: leave-one-out).

    A block has the shape (numbers of neighbours, rows, columns of values). Neighbours at equal distances share what
    is left: if m rows are nearer than the k-th and t rows are as near as it, each of the t counts (k - m) / t. So the
    order of the training rows does not matter. With `values` of 0 and 1 the means are votes, and equal ones are
    exactly equal.
    """
    engine, most, n_train = current_engine(), int(counts[-1]), train.shape[0]
    own = test is None
    test = train if own else test
    has_more = most < n_train - own
    rows, squared = engine.nearest(train, test, most + has_more, exclude_self=own)
    for block in row_blocks(test.shape[0], (most + 1) * values.shape[1]):
        near, distances = rows[block, :most], squared[block]
        n = len(near)
        sums = np.zeros((most + 1, n, values.shape[1]))  # of the nearest 0, 1, ... neighbours
        np.cumsum(values[near].transpose(1, 0, 2), axis=0, out=sums[1:])
        first = np.zeros((most, n), dtype=np.intp)  # for each neighbour, the first one at its distance
        end = np.full((most, n), most)  # and the end of those at its distance
        for k in range(1, most):
            first[k] = np.where(distances[:, k] == distances[:, k - 1], first[k - 1], k)
        for k in range(most - 2, -1, -1):
            end[k] = np.where(distances[:, k] == distances[:, k + 1], end[k + 1], k + 1)
        at = np.arange(n)
        last = sums[most] - sums[first[-1], at]  # of all rows at the distance of the last neighbour
        n_last = most - first[-1]
        if has_more:
            tied_rows = np.flatnonzero(distances[:, most] == distances[:, most - 1])
            _count_ties(engine, train, values, test, (block.start, own), distances[:, most], tied_rows, last, n_last)
        means = np.empty((len(counts), n, values.shape[1]))
        for place, k in enumerate((counts - 1).tolist()):
            nearer = sums[first[k], at]
            is_last = end[k] == most
            tied = np.where(is_last[:, np.newaxis], last, sums[end[k], at] - nearer)
            n_tied = np.where(is_last, n_last, end[k] - first[k])[:, np.newaxis]
            means[place] = (nearer * n_tied + (k + 1 - first[k])[:, np.newaxis] * tied) / (n_tied * (k + 1.0))
        yield means


def _count_ties(
    engine: Any,
    train: Any,
    values: FloatArray,
    test: Any,
    offset: tuple[int, bool],
    farthest: FloatArray,
    open_rows: IndexArray,
    last: FloatArray,
    n_last: IndexArray,
) -> None:
    """Add to `last` and `n_last` the training rows at the distance of the last neighbour that were not found yet.

    The `open_rows`, whose next neighbour is at that distance, too, are searched again, for more and more neighbours.
    """
    start, own = offset
    n_train, most = train.shape[0], int(n_last.max())
    while len(open_rows):
        most = min(4 * most + 1, n_train)
        still_open = []
        for part in row_blocks(len(open_rows), most):
            tested = open_rows[part]
            rows, squared = engine.nearest(train, test[start + tested], most)
            is_tied = squared == farthest[tested, np.newaxis]
            if own:  # a row is not its own neighbour
                is_tied &= rows != (start + tested)[:, np.newaxis]
            last[tested] = np.einsum("ij,ijk->ik", is_tied.astype(np.float64), values[rows])
            n_last[tested] = is_tied.sum(axis=1)
            if most < n_train:
                still_open.append(tested[squared[:, -1] <= farthest[tested]])
        open_rows = np.concatenate(still_open) if still_open else open_rows[:0]


def _class_codes(y_train: NDArray[Any], y_test: NDArray[Any]) -> tuple[IndexArray, IndexArray]:
    """Return the codes 0, 1, … of both label arrays, in the sorted order of all labels."""
    try:
        codes = np.unique(np.concatenate([y_train, y_test]), return_inverse=True)[1]
    except TypeError as error:
        raise ValueError("y_train and y_test must hold labels of one kind, all numbers or all strings") from error
    return codes[: len(y_train)], codes[len(y_train) :]


def _embed(metric: Metric | None, X: Any) -> Any:
    """Return rows whose Euclidean distances are the metric's."""
    if metric is None:
        return apply_to_rows(lambda rows: rows, X, X.shape[1], X.dtype)
    if not isinstance(metric, Metric):
        raise TypeError(f"metric must be a Metric or None, got {type(metric).__name__}; pass the learner's metric_")
    if not isinstance(metric, MahalanobisMetric):
        raise ValueError(
            "metric must be a Mahalanobis metric, got a bilinear similarity, which has no distances; "
            "learn a Mahalanobis metric for nearest-neighbour classification"
        )
    if not metric.is_psd:
        raise ValueError(
            "metric must be positive semi-definite, got one with negative eigenvalues; "
            "use metric.projected(), the nearest one without them"
        )
    return metric.transform(X)

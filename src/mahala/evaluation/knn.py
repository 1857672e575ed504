"""Errors of nearest-neighbour classification under a metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala.engine import current_engine, engine_for
from mahala.engine.inputs import apply_to_rows, as_rows, computed
from mahala.metric import MahalanobisMetric, Metric
from mahala.support.arrays import BoolArray, FloatArray, IndexArray, row_blocks
from mahala.support.validation import check_counts, check_labels, is_sparse

DEFAULT_NEIGHBORS = range(1, 26)
# Squared distances that differ by a smaller share are equal.
_ROUNDING = 1e-10


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
    order of the training rows does not matter. Distances that differ by rounding are equal. With `values` of 0 and 1
    the means are votes, and equal ones are exactly equal.
    """
    own, most = test is None, int(counts[-1])
    places = _Places.of(train, values)
    n_places = places.rows.shape[0]
    near_all, squared_all = places.nearest(train if own else test, min(most + 1 + own, n_places))
    for block in row_blocks(len(near_all), (most + 2) * values.shape[1]):
        rows = np.arange(block.start, block.stop) if own else None
        near, squared = near_all[block], squared_all[block]
        sizes, sums = places.contents(near, rows)
        first, end = places.ties(squared)
        n, width = near.shape
        at = np.arange(n)
        n_nearer = np.concatenate([np.zeros((n, 1)), np.cumsum(sizes, axis=1)], axis=1)
        nearer = np.concatenate([np.zeros((n, 1, sums.shape[2])), np.cumsum(sums, axis=1)], axis=1)
        # Of those at the distance of the last place, some may not have been found.
        n_last = n_nearer[:, -1] - n_nearer[at, first[:, -1]]
        last = nearer[:, -1] - nearer[at, first[:, -1]]
        if width < n_places:
            queries = train if own else test
            is_open = n_nearer[at, first[:, -1]] < most
            for row in np.flatnonzero(is_open):
                n_last[row], last[row] = places.at_distance(
                    queries[[block.start + row]], squared[row, -1], None if rows is None else rows[row]
                )
        means = np.empty((len(counts), n, values.shape[1]))
        for place, k in enumerate(counts.tolist()):
            group = np.minimum((n_nearer[:, 1:] < k).sum(axis=1), width - 1)  # of the k-th neighbour
            start, stop = first[at, group], end[at, group]
            is_last = (stop == width)[:, np.newaxis]
            m, t = n_nearer[at, start][:, np.newaxis], (n_nearer[at, stop] - n_nearer[at, start])[:, np.newaxis]
            tied = np.where(is_last, last, nearer[at, stop] - nearer[at, start])
            t = np.where(is_last, n_last[:, np.newaxis], t)
            means[place] = (nearer[at, start] * t + (k - m) * tied) / (t * k)
        yield means


class _Places(NamedTuple):
    """The different training rows, which of them each row is, and how many rows, and which sum of values, each has."""

    rows: Any
    of_row: IndexArray
    sizes: FloatArray
    sums: FloatArray
    values: FloatArray
    rounding: float

    @classmethod
    def of(cls, train: Any, values: FloatArray) -> _Places:
        """Merge equal rows, so that there are few ties; sparse rows and those of Dask stay as they are."""
        n = train.shape[0]
        rows, of_row = train, np.arange(n)
        if isinstance(train, np.ndarray):
            rows, of_row = np.unique(train, axis=0, return_inverse=True)
        of_row = of_row.reshape(n)
        sizes = np.bincount(of_row).astype(np.float64)
        sums = np.zeros((len(sizes), values.shape[1]))
        np.add.at(sums, of_row, values)
        squares = rows.multiply(rows).sum() if is_sparse(rows) else computed((rows.astype(np.float64) ** 2).sum())
        return cls(rows, of_row, sizes, sums, values, _ROUNDING**2 * float(squares) / n)

    def nearest(self, queries: Any, n: int) -> tuple[IndexArray, FloatArray]:
        """Return the nearest places of each query and their squared distances."""
        result: tuple[IndexArray, FloatArray] = current_engine().nearest(self.rows, queries, n)
        return result

    def contents(self, near: IndexArray, rows: IndexArray | None) -> tuple[FloatArray, FloatArray]:
        """Return how many training rows are at each of these places, and the sums of their values; without `rows`."""
        sizes, sums = self.sizes[near], self.sums[near]
        if rows is not None:  # a row is not its own neighbour
            is_own = near == self.of_row[rows][:, np.newaxis]
            sizes = sizes - is_own
            sums = sums - is_own[:, :, np.newaxis] * self.values[rows][:, np.newaxis]
        return sizes, sums

    def is_tied(self, squared: Any, other: Any) -> Any:
        """Return whether squared distances are equal but for rounding."""
        return np.abs(squared - other) <= _ROUNDING * np.abs(other) + self.rounding

    def ties(self, squared: FloatArray) -> tuple[IndexArray, IndexArray]:
        """Return, for each of the nearest places, the first one at its distance and the end of those at it."""
        n, width = squared.shape
        first, end = np.zeros((n, width), dtype=np.intp), np.full((n, width), width)
        same = self.is_tied(squared[:, 1:], squared[:, :-1])
        for j in range(1, width):
            first[:, j] = np.where(same[:, j - 1], first[:, j - 1], j)
        for j in range(width - 2, -1, -1):
            end[:, j] = np.where(same[:, j], end[:, j + 1], j + 1)
        return first, end

    def at_distance(self, query: Any, squared: float, row: int | None) -> tuple[float, FloatArray]:
        """Return how many training rows are at a distance of a query, and the sum of their values."""
        n, n_places = 1, self.rows.shape[0]
        while n < n_places:
            n = min(max(4 * n, 64), n_places)
            near, distances = self.nearest(query, n)
            if distances[0, -1] > squared and not self.is_tied(distances[0, -1], squared):
                break
        chosen = near[:, self.is_tied(distances[0], squared)]
        sizes, sums = self.contents(chosen, None if row is None else np.array([row]))
        return float(sizes.sum()), sums[0].sum(axis=0)


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

"""Errors of nearest-neighbour classification under a metric."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mahala.compiled.neighbors import nearest, vote
from mahala.metric import BilinearMetric, MahalanobisMetric, Metric
from mahala.support.validation import check_counts, check_labels, check_rows

DEFAULT_K = range(1, 26)


@dataclass(frozen=True, eq=False)
class KNNErrors:
    """The error rate for each number of neighbours ``k``, in ascending order of ``k``."""

    k: NDArray[np.intp]
    error: NDArray[np.float64]

    @property
    def best_k(self) -> int:
        """The smallest k with the lowest error."""
        return int(self.k[np.argmin(self.error)])

    @property
    def best_error(self) -> float:
        return float(self.error.min())

    def at(self, k: int) -> float:
        """The error with ``k`` neighbours."""
        found = np.flatnonzero(self.k == k)
        if not len(found):
            raise ValueError(f"k must be one of the evaluated {self.k.tolist()}, got {k}")
        return float(self.error[found[0]])


def knn_error(
    metric: Metric | None,
    X_train: Any,
    y_train: Any,
    X_test: Any = None,
    y_test: Any = None,
    k: int | Iterable[int] = DEFAULT_K,
    average: Literal["sample", "class"] = "sample",
) -> KNNErrors:
    """The errors of k-nearest-neighbour classification for all ``k``, from one neighbour search.

    Neighbours at equal distances are taken in the order of the training rows, and tied votes go to the first
    class in sorted order.

    Parameters
    ----------
    metric : a positive semi-definite :class:`~mahala.MahalanobisMetric`, or None for the Euclidean distance
    X_train, y_train : rows (dense or CSR) and their labels, numbers or strings
    X_test, y_test : rows to classify; without them each training row is classified by the others
        (leave-one-out). A label that does not occur in ``y_train`` always counts as an error.
    k : one or several numbers of neighbours; by default 1 to 25, or to as many as there are
    average : "sample" for the share of wrong rows, "class" for the mean of the classes' shares in ``y_test``

    >>> X, y = [[0.0], [1.0], [2.0], [9.0], [10.0]], ["a", "a", "a", "b", "b"]
    >>> errors = knn_error(None, X, y)
    >>> errors.k, errors.error
    (array([1, 2, 3, 4]), array([0. , 0.4, 0.4, 0.4]))
    >>> errors.best_k, errors.at(3)
    (1, 0.4)
    """
    if average not in ("sample", "class"):
        raise ValueError(f"average must be 'sample' or 'class', got {average!r}")
    if (X_test is None) != (y_test is None):
        raise ValueError("X_test and y_test must be given together, or neither for leave-one-out")
    leave_one_out = X_test is None
    X_train = check_rows(X_train, "X_train")
    y_train = check_labels(y_train, X_train.shape[0], "y_train")
    if leave_one_out:
        X_test, y_test = X_train, y_train
    else:
        X_test = check_rows(X_test, "X_test")
        y_test = check_labels(y_test, X_test.shape[0], "y_test")
        if X_test.shape[1] != X_train.shape[1]:
            raise ValueError(f"X_test must have the {X_train.shape[1]} columns of X_train, got {X_test.shape[1]}")
    ks = _check_k(k, X_train.shape[0] - leave_one_out)
    train_codes, test_codes, n_classes = _class_codes(y_train, y_test)

    train = _embed(metric, X_train)
    test = train if leave_one_out else _embed(metric, X_test)
    neighbors, _ = nearest(train, test, int(ks[-1]), exclude_self=leave_one_out)
    wrong = vote(train_codes[neighbors], n_classes)[:, ks - 1] != test_codes[:, None]
    if average == "sample":
        error = wrong.mean(axis=0)
    else:
        error = np.mean([wrong[test_codes == code].mean(axis=0) for code in np.unique(test_codes)], axis=0)
    return KNNErrors(ks, error)


def _check_k(k: int | Iterable[int], available: int) -> NDArray[np.intp]:
    """Different numbers of neighbours in ascending order."""
    if available < 1:
        raise ValueError("X_train must have at least 2 rows for leave-one-out, got 1")
    return check_counts(k, DEFAULT_K, available, "the number of available neighbours")


def _class_codes(y_train: NDArray[Any], y_test: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """Codes 0, 1, … of both label arrays in the sorted order of all labels, and how many there are."""
    try:
        classes, codes = np.unique(np.concatenate([y_train, y_test]), return_inverse=True)
    except TypeError as error:
        raise ValueError("y_train and y_test must hold labels of one kind, all numbers or all strings") from error
    return codes[: len(y_train)], codes[len(y_train) :], len(classes)


def _embed(metric: Metric | None, X: Any) -> Any:
    """Rows whose Euclidean distances are the metric's."""
    if metric is None:
        return X
    if isinstance(metric, BilinearMetric):
        raise ValueError(
            "metric must be a Mahalanobis metric, got a bilinear similarity, which has no distances; "
            "learn a Mahalanobis metric for nearest-neighbour classification"
        )
    if not isinstance(metric, MahalanobisMetric):
        raise TypeError(f"metric must be a Metric or None, got {type(metric).__name__}; of a learner give its metric_")
    if not metric.is_psd:
        raise ValueError(
            "metric must be positive semi-definite, got one with negative eigenvalues; "
            "use metric.projected(), the nearest one without them"
        )
    return metric.transform(X)

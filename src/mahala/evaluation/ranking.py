"""Retrieval under a metric: how well a query's ranking puts the items of its class first.

Both measures rank items by similarity under a bilinear metric and by distance under a Mahalanobis one, from matrix
products alone (see :meth:`mahala.Metric.rank`), and neither depends on the order of items with equal scores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala.compiled.ranking import retrieval
from mahala.metric import Metric, scores_in_blocks
from mahala.support.validation import check_counts, check_labels, check_rows, class_codes

DEFAULT_K = range(1, 51)


@dataclass(frozen=True, eq=False)
class PrecisionAtK:
    """The mean precision among the first ``k`` items, in ascending order of ``k``."""

    k: NDArray[np.intp]
    precision: NDArray[np.float64]

    def at(self, k: int) -> float:
        """The precision among the first ``k`` items."""
        found = np.flatnonzero(self.k == k)
        if not len(found):
            raise ValueError(f"k must be one of the evaluated {self.k.tolist()}, got {k}")
        return float(self.precision[found[0]])


def mean_average_precision(metric: Metric | None, X: Any, y: Any, X_items: Any = None, y_items: Any = None) -> float:
    """The mean, over the queries, of the average precision at which items of the query's class are found.

    The average precision of a query is the mean, over its relevant items, of the share of relevant ones among the
    items up to there. Items with equal scores count as found together, so each has the precision at the end of them
    all, as in scikit-learn's `average_precision_score`.

    Parameters
    ----------
    metric : a :class:`~mahala.Metric`, or None for the Euclidean distance
    X, y : queries (dense or CSR rows) and their labels, numbers or strings
    X_items, y_items : the items to rank and their labels; without them every row of X is a query for the other
        rows (leave-one-out). Queries of whose class there are no items are left out.

    >>> X, y = [[0.0], [1.0], [3.0], [4.0], [9.0]], ["a", "a", "b", "a", "b"]
    >>> round(mean_average_precision(None, X, y), 4)
    0.6
    """
    leave_one_out = X_items is None
    X, codes, X_items, item_codes = _check(X, y, X_items, y_items)
    average, _ = retrieval(scores_in_blocks(metric, X, X_items), codes, item_codes, exclude_self=leave_one_out)
    return float(average[_answerable(average)].mean())


def precision_at_k(
    metric: Metric | None,
    X: Any,
    y: Any,
    X_items: Any = None,
    y_items: Any = None,
    k: int | Iterable[int] = DEFAULT_K,
) -> PrecisionAtK:
    """The mean share of items of the query's class among its first ``k`` items, for all ``k`` from one ranking.

    Where items with equal scores lie on both sides of the border, the share is the one to expect when their order is
    drawn at random.

    Parameters
    ----------
    metric, X, y, X_items, y_items : as for :func:`mean_average_precision`
    k : one or several numbers of items; by default 1 to 50, or to as many as there are

    >>> X, y = [[0.0], [1.0], [3.0], [4.0], [9.0]], ["a", "a", "b", "a", "b"]
    >>> result = precision_at_k(None, X, y, k=[1, 2])
    >>> result.k, result.precision
    (array([1, 2]), array([0.4, 0.4]))
    >>> result.at(2)
    0.4
    """
    leave_one_out = X_items is None
    X, codes, X_items, item_codes = _check(X, y, X_items, y_items)
    ks = check_counts(k, DEFAULT_K, len(item_codes) - leave_one_out, "the number of items of a query")
    blocks = scores_in_blocks(metric, X, X_items)
    average, found = retrieval(blocks, codes, item_codes, int(ks[-1]), exclude_self=leave_one_out)
    return PrecisionAtK(ks, found[ks - 1] / ks / _answerable(average).sum())


def _check(X: Any, y: Any, X_items: Any, y_items: Any) -> tuple[Any, NDArray[np.intp], Any, NDArray[np.intp]]:
    """Queries and items, None where those are the queries, each followed by their class codes."""
    if (X_items is None) != (y_items is None):
        raise ValueError("X_items and y_items must be given together, or neither for leave-one-out")
    X = check_rows(X)
    n = X.shape[0]
    if X_items is None:
        if n < 2:
            raise ValueError("X must have at least 2 rows for leave-one-out, got 1")
        codes = class_codes(y, n)
        return X, codes, None, codes
    X_items = check_rows(X_items, "X_items")
    labels = np.concatenate([check_labels(y, n), check_labels(y_items, X_items.shape[0], "y_items")])
    codes = class_codes(labels, len(labels), "y and y_items")
    return X, codes[:n], X_items, codes[n:]


def _answerable(average: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The queries of whose class there are items."""
    answerable: NDArray[np.bool_] = ~np.isnan(average)
    if not answerable.any():
        raise ValueError("y must have a query of whose class there are items, but no item is relevant to any query")
    return answerable

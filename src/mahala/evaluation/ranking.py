"""Quality of retrieval under a metric: whether the items of the query's class are ranked first.

Items are ranked by similarity under a bilinear metric and by distance under a Mahalanobis one, as
:meth:`mahala.Metric.rank` does. The results do not depend on the order of items with equal scores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mahala.compiled.search.ranking import retrieval
from mahala.engine.inputs import for_each, parts
from mahala.evaluation.sides import labelled_sides, value_at
from mahala.metric import MahalanobisMetric, Metric, scores_in_blocks
from mahala.metric.matrices import score_blocks
from mahala.support.arrays import BoolArray, FloatArray, IndexArray, Rows, RowsLike
from mahala.support.validation import check_counts, is_chunked

DEFAULT_K = range(1, 51)
_SIDES = "X", "y", "X_items", "y_items"


@dataclass(frozen=True, eq=False)
class PrecisionAtK:
    """Mean precision among the first ``k`` items, for one or several ``k``; result of :func:`precision_at_k`."""

    k: IndexArray
    """Cut-offs, ascending."""
    precision: FloatArray
    """Mean precision at each of them."""

    def at(self, k: int) -> float:
        """Return the precision among the first ``k`` items."""
        return value_at(self.k, self.precision, k, "k")


def mean_average_precision(
    metric: Metric | None, X: RowsLike, y: ArrayLike, X_items: RowsLike | None = None, y_items: ArrayLike | None = None
) -> float:
    """Compute the mean average precision of retrieving the items of the query's class.

    The average precision of a query is the mean, over its relevant items, of the share of relevant items among those
    ranked up to it. Items with equal scores share the precision at the last of them, as in scikit-learn's
    `average_precision_score`.

    Parameters
    ----------
    metric : Metric or None
        None is the Euclidean distance.
    X : array, CSR matrix or, under a Mahalanobis metric, Dask array of shape (n_queries, n_features)
    y : array of shape (n_queries,)
        Labels of the queries.
    X_items, y_items : as X and y, default=None
        Items to rank and their labels. Without them, each row of X is a query for the other rows (leave-one-out).
        Queries without items of their class are left out.

    >>> X, y = [[0.0], [1.0], [3.0], [4.0], [9.0]], ["a", "a", "b", "a", "b"]
    >>> round(mean_average_precision(None, X, y), 4)
    0.6
    """
    average, _ = _retrieval(metric, *labelled_sides(X, y, X_items, y_items, _SIDES))
    return float(average[_answerable(average)].mean())


def precision_at_k(
    metric: Metric | None,
    X: RowsLike,
    y: ArrayLike,
    X_items: RowsLike | None = None,
    y_items: ArrayLike | None = None,
    k: int | Iterable[int] = DEFAULT_K,
) -> PrecisionAtK:
    """Compute the mean share of items of the query's class among the first ``k`` items, for one or several ``k``.

    If items with equal scores lie on both sides of the cut-off, the expected share under a random order is used.

    Parameters
    ----------
    metric, X, y, X_items, y_items : as for :func:`mean_average_precision`
    k : int or iterable of int, default=1 to 50
        Cut-offs; the default has fewer if there are fewer items.

    >>> X, y = [[0.0], [1.0], [3.0], [4.0], [9.0]], ["a", "a", "b", "a", "b"]
    >>> result = precision_at_k(None, X, y, k=[1, 2])
    >>> result.k, result.precision
    (array([1, 2]), array([0.4, 0.4]))
    >>> result.at(2)
    0.4
    """
    checked = labelled_sides(X, y, X_items, y_items, _SIDES)
    ks = check_counts(k, DEFAULT_K, len(checked[-1]) - (X_items is None), "k", "the number of items of a query")
    average, hits = _retrieval(metric, *checked, int(ks[-1]))
    return PrecisionAtK(ks, hits[ks - 1] / ks / _answerable(average).sum())


def _retrieval(
    metric: Metric | None, X: Rows, codes: IndexArray, X_items: Rows | None, item_codes: IndexArray, n_top: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Return what `retrieval` does; the queries of each chunk are ranked where the images of all items come."""
    exclude_self = X_items is None
    if not (is_chunked(X) or is_chunked(X_items)):
        blocks = scores_in_blocks(metric, X, X_items)
        return retrieval(blocks, codes, item_codes, n_top, exclude_self=exclude_self)
    if not isinstance(metric, MahalanobisMetric):
        raise ValueError("metric must be a Mahalanobis metric if rows are in chunks, because only their images travel")
    Z = metric.transform(X)
    items = Z if X_items is None else metric.transform(X_items)
    images = [part for _, part in parts(items, keep=True)]
    shares = for_each(_retrieval_of_part, parts(Z), images, codes, item_codes, n_top, exclude_self)
    return np.concatenate([average for average, _ in shares]), np.sum([hits for _, hits in shares], axis=0)


def _retrieval_of_part(
    images: list[FloatArray],
    codes: IndexArray,
    item_codes: IndexArray,
    n_top: int,
    alone: bool,
    rows: slice,
    queries: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    scores = score_blocks(queries, np.concatenate(images), None, distances=True)
    blocks = ((slice(rows.start + block.start, rows.start + block.stop), values) for block, values in scores)
    average, hits = retrieval(blocks, codes, item_codes, n_top, exclude_self=alone)
    return average[rows], hits


def _answerable(average: FloatArray) -> BoolArray:
    """Return a mask of the queries that have items of their class."""
    answerable: BoolArray = ~np.isnan(average)
    if not answerable.any():
        raise ValueError("y must have a query with items of its class, but no item is relevant to any query")
    return answerable

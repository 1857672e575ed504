"""Nearest rows of the same and of other classes: the comparisons that learners derive from class labels."""

from __future__ import annotations

import numpy as np

from mahala.comparisons import Triplets
from mahala.engine import current_engine
from mahala.support.arrays import IndexArray, RealArray


def rows_with_company(codes: IndexArray) -> IndexArray:
    """Return the numbers of the rows whose class has another row; raise ValueError if there are none."""
    rows = np.flatnonzero(np.bincount(codes)[codes] > 1)
    if not len(rows):
        raise ValueError("y has a different class for every row; at least one class needs two rows")
    return rows


def hits_and_misses(X: RealArray, codes: IndexArray, rows: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Return, for some rows of X, the nearest other row of their class and the nearest row of any other class.

    Ties go to the first row. Each of the rows must have another one of its class, and there must be two classes.
    """
    hits, misses = current_engine().nearest_by_class(X, codes, rows, 1, 1)
    return hits[:, 0], misses[:, 0]


def target_neighbors(X: RealArray, codes: IndexArray, k: int) -> tuple[IndexArray, IndexArray]:
    """Return the edges as an array of anchors and one of targets, sorted by anchors, and where each anchor's begin.

    The targets of a row are the k nearest others of its class, or all if there are fewer.
    """
    near, _ = _neighbors(X, codes, k, 0)
    anchors, places = np.nonzero(near < len(codes))
    ends = np.concatenate([[0], np.cumsum(np.bincount(anchors, minlength=len(codes)))])
    return np.stack([anchors, near[anchors, places]]), ends


def label_triplets(X: RealArray, codes: IndexArray, k: int) -> Triplets:
    """Return the triplets of each row with each of its k nearest rows of its class and of other classes.

    If a class or the rest has fewer rows, all of them are used; a row alone in its class is not an anchor.
    """
    near, far = _neighbors(X, codes, k, k)
    anchor, j, l = np.nonzero((near < len(codes))[:, :, None] & (far < len(codes))[:, None])
    return Triplets._build(X, anchor, near[anchor, j], far[anchor, l])


def _neighbors(X: RealArray, codes: IndexArray, n_same: int, n_other: int) -> tuple[IndexArray, IndexArray]:
    """Return what `nearest_by_class` returns for all rows."""
    sizes = np.bincount(codes)
    if sizes.max() < 2:
        raise ValueError("y must have a class of at least two rows, but every row is alone in its class")
    n_same, n_other = min(n_same, int(sizes.max()) - 1), min(n_other, len(codes) - int(sizes.min()))
    return current_engine().nearest_by_class(X, codes, np.arange(len(codes)), n_same, n_other)

"""Nearest rows of the same and of other classes: the comparisons that learners derive from class labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from mahala.comparisons import Triplets
from mahala.engine import current_engine
from mahala.support.arrays import IndexArray, RealArray


def nearest_in_class(X: RealArray, codes: IndexArray, k: int) -> list[tuple[IndexArray, IndexArray]]:
    """Return, for each class of at least two rows, its rows and for each of these the k nearest others, or all."""
    nearest = current_engine().nearest
    found = []
    for code in range(int(codes.max()) + 1):
        members = np.flatnonzero(codes == code)
        if len(members) > 1:
            rows = X[members]
            found.append((members, members[nearest(rows, rows, min(k, len(members) - 1), exclude_self=True)[0]]))
    if not found:
        raise ValueError("y must have a class of at least two rows, but every row is alone in its class")
    return found


def target_neighbors(X: RealArray, codes: IndexArray, k: int) -> tuple[IndexArray, IndexArray]:
    """Return the edges as an array of anchors and one of targets, sorted by anchors, and where each anchor's begin."""
    edges = [
        np.column_stack([np.repeat(members, near.shape[1]), near.ravel()])
        for members, near in nearest_in_class(X, codes, k)
    ]
    every = np.vstack(edges)
    every = every[np.argsort(every[:, 0], kind="stable")]
    counts = np.bincount(every[:, 0], minlength=len(codes))
    return np.ascontiguousarray(every.T), np.concatenate([[0], np.cumsum(counts)])


def label_triplets(X: RealArray, codes: IndexArray, k: int) -> Triplets:
    """Return the triplets of each row with each of its k nearest rows of its class and of other classes.

    If a class or the rest has fewer rows, all of them are used; a row alone in its class is not an anchor.
    """
    nearest = current_engine().nearest
    parts = []
    for members, near in nearest_in_class(X, codes, k):
        others = np.flatnonzero(codes != codes[members[0]])
        far = others[nearest(X[others], X[members], min(k, len(others)))[0]]
        n_near, n_far = near.shape[1], far.shape[1]
        anchor = np.repeat(members, n_near * n_far)
        parts.append((anchor, np.repeat(near, n_far, axis=1).ravel(), np.tile(far, (1, n_near)).ravel()))
    anchor, positive, negative = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Triplets(X, anchor, positive, negative)


def rows_with_company(codes: IndexArray) -> IndexArray:
    """Return the numbers of the rows whose class has another row; raise ValueError if there are none."""
    rows = np.flatnonzero(np.bincount(codes)[codes] > 1)
    if not len(rows):
        raise ValueError("y has a different class for every row; at least one class needs two rows")
    return rows


def hits_and_misses(X: Any, codes: IndexArray, rows: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Return, for some rows of X, the nearest other row of their class and the nearest row of any other class.

    Ties go to the first row. Each of the rows must have another one of its class, and there must be two classes.
    """
    nearest = current_engine().nearest
    hits, misses = np.empty_like(rows), np.empty_like(rows)
    for code in np.unique(codes[rows]):
        own, other = np.flatnonzero(codes == code), np.flatnonzero(codes != code)
        asked = codes[rows] == code
        queries = X[rows[asked]]
        members, rest = X[own], X[other]
        two, _ = nearest(members, queries, 2)
        # One of the two nearest may be the row itself.
        itself = own[two[:, 0]] == rows[asked]
        hits[asked] = own[np.where(itself, two[:, 1], two[:, 0])]
        misses[asked] = other[nearest(rest, queries, 1)[0][:, 0]]
    return hits, misses

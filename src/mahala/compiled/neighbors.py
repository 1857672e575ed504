"""Exact Euclidean nearest neighbours and their votes.

The search runs over blocks of queries × blocks of reference rows, so that its work space does not grow
with either. In a block a matrix product gives a lower bound of every squared distance, with its rounding
errors counted in; only rows whose bound can still enter a query's list have their distance computed, from
differences, which makes duplicates exactly 0 and ties exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

# The most memory of one block of products, queries or reference rows.
BLOCK_BYTES = 32 * 2**20


def nearest(reference: Any, queries: Any, k: int, *, exclude_self: bool = False) -> tuple[Rows, Floats]:
    """The ``k`` reference rows nearest to each query, sorted by (distance, row number).

    Both inputs are finite 2-D arrays or CSR matrices. With ``exclude_self`` the queries are the reference,
    and a row is not its own neighbour (its duplicates are). Returns row numbers and squared distances, both
    of shape ``(n_queries, k)``.

    >>> nearest(np.array([[0.0], [3.0], [5.0]]), np.array([[4.0]]), k=2)
    (array([[1, 2]]), array([[1., 1.]]))
    """
    (n_reference, d), n_queries = reference.shape, queries.shape[0]
    if queries.shape[1] != d:
        raise ValueError(f"queries must have the {d} columns of the reference, got {queries.shape[1]}")
    if exclude_self and n_queries != n_reference:
        raise ValueError(
            f"queries must be the reference when exclude_self is set, "
            f"got {n_queries} queries for {n_reference} reference rows"
        )
    available = n_reference - exclude_self
    if not 1 <= k <= available:
        raise ValueError(f"k must be from 1 to {available}, the number of available neighbours, got {k}")

    # Distances do not change under a shift, but the cancellation in ‖x‖² + ‖r‖² - 2x·r grows with the norms.
    mean = np.asarray(reference.mean(axis=0, dtype=np.float64)).reshape(d)
    indices = np.full((n_queries, k), n_reference, dtype=np.intp)
    squared = np.full((n_queries, k), np.inf)
    step = max(1, min(int((BLOCK_BYTES // 8) ** 0.5), BLOCK_BYTES // (8 * max(d, 1))))
    # Sorted data would make row after row a new nearest one; in a shuffled order few are.
    shuffled = np.random.default_rng(0).permutation(min(step, n_reference))
    for first in range(0, n_queries, step):
        block = slice(first, first + step)
        x = _dense(queries[block])
        x_centred = x - mean
        x_norms = _shrunk_norms(x_centred)
        for start in range(0, n_reference, step):
            r = _dense(reference[start : start + step])
            order = shuffled[shuffled < len(r)]
            r = r[order]
            r_centred = r - mean
            _update(
                x_centred @ r_centred.T,
                x_norms,
                _shrunk_norms(r_centred),
                x,
                r,
                start + order,
                first if exclude_self else n_reference,
                squared[block],
                indices[block],
            )
    order = np.lexsort((indices, squared), axis=-1)
    return np.take_along_axis(indices, order, axis=1), np.take_along_axis(squared, order, axis=1)


def vote(labels: NDArray[np.integer[Any]], n_classes: int) -> Rows:
    """Majority votes of the first 1, 2, … K neighbours from their class codes, shape ``(n, K)``.

    Ties go to the smallest code.

    >>> vote(np.array([[2, 1, 1, 2]]), n_classes=3)
    array([[2, 1, 1, 1]])
    """
    labels = np.ascontiguousarray(labels, dtype=np.intp)
    if labels.size and not (labels.min() >= 0 and labels.max() < n_classes):
        raise ValueError(f"labels must be class codes from 0 to {n_classes - 1}, got {labels.min()} to {labels.max()}")
    winners = np.empty_like(labels)
    _vote(labels, np.zeros(n_classes, dtype=np.intp), winners)
    return winners


def leave_one_out_errors(embedded: Floats, codes: Rows, k: int) -> Floats:
    """Error of the 1, 2, ..., k nearest other rows' vote, for rows with class codes 0..c-1."""
    neighbors, _ = nearest(embedded, embedded, min(k, len(codes) - 1), exclude_self=True)
    errors: Floats = np.mean(vote(codes[neighbors], int(codes.max()) + 1) != codes[:, None], axis=0)
    return errors


def _dense(rows: Any) -> Floats:
    values: Any = rows.toarray() if isinstance(rows, (sp.csr_array, sp.csr_matrix)) else rows
    return np.ascontiguousarray(values, dtype=np.float64)


def _shrunk_norms(centred: Floats) -> Floats:
    """Squared norms, less the most that rounding can add to a squared distance.

    With u = eps / 2, the product of d terms, the norms, their sum, the centring and the distance from
    differences are together off by less than (2d + 8)·u·(‖x‖ + ‖r‖)² ≤ (2d + 8)·eps·(‖x‖² + ‖r‖²), and by
    the underflow of d terms. The factor here is twice that. Each norm carries its own share, so the bound
    costs nothing per pair.
    """
    double = np.finfo(np.float64)
    slack = 4 * (centred.shape[1] + 4) * double.eps
    norms: Floats = np.einsum("ij,ij->i", centred, centred) * (1 - slack) - double.tiny
    return norms


@njit(cache=True)  # type: ignore[untyped-decorator]
def _update(
    products: Floats,
    x_norms: Floats,
    r_norms: Floats,
    x: Floats,
    r: Floats,
    r_rows: Rows,
    x_start: int,
    squared: Floats,
    indices: Rows,
) -> None:
    """Let the reference rows enter the heaps of the queries; the root of a heap is the worst neighbour.

    Query i is the reference row x_start + i and is not let into its own heap; an x_start past the reference
    excludes nothing.
    """
    k = squared.shape[1]
    for i in range(len(x)):
        distances, rows = squared[i], indices[i]
        for j in range(len(r)):
            if x_norms[i] + r_norms[j] - 2.0 * products[i, j] > distances[0]:
                continue
            row = r_rows[j]
            if row == x_start + i:
                continue
            distance = 0.0
            for c in range(x.shape[1]):
                difference = x[i, c] - r[j, c]
                distance += difference * difference
            if distance > distances[0] or (distance == distances[0] and row > rows[0]):
                continue
            # Replace the root and sift the new neighbour down to its place.
            hole = 0
            while True:
                child = 2 * hole + 1
                if child >= k:
                    break
                other = child + 1
                if other < k and (
                    distances[other] > distances[child]
                    or (distances[other] == distances[child] and rows[other] > rows[child])
                ):
                    child = other
                if distance > distances[child] or (distance == distances[child] and row > rows[child]):
                    break
                distances[hole], rows[hole] = distances[child], rows[child]
                hole = child
            distances[hole], rows[hole] = distance, row


@njit(cache=True)  # type: ignore[untyped-decorator]
def _vote(labels: Rows, counts: Rows, winners: Rows) -> None:
    for i in range(labels.shape[0]):
        winner, most = 0, 0
        for j in range(labels.shape[1]):
            label = labels[i, j]
            counts[label] += 1
            # Only the class that gained a vote can take the lead.
            if counts[label] > most or (counts[label] == most and label < winner):
                winner, most = label, counts[label]
            winners[i, j] = winner
        for j in range(labels.shape[1]):
            counts[labels[i, j]] = 0

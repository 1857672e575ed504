"""Exact Euclidean nearest neighbours and their votes.

The search runs over blocks of queries × blocks of reference rows, so that its memory does not grow with either. In a
block, a matrix product gives a lower bound of every squared distance that accounts for rounding errors. Distances are
computed only for rows whose bound is small enough, and from differences, so that duplicates are at distance exactly 0
and ties are exact.
"""

import math
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from mahala.compiled.jit import EXACT, kernel_with
from mahala.compiled.threads import in_threads, n_threads, scratch
from mahala.support.arrays import BLOCK_BYTES, FloatArray, IndexArray, block_size, slices
from mahala.support.lazily import spatial_distance

# Up to so many pairs of rows NumPy takes less time than the kernel.
FEW_PAIRS = 2**17
Rows = tuple[FloatArray, FloatArray, IndexArray]  # their values, norms and numbers
Classes = tuple[IndexArray, IndexArray, bool]


def nearest(reference: Any, queries: Any, k: int) -> tuple[IndexArray, FloatArray]:
    """Find the `k` reference rows nearest to each query, sorted by (distance, row number).

    Both inputs are finite 2-D arrays or CSR matrices. Return row numbers and squared distances, (n_queries, k) each.

    >>> nearest(np.array([[0.0], [3.0], [5.0]]), np.array([[4.0]]), k=2)
    (array([[1, 2]]), array([[1., 1.]]))
    """
    (n_reference, d), n_queries = reference.shape, queries.shape[0]
    if queries.shape[1] != d:
        raise ValueError(f"queries must have the {d} columns of the reference, got {queries.shape[1]}")
    if not 1 <= k <= n_reference:
        raise ValueError(f"k must be from 1 to {n_reference}, the number of reference rows, got {k}")

    everyone = np.zeros(n_queries, dtype=np.intp), np.zeros(n_reference, dtype=np.intp)
    (result,) = _nearest(reference, queries, [(k, True)], *everyone, None)
    return result


def nearest_by_class(
    X: Any, codes: IndexArray, rows: IndexArray, n_same: int, n_other: int
) -> tuple[IndexArray, IndexArray]:
    """Find the rows of X nearest to some of its rows: n_same others of its class, and n_other of other classes.

    They are sorted by (distance, row number). Where a class has not so many rows, the last numbers are len(X).

    >>> X, codes = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([0, 1, 0, 1])
    >>> nearest_by_class(X, codes, np.array([0]), n_same=2, n_other=1)
    (array([[2, 4]]), array([[1]]))
    """
    (same, _), (other, _) = _nearest(X, X[rows], [(n_same, True), (n_other, False)], codes[rows], codes, rows)
    return same, other


def _nearest(
    reference: Any,
    queries: Any,
    wanted: list[tuple[int, bool]],
    query_codes: IndexArray,
    codes: IndexArray,
    query_rows: IndexArray | None,
) -> list[tuple[IndexArray, FloatArray]]:
    """Find the nearest reference rows, for each number of neighbours that is wanted of the same class or of others.

    `query_rows` are the reference rows that are the queries themselves, and not their neighbours.
    """
    (n_reference, d), n_queries = reference.shape, queries.shape[0]
    if n_queries * n_reference <= FEW_PAIRS:
        return _nearest_of_few(_dense(reference), _dense(queries), wanted, query_codes, codes, query_rows)
    # Centred, because the cancellation in ‖x‖² + ‖r‖² - 2x·r grows with the norms.
    mean = np.asarray(reference.mean(axis=0, dtype=np.float64)).reshape(d)
    heaps = [
        (np.full((n_queries, k), n_reference, dtype=np.intp), np.full((n_queries, k), np.inf), same)
        for k, same in wanted
    ]
    in_use = [heap for heap in heaps if heap[0].shape[1]]
    query_rows = np.full(n_queries, n_reference) if query_rows is None else query_rows
    step = square_block(d, BLOCK_BYTES)
    # In sorted data every row could be nearer than those before; in a shuffled order few are.
    shuffled = np.random.default_rng(0).permutation(min(step, n_reference))
    threads = n_threads(n_queries * n_reference * d)

    def search(block: slice, reference: tuple[Any, ...], numbers: IndexArray) -> None:
        r, r_centred, r_norms = reference
        x, x_centred, x_norms = _prepared(queries, mean, block)
        products = np.matmul(x_centred, r_centred.T, out=scratch((len(x), len(r)), np.float64))
        for indices, squared, same in in_use:
            classes = query_codes[block], codes[numbers], same
            rows = (x, x_norms, query_rows[block]), (r, r_norms, numbers)
            _update(products, *rows, classes, squared[block], indices[block])

    for part in slices(n_reference, step):
        order = part.start + shuffled[shuffled < part.stop - part.start]
        pieces = in_threads(partial(_prepared, reference, mean), np.array_split(order, threads), threads=threads)
        r = tuple(np.concatenate(column) for column in zip(*pieces, strict=True))
        blocks = slices(n_queries, max(1, min(step, -(-n_queries // threads))))
        in_threads(partial(search, reference=r, numbers=order), blocks, threads=threads)
    result = []
    for indices, squared, _ in heaps:
        order = np.lexsort((indices, squared), axis=-1)
        result.append((np.take_along_axis(indices, order, axis=1), np.take_along_axis(squared, order, axis=1)))
    return result


def _nearest_of_few(
    reference: FloatArray,
    queries: FloatArray,
    wanted: list[tuple[int, bool]],
    query_codes: IndexArray,
    codes: IndexArray,
    query_rows: IndexArray | None,
) -> list[tuple[IndexArray, FloatArray]]:
    """Return what `_nearest` returns, from all distances, whose terms are added in the same order."""
    n, squared = len(reference), spatial_distance.cdist(queries, reference, "sqeuclidean")
    same_class = query_codes[:, np.newaxis] == codes
    result = []
    for k, same in wanted:
        eligible = same_class == same
        if query_rows is not None:
            eligible &= np.arange(n) != query_rows[:, np.newaxis]  # a query that is not among the rows has the number n
        distances = np.where(eligible, squared, np.inf)
        order = _first_of_each(distances, min(k, n))
        rows = np.where(np.take_along_axis(eligible, order, axis=1), order, n)
        distances = np.take_along_axis(distances, order, axis=1)
        if k > n:  # there is room for more than there are
            missing = ((0, 0), (0, k - n))
            distances = np.pad(distances, missing, constant_values=np.inf)
            rows = np.pad(rows, missing, constant_values=n)
        result.append((rows, distances))
    return result


def _first_of_each(values: FloatArray, k: int) -> IndexArray:
    """Return the columns of the k smallest values of each row, by (value, column)."""
    if not 0 < k < values.shape[1]:
        return np.argsort(values, axis=1, kind="stable")[:, :k]
    last = np.partition(values, k - 1, axis=1)[:, k - 1 : k]  # a fraction of the time of sorting all
    chosen = values <= last
    if np.count_nonzero(chosen) > k * len(values):  # of those that are equal to the last one, the first are chosen
        equal = values == last
        room = k - np.count_nonzero(values < last, axis=1)
        chosen &= ~equal | (np.cumsum(equal, axis=1) <= room[:, np.newaxis])
    columns = np.nonzero(chosen)[1].reshape(len(values), k)
    order = np.argsort(np.take_along_axis(values, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)


def square_block(d: int, most_bytes: int) -> int:
    """Rows of d columns per block, so that a block and the inner products of two blocks take most_bytes each."""
    return min(block_size(d, most_bytes), max(1, math.isqrt(most_bytes // 8)))


def _prepared(rows: Any, mean: FloatArray, chosen: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the chosen rows in float64, these centred, and what `_shrunk_norms` returns of them."""
    x = _dense(rows[chosen])
    centred = x - mean
    return x, centred, _shrunk_norms(centred)


def _dense(rows: Any) -> FloatArray:
    values: Any = rows.toarray() if isinstance(rows, (sp.csr_array, sp.csr_matrix)) else rows
    return np.ascontiguousarray(values, dtype=np.float64)


def _shrunk_norms(centred: FloatArray) -> FloatArray:
    """Squared norms, minus the most that rounding can add to a squared distance.

    With u = eps / 2, the total error of the product of d terms, the norms, their sum, the centring and the distance
    from differences is less than (2d + 8)·u·(‖x‖ + ‖r‖)² ≤ (2d + 8)·eps·(‖x‖² + ‖r‖²), plus the underflow of d terms.
    The factor here is twice that. Each norm carries its share, so the bound costs nothing per pair.
    """
    double = np.finfo(np.float64)
    slack = 4 * (centred.shape[1] + 4) * double.eps
    norms: FloatArray = np.einsum("ij,ij->i", centred, centred) * (1 - slack) - double.tiny
    return norms


@kernel_with(EXACT)
def _update(
    products: FloatArray, queries: Rows, reference: Rows, classes: Classes, squared: FloatArray, indices: IndexArray
) -> None:
    """Update the heaps of the queries with the reference rows; the root of a heap is the farthest neighbour.

    The number of a query is that of the reference row that it is, and which does not enter its heap. `classes` are
    those of the queries and of the reference rows, and whether neighbours are of the same class or of another one.
    """
    k = squared.shape[1]
    (x, x_norms, query_rows), (r, r_norms, r_rows), (x_codes, r_codes, same) = queries, reference, classes
    for i in range(len(x)):
        distances, rows = squared[i], indices[i]
        for j in range(len(r)):
            if x_norms[i] + r_norms[j] - 2.0 * products[i, j] > distances[0]:
                continue
            row = r_rows[j]
            if row == query_rows[i] or (x_codes[i] == r_codes[j]) != same:
                continue
            distance = 0.0
            for c in range(x.shape[1]):
                difference = x[i, c] - r[j, c]
                distance += difference * difference
            if distance > distances[0] or (distance == distances[0] and row > rows[0]):
                continue
            # Replace the root by the new neighbour and sift it down.
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

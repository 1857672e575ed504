"""The expected number of rows whose random neighbour has the same class, and its gradient, without n × n numbers.

Row i chooses row j ≠ i as its neighbour with probability p_ij ∝ exp(-‖z_i - z_j‖²). Most p_ij are below rounding. So a
first pass over half of all pairs, in blocks of distances by matrix products, lists for each row the neighbours that may
matter; the sum is then computed from these lists. Rows with too many neighbours are computed in full, again in blocks.
The pull on the rows is half of the gradient, as in `pair_sums`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala.compiled.jit import FAST, kernel_with
from mahala.compiled.pair_sums import BLOCK_BYTES
from mahala.support.arrays import IndexArray, RealArray
from mahala.support.rows import slices


class Lists(NamedTuple):
    """Neighbours of some rows."""

    counts: IndexArray  # how many are listed; -1 for too many
    lowest: RealArray  # the distance of the nearest one
    columns: NDArray[np.int32]  # which rows they are
    distances: RealArray  # squared


# Columns that are examined together: most such spans contain no neighbour that matters, and are skipped.
SPAN = 32
# The most neighbours that a row may list, in all and as a share (1/16) of the rows: with more, a matrix product is
# faster (measured with 32 and 784 columns, 10,000 rows).
MOST_LISTED = 768
SHARE = 16
# The numbers of rows and of columns from which a first pass over half of the pairs pays off.
LIST_FROM = 512
WIDE = 128
# The number of rows to which distances are computed first, for an upper bound on the distance of nearest neighbours.
N_SAMPLES = 128


def sum_softmax(Z: RealArray, codes: IndexArray) -> tuple[float, RealArray]:
    """Σ_i Σ_{j of the class of i} p_ij, and its pull on Z.

    Pairs are left out if their total is below the rounding error of the weights, which is that of a squared distance
    and relative to the norms.
    """
    n = len(Z)
    norms = np.einsum("ij,ij->i", Z, Z)
    rounding = np.minimum(np.finfo(Z.dtype).eps * (1.0 + norms), 1.0)
    cuts = np.log(n / rounding).astype(Z.dtype)
    most = min(n // SHARE, MOST_LISTED)
    pull = np.zeros_like(Z)
    total, left_over = 0.0, np.arange(n)
    if n >= LIST_FROM and Z.shape[1] >= WIDE:
        lists = _lists(Z, norms, cuts)
        total += _listed(left_over, lists, cuts, rounding, codes, most, Z, pull)
        left_over = np.flatnonzero(lists.counts < 0)
    sums = np.zeros(n, dtype=Z.dtype)
    step = max(1, min(n, BLOCK_BYTES // (Z.itemsize * n)))
    least_of = np.empty(-(-n // SPAN), dtype=Z.dtype)
    for block in slices(len(left_over), step):
        rows = left_over[block]
        own = _empty_lists(len(rows), most + SPAN, Z.dtype)
        weights = Z[rows] @ Z.T
        total += _block(weights, norms, codes, rows, cuts, own, least_of)
        total += _listed(rows, own, cuts, rounding, codes, most, Z, pull)
        dense = own.counts < 0
        if dense.any():
            weights, rows = weights[dense], rows[dense]
            sums += weights.sum(axis=0)
            sums[rows] += weights.sum(axis=1)
            pull[rows] -= weights @ Z
            pull -= weights.T @ Z[rows]
    pull += sums[:, None] * Z
    return total, pull


def _empty_lists(n: int, most: int, dtype: Any) -> Lists:
    """Empty lists of n rows, each with room for `most` neighbours."""
    counts, lowest = np.zeros(n, dtype=np.intp), np.full(n, np.inf, dtype=dtype)
    return Lists(counts, lowest, np.empty((n, most), dtype=np.int32), np.empty((n, most), dtype=dtype))


def _lists(Z: RealArray, norms: RealArray, cuts: RealArray) -> Lists:
    """The lists of all rows, computed from half of all pairs."""
    n = len(Z)
    samples = np.arange(0, n, max(1, n // N_SAMPLES))
    sampled = norms[:, None] + norms[samples] - 2.0 * (Z @ Z[samples].T)
    sampled[samples, np.arange(len(samples))] = np.inf
    # A block may round the distance of a sample differently.
    limits = sampled.min(axis=1) + cuts + 16.0 * np.finfo(Z.dtype).eps * norms.max()
    limits = limits.astype(Z.dtype)
    lists = _empty_lists(n, MOST_LISTED, Z.dtype)
    step = max(1, min(n, int((BLOCK_BYTES // Z.itemsize) ** 0.5) // 2))
    for first in range(0, n, step):
        for second in range(first, n, step):
            products = Z[first : first + step] @ Z[second : second + step].T
            _collect(products, norms, first, second, cuts, limits, lists)
        if 2 * np.count_nonzero(lists.counts < 0) > n:  # too many rows with too many neighbours
            lists.counts[:] = -1
            break
    return lists


# There are no NaN here; knowing that, the compiler makes minima fast.
@kernel_with(FAST | {"nnan", "nsz"})
def _collect(
    products: RealArray, norms: RealArray, first: int, second: int, cuts: RealArray, limits: RealArray, lists: Lists
) -> None:
    """Add the pairs of a block, rows from `first` and columns from `second`, to the lists in which they may matter."""
    number = products.dtype.type
    two, infinity, zero = number(2.0), number(np.inf), number(0.0)
    width = products.shape[1]
    own_norms, own_limits = norms[second : second + width], limits[second : second + width]
    for r in range(products.shape[0]):
        row, i = products[r], first + r
        norm = norms[i]
        for c in range(width):
            row[c] = norm + own_norms[c] - two * row[c]
        if first == second:
            row[: r + 1] = infinity  # each pair once, and no row paired with itself
        for start in range(0, width, SPAN):
            stop = min(start + SPAN, width)
            part, limit_part = row[start:stop], own_limits[start:stop]
            least, room = infinity, infinity
            for c in range(len(part)):
                value = part[c]
                least = value if value < least else least
                over = value - limit_part[c]
                room = over if over < room else room
            if least > limits[i] and room > zero:
                continue
            for c in range(start, stop):
                if row[c] <= limits[i]:
                    _list(i, second + c, row[c], cuts, limits, lists)
                if row[c] <= own_limits[c]:
                    _list(second + c, i, row[c], cuts, limits, lists)


@kernel_with(FAST | {"nnan", "nsz"})
def _list(i: int, j: int, distance: float, cuts: RealArray, limits: RealArray, lists: Lists) -> None:
    """Add j to the neighbours of row i; from a full list, drop those that a nearer one has made negligible."""
    counts, lowest, columns, distances = lists
    most = columns.shape[1]
    if counts[i] == most:
        kept = 0
        for k in range(most):
            columns[i, kept], distances[i, kept] = columns[i, k], distances[i, k]
            kept += distances[i, k] <= limits[i]
        counts[i] = kept
        if kept > most // 2:
            counts[i], limits[i] = -1, -np.inf
            return
    columns[i, counts[i]], distances[i, counts[i]] = j, distance
    counts[i] += 1
    if distance < lowest[i]:
        lowest[i] = distance
        limits[i] = min(limits[i], distance + cuts[i])


@kernel_with(FAST | {"nnan", "nsz"})
def _listed(
    rows: IndexArray,
    lists: Lists,
    cuts: RealArray,
    rounding: RealArray,
    codes: IndexArray,
    most: int,
    Z: RealArray,
    pull: RealArray,
) -> float:
    """Sum over the rows with a list, and add their pull; mark a row with more than `most` weights by a count of -1."""
    counts, lowest, columns, distances = lists
    number = Z.dtype.type
    total = 0.0
    for r in range(len(rows)):
        i = rows[r]
        if counts[r] <= 0:
            counts[r] = -1
            continue
        limit = lowest[r] + cuts[i]
        all_weight, own, n_active = 0.0, 0.0, 0
        for k in range(counts[r]):
            if distances[r, k] <= limit:
                columns[r, n_active] = columns[r, k]
                weight = np.exp(lowest[r] - distances[r, k])
                distances[r, n_active] = weight
                n_active += 1
                all_weight += weight
                own += weight if codes[columns[r, k]] == codes[i] else 0.0
        if n_active > most:
            counts[r] = -1
            continue
        p = own / all_weight
        total += p
        largest = number(0.0)
        for k in range(n_active):
            same = 1.0 if codes[columns[r, k]] == codes[i] else 0.0
            distances[r, k] *= number((p - same) / all_weight)
            largest = max(largest, abs(distances[r, k]))
        least = largest * rounding[i] / n_active
        # Entries are addressed one by one, because views of rows would cost more than the arithmetic.
        for k in range(n_active):
            weight, j = distances[r, k], columns[r, k]
            if abs(weight) <= least:
                continue
            for c in range(Z.shape[1]):
                change = weight * (Z[i, c] - Z[j, c])
                pull[i, c] += change
                pull[j, c] -= change
    return total


@kernel_with(FAST | {"nnan", "nsz"})
def _block(
    products: RealArray,
    norms: RealArray,
    codes: IndexArray,
    rows: IndexArray,
    cuts: RealArray,
    lists: Lists,
    least_of: RealArray,
) -> float:
    """List the neighbours of some rows from their products with all rows.

    For a row with too many neighbours, replace the products by weights; return the sum over such rows.
    """
    counts, lowest, columns, distances = lists
    number = products.dtype.type
    two, zero, infinity = number(2.0), number(0.0), number(np.inf)
    n, most = products.shape[1], columns.shape[1] - SPAN  # with spare room for one span
    total = 0.0
    for r in range(len(rows)):
        row, i = products[r], rows[r]
        row[i] = -infinity
        for j in range(n):
            row[j] = norms[j] - two * row[j]
        nearest = infinity
        for span in range(len(least_of)):
            part = row[span * SPAN : span * SPAN + SPAN]
            least = infinity
            for j in range(len(part)):
                least = part[j] if part[j] < least else least
            least_of[span] = least
            nearest = min(nearest, least)
        limit = nearest + cuts[i]
        listed, listed_distances, found = columns[r], distances[r], 0
        for span in range(len(least_of)):
            if least_of[span] <= limit and found <= most:
                for j in range(span * SPAN, min(span * SPAN + SPAN, n)):
                    # Always written, but kept only if it matters: a branch would often be mispredicted.
                    listed[found], listed_distances[found] = j, row[j]
                    found += row[j] <= limit
        counts[r], lowest[r] = found, nearest
        if found <= most:
            continue
        counts[r] = -1
        all_weight, own = 0.0, 0.0
        for j in range(n):
            row[j] = np.exp(nearest - row[j]) if row[j] <= limit else zero
            all_weight += row[j]
            own += row[j] if codes[j] == codes[i] else zero
        p = own / all_weight
        total += p
        for j in range(n):
            row[j] *= number((p - (1.0 if codes[j] == codes[i] else 0.0)) / all_weight)
    return total

"""The expected number of rows whose random neighbour has the same class, and its gradient, without n × n numbers.

Row i chooses row j ≠ i as its neighbour with probability p_ij ∝ exp(-‖z_i - z_j‖²). Most p_ij are below rounding. So a
first pass over half of all pairs, in blocks of distances by matrix products, lists for each row the neighbours that may
matter; the sum is then computed from these lists. Rows with too many neighbours are computed in full, again in blocks.
The pull on the rows is half of the gradient, as in `pair_sums`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala.compiled.jit import FAST, kernel_with
from mahala.compiled.sums.pair_sums import BLOCK_BYTES, add_multiples
from mahala.compiled.threads import (
    FEW_PAIRS,
    PER_NUMBER,
    in_pairs_of_blocks,
    in_rows,
    in_threads,
    n_threads,
    product,
    scratch,
    squared_norms,
)
from mahala.support.arrays import IndexArray, RealArray, slices


class Lists(NamedTuple):
    """Neighbours of some rows."""

    counts: IndexArray  # how many are listed; -1 for too many
    lowest: RealArray  # the distance of the nearest one
    columns: NDArray[np.int32]  # which rows they are
    distances: RealArray  # squared

    def of(self, rows: slice) -> Lists:
        return Lists(self.counts[rows], self.lowest[rows], self.columns[rows], self.distances[rows])


# Columns that are examined together: most such spans contain no neighbour that matters, and are skipped.
SPAN = 32
# The most neighbours that a row may list, in all and as a share (1/16) of the rows: with more, a matrix product is
# faster (measured with 32 and 784 columns, 10,000 rows).
MOST_LISTED = 768
SHARE = 16
# The numbers of rows and of columns from which a first pass over half of the pairs pays off.
LIST_FROM = 512
WIDE = 128
# The most memory for pulls that are added up at the end.
MOST_BYTES = 2**30
# The number of rows to which distances are computed first, for an upper bound on the distance of nearest neighbours.
N_SAMPLES = 128


def sum_softmax(Z: RealArray, codes: IndexArray) -> tuple[float, RealArray]:
    """Σ_i Σ_{j of the class of i} p_ij, and its pull on Z.

    Pairs are left out if their total is below the rounding error of the weights, which is that of a squared distance
    and relative to the norms.
    """
    n, m = Z.shape
    norms = squared_norms(Z)
    if n * n <= FEW_PAIRS:
        return _sum_of_few(Z, norms, codes)
    rounding = np.minimum(np.finfo(Z.dtype).eps * (1.0 + norms), 1.0)
    cuts = np.log(n / rounding).astype(Z.dtype)
    most = min(n // SHARE, MOST_LISTED)
    threads = n_threads(n * n * m / 2)
    pull = np.zeros_like(Z)
    total, left_over = 0.0, np.arange(n)
    if n >= LIST_FROM and m >= WIDE:
        lists = _lists(Z, norms, cuts, threads)

        def weigh(part: slice) -> float:
            return _weigh(left_over[part], lists.of(part), cuts, rounding, codes, most)

        total += sum(in_rows(weigh, n, threads))
        in_rows(lambda part: _pull_listed(left_over, lists, part.start, part.stop, Z, pull), n, threads)
        left_over = np.flatnonzero(lists.counts < 0)
    sums = np.zeros(n, dtype=Z.dtype)
    step = max(1, min(n, BLOCK_BYTES // (Z.itemsize * n)))

    def multiply(x: RealArray, out: RealArray) -> None:
        """Write the products with all rows, by threads if this is not one of them."""
        in_rows(lambda part: np.matmul(x, Z[part].T, out=out[:, part]), n, n_threads(len(x) * Z.size))

    def weigh_block(rows: IndexArray, weights: RealArray, own: Lists, part: slice) -> float:
        """List or weigh the neighbours of a part of some rows, given their products with all rows."""
        rows, own = rows[part], own.of(part)
        total = _block(weights[part], norms, codes, rows, cuts, own, np.empty(-(-n // SPAN), dtype=Z.dtype))
        return total + _weigh(rows, own, cuts, rounding, codes, most)

    def add(group: IndexArray, pull: RealArray, sums: RealArray) -> float:
        """Add the pull of a group of rows, from their products with all rows."""
        total = 0.0
        for block in slices(len(group), step):
            rows = group[block]
            own = _empty_lists(len(rows), most + SPAN, Z.dtype)
            weights = scratch((len(rows), n), Z.dtype)
            multiply(Z[rows], weights)
            threads = n_threads(PER_NUMBER * weights.size)
            total += sum(in_rows(partial(weigh_block, rows, weights, own), len(rows), threads))
            _pull_listed(rows, own, 0, n, Z, pull)
            dense = own.counts < 0
            if dense.any():
                weights, rows = weights[dense], rows[dense]
                sums += weights.sum(axis=0)
                sums[rows] += weights.sum(axis=1)
                pull[rows] -= product(weights, Z)
                x = Z[rows]

                def push(part: slice, pull: RealArray = pull, weights: RealArray = weights, x: RealArray = x) -> None:
                    pull[part] -= weights[:, part].T @ x

                in_rows(push, n, n_threads(len(x) * Z.size))
        return total

    # A group adds to all rows, so each but the first has a pull of its own.
    groups = np.array_split(left_over, max(1, min(threads, MOST_BYTES // pull.nbytes, -(-len(left_over) // step))))
    own_pulls = [pull, *(np.zeros_like(Z) for _ in groups[1:])]
    own_sums = [sums, *(np.zeros_like(sums) for _ in groups[1:])]
    total += sum(in_threads(add, groups, own_pulls, own_sums, threads=threads))
    for other_pull, other_sums in zip(own_pulls[1:], own_sums[1:], strict=True):
        pull += other_pull
        sums += other_sums
    add_multiples(Z, sums, pull)
    return total, pull


def _sum_of_few(Z: RealArray, norms: RealArray, codes: IndexArray) -> tuple[float, RealArray]:
    """Return what `sum_softmax` returns, from all pairs at once."""
    exponents = 2.0 * (Z @ Z.T) - norms
    np.fill_diagonal(exponents, -np.inf)
    weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    same = codes[:, np.newaxis] == codes
    p = np.sum(weights, axis=1, where=same)
    weights *= p[:, np.newaxis] - same.astype(Z.dtype)
    weights += weights.T
    return float(p.sum(dtype=np.float64)), weights.sum(axis=1)[:, np.newaxis] * Z - weights @ Z


def _empty_lists(n: int, most: int, dtype: Any) -> Lists:
    """Empty lists of n rows, each with room for `most` neighbours."""
    counts, lowest = np.zeros(n, dtype=np.intp), np.full(n, np.inf, dtype=dtype)
    return Lists(counts, lowest, np.empty((n, most), dtype=np.int32), np.empty((n, most), dtype=dtype))


def _lists(Z: RealArray, norms: RealArray, cuts: RealArray, threads: int) -> Lists:
    """The lists of all rows, computed from half of all pairs."""
    n = len(Z)
    samples = np.arange(0, n, max(1, n // N_SAMPLES))
    sampled = norms[:, None] + norms[samples] - 2.0 * product(Z, Z[samples].T)
    sampled[samples, np.arange(len(samples))] = np.inf
    # A block may round the distance of a sample differently.
    limits = sampled.min(axis=1) + cuts + 16.0 * np.finfo(Z.dtype).eps * norms.max()
    limits = limits.astype(Z.dtype)
    lists = _empty_lists(n, MOST_LISTED, Z.dtype)

    def too_many() -> bool:
        """Whether most rows have too many neighbours."""
        return bool(2 * np.count_nonzero(lists.counts < 0) > n)

    in_vain = False

    def collect(first: slice, second: slice) -> None:
        nonlocal in_vain
        in_vain = in_vain or (first.start == 0 and too_many())  # asked now and then
        if in_vain:
            return
        x, y = Z[first], Z[second]
        products = np.matmul(x, y.T, out=scratch((len(x), len(y)), Z.dtype))
        _collect(products, norms, first.start, second.start, cuts, limits, lists)

    size = max(1, int((BLOCK_BYTES // Z.itemsize) ** 0.5) // 2)
    in_pairs_of_blocks(collect, n, size, threads)
    if too_many():
        lists.counts[:] = -1
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
def _weigh(rows: IndexArray, lists: Lists, cuts: RealArray, rounding: RealArray, codes: IndexArray, most: int) -> float:
    """Replace the distances of the rows with a list by weights, without those that do not matter; return the sum.

    A row with more than `most` weights is marked by a count of -1.
    """
    counts, lowest, columns, distances = lists
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
        largest = distances.dtype.type(0.0)
        for k in range(n_active):
            same = 1.0 if codes[columns[r, k]] == codes[i] else 0.0
            distances[r, k] *= distances.dtype.type((p - same) / all_weight)
            largest = max(largest, abs(distances[r, k]))
        least = largest * rounding[i] / n_active
        kept = 0
        for k in range(n_active):
            columns[r, kept], distances[r, kept] = columns[r, k], distances[r, k]
            kept += abs(distances[r, k]) > least
        counts[r] = kept
    return total


@kernel_with(FAST | {"nnan", "nsz"})
def _pull_listed(rows: IndexArray, lists: Lists, first: int, stop: int, Z: RealArray, pull: RealArray) -> None:
    """Add the pull of the weights in lists on the rows from `first` to `stop`.

    A pair pulls two rows: threads that share the rows each read all lists, which is little beside adding.
    """
    counts, _, columns, weights = lists
    # Entries are addressed one by one, because views of rows would cost more than the arithmetic.
    for r in range(len(rows)):
        i = rows[r]
        for k in range(counts[r]):
            weight, j = weights[r, k], columns[r, k]
            own, other = first <= i < stop, first <= j < stop
            if own and other:
                for c in range(Z.shape[1]):
                    change = weight * (Z[i, c] - Z[j, c])
                    pull[i, c] += change
                    pull[j, c] -= change
            elif own:
                for c in range(Z.shape[1]):
                    pull[i, c] += weight * (Z[i, c] - Z[j, c])
            elif other:
                for c in range(Z.shape[1]):
                    pull[j, c] -= weight * (Z[i, c] - Z[j, c])


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

"""Sums over all pairs of rows and their gradients, without storing n × n numbers.

For rows z_i and weights W_ij on the squared distances of pairs, half of the gradient of the sum with respect to the
rows is (diag(W1 + Wᵀ1) - W - Wᵀ) Z, here called the pull. Pairs are processed in blocks: a matrix product gives the
distances of a block, a compiled pass replaces them by weights, and their pull is added one by one if few weights are
non-zero, otherwise by matrix products.
"""

import math

import numpy as np

from mahala.compiled.jit import kernel
from mahala.compiled.threads import (
    FEW_PAIRS,
    PER_NUMBER,
    class_sums,
    in_pairs_of_blocks,
    in_rows,
    n_threads,
    scratch,
    squared_norms,
)
from mahala.support.arrays import FloatArray, IndexArray, RealArray, slices

# (a, b, c, cutoff): a pair at a distance d below the cutoff costs a + b d + c d².
Cost = tuple[float, float, float, float]
Rows = tuple[RealArray, IndexArray, RealArray | None]  # squared norms, class codes, weights

# The largest size of a block of products.
BLOCK_BYTES = 8 * 2**20
# If fewer than one weight in this many is non-zero, a loop is faster than a matrix product (measured from 32 to 784
# columns, 10,000 rows).
SPARSE_SHARE = 32
# Multiplications of about a millisecond: to compile the loop for fewer would not pay.
FEW_PRODUCTS = 2**22


def sum_between(
    Z: RealArray, codes: IndexArray, cost: Cost, weights: FloatArray | None = None, rows: slice | None = None
) -> tuple[float, RealArray]:
    """Σ w_i w_j (a + b d_ij + c d_ij²) over unordered pairs of different classes with d_ij < cutoff, and its pull on Z.

    The d_ij are distances, not squared. Coinciding rows have no pull. With `rows` it
    is half of the terms of each of these rows, so that shares of the rows add up to the whole.
    """
    n = len(Z)
    w = None if weights is None else weights.astype(Z.dtype)
    norms = squared_norms(Z)
    codes = codes.astype(np.int32)  # as wide as the numbers, so that a loop over both is vectorised
    pull = np.zeros_like(Z)
    sums = np.zeros(n, dtype=Z.dtype)

    def add(left: slice, right: slice) -> float:
        x, y = Z[left], Z[right]
        products = np.matmul(x, y.T, out=scratch((len(x), len(y)), Z.dtype))
        rows_of, columns_of = ((norms[part], codes[part], None if w is None else w[part]) for part in (left, right))
        diagonal = rows is None and left == right
        if products.size <= FEW_PAIRS:
            value, count = _between_of_few(products, rows_of, columns_of, diagonal, cost)
        else:
            value, count = _between(products, *rows_of, *columns_of, diagonal, cost)
        add_pull(products, count, Z, left, right, pull, sums)
        return value

    side = max(1, math.isqrt(BLOCK_BYTES // Z.itemsize))
    if rows is None:
        total = sum(in_pairs_of_blocks(add, n, side, n_threads(n * n * Z.shape[1] / 2)))
        add_multiples(Z, sums, pull)
        return total, pull
    total = sum(add(left, right) for left in slices_of(rows, side) for right in slices(n, side))
    add_multiples(Z, sums, pull)
    return total / 2.0, pull / 2


def add_pull(
    weights: RealArray, count: int, Z: RealArray, left: slice, right: slice, pull: RealArray, sums: RealArray
) -> None:
    """Add the pull of the weights between two blocks of rows, of which `count` are not zero.

    They are added one by one if they are few. Otherwise the sums of weights are left to `add_multiples`.
    """
    x, y = Z[left], Z[right]
    if count * SPARSE_SHARE < weights.size and weights.size * Z.shape[1] > FEW_PRODUCTS:
        _pull_few(weights, x, y, pull[left], pull[right])
        return
    sums[left] += weights.sum(axis=1)
    sums[right] += weights.sum(axis=0)
    pull[left] -= np.matmul(weights, y, out=scratch(x.shape, Z.dtype, 1))
    pull[right] -= np.matmul(weights.T, x, out=scratch(y.shape, Z.dtype, 1))


def sum_within(Z: RealArray, codes: IndexArray, weights: FloatArray | None = None) -> tuple[float, RealArray]:
    """Σ w_i w_j ‖z_i - z_j‖² over the unordered pairs of one class, and its pull on Z."""
    # The squared distances of all pairs of n points with mean μ sum to n Σ ‖z - μ‖².
    sizes, threads = np.bincount(codes, weights), n_threads(PER_NUMBER * Z.size)

    def sums(rows: slice) -> FloatArray:
        return class_sums(len(sizes), Z[rows], codes[rows], None if weights is None else weights[rows])

    means = (np.sum(in_rows(sums, len(Z), threads), axis=0) / sizes[:, None]).astype(Z.dtype)
    factors, pull = within_factors(codes, weights).astype(Z.dtype), np.empty_like(Z)

    def weigh(rows: slice) -> float:
        residuals = Z[rows] - means[codes[rows]]
        np.multiply(residuals, factors[rows, None], out=pull[rows])
        return float(np.einsum("ij,ij->", pull[rows], residuals, dtype=np.float64))

    return sum(in_rows(weigh, len(Z), threads)), pull


def slices_of(rows: slice, size: int) -> list[slice]:
    """Return slices of up to `size` of some rows."""
    return [slice(start, min(start + size, rows.stop)) for start in range(rows.start, rows.stop, size)]


def within_factors(codes: IndexArray, weights: FloatArray | None) -> FloatArray:
    """Return for each row its weight times the weight of its class: its factor in the scatter of pairs of one class."""
    sizes: FloatArray = np.bincount(codes, weights)[codes].astype(np.float64)
    return sizes if weights is None else sizes * weights


def add_multiples(Z: RealArray, factors: RealArray, pull: RealArray) -> None:
    """Add each row of Z times its factor to the pull."""

    def add(rows: slice) -> None:
        pull[rows] += factors[rows, None] * Z[rows]

    in_rows(add, len(Z), n_threads(PER_NUMBER * Z.size))


def sum_edges(Z: RealArray, left: IndexArray, right: IndexArray, cost: Cost) -> tuple[float, RealArray]:
    """Return what `sum_between` returns, over the pairs (left, right) instead."""
    pull = np.zeros_like(Z)
    return _edges(Z, left, right, cost, pull), pull


def _between_of_few(products: RealArray, left: Rows, right: Rows, diagonal: bool, cost: Cost) -> tuple[float, int]:
    """Do what `_between` does."""
    a, b, c, cutoff = cost
    norms = left[0][:, np.newaxis] + right[0]
    squared = np.maximum(norms - 2 * products, 0)
    here = (left[1][:, np.newaxis] != right[1]) & (squared < cutoff * cutoff)
    here = np.triu(here, 1) if diagonal else here
    weights = here if left[2] is None or right[2] is None else here * np.outer(left[2], right[2])
    roots, kind = np.sqrt(squared), np.finfo(products.dtype)
    total = sum(float((weights * terms).sum(dtype=np.float64)) for terms in (a, b * roots, c * squared))
    apart = squared > 4 * kind.eps * norms + kind.tiny
    np.divide(0.5 * b, roots, out=products, where=apart)
    products[:] = np.where(apart, weights * (products + products.dtype.type(c)), 0)
    return total, int(np.count_nonzero(here))


@kernel
def _between(
    products: RealArray,
    x_norms: RealArray,
    x_codes: IndexArray,
    x_weights: RealArray | None,
    y_norms: RealArray,
    y_codes: IndexArray,
    y_weights: RealArray | None,
    diagonal: bool,
    cost: Cost,
) -> tuple[float, int]:
    """Replace products by the derivatives of the terms with respect to d²; return the sum and the number of terms."""
    a, b, c, cutoff = cost
    half, linear = products.dtype.type(0.5 * b), products.dtype.type(c)
    limit = products.dtype.type(cutoff * cutoff)
    two, one, zero = products.dtype.type(2.0), products.dtype.type(1.0), products.dtype.type(0.0)
    # The most that rounding can leave of a squared distance that is zero, from the dtype's eps and its least number.
    # Numba takes as long for `np.finfo` as for the rest.
    double = products.itemsize == 8
    slack = products.dtype.type(2.0**-50 if double else 2.0**-21)
    tiny = products.dtype.type(2.0**-1022 if double else 2.0**-126)
    total, count = 0.0, 0
    for i in range(products.shape[0]):
        row = products[i]
        norm, code, x_weight = x_norms[i], x_codes[i], one if x_weights is None else x_weights[i]
        ones, roots, squares, n_terms = zero, zero, zero, 0
        for j in range(i + 1 if diagonal else 0, len(row)):
            q = norm + y_norms[j] - two * row[j]
            q = max(q, zero)
            here = (y_codes[j] != code) & (q < limit)
            root = np.sqrt(q)
            apart = q > slack * (norm + y_norms[j]) + tiny
            weight = one if y_weights is None else y_weights[j]
            row[j] = x_weight * weight * (half / root + linear) if here & apart else zero
            ones += weight if here else zero
            roots += weight * root if here else zero
            squares += weight * q if here else zero
            n_terms += here
        if diagonal:
            row[: i + 1] = zero
        total += x_weight * (a * ones + b * roots + c * squares)
        count += n_terms
    return total, count


@kernel
def _pull_few(weights: RealArray, X: RealArray, Y: RealArray, x_pull: RealArray, y_pull: RealArray) -> None:
    # Entries are addressed one by one, here and below, because views of rows would cost more than the arithmetic.
    for i in range(weights.shape[0]):
        for j in range(weights.shape[1]):
            weight = weights[i, j]
            if weight != 0.0:
                for c in range(X.shape[1]):
                    change = weight * (X[i, c] - Y[j, c])
                    x_pull[i, c] += change
                    y_pull[j, c] -= change


@kernel
def _edges(Z: RealArray, left: IndexArray, right: IndexArray, cost: Cost, pull: RealArray) -> float:
    a, b, c, cutoff = cost
    total = 0.0
    for t in range(len(left)):
        i, j = left[t], right[t]
        q = 0.0
        for k in range(Z.shape[1]):
            difference = Z[i, k] - Z[j, k]
            q += difference * difference
        if q >= cutoff * cutoff:
            continue
        total += a + b * np.sqrt(q) + c * q
        if q > 0.0:
            weight = Z.dtype.type(0.5 * b / np.sqrt(q) + c)
            for k in range(Z.shape[1]):
                change = weight * (Z[i, k] - Z[j, k])
                pull[i, k] += change
                pull[j, k] -= change
    return total

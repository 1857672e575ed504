"""Sums over all pairs of rows and their gradients, without storing n × n numbers.

For rows z_i and weights W_ij on the squared distances of pairs, half of the gradient of the sum with respect to the
rows is (diag(W1 + Wᵀ1) - W - Wᵀ) Z, here called the pull. Pairs are processed in blocks: a matrix product gives the
distances of a block, a compiled pass replaces them by weights, and their pull is added one by one if few weights are
non-zero, otherwise by matrix products.
"""

from __future__ import annotations

import math

import numpy as np

from mahala.compiled.jit import kernel
from mahala.compiled.threads import PER_NUMBER, in_pairs_of_blocks, in_rows, n_threads, scratch, squared_norms
from mahala.support.arrays import FloatArray, IndexArray, RealArray

# The largest size of a block of products.
BLOCK_BYTES = 8 * 2**20
# If fewer than one weight in this many is non-zero, a loop is faster than a matrix product (measured from 32 to 784
# columns, 10,000 rows).
SPARSE_SHARE = 32


def sum_between(
    Z: RealArray,
    codes: IndexArray,
    coefficients: tuple[float, float, float],
    cutoff: float,
    weights: FloatArray | None = None,
) -> tuple[float, RealArray]:
    """Σ w_i w_j (a + b d_ij + c d_ij²) over unordered pairs of different classes with d_ij < cutoff, and its pull on Z.

    `coefficients` are (a, b, c) and the d_ij are distances, not squared. Coinciding rows have no pull.
    """
    n = len(Z)
    w = None if weights is None else weights.astype(Z.dtype)
    norms = squared_norms(Z)
    codes = codes.astype(np.int32)  # as wide as the numbers, so that a loop over both is vectorised
    pull = np.zeros_like(Z)
    sums = np.zeros(n, dtype=Z.dtype)
    threads = n_threads(n * n * Z.shape[1] / 2)

    def add(left: slice, right: slice) -> float:
        x, y = Z[left], Z[right]
        products = np.matmul(x, y.T, out=scratch((len(x), len(y)), Z.dtype))
        rows, columns = ((norms[part], codes[part], None if w is None else w[part]) for part in (left, right))
        value, count = _between(products, *rows, *columns, left == right, coefficients, cutoff)
        if count * SPARSE_SHARE < products.size:
            if count:
                _pull_few(products, x, y, pull[left], pull[right])
        else:
            sums[left] += products.sum(axis=1)
            sums[right] += products.sum(axis=0)
            pull[left] -= np.matmul(products, y, out=scratch(x.shape, Z.dtype, 1))
            pull[right] -= np.matmul(products.T, x, out=scratch(y.shape, Z.dtype, 1))
        return value

    total = sum(in_pairs_of_blocks(add, n, max(1, math.isqrt(BLOCK_BYTES // Z.itemsize)), threads))
    add_multiples(Z, sums, pull)
    return total, pull


def sum_within(Z: RealArray, codes: IndexArray, weights: FloatArray | None = None) -> tuple[float, RealArray]:
    """Σ w_i w_j ‖z_i - z_j‖² over the unordered pairs of one class, and its pull on Z."""
    # The squared distances of all pairs of n points with mean μ sum to n Σ ‖z - μ‖².
    left, sizes = residuals(Z, codes, weights), within_factors(codes, weights).astype(Z.dtype)
    pull = np.empty_like(Z)

    def weigh(rows: slice) -> float:
        np.multiply(left[rows], sizes[rows, None], out=pull[rows])
        return float(np.einsum("ij,ij->", pull[rows], left[rows], dtype=np.float64))

    return sum(in_rows(weigh, len(Z), n_threads(PER_NUMBER * Z.size))), pull


def within_factors(codes: IndexArray, weights: FloatArray | None) -> FloatArray:
    """Return for each row its weight times the weight of its class: its factor in the scatter of pairs of one class."""
    sizes: FloatArray = np.bincount(codes, weights)[codes].astype(np.float64)
    return sizes if weights is None else sizes * weights


def residuals(Z: RealArray, codes: IndexArray, weights: FloatArray | None = None) -> RealArray:
    """Return the rows minus the means of their classes."""
    threads, shape = n_threads(PER_NUMBER * Z.size), (int(codes.max()) + 1, Z.shape[1])
    w = np.ones(len(Z)) if weights is None else weights
    parts = in_rows(lambda rows: _class_sums(Z[rows], codes[rows], w[rows], np.zeros(shape)), len(Z), threads)
    means = (np.sum(parts, axis=0) / np.bincount(codes, weights)[:, None]).astype(Z.dtype)
    return np.concatenate(in_rows(lambda rows: Z[rows] - means[codes[rows]], len(Z), threads))


@kernel
def _class_sums(Z: RealArray, codes: IndexArray, weights: FloatArray, sums: FloatArray) -> FloatArray:
    for i in range(len(Z)):
        for c in range(Z.shape[1]):
            sums[codes[i], c] += weights[i] * Z[i, c]
    return sums


def add_multiples(Z: RealArray, factors: RealArray, pull: RealArray) -> None:
    """Add each row of Z times its factor to the pull."""

    def add(rows: slice) -> None:
        pull[rows] += factors[rows, None] * Z[rows]

    in_rows(add, len(Z), n_threads(PER_NUMBER * Z.size))


def sum_edges(
    Z: RealArray, left: IndexArray, right: IndexArray, coefficients: tuple[float, float, float], cutoff: float
) -> tuple[float, RealArray]:
    """Return what `sum_between` returns, over the pairs (left, right) instead."""
    pull = np.zeros_like(Z)
    return _edges(Z, left, right, coefficients, cutoff, pull), pull


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
    coefficients: tuple[float, float, float],
    cutoff: float,
) -> tuple[float, int]:
    """Replace products by the derivatives of the terms with respect to d²; return the sum and the number of terms."""
    a, b, c = coefficients
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
        norm, code, own = x_norms[i], x_codes[i], one if x_weights is None else x_weights[i]
        ones, roots, squares, found = zero, zero, zero, 0
        for j in range(i + 1 if diagonal else 0, len(row)):
            q = norm + y_norms[j] - two * row[j]
            q = max(q, zero)
            here = (y_codes[j] != code) & (q < limit)
            root = np.sqrt(q)
            apart = q > slack * (norm + y_norms[j]) + tiny
            weight = one if y_weights is None else y_weights[j]
            row[j] = own * weight * (half / root + linear) if here & apart else zero
            ones += weight if here else zero
            roots += weight * root if here else zero
            squares += weight * q if here else zero
            found += here
        if diagonal:
            row[: i + 1] = zero
        total += own * (a * ones + b * roots + c * squares)
        count += found
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
def _edges(
    Z: RealArray,
    left: IndexArray,
    right: IndexArray,
    coefficients: tuple[float, float, float],
    cutoff: float,
    pull: RealArray,
) -> float:
    a, b, c = coefficients
    total = 0.0
    for t in range(len(left)):
        i, j = left[t], right[t]
        q = 0.0
        for k in range(Z.shape[1]):
            q += (Z[i, k] - Z[j, k]) ** 2
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

"""Sums over all pairs of rows, their gradients included, without ever holding n × n numbers.

For rows z_i and weights W_ij on the squared distances of pairs, the gradient of the sum with respect to the rows is
2 (diag(W1 + Wᵀ1) - W - Wᵀ) Z, here called the pull. Pairs come in blocks: a matrix product gives the distances of a
block, a compiled pass turns them into weights in place, and where few of them are not zero their pull is
added one by one, else by matrix products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[Any]  # of float32 or float64
Rows = NDArray[np.intp]

# The most memory of one block of products.
BLOCK_BYTES = 8 * 2**20
# Of fewer weights than one in so many a loop takes the pull faster than a matrix product does (measured from
# 32 to 784 columns, 10,000 rows).
SPARSE_SHARE = 32


def sum_between(
    Z: Floats, codes: Rows, coefficients: tuple[float, float, float], cutoff: float
) -> tuple[float, Floats]:
    """Σ a + b d_ij + c d_ij² over the unordered pairs of different classes with d_ij < cutoff, and its pull on Z.

    `coefficients` are (a, b, c) and the d_ij are distances, not squared. Rows that coincide pull nowhere.
    """
    n = len(Z)
    norms = np.einsum("ij,ij->i", Z, Z)
    codes = codes.astype(np.int32)  # as wide as the numbers, so that a loop over both is vectorised
    pull = np.zeros_like(Z)
    sums = np.zeros(n, dtype=Z.dtype)
    step = _step(n, Z.itemsize)
    total = 0.0
    for first in range(0, n, step):
        left = slice(first, min(first + step, n))
        for second in range(first, n, step):
            right = slice(second, min(second + step, n))
            products = Z[left] @ Z[right].T
            value, count = _between(
                products, norms[left], norms[right], codes[left], codes[right], first == second, coefficients, cutoff
            )
            total += value
            if count == 0:
                continue
            if count * SPARSE_SHARE < products.size:
                _pull_few(products, Z[left], Z[right], pull[left], pull[right])
                continue
            sums[left] += products.sum(axis=1)
            sums[right] += products.sum(axis=0)
            pull[left] -= products @ Z[right]
            pull[right] -= products.T @ Z[left]
    pull += sums[:, None] * Z
    return total, pull


def sum_edges(
    Z: Floats, left: Rows, right: Rows, coefficients: tuple[float, float, float], cutoff: float
) -> tuple[float, Floats]:
    """What `sum_between` gives, over the pairs (left, right) instead."""
    pull = np.zeros_like(Z)
    return _edges(Z, left, right, coefficients, cutoff, pull), pull


def _step(n: int, itemsize: int) -> int:
    """Rows of a square block."""
    return max(1, min(n, int((BLOCK_BYTES // itemsize) ** 0.5)))


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def _between(
    products: Floats,
    x_norms: Floats,
    y_norms: Floats,
    x_codes: Rows,
    y_codes: Rows,
    diagonal: bool,
    coefficients: tuple[float, float, float],
    cutoff: float,
) -> tuple[float, int]:
    """Replace products by the derivatives of a + b√q + cq with respect to q; returns the sum and how many there are."""
    a, b, c = coefficients
    half, linear = products.dtype.type(0.5 * b), products.dtype.type(c)
    limit = products.dtype.type(cutoff * cutoff)
    two, zero = products.dtype.type(2.0), products.dtype.type(0.0)
    # What rounding can leave of a squared distance that is zero.
    slack = products.dtype.type(4.0 * np.finfo(products.dtype).eps)
    tiny = np.finfo(products.dtype).tiny
    total, count = 0.0, 0
    for i in range(products.shape[0]):
        row = products[i]
        norm, code = x_norms[i], x_codes[i]
        roots, squares, found = zero, zero, 0
        for j in range(i + 1 if diagonal else 0, len(row)):
            q = norm + y_norms[j] - two * row[j]
            q = max(q, zero)
            here = (y_codes[j] != code) & (q < limit)
            root = np.sqrt(q)
            apart = q > slack * (norm + y_norms[j]) + tiny
            row[j] = half / root + linear if here & apart else zero
            roots += root if here else zero
            squares += q if here else zero
            found += here
        if diagonal:
            row[: i + 1] = zero
        total += a * found + b * roots + c * squares
        count += found
    return total, count


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def _pull_few(weights: Floats, X: Floats, Y: Floats, x_pull: Floats, y_pull: Floats) -> None:
    # Views of rows would cost more than what is done with them: entries are addressed one by one, here and below.
    for i in range(weights.shape[0]):
        for j in range(weights.shape[1]):
            weight = weights[i, j]
            if weight != 0.0:
                for c in range(X.shape[1]):
                    change = weight * (X[i, c] - Y[j, c])
                    x_pull[i, c] += change
                    y_pull[j, c] -= change


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def _edges(
    Z: Floats, left: Rows, right: Rows, coefficients: tuple[float, float, float], cutoff: float, pull: Floats
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

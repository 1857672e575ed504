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
BLOCK_BYTES = 32 * 2**20
# Of fewer weights than one in so many a loop takes the pull faster than a matrix product does (measured from
# 32 to 784 columns, 10,000 rows).
SPARSE_SHARE = 32
# Columns whose smallest distance is known: most spans hold no weight that matters, and are passed over.
SPAN = 32


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


def sum_softmax(Z: Floats, codes: Rows) -> tuple[float, Floats]:
    """Σ_i Σ_{j of the class of i} p_ij, p_i the softmax of the -‖z_i - z_j‖² over all j ≠ i, and its pull on Z.

    Pairs whose p_ij cannot change a digit of the sum over j are left out.
    """
    n = len(Z)
    norms = np.einsum("ij,ij->i", Z, Z)
    pull = np.zeros_like(Z)
    sums = np.zeros(n, dtype=Z.dtype)
    # The relative error of a weight, as the error of a squared distance is relative to the norms. Weights that
    # together come to less than that are left out.
    rounding = np.minimum(np.finfo(Z.dtype).eps * (1.0 + norms), 1.0)
    step = max(1, min(n, BLOCK_BYTES // (Z.itemsize * n)))
    dense = np.empty(step, dtype=np.bool_)
    active = np.empty(n + 1, dtype=np.intp)  # one more, as each place is written before it is known to count
    lowest_of = np.empty(-(-n // SPAN), dtype=Z.dtype)
    total = 0.0
    for first in range(0, n, step):
        left = slice(first, min(first + step, n))
        products = Z[left] @ Z.T
        chosen = dense[: len(products)]
        total += _softmax(
            products, norms, codes, first, rounding, n // SPARSE_SHARE, Z, pull, chosen, active, lowest_of
        )
        if chosen.any():
            weights, rows = products[chosen], first + np.flatnonzero(chosen)
            sums += weights.sum(axis=0)
            sums[rows] += weights.sum(axis=1)
            pull[rows] -= weights @ Z
            pull -= weights.T @ Z[rows]
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


# There are no NaN here, and to know it makes the minima of many numbers fast.
@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nnan", "nsz"})  # type: ignore[untyped-decorator]
def _softmax(
    products: Floats,
    norms: Floats,
    codes: Rows,
    first: int,
    rounding: Floats,
    most: int,
    Z: Floats,
    pull: Floats,
    dense: NDArray[np.bool_],
    active: Rows,
    lowest_of: Floats,
) -> float:
    """Take the pull of the rows with few weights; leave the weights of the others in products, and mark these rows."""
    number = products.dtype.type
    two, zero, infinity = number(2.0), number(0.0), number(np.inf)
    n = products.shape[1]
    n_spans = len(lowest_of)
    total = 0.0
    for r in range(products.shape[0]):
        row, i = products[r], first + r
        row[i] = -infinity
        for j in range(n):
            row[j] = norms[j] - two * row[j]
        lowest = infinity
        for span in range(n_spans):
            part = row[span * SPAN : span * SPAN + SPAN]
            least = infinity
            for j in range(len(part)):
                least = part[j] if part[j] < least else least
            lowest_of[span] = least
            lowest = min(lowest, least)
        limit = lowest + np.log(n / rounding[i])
        n_active = 0
        for span in range(n_spans):
            if lowest_of[span] <= limit:
                for j in range(span * SPAN, min(span * SPAN + SPAN, n)):
                    active[n_active] = j
                    n_active += row[j] <= limit
        all_weight, own = 0.0, 0.0
        for k in range(n_active):
            j = active[k]
            weight = np.exp(lowest - row[j])
            row[j] = weight
            all_weight += weight
            own += weight if codes[j] == codes[i] else 0.0
        p = own / all_weight
        total += p
        dense[r] = n_active > most
        largest = zero
        for k in range(n_active):
            j = active[k]
            row[j] *= number((p - (1.0 if codes[j] == codes[i] else 0.0)) / all_weight)
            largest = max(largest, abs(row[j]))
        if dense[r]:
            previous = 0
            for k in range(n_active):
                row[previous : active[k]] = zero
                previous = active[k] + 1
            row[previous:] = zero
            continue
        least = largest * rounding[i] / n_active
        for k in range(n_active):
            j = active[k]
            weight = row[j]
            if abs(weight) <= least:
                continue
            for c in range(Z.shape[1]):
                change = weight * (Z[i, c] - Z[j, c])
                pull[i, c] += change
                pull[j, c] -= change
    return total

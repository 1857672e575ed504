"""Compiled numerics of the feature weightings: Simba's pass over rows, and the extreme pairs that MDM looks for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mahala.compiled.neighbors import BLOCK_BYTES, nearest

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

# Features summed before a distance is compared with the smallest so far.
CHUNK = 32

# Weights of features of a smaller range would come near to overflow: these count as constant.
SMALLEST_RANGE = 1e-80


def to_unit_range(X: Any) -> tuple[Any, Floats]:
    """X with each feature moved and divided so that it lies between 0 and 1, in its dtype, and the divisors.

    The divisor of a constant feature is infinite, so that it becomes 0.
    """
    low = X.min(axis=0)
    extent = (X.max(axis=0) - low).astype(np.float64)
    extent[extent < SMALLEST_RANGE] = np.inf
    scaled = X - low
    scaled /= extent.astype(X.dtype)
    return scaled, extent


def rows_with_company(codes: Rows) -> Rows:
    """The numbers of the rows whose class has another row; an error where there are none."""
    rows = np.flatnonzero(np.bincount(codes)[codes] > 1)
    if not len(rows):
        raise ValueError("y has a class of its own for every row; at least one class needs two rows")
    return rows


def hits_and_misses(X: Any, codes: Rows, rows: Rows) -> tuple[Rows, Rows]:
    """For some rows of X the nearest other row of the class, and the nearest row of any other class.

    Ties go to the first row. Each of the rows needs another one of its class; there are at least two classes.
    """
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


def extreme_pairs(X: Any, codes: Rows, weights: Floats, closest: float) -> tuple[Floats, Rows, Floats, Rows, int]:
    """Of each row the farthest later row of its class and the nearest later row of another, under weighted features.

    Returns squared distances and row numbers of the farthest (-1 where there is none) and of the nearest ones (inf).
    Pairs of other classes within a squared, unweighted distance of `closest` do not count; the last result is the
    number of them where all weights are 1, and no more than it otherwise.
    """
    n = len(X)
    far, near = np.full(n, -1.0), np.full(n, np.inf)
    far_rows, near_rows = np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.intp)
    used = weights > 0.0
    roots = np.sqrt(weights[used])
    centre = X.mean(axis=0, dtype=np.float64)
    slack = 4 * (len(roots) + 4) * float(np.finfo(np.float64).eps)  # as in kernels.neighbors
    step = max(1, min(int((BLOCK_BYTES // 8) ** 0.5), BLOCK_BYTES // (8 * X.shape[1])))
    n_close = 0
    for first in range(0, n, step):
        block = slice(first, first + step)
        features = X[block] - centre
        z = features[:, used] * roots
        for start in range(first, n, step):
            later = slice(start, start + step)
            others = X[later] - centre
            r = others[:, used] * roots
            n_close += _update_extremes(
                z @ r.T, z, r, codes[block], codes[later], features, others, slack, closest, first, start,
                far[block], far_rows[block], near[block], near_rows[block],
            )  # fmt: skip
    return far, far_rows, near, near_rows, n_close


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def simba_pass(X: NDArray[Any], codes: Rows, order: Rows, w: Floats) -> None:
    """One step of Simba for each row in `order`, neighbours under the weights at that step; w is written to.

    A neighbour at distance 0 adds nothing: 0 is a subgradient of the norm there.
    """
    n, d = X.shape
    squares = np.empty(d, dtype=X.dtype)
    for step in range(len(order)):
        row = order[step]
        for c in range(d):
            squares[c] = w[c] * w[c]
        hit, miss = -1, -1
        hit_distance, miss_distance = np.inf, np.inf
        for other in range(n):
            if other == row:
                continue
            same = codes[other] == codes[row]
            limit = hit_distance if same else miss_distance
            distance = 0.0
            start = 0
            while start < d and distance < limit:
                stop = min(start + CHUNK, d)
                part = X.dtype.type(0.0)
                for c in range(start, stop):
                    difference = X[row, c] - X[other, c]
                    part += squares[c] * difference * difference
                distance += part
                start = stop
            if distance < limit:
                if same:
                    hit, hit_distance = other, distance
                else:
                    miss, miss_distance = other, distance
        to_miss = 0.5 / np.sqrt(miss_distance) if miss_distance > 0.0 else 0.0
        to_hit = 0.5 / np.sqrt(hit_distance) if hit_distance > 0.0 else 0.0
        for c in range(d):
            from_miss = np.float64(X[row, c]) - np.float64(X[miss, c])
            from_hit = np.float64(X[row, c]) - np.float64(X[hit, c])
            w[c] += (to_miss * from_miss * from_miss - to_hit * from_hit * from_hit) * w[c]


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def _update_extremes(
    products: Floats,
    z: Floats,
    r: Floats,
    z_codes: Rows,
    r_codes: Rows,
    z_features: Floats,
    r_features: Floats,
    slack: float,
    closest: float,
    first: int,
    start: int,
    far: Floats,
    far_rows: Rows,
    near: Floats,
    near_rows: Rows,
) -> int:
    """Let rows r, numbered from `start`, be the farthest of the class and the nearest of other classes of rows z.

    Only a row r after row z counts, so that a pair is seen once. `products` are those of z and r, and `slack` a share
    of the squared norms that is more than their rounding errors: a distance is computed, from differences, only where
    it may be an extreme one. Pairs of other classes whose `features` differ by at most `closest` (squared) do not
    count; returns how many of them it met, among them all that are within `closest` in z and r, too.
    """
    n_close = 0
    r_norms = np.empty(len(r))
    for j in range(len(r)):
        r_norms[j] = 0.0
        for c in range(r.shape[1]):
            r_norms[j] += r[j, c] * r[j, c]
    for i in range(len(z)):
        z_norm = 0.0
        for c in range(z.shape[1]):
            z_norm += z[i, c] * z[i, c]
        for j in range(max(0, first + i + 1 - start), len(r)):
            norms = z_norm + r_norms[j]
            same = z_codes[i] == r_codes[j]
            if same:
                if norms * (1.0 + slack) - 2.0 * products[i, j] < far[i]:
                    continue
            elif norms * (1.0 - slack) - 2.0 * products[i, j] > max(near[i], closest):
                continue
            distance = _squared_distance(z, i, r, j)
            if same:
                if distance > far[i]:
                    far[i], far_rows[i] = distance, start + j
                continue
            if distance > max(near[i], closest):
                continue
            if _squared_distance(z_features, i, r_features, j) <= closest:
                n_close += 1
            elif distance < near[i]:
                near[i], near_rows[i] = distance, start + j
    return n_close


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def _squared_distance(x: Floats, i: int, y: Floats, j: int) -> float:
    total = 0.0
    for c in range(x.shape[1]):
        difference = x[i, c] - y[j, c]
        total += difference * difference
    return total

"""Kernels of the feature weightings: Simba's pass over rows, and the extreme pairs of MDM."""

from typing import Any

import numpy as np

from mahala.compiled.jit import helper, kernel
from mahala.compiled.search.neighbors import square_block
from mahala.compiled.threads import FEW_PAIRS
from mahala.support.arrays import BLOCK_BYTES, FloatArray, IndexArray, RealArray, slices
from mahala.support.lazily import spatial_distance

# Features that are summed before a distance is compared with the smallest one so far.
CHUNK = 32

# Weighted features, their squared norms, features, class codes and the first row number.
Part = tuple[FloatArray, FloatArray, FloatArray, IndexArray, int]
Extremes = tuple[FloatArray, IndexArray, FloatArray, IndexArray]  # distances and rows, farthest and nearest


def extreme_pairs(
    X: Any, codes: IndexArray, weights: FloatArray, closest: float
) -> tuple[FloatArray, IndexArray, FloatArray, IndexArray, int]:
    """Find each row's farthest later row of its class and nearest later row of another, under weighted features.

    Return squared distances and row numbers of the farthest rows (-1 if there is none) and of the nearest ones (inf).
    Pairs of different classes within a squared, unweighted distance of `closest` are skipped; the last result is their
    number if all weights are 1, and at most that otherwise.
    """
    n = len(X)
    if n * n <= FEW_PAIRS:
        return _extremes_of_few(X, codes, weights, closest)
    far, near = np.full(n, -1.0), np.full(n, np.inf)
    far_rows, near_rows = np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.intp)
    used = weights > 0.0
    roots = np.sqrt(weights[used])
    centre = X.mean(axis=0, dtype=np.float64)
    slack = 4 * (len(roots) + 4) * float(np.finfo(np.float64).eps)  # as in `neighbors`
    n_close = 0
    blocks = list(slices(n, square_block(X.shape[1], BLOCK_BYTES)))

    def part(block: slice) -> Part:
        features = X[block] - centre
        weighted = features.compress(used, axis=1) * roots
        return weighted, np.einsum("ij,ij->i", weighted, weighted), features, codes[block], block.start

    for number, block in enumerate(blocks):
        rows, extremes = part(block), (far[block], far_rows[block], near[block], near_rows[block])
        for later in blocks[number:]:
            others = part(later)
            n_close += _update_extremes(rows[0] @ others[0].T, rows, others, slack, closest, extremes)
    return far, far_rows, near, near_rows, n_close


def _extremes_of_few(
    X: FloatArray, codes: IndexArray, weights: FloatArray, closest: float
) -> tuple[FloatArray, IndexArray, FloatArray, IndexArray, int]:
    """Return what `extreme_pairs` returns, from all distances."""
    squared = spatial_distance.cdist(X, X, "sqeuclidean", w=weights)
    later, same = np.triu(np.ones(squared.shape, dtype=bool), 1), codes[:, np.newaxis] == codes
    close = later & ~same & (spatial_distance.cdist(X, X, "sqeuclidean") <= closest)
    far, near = np.where(later & same, squared, -1.0), np.where(later & ~same & ~close, squared, np.inf)
    return far.max(axis=1), far.argmax(axis=1), near.min(axis=1), near.argmin(axis=1), int(close.sum())


def simba_pass(X: RealArray, codes: IndexArray, order: IndexArray, w: FloatArray) -> None:
    """Take one step of Simba for each row in `order`, with neighbours under the weights w, which change in place.

    A neighbour at distance 0 adds nothing, because 0 is a subgradient of the norm there.
    """
    if len(X) * len(order) > FEW_PAIRS:
        _simba_steps(X, codes, order, w, np.empty(X.shape[1], dtype=X.dtype))
        return
    for row in order:
        squares = np.square(X - X[row], dtype=np.float64)
        distances, same = np.einsum("ij,j->i", squares, np.square(w)), codes == codes[row]
        distances[row] = np.inf
        change = np.zeros(len(w))
        for excluded, sign in ((same, 0.5), (~same, -0.5)):
            limits = np.where(excluded, np.inf, distances)
            neighbour = limits.argmin()
            if limits[neighbour] > 0.0:
                change += sign / np.sqrt(limits[neighbour]) * squares[neighbour]
        w += change * w


@kernel
def _simba_steps(X: RealArray, codes: IndexArray, order: IndexArray, w: FloatArray, squares: RealArray) -> None:
    n, d = X.shape
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


@kernel
def _update_extremes(
    products: FloatArray, rows: Part, others: Part, slack: float, closest: float, extremes: Extremes
) -> int:
    """Update the farthest rows of the class and the nearest rows of other classes of some rows with others.

    Only a row after the other one counts, so that a pair is seen once. `products` are those of the weighted features,
    and `slack` bounds their rounding errors as a share of the squared norms: distances are computed, from differences,
    only if they may be extreme. Pairs of different classes within a squared, unweighted distance of `closest` are
    skipped; return how many were met, which includes all that are also within `closest` if weighted.
    """
    z, z_norms, z_features, z_codes, first = rows
    r, r_norms, r_features, r_codes, start = others
    far, far_rows, near, near_rows = extremes
    n_close = 0
    for i in range(len(z)):
        for j in range(max(0, first + i + 1 - start), len(r)):
            norms = z_norms[i] + r_norms[j]
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


@helper
def _squared_distance(x: FloatArray, i: int, y: FloatArray, j: int) -> float:
    total = 0.0
    for c in range(x.shape[1]):
        difference = x[i, c] - y[j, c]
        total += difference * difference
    return total

"""Kernels of LMNN's objective: squared distances along edges, hinge losses, and products with edges' Laplacians.

A hinge is smoothed around its kink: within ± s/2 of it, it is a parabola whose slope goes from 0 to 1. The kernels that
sum hinges return (sum of the smoothed ones, sum of the plain ones).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala.compiled.jit import kernel
from mahala.compiled.threads import FEW_PAIRS, PER_NUMBER, in_threads, n_threads
from mahala.support.arrays import FloatArray, IndexArray, RealArray, block_size, slices
from mahala.support.lazily import sp

Rows = tuple[RealArray, RealArray, IndexArray]  # norms, radii and class codes

CHUNK = 64
# The differences along so many edges stay near the processor.
EDGE_BYTES = 2**18


def squared_distances(Z: RealArray, left: IndexArray, right: IndexArray) -> FloatArray:
    """Return the squared distance of the rows of Z at the two ends of each edge."""
    squared = np.empty(len(left))

    def of_part(part: slice) -> None:
        differences = Z.take(left[part], axis=0)  # in two thirds of the time that indexing takes
        differences -= Z.take(right[part], axis=0)
        differences = differences.astype(np.float64, copy=False)
        squared[part] = np.einsum("ij,ij->i", differences, differences)

    threads = n_threads(PER_NUMBER * len(left) * Z.shape[1])
    in_threads(of_part, slices(len(left), block_size(Z.shape[1], EDGE_BYTES)), threads=threads)
    return squared


def add_pull(Z: RealArray, left: IndexArray, right: IndexArray, weights: FloatArray, out: RealArray) -> None:
    """Add the product of the weighted edges' Laplacian with Z."""
    n = len(Z)
    centred = Z - Z.mean(axis=0)  # which has the same product, with less cancellation
    if n * n <= FEW_PAIRS:  # to make a sparse matrix takes a millisecond
        adjacency: Any = np.bincount(left * n + right, weights, n * n).astype(Z.dtype).reshape(n, n)
    else:
        adjacency = sp.csr_array((weights.astype(Z.dtype), (left, right)), shape=(n, n))
    degrees = (np.bincount(left, weights, n) + np.bincount(right, weights, n)).astype(Z.dtype)
    out += degrees[:, np.newaxis] * centred - adjacency @ centred - adjacency.T @ centred


def hinges_of_triplets(
    near: IndexArray, far: IndexArray, squared: FloatArray, push: float, smoothing: float, weights: FloatArray
) -> tuple[float, float]:
    """Sum the hinges 1 + near - far of numbered edges; add `push` times their slopes to the edges' weights."""
    hinge = 1.0 + squared[near] - squared[far]
    slope = np.clip(hinge / smoothing + 0.5, 0.0, 1.0)
    smooth = np.where(slope == 1.0, hinge, 0.5 * smoothing * slope * slope)
    weights += push * (np.bincount(near, slope, len(weights)) - np.bincount(far, slope, len(weights)))
    return float(smooth.sum()), float(np.maximum(hinge, 0.0).sum())


@kernel
def hinges_of_rows(
    Z: RealArray,
    first: int,
    target_ends: IndexArray,
    squared: FloatArray,
    ends: IndexArray,
    rows: NDArray[np.int32],
    push: float,
    smoothing: float,
    weights: FloatArray,
    out: RealArray,
) -> tuple[float, float]:
    """Sum the hinges of pairs of rows of different classes: row first + a with rows[ends[a] : ends[a + 1]].

    Each row of a pair is an impostor of the other. The targets of row i are the edges target_ends[i] to
    target_ends[i + 1]; their slopes are added to `weights`, and the product of the pairs' Laplacian with Z to `out`.
    """
    m = Z.shape[1]
    smooth, plain = 0.0, 0.0
    for a in range(ends.shape[0] - 1):
        i = first + a
        for e in range(ends[a], ends[a + 1]):
            l = np.intp(rows[e])
            distance = Z.dtype.type(0)
            for c in range(m):
                difference = Z[i, c] - Z[l, c]
                distance += difference * difference
            slopes = 0.0
            for anchor in (i, l):
                for t in range(target_ends[anchor], target_ends[anchor + 1]):
                    hinge = 1.0 + squared[t] - distance
                    if hinge > -0.5 * smoothing:
                        slope = min(1.0, hinge / smoothing + 0.5)
                        smooth += hinge if slope == 1.0 else 0.5 * smoothing * slope * slope
                        plain += max(hinge, 0.0)
                        weights[t] += push * slope
                        slopes += slope
            if slopes > 0.0:
                weight = Z.dtype.type(push * slopes)
                for c in range(m):
                    move = weight * (Z[i, c] - Z[l, c])
                    out[i, c] -= move
                    out[l, c] += move
    return smooth, plain


def find_near(
    products: RealArray, first: int, second: int, rows: Rows, ends: IndexArray, near_rows: NDArray[np.int32]
) -> int:
    """Find pairs of rows i = first, ... and l = second, ..., l > i, one of which is within the radius of the other.

    They are of different classes. `products` are inner products; norms are squared norms minus the most that rounding
    can add to a squared distance; a radius is squared too. Return how many were found.
    """
    if products.size > FEW_PAIRS:
        return _find_near(products, first, second, rows, ends, near_rows)
    norms, radius, codes = rows
    i, l = first + np.arange(products.shape[0])[:, np.newaxis], second + np.arange(products.shape[1])
    squared = norms[i] + norms[l] - 2 * products
    near = (l > i) & (codes[i] != codes[l]) & ((squared < radius[i]) | (squared < radius[l]))
    ends[1:] = near.sum(axis=1).cumsum()
    near_rows[: ends[-1]] = second + near.nonzero()[1]
    return int(ends[-1])


@kernel
def _find_near(
    products: RealArray, first: int, second: int, rows: Rows, ends: IndexArray, near_rows: NDArray[np.int32]
) -> int:
    norms, radius, codes = rows
    count, n = 0, products.shape[1]
    for a in range(products.shape[0]):
        i = first + a
        code, norm, row_radius = codes[i], norms[i], radius[i]
        for start in range(max(0, i + 1 - second), n, CHUNK):
            stop = min(n, start + CHUNK)
            inner, outer = products[a, start:stop], slice(second + start, second + stop)
            other, other_radius, other_code = norms[outer], radius[outer], codes[outer]
            # Most chunks have none; this vectorised loop skips them.
            hits = 0
            for b in range(inner.shape[0]):
                squared = norm + other[b] - 2 * inner[b]
                near = (squared < row_radius) | (squared < other_radius[b])
                hits += near & (other_code[b] != code)
            if hits > 0:
                for b in range(inner.shape[0]):
                    squared = norm + other[b] - 2 * inner[b]
                    near = (squared < row_radius) | (squared < other_radius[b])
                    # Always written, but counted only if it holds: a branch would often be mispredicted.
                    near_rows[count] = second + start + b
                    count += near & (other_code[b] != code)
        ends[a + 1] = count
    return count

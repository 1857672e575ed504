"""Compiled parts of LMNN's objective: squared distances along edges, hinges, and products with edges' Laplacians.

A hinge is rounded off at its kink: within ± s/2 it is a parabola whose slope goes from 0 to 1; elsewhere it is itself.
Every kernel that sums hinges returns (sum of the rounded ones, sum of the plain ones).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[Any]  # of float32 or float64
Rows = NDArray[np.intp]
Weights = NDArray[np.float64]

CHUNK = 64


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def squared_edges(Z: Floats, left: Rows, right: Rows, out: Weights) -> None:
    """Squared distances of the rows of Z at both ends of edges."""
    for e in range(left.shape[0]):
        i, j = left[e], right[e]
        total = Z.dtype.type(0)
        for c in range(Z.shape[1]):
            difference = Z[i, c] - Z[j, c]
            total += difference * difference
        out[e] = total


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def add_laplacian(Z: Floats, left: Rows, right: Rows, weights: Weights, out: Floats) -> None:
    """Adds the product of the weighted edges' Laplacian with Z."""
    for e in range(left.shape[0]):
        if weights[e] != 0.0:
            i, j, weight = left[e], right[e], Z.dtype.type(weights[e])
            for c in range(Z.shape[1]):
                move = weight * (Z[i, c] - Z[j, c])
                out[i, c] += move
                out[j, c] -= move


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def hinges_of_triplets(
    near: Rows, far: Rows, squared: Weights, push: float, smoothing: float, weights: Weights
) -> tuple[float, float]:
    """The hinges 1 + near - far of numbered edges; adds `push` times their slopes to the edges' weights."""
    smooth, plain = 0.0, 0.0
    for t in range(near.shape[0]):
        hinge = 1.0 + squared[near[t]] - squared[far[t]]
        if hinge > -0.5 * smoothing:
            slope = min(1.0, hinge / smoothing + 0.5)
            smooth += hinge if slope == 1.0 else 0.5 * smoothing * slope * slope
            plain += max(hinge, 0.0)
            weights[near[t]] += push * slope
            weights[far[t]] -= push * slope
    return smooth, plain


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def hinges_of_rows(
    Z: Floats,
    first: int,
    target_ends: Rows,
    squared: Weights,
    ends: Rows,
    rows: NDArray[np.int32],
    push: float,
    smoothing: float,
    weights: Weights,
    out: Floats,
) -> tuple[float, float]:
    """The hinges of pairs of rows of different classes: rows first, first + 1, ... each with its share of `rows`.

    Each of a pair is an impostor to the other. The targets of row i are the edges target_ends[i] to target_ends[i + 1],
    with their squared distances, to whose weights it adds. The pairs' Laplacian goes straight into `out`.
    """
    m = Z.shape[1]
    gathered = np.zeros(m, dtype=Z.dtype)
    smooth, plain = 0.0, 0.0
    for a in range(ends.shape[0] - 1):
        i = first + a
        gathered[:] = 0
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
                    gathered[c] -= move
                    out[l, c] += move
        for c in range(m):
            out[i, c] += gathered[c]
    return smooth, plain


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def find_near(
    products: Floats,
    first: int,
    norms: Floats,
    radius: Floats,
    codes: Rows,
    ends: Rows,
    found: NDArray[np.int32],
) -> int:
    """For rows i = first, first + 1, ...: the rows l > i of other classes within i's radius, or i within theirs.

    `products` are inner products with rows first and after; `norms` the squared norms, less what rounding can add to a
    squared distance; `radius` is squared too.
    """
    count, n = 0, products.shape[1]
    for a in range(products.shape[0]):
        i = first + a
        own, norm, own_radius = codes[i], norms[i], radius[i]
        for start in range(a + 1, n, CHUNK):
            stop = min(n, start + CHUNK)
            inner, outer = products[a, start:stop], slice(first + start, first + stop)
            other, other_radius, other_code = norms[outer], radius[outer], codes[outer]
            # Most chunks have none, which is seen at the speed of vectors.
            hits = 0
            for b in range(inner.shape[0]):
                squared = norm + other[b] - 2 * inner[b]
                near = (squared < own_radius) | (squared < other_radius[b])
                hits += near & (other_code[b] != own)
            if hits > 0:
                for b in range(inner.shape[0]):
                    squared = norm + other[b] - 2 * inner[b]
                    near = (squared < own_radius) | (squared < other_radius[b])
                    # Written in any case and counted where it holds: a branch that often goes wrong is slower.
                    found[count] = first + start + b
                    count += near & (other_code[b] != own)
        ends[a + 1] = count
    return count

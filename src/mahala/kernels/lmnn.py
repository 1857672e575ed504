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
    """The hinges of anchors first, first + 1, ..., each of its targets with each of its `rows` of other classes.

    The targets of anchor i are the edges target_ends[i] to target_ends[i + 1], with their squared distances, to whose
    weights it adds. The Laplacian of the edges to the rows of other classes goes straight into `out`.
    """
    m = Z.shape[1]
    gathered = np.zeros(m, dtype=Z.dtype)
    smooth, plain = 0.0, 0.0
    for a in range(ends.shape[0] - 1):
        i = first + a
        gathered[:] = 0
        for e in range(ends[a], ends[a + 1]):
            l = rows[e]
            total = Z.dtype.type(0)
            for c in range(m):
                difference = Z[i, c] - Z[l, c]
                total += difference * difference
            slopes = 0.0
            for t in range(target_ends[i], target_ends[i + 1]):
                hinge = 1.0 + squared[t] - total
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
    reach: Floats,
    spread: Floats,
    codes: Rows,
    ends: Rows,
    found: NDArray[np.int32],
) -> int:
    """For anchors first, first + 1, ...: the rows l of other classes nearer than reach[anchor] + spread[l].

    `products` are the anchors' inner products with all rows, and `norms` the squared norms, less what rounding can add
    to a squared distance. Anchors of a negative reach have none.
    """
    count = 0
    for a in range(products.shape[0]):
        i = first + a
        if reach[i] >= 0:
            own, norm, radius = codes[i], norms[i], reach[i]
            for l in range(products.shape[1]):
                within = radius + spread[l]
                # Written in any case and counted where it holds: a branch that often goes wrong is slower.
                found[count] = l
                count += (norm + norms[l] - 2 * products[a, l] < within * within) & (codes[l] != own)
        ends[a + 1] = count
    return count

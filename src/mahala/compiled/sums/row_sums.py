"""The terms of some rows in sums over all pairs, and the pull of all pairs on these rows only.

Machines of a cluster share the rows: each has the images of all rows, and computes its share without adding to rows of
others. In return a pair of rows of two shares is computed twice. Definitions and rounding are those of `softmax_sums`
and `pair_sums`.
"""

from __future__ import annotations

import numpy as np

from mahala.compiled.jit import FAST, kernel, kernel_with
from mahala.compiled.sums.pair_sums import BLOCK_BYTES, SPARSE_SHARE, _between
from mahala.compiled.sums.softmax_sums import SPAN
from mahala.compiled.threads import in_threads, n_threads, scratch, squared_norms
from mahala.support.arrays import FloatArray, IndexArray, RealArray, slices


def softmax_of_rows(Z: RealArray, codes: IndexArray, rows: slice) -> tuple[RealArray, RealArray]:
    """Return, for each of the rows i, a number l_i with p_ij = exp(l_i - ‖z_i - z_j‖²), and Σ p_ij over its class."""
    norms, own = squared_norms(Z), Z[rows]
    cuts = _cuts(norms)
    logs, hits = np.empty(len(own), dtype=Z.dtype), np.empty(len(own), dtype=Z.dtype)

    def normalise(block: slice) -> None:
        products = np.matmul(own[block], Z.T, out=scratch((block.stop - block.start, len(Z)), Z.dtype))
        _normalise(products, norms, codes, rows.start + block.start, cuts, logs[block], hits[block])

    in_threads(normalise, _blocks(Z, len(own)), threads=n_threads(Z.size * len(own)))
    return logs, hits


def softmax_pull_of_rows(Z: RealArray, codes: IndexArray, rows: slice, logs: RealArray, hits: RealArray) -> RealArray:
    """Return the pull of `sum_softmax` on some rows, given what `softmax_of_rows` returns for all."""
    norms, own = squared_norms(Z), Z[rows]
    cuts = _cuts(norms)
    pull = np.zeros_like(own)

    def add(block: slice) -> None:
        weights = np.matmul(own[block], Z.T, out=scratch((block.stop - block.start, len(Z)), Z.dtype))
        count = _weigh_both(weights, norms, codes, rows.start + block.start, cuts, logs, hits)
        _add_pull(weights, count, own[block], Z, pull[block])

    in_threads(add, _blocks(Z, len(own)), threads=n_threads(Z.size * len(own)))
    return pull


def between_of_rows(
    Z: RealArray, codes: IndexArray, rows: slice, coefficients: tuple[float, float, float], cutoff: float
) -> tuple[float, RealArray]:
    """Return half of the terms of `sum_between` with one of the rows, and the pull on these."""
    norms, own, codes = squared_norms(Z), Z[rows], codes.astype(np.int32)
    own_norms, own_codes = norms[rows], codes[rows]
    pull = np.zeros_like(own)

    def add(block: slice) -> float:
        weights = np.matmul(own[block], Z.T, out=scratch((block.stop - block.start, len(Z)), Z.dtype))
        mine = own_norms[block], own_codes[block], None
        value, count = _between(weights, *mine, norms, codes, None, False, coefficients, cutoff)
        _add_pull(weights, count, own[block], Z, pull[block])
        return value / 2.0

    return sum(in_threads(add, _blocks(Z, len(own)), threads=n_threads(Z.size * len(own)))), pull


def hinges_of_rows_share(
    Z: RealArray,
    codes: IndexArray,
    rows: slice,
    target_ends: IndexArray,
    squared: FloatArray,
    radius: FloatArray,
    push: float,
    smoothing: float,
    weights: FloatArray,
) -> tuple[float, float, RealArray]:
    """Return LMNN's sums of hinges with anchors among some rows, smoothed and plain, and the pull of all on these rows.

    The slopes of the hinges are added to the weights of the targets of these rows; targets and radius as in `lmnn`.
    """
    # The reduction of the norms is more than the rounding error of squared distances.
    norms, own = squared_norms(Z) * (1 - 8 * (Z.shape[1] + 4) * np.finfo(Z.dtype).eps), Z[rows]
    radius, pull, first = radius.astype(Z.dtype), np.zeros_like(own), int(target_ends[rows.start])

    def add(block: slice) -> tuple[float, float]:
        products = np.matmul(own[block], Z.T, out=scratch((block.stop - block.start, len(Z)), Z.dtype))
        start = rows.start + block.start
        return _hinges(
            products, norms, start, Z, codes, radius, target_ends, squared, push, smoothing, first, weights, pull[block]
        )

    sums = in_threads(add, _blocks(Z, len(own)), threads=n_threads(Z.size * len(own)))
    return sum(smooth for smooth, _ in sums), sum(plain for _, plain in sums), pull


def _blocks(Z: RealArray, n: int) -> list[slice]:
    return list(slices(n, max(1, BLOCK_BYTES // (Z.itemsize * len(Z)))))


def _cuts(norms: RealArray) -> RealArray:
    """Return by how much the logarithm of a weight may be below that of the largest one, for it to matter."""
    cuts: RealArray = np.log(len(norms) / np.minimum(np.finfo(norms.dtype).eps * (1.0 + norms), 1.0))
    return cuts.astype(norms.dtype)


def _add_pull(weights: RealArray, count: int, own: RealArray, Z: RealArray, pull: RealArray) -> None:
    if count * SPARSE_SHARE < weights.size:
        _pull_few(weights, own, Z, pull)
    else:
        pull += weights.sum(axis=1)[:, None] * own - weights @ Z


@kernel_with(FAST | {"nnan", "nsz"})
def _normalise(
    products: RealArray,
    norms: RealArray,
    codes: IndexArray,
    first: int,
    cuts: RealArray,
    logs: RealArray,
    hits: RealArray,
) -> None:
    number = products.dtype.type
    two, infinity = number(2.0), number(np.inf)
    n = products.shape[1]
    for r in range(products.shape[0]):
        row, i = products[r], first + r
        row[i] = -infinity
        nearest = infinity
        for j in range(n):
            row[j] = norms[j] - two * row[j]
            nearest = row[j] if row[j] < nearest else nearest
        limit = nearest + cuts[i]
        total, own = 0.0, 0.0
        for j in range(n):
            if row[j] <= limit:
                weight = np.exp(nearest - row[j])
                total += weight
                own += weight if codes[j] == codes[i] else 0.0
        logs[r] = norms[i] + nearest - np.log(total)
        hits[r] = own / total


@kernel_with(FAST | {"nnan", "nsz"})
def _weigh_both(
    products: RealArray,
    norms: RealArray,
    codes: IndexArray,
    first: int,
    cuts: RealArray,
    logs: RealArray,
    hits: RealArray,
) -> int:
    """Replace products by the weights of p_ij and p_ji on the squared distance; return how many are not zero."""
    number = products.dtype.type
    two, zero, one = number(2.0), number(0.0), number(1.0)
    n, count = products.shape[1], 0
    reach = logs + cuts  # squared distances beyond both reaches do not matter
    for r in range(products.shape[0]):
        row, i = products[r], first + r
        for start in range(0, n, SPAN):
            stop = min(start + SPAN, n)
            part, far = row[start:stop], zero
            for c in range(len(part)):
                part[c] = norms[i] + norms[start + c] - two * part[c]
                over = max(reach[i], reach[start + c]) - part[c]
                far = over if over > far else far
            if far <= zero:
                part[:] = zero
                continue
            for c in range(len(part)):
                j, squared, weight = start + c, part[c], zero
                same = one if codes[j] == codes[i] else zero
                if squared < reach[i]:
                    weight += np.exp(logs[i] - squared) * (hits[i] - same)
                if squared < reach[j]:
                    weight += np.exp(logs[j] - squared) * (hits[j] - same)
                part[c] = zero if j == i else weight
                count += part[c] != zero
    return count


@kernel_with(FAST | {"nnan", "nsz"})
def _pull_few(weights: RealArray, X: RealArray, Y: RealArray, pull: RealArray) -> None:
    for i in range(weights.shape[0]):
        for j in range(weights.shape[1]):
            weight = weights[i, j]
            if weight != 0.0:
                for c in range(X.shape[1]):
                    pull[i, c] += weight * (X[i, c] - Y[j, c])


@kernel
def _hinges(
    products: RealArray,
    norms: RealArray,
    first: int,
    Z: RealArray,
    codes: IndexArray,
    radius: RealArray,
    target_ends: IndexArray,
    squared: FloatArray,
    push: float,
    smoothing: float,
    first_target: int,
    weights: FloatArray,
    pull: RealArray,
) -> tuple[float, float]:
    smooth, plain = 0.0, 0.0
    for r in range(products.shape[0]):
        i = first + r
        for l in range(len(Z)):
            bound = norms[i] + norms[l] - 2 * products[r, l]
            if codes[l] == codes[i] or not (bound < radius[i] or bound < radius[l]):
                continue
            distance = Z.dtype.type(0)
            for c in range(Z.shape[1]):
                difference = Z[i, c] - Z[l, c]
                distance += difference * difference
            slopes = 0.0
            for anchor in (i, l):
                for t in range(target_ends[anchor], target_ends[anchor + 1]):
                    hinge = 1.0 + squared[t] - distance
                    if hinge > -0.5 * smoothing:
                        slope = min(1.0, hinge / smoothing + 0.5)
                        slopes += slope
                        if anchor == i:
                            smooth += hinge if slope == 1.0 else 0.5 * smoothing * slope * slope
                            plain += max(hinge, 0.0)
                            weights[t - first_target] += push * slope
            if slopes > 0.0:
                weight = Z.dtype.type(push * slopes)
                for c in range(Z.shape[1]):
                    pull[r, c] -= weight * (Z[i, c] - Z[l, c])
    return smooth, plain

"""LMNN's objective as a function of the mapped rows, for labelled rows and for triplets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mahala.comparisons import Triplets
from mahala.compiled.lmnn import add_laplacian, find_near, hinges_of_rows, hinges_of_triplets, squared_edges
from mahala.support.arrays import FloatArray, IndexArray, RealArray
from mahala.support.rows import block_size, slices

# Bytes of one block of products, which fit into the processor's cache, and the fewest rows that make a product fast.
BLOCK_BYTES = 2**21
LEAST_BLOCK = 256
# Number of distances from which the scale of the start is chosen.
SOME_ENTRIES = 2**20
# The search for pairs of more than FEW_COORDINATES coordinates ignores those of this share of the rows' squares.
TAIL = 0.03
FEW_COORDINATES = 16


class RowsLoss:
    """LMNN's objective on labelled rows, given the edges and ends of `target_neighbors`."""

    def __init__(self, codes: IndexArray, edges: IndexArray, ends: IndexArray, mu: float) -> None:
        self._codes, self._edges, self._ends, self._mu = codes, edges, ends, mu

    def __call__(self, Z: RealArray, smoothing: float) -> tuple[float, float, RealArray]:
        """Return the objective with smoothed hinges, with plain hinges, and half the gradient of the first one."""
        anchors, targets = self._edges
        squared = np.empty(len(anchors))
        squared_edges(Z, anchors, targets, squared)
        weights = np.full(len(anchors), 1.0 - self._mu)
        out = np.zeros_like(Z)
        smooth = plain = 0.0
        for first, ends, rows in _near_pairs(Z, self._radius(squared, smoothing), self._codes):
            sums = hinges_of_rows(Z, first, self._ends, squared, ends, rows, self._mu, smoothing, weights, out)
            smooth, plain = smooth + sums[0], plain + sums[1]
        add_laplacian(Z, anchors, targets, weights, out)
        pull = (1.0 - self._mu) * float(squared.sum())
        return pull + self._mu * smooth, pull + self._mu * plain, out

    def _radius(self, squared: FloatArray, smoothing: float) -> FloatArray:
        """Squared distance below which rows of other classes affect each row; -inf for rows without targets."""
        radius = np.full(len(self._codes), -np.inf)
        np.maximum.at(radius, self._edges[0], squared + (1.0 + smoothing))
        return radius

    def best_scale(self, Z: RealArray) -> float:
        """Return the factor of squared distances, of a coarse grid, that minimises the objective of some anchors."""
        anchors, targets = self._edges
        few = max(1, SOME_ENTRIES // len(Z))
        chosen = np.arange(len(anchors))[:: max(1, len(anchors) // few)]
        near = np.empty(len(chosen))
        squared_edges(Z, anchors[chosen], targets[chosen], near)
        norms = np.einsum("ij,ij->i", Z, Z)
        heads = anchors[chosen]
        far = norms[heads][:, None] + norms - 2 * (Z[heads] @ Z.T)
        gaps = (far - near[:, None].astype(Z.dtype))[self._codes[heads][:, None] != self._codes]
        return _best_scale(float(near.sum()), gaps, self._mu)


def _near_pairs(
    Z: RealArray, radius: FloatArray, codes: IndexArray
) -> Iterator[tuple[int, IndexArray, NDArray[np.int32]]]:
    """Yield every pair of rows of different classes of which one is within the radius of the other, and some more.

    The pairs of (first, ends, rows) are row first + a with each of rows[ends[a] : ends[a + 1]].
    """
    n, m = Z.shape
    heads = _heads(Z)
    # The reduction of the norms is more than the rounding error of squared distances between heads.
    norms = np.einsum("ij,ij->i", heads, heads) * (1 - 8 * (m + 4) * np.finfo(Z.dtype).eps)
    radius = radius.astype(Z.dtype)
    block = min(n, block_size(n, BLOCK_BYTES, LEAST_BLOCK))
    # All blocks share one buffer, because allocating costs more than the product.
    space, found = np.empty(block * n, dtype=Z.dtype), np.empty(block * n, dtype=np.int32)
    for part in slices(n, block):
        first, rows, others = part.start, heads[part], heads[part.start :]
        products = np.matmul(rows, others.T, out=space[: len(rows) * len(others)].reshape(len(rows), len(others)))
        ends = np.zeros(len(rows) + 1, dtype=np.intp)
        count = find_near(products, first, norms, radius, codes, ends, found)
        yield first, ends, found[:count]


def _heads(Z: RealArray) -> RealArray:
    """Return rows of fewer coordinates, whose distances are at most those of Z, but not much smaller.

    These coordinates are the leading principal coordinates of Z and the norm of the others.
    """
    m = Z.shape[1]
    if m <= FEW_COORDINATES:
        return Z
    variances, axes = np.linalg.eigh(Z.T @ Z)
    tails = np.cumsum(variances.clip(min=0.0))
    n_tail = int(np.searchsorted(tails, TAIL * tails[-1], side="right"))
    if n_tail < m // 4:
        return Z
    heads = Z @ axes[:, n_tail:]
    squared = np.einsum("ij,ij->i", Z, Z) - np.einsum("ij,ij->i", heads, heads)
    return np.column_stack([heads, np.sqrt(squared.clip(min=0.0))])


class TripletsLoss:
    """LMNN's objective on given triplets."""

    def __init__(self, triplets: Triplets, mu: float) -> None:
        n, count = triplets.X.shape[0], len(triplets)
        # The distinct edges (anchor, positive), which are pulled together, come first.
        pulled, near = np.unique(triplets.anchor * n + triplets.positive, return_inverse=True)
        pushed, far = np.unique(triplets.anchor * n + triplets.negative, return_inverse=True)
        self._near, self._far = near.reshape(count), far.reshape(count) + len(pulled)
        self._left, self._right = np.divmod(np.concatenate([pulled, pushed]), n)
        self._n_pulled, self._mu = len(pulled), mu

    def __call__(self, Z: RealArray, smoothing: float) -> tuple[float, float, RealArray]:
        """Return the objective with smoothed hinges, with plain hinges, and half the gradient of the first one."""
        squared = self._squared(Z)
        weights = np.zeros(len(squared))
        weights[: self._n_pulled] = 1.0 - self._mu
        smooth, plain = hinges_of_triplets(self._near, self._far, squared, self._mu, smoothing, weights)
        out = np.zeros_like(Z)
        add_laplacian(Z, self._left, self._right, weights, out)
        pull = (1.0 - self._mu) * float(squared[: self._n_pulled].sum())
        return pull + self._mu * smooth, pull + self._mu * plain, out

    def _squared(self, Z: RealArray) -> FloatArray:
        squared = np.empty(len(self._left))
        squared_edges(Z, self._left, self._right, squared)
        return squared

    def best_scale(self, Z: RealArray) -> float:
        """Return the factor of squared distances, of a coarse grid, that minimises the objective."""
        squared = self._squared(Z)
        gaps = squared[self._far] - squared[self._near]
        return _best_scale(float(squared[: self._n_pulled].sum()), gaps, self._mu)


def _best_scale(pull: float, gaps: RealArray, mu: float) -> float:
    """Return the factor a that minimises (1 - mu) a pull + mu Σ [1 - a gap]₊."""
    unit = float(np.abs(gaps).mean(dtype=np.float64))
    factors = 2.0 ** np.arange(-8, 13) / (unit or 1.0)
    totals = [
        (1.0 - mu) * factor * pull + mu * float(np.maximum(1 - gaps.dtype.type(factor) * gaps, 0).sum(dtype=np.float64))
        for factor in factors
    ]
    return float(factors[int(np.argmin(totals))])

"""LMNN's objective as a function of the rows in the space of the metric: on labelled rows, and on triplets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala.batch.run import Floats
from mahala.comparisons import Triplets
from mahala.compiled.lmnn import add_laplacian, find_near, hinges_of_rows, hinges_of_triplets, squared_edges
from mahala.compiled.neighbors import nearest

# Entries of one block of products, for the processor's cache; and the least rows that make a product fast.
BLOCK_ENTRIES = 2**18
LEAST_BLOCK = 256
# Distances from which the length of the start is chosen.
SOME_ENTRIES = 2**20
# Coordinates of this share of the rows' squares are left out where pairs are looked for, if there are not few anyway.
TAIL = 0.03
FEW_COORDINATES = 16


def targets(X: Floats, codes: NDArray[np.intp], k: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Edges (anchor, target), sorted by anchors, and where those of each anchor begin and end."""
    edges = []
    for code in range(int(codes.max()) + 1):
        members = np.flatnonzero(codes == code)
        if len(members) > 1:
            found, _ = nearest(X[members], X[members], min(k, len(members) - 1), exclude_self=True)
            edges.append(np.column_stack([np.repeat(members, found.shape[1]), members[found.ravel()]]))
    if not edges:
        raise ValueError("y must have a class of at least two rows; here every row is alone in its class")
    every = np.vstack(edges)
    every = every[np.argsort(every[:, 0], kind="stable")]
    counts = np.bincount(every[:, 0], minlength=len(codes))
    return np.ascontiguousarray(every.T), np.concatenate([[0], np.cumsum(counts)])


class RowsLoss:
    """The objective on labelled rows."""

    def __init__(self, codes: NDArray[np.intp], edges: NDArray[np.intp], ends: NDArray[np.intp], mu: float) -> None:
        self._codes, self._edges, self._ends, self._mu = codes, edges, ends, mu

    def __call__(self, Z: Floats, smoothing: float) -> tuple[float, float, Floats]:
        """The objective with hinges rounded off, with plain hinges, and half the first one's gradient by Z."""
        anchors, targets = self._edges
        squared = np.empty(len(anchors))
        squared_edges(Z, anchors, targets, squared)
        weights = np.full(len(anchors), 1.0 - self._mu)
        out = np.zeros_like(Z)
        smooth = plain = 0.0
        for near in _near_pairs(Z, self._radius(squared, smoothing), self._codes):
            sums = hinges_of_rows(
                Z, near.first, self._ends, squared, near.ends, near.rows, self._mu, smoothing, weights, out
            )
            smooth, plain = smooth + sums[0], plain + sums[1]
        add_laplacian(Z, anchors, targets, weights, out)
        pull = (1.0 - self._mu) * float(squared.sum())
        return pull + self._mu * smooth, pull + self._mu * plain, out

    def _radius(self, squared: NDArray[np.float64], smoothing: float) -> NDArray[np.float64]:
        """The squared distance below which rows of other classes matter to each row; -inf where it has no targets."""
        radius = np.full(len(self._codes), -np.inf)
        np.maximum.at(radius, self._edges[0], squared + (1.0 + smoothing))
        return radius

    def best_scale(self, Z: Floats) -> float:
        """The factor of squared distances by which the objective of some anchors is least, from a coarse grid."""
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


class Near(NamedTuple):
    """Pairs of rows: row first + a with each of rows[ends[a]:ends[a + 1]]."""

    first: int
    ends: NDArray[np.intp]
    rows: NDArray[np.int32]


def _near_pairs(Z: Floats, radius: NDArray[np.float64], codes: NDArray[np.intp]) -> Iterator[Near]:
    """Every pair of rows of different classes of which one is within the radius of the other, and some more."""
    n, m = Z.shape
    heads = _heads(Z)
    # Rounding in the heads' squared distances is at most this, with room to spare.
    norms = np.einsum("ij,ij->i", heads, heads) * (1 - 8 * (m + 4) * np.finfo(Z.dtype).eps)
    radius = radius.astype(Z.dtype)
    block = min(n, max(LEAST_BLOCK, BLOCK_ENTRIES // n))
    # One piece of memory for all blocks: fresh memory costs more than the product.
    space, found = np.empty(block * n, dtype=Z.dtype), np.empty(block * n, dtype=np.int32)
    for first in range(0, n, block):
        rows, others = heads[first : first + block], heads[first:]
        products = np.matmul(rows, others.T, out=space[: len(rows) * len(others)].reshape(len(rows), len(others)))
        ends = np.zeros(len(rows) + 1, dtype=np.intp)
        count = find_near(products, first, norms, radius, codes, ends, found)
        yield Near(first, ends, found[:count])


def _heads(Z: Floats) -> Floats:
    """Rows of fewer coordinates, whose distances are at most those of Z, and not much less.

    They are Z's principal coordinates up to a tail, and the length of the tail.
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
    """The objective on given triplets."""

    def __init__(self, triplets: Triplets, mu: float) -> None:
        n, count = triplets.X.shape[0], len(triplets)
        # Distinct edges (anchor, positive) first: those are pulled together.
        pulled, near = np.unique(triplets.anchor * n + triplets.positive, return_inverse=True)
        pushed, far = np.unique(triplets.anchor * n + triplets.negative, return_inverse=True)
        self._near, self._far = near.reshape(count), far.reshape(count) + len(pulled)
        self._left, self._right = np.divmod(np.concatenate([pulled, pushed]), n)
        self._n_pulled, self._mu = len(pulled), mu

    def __call__(self, Z: Floats, smoothing: float) -> tuple[float, float, Floats]:
        """The objective with hinges rounded off, with plain hinges, and half the first one's gradient by Z."""
        squared = self._squared(Z)
        weights = np.zeros(len(squared))
        weights[: self._n_pulled] = 1.0 - self._mu
        smooth, plain = hinges_of_triplets(self._near, self._far, squared, self._mu, smoothing, weights)
        out = np.zeros_like(Z)
        add_laplacian(Z, self._left, self._right, weights, out)
        pull = (1.0 - self._mu) * float(squared[: self._n_pulled].sum())
        return pull + self._mu * smooth, pull + self._mu * plain, out

    def _squared(self, Z: Floats) -> NDArray[np.float64]:
        squared = np.empty(len(self._left))
        squared_edges(Z, self._left, self._right, squared)
        return squared

    def best_scale(self, Z: Floats) -> float:
        """The factor of squared distances by which the objective is least, from a coarse grid."""
        squared = self._squared(Z)
        gaps = squared[self._far] - squared[self._near]
        return _best_scale(float(squared[: self._n_pulled].sum()), gaps, self._mu)


def _best_scale(pull: float, gaps: Floats, mu: float) -> float:
    """The factor a of least (1 - mu) a pull + mu Σ [1 - a gap]₊."""
    unit = float(np.abs(gaps).mean(dtype=np.float64))
    factors = 2.0 ** np.arange(-8, 13) / (unit or 1.0)
    totals = [
        (1.0 - mu) * factor * pull + mu * float(np.maximum(1 - gaps.dtype.type(factor) * gaps, 0).sum(dtype=np.float64))
        for factor in factors
    ]
    return float(factors[int(np.argmin(totals))])

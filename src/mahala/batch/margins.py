"""LMNN's objective as a function of the rows in the space of the metric: on labelled rows, and on triplets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala.batch_learner import Floats
from mahala.comparisons import Triplets
from mahala.kernels.lmnn import add_laplacian, find_near, hinges_of_rows, hinges_of_triplets, squared_edges
from mahala.kernels.neighbors import nearest

# A hinge is a parabola within half of this about its kink: L-BFGS needs a gradient that is continuous, and with this
# one it reaches lower than with the kinks.
SMOOTHING = 0.01
# Entries of one block of products, and the most impostors that are remembered: 64 MiB each.
BLOCK_ENTRIES = 2**23
MOST_REMEMBERED = 2**24


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
    """The objective on labelled rows, as a function of the rows Z in the space of the metric."""

    def __init__(self, codes: NDArray[np.intp], edges: NDArray[np.intp], ends: NDArray[np.intp], mu: float) -> None:
        self._codes, self._edges, self._ends, self._mu = codes, edges, ends, mu
        # What is remembered holds until a row has moved by more than `share` of its own size; see _moved_little.
        self._share = 0.02
        self._uses = 0
        self._known: list[Near] | None = None

    def __call__(self, Z: Floats) -> tuple[float, float, Floats]:
        """The objective with hinges rounded off, with plain hinges, and half its gradient by Z."""
        anchors, targets = self._edges
        squared = np.empty(len(anchors))
        squared_edges(Z, anchors, targets, squared)
        weights = np.full(len(anchors), 1.0 - self._mu)
        out = np.zeros_like(Z)
        smooth = plain = 0.0
        for near in self._impostors(Z, squared):
            sums = hinges_of_rows(
                Z, near.first, self._ends, squared, near.ends, near.rows, self._mu, SMOOTHING, weights, out
            )
            smooth, plain = smooth + sums[0], plain + sums[1]
        add_laplacian(Z, anchors, targets, weights, out)
        pull = (1.0 - self._mu) * float(squared.sum())
        return pull + self._mu * smooth, pull + self._mu * plain, out

    def _impostors(self, Z: Floats, squared: NDArray[np.float64]) -> Iterator[Near]:
        """Block by block of anchors, every row of another class that comes within a hinge, and some more."""
        radius = self._radius(squared)
        if self._known is not None and self._moved_little(Z, radius):
            self._uses += 1
            yield from self._known
            return
        if self._known is not None and self._uses < 4:
            self._share = min(2.0 * self._share, 1.0)
        self._uses, self._known, count = 0, [], 0
        norms = np.einsum("ij,ij->i", Z, Z)
        size = np.sqrt(np.maximum(norms, norms.mean()))
        self._seen, self._seen_radius, self._size = Z, radius, size
        spread = (self._share * size).astype(Z.dtype)
        reach = np.where(radius < 0.0, radius, radius + 2.0 * self._share * size).astype(Z.dtype)
        for near in _blocks(Z, norms, reach, spread, self._codes):
            count += len(near.rows)
            # With more than these a look at all distances, by matrix products, is as fast.
            if count > min(MOST_REMEMBERED, len(Z) ** 2 // 16):
                self._known = None
            if self._known is not None:
                self._known.append(near)
            yield near
        if self._known is None:
            self._share /= 4.0

    def _radius(self, squared: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far rows of other classes matter to each anchor; -1 to those that have no targets."""
        furthest = np.full(len(self._codes), -np.inf)
        np.maximum.at(furthest, self._edges[0], squared)
        return np.where(np.isinf(furthest), -1.0, np.sqrt(np.maximum(furthest, 0.0) + 1.0 + SMOOTHING))

    def _moved_little(self, Z: Floats, radius: NDArray[np.float64]) -> bool:
        """Whether every row that now matters to an anchor was already within its reach plus the row's spread.

        With moves of at most share · size, and a radius that has grown by at most that of its anchor, a row further
        away then than radius + 2 share · size of the anchor + share · size of its own is still further than the radius.
        """
        allowed = self._share * self._size
        if (radius > self._seen_radius + allowed).any():
            return False
        moves = Z - self._seen
        return bool((np.sqrt(np.einsum("ij,ij->i", moves, moves)) <= allowed).all())

    def best_scale(self, Z: Floats) -> float:
        """The factor of squared distances by which the objective of some anchors is least, from a coarse grid."""
        anchors, targets = self._edges
        few = max(1, BLOCK_ENTRIES // (8 * len(Z)))
        chosen = np.arange(len(anchors))[:: max(1, len(anchors) // few)]
        near = np.empty(len(chosen))
        squared_edges(Z, anchors[chosen], targets[chosen], near)
        norms = np.einsum("ij,ij->i", Z, Z)
        heads = anchors[chosen]
        far = norms[heads][:, None] + norms - 2 * (Z[heads] @ Z.T)
        gaps = (far - near[:, None].astype(Z.dtype))[self._codes[heads][:, None] != self._codes]
        return _best_scale(float(near.sum()), gaps, self._mu)


class Near(NamedTuple):
    """Rows near the anchors first, first + 1, ...: those of anchor first + a are rows[ends[a]:ends[a + 1]]."""

    first: int
    ends: NDArray[np.intp]
    rows: NDArray[np.int32]


def _blocks(Z: Floats, norms: Floats, reach: Floats, spread: Floats, codes: NDArray[np.intp]) -> Iterator[Near]:
    n, m = Z.shape
    # Rounding in the products is at most this, with room to spare; who is found by mistake adds a hinge of zero.
    norms = norms * (1 - 4 * (m + 4) * np.finfo(Z.dtype).eps)
    block = max(1, min(n, BLOCK_ENTRIES // n))
    found = np.empty(block * n, dtype=np.int32)
    for first in range(0, n, block):
        products = Z[first : first + block] @ Z.T
        ends = np.zeros(len(products) + 1, dtype=np.intp)
        count = find_near(products, first, norms, reach, spread, codes, ends, found)
        yield Near(first, ends, found[:count].copy())


class TripletsLoss:
    """The objective on given triplets, as a function of the rows Z in the space of the metric."""

    def __init__(self, triplets: Triplets, mu: float) -> None:
        n, count = triplets.X.shape[0], len(triplets)
        # Distinct edges (anchor, positive) first: those are pulled together.
        pulled, near = np.unique(triplets.anchor * n + triplets.positive, return_inverse=True)
        pushed, far = np.unique(triplets.anchor * n + triplets.negative, return_inverse=True)
        self._near, self._far = near.reshape(count), far.reshape(count) + len(pulled)
        self._left, self._right = np.divmod(np.concatenate([pulled, pushed]), n)
        self._n_pulled, self._mu = len(pulled), mu

    def __call__(self, Z: Floats) -> tuple[float, float, Floats]:
        """The objective with hinges rounded off, with plain hinges, and half its gradient by Z."""
        squared = self._squared(Z)
        weights = np.zeros(len(squared))
        weights[: self._n_pulled] = 1.0 - self._mu
        smooth, plain = hinges_of_triplets(self._near, self._far, squared, self._mu, SMOOTHING, weights)
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

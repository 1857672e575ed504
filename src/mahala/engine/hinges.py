"""LMNN's objective on labelled rows, as a function of the mapped rows."""

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mahala.compiled.sums.edges import Laplacian
from mahala.compiled.sums.lmnn import find_near, hinges_of_rows, squared_distances
from mahala.compiled.sums.pair_sums import slices_of
from mahala.compiled.threads import (
    PER_NUMBER,
    in_pairs_of_blocks,
    in_rows,
    n_threads,
    product,
    scratch,
    squared_norms,
    transposed_product,
)
from mahala.support.arrays import FloatArray, IndexArray, RealArray, slices

T = TypeVar("T")

# Bytes of one block of products, which fit into the processor's cache.
BLOCK_BYTES = 2**21
# Number of distances from which the scale of the start is chosen.
SOME_ENTRIES = 2**20
# The search for pairs of more than FEW_COORDINATES coordinates ignores those of this share of the rows' squares.
TAIL = 0.03
FEW_COORDINATES = 16
# Pairs are kept for as many steps as the last one, if that makes radii longer by less than this share of their mean,
# and if there are not more of them.
KEPT_STEPS = 8.0
MOST_LONGER = 0.1
MOST_KEPT = 2**27

# Pairs of rows: the number of the first row, and for each row from it on where its others end, and the others.
Near = tuple[int, IndexArray, NDArray[np.int32]]


class RowHinges:
    """LMNN's objective on labelled rows, given the edges and ends of `target_neighbors`."""

    def __init__(self, codes: IndexArray, edges: IndexArray, ends: IndexArray, mu: float) -> None:
        self._codes, self._edges, self._ends, self._mu = codes, edges, ends, mu
        self._near, self._laplacian = NearPairs(codes), Laplacian(len(codes), *edges)

    def __call__(self, Z: RealArray, smoothing: float, rows: slice | None = None) -> tuple[float, float, RealArray]:
        """Return the objective with smoothed hinges, with plain hinges, and half the gradient of the first one.

        With `rows` it is a share: the edges of these rows, and their pairs with later rows.
        """
        anchors, targets = self._edges
        squared = squared_distances(Z, anchors, targets)
        share = slice(None) if rows is None else slice(self._ends[rows.start], self._ends[rows.stop])
        weights = np.zeros(len(anchors))
        weights[share] = 1.0 - self._mu
        out = np.zeros_like(Z)

        def hinges(first: int, ends: IndexArray, rows: NDArray[np.int32]) -> tuple[float, float]:
            return hinges_of_rows(Z, first, self._ends, squared, ends, rows, self._mu, smoothing, weights, out)

        # Squared distance below which rows of other classes affect each row; -inf for rows without targets.
        radius = np.full(len(self._codes), -np.inf)
        np.maximum.at(radius, anchors, squared + (1.0 + smoothing))
        smooth, plain = np.sum(self._near(Z, radius, hinges, rows), axis=0).tolist()
        out += self._laplacian(weights, Z - Z.mean(axis=0))  # the same product, with less cancellation
        pull = (1.0 - self._mu) * float(squared[share].sum())
        return pull + self._mu * smooth, pull + self._mu * plain, out

    def best_scale(self, Z: RealArray) -> float:
        """Return the factor of squared distances, of a coarse grid, that minimises the objective of some anchors."""
        anchors, targets = self._edges
        few = max(1, SOME_ENTRIES // len(Z))
        chosen = np.arange(len(anchors))[:: max(1, len(anchors) // few)]
        near = squared_distances(Z, anchors[chosen], targets[chosen])
        norms = np.einsum("ij,ij->i", Z, Z)
        heads = anchors[chosen]
        far = norms[heads][:, None] + norms - 2 * (Z[heads] @ Z.T)
        gaps = (far - near[:, None].astype(Z.dtype))[self._codes[heads][:, None] != self._codes]
        return best_scale(float(near.sum()), gaps, self._mu)


class NearPairs:
    """The pairs of rows of different classes of which one is within the radius of the other, and some more.

    Rows move little from one evaluation to the next. So the search finds pairs within a longer radius, and what it
    found holds for other rows as long as no unlisted pair can have come within its radius: a row i that moved by δ_i
    is nearer to another one by at most δ_i + max δ.
    """

    def __init__(self, codes: IndexArray) -> None:
        self._codes = codes
        self._found: dict[tuple[int, int], Near] = {}  # by the first rows of two blocks
        self._threads = 1
        self._at: RealArray = np.empty((0, 0))  # the rows among which they were found, within these radii
        self._radii: RealArray = np.empty(0)
        self._last: RealArray = np.empty((0, 0))  # the rows of the last call
        self._axes: RealArray | None = None

    def __call__(self, Z: RealArray, radius: FloatArray, use: Callable[..., T], rows: slice | None = None) -> list[T]:
        """Return what use(first, ends, rows) returns for pairs of row first + a with rows[ends[a] : ends[a + 1]].

        Calls that run at the same time have no row in common. `radius` is squared, and -inf for a row without one. With
        `rows` these are the first rows of the pairs, for one call of the object.
        """
        radii = np.sqrt(np.maximum(radius, 0.0))
        step = float(_moves(Z, self._last).max()) if self._last.shape == Z.shape else np.inf
        self._last = Z
        if self._found:
            moves = _moves(Z, self._at) if self._at.shape == Z.shape else np.full(len(Z), np.inf)
            if np.all(radii + moves + moves.max() <= self._radii):
                return self._in_blocks(Z, lambda left, right: use(*self._found[left.start, right.start]), rows)
        # Longer by a few moves, if that is not much.
        longer = KEPT_STEPS * step if KEPT_STEPS * step < MOST_LONGER * float(radii.mean()) else 0.0
        self._found, self._at, self._radii = {}, Z, radii + longer
        return self._search(Z, np.where(radius >= 0.0, np.square(self._radii), -np.inf), longer > 0.0, use, rows)

    def _in_blocks(self, Z: RealArray, function: Callable[[slice, slice], T], rows: slice | None) -> list[T]:
        n, side = len(Z), math.isqrt(BLOCK_BYTES // Z.itemsize)
        if rows is None:
            return in_pairs_of_blocks(function, n, side, self._threads)
        blocks = slices_of(rows, side)
        return [function(left, right) for left in blocks for right in slices(n, side) if right.stop > left.start]

    def _search(
        self, Z: RealArray, radius: FloatArray, keep: bool, use: Callable[..., T], rows: slice | None
    ) -> list[T]:
        n, m = Z.shape
        heads = self._heads(Z)
        # The reduction of the norms is more than the rounding error of squared distances between heads.
        norms = squared_norms(heads) * (1 - 8 * (m + 4) * np.finfo(Z.dtype).eps)
        radius, codes = radius.astype(Z.dtype), self._codes
        self._threads = n_threads(n * n * heads.shape[1] / 2)
        n_found = 0

        def near(left: slice, right: slice) -> T:
            nonlocal n_found
            x, y = heads[left], heads[right]
            products = np.matmul(x, y.T, out=scratch((len(x), len(y)), Z.dtype))
            ends, numbers = np.zeros(len(x) + 1, dtype=np.intp), scratch((products.size,), np.int32, 1)
            count = find_near(products, left.start, right.start, (norms, radius, codes), ends, numbers)
            pairs = left.start, ends, numbers[:count].copy()
            n_found += count
            if keep and n_found <= MOST_KEPT:
                self._found[left.start, right.start] = pairs
            return use(*pairs)

        results = self._in_blocks(Z, near, rows)
        if len(self._found) < len(results):
            self._found = {}
        return results

    def _heads(self, Z: RealArray) -> RealArray:
        """Return rows of fewer coordinates, whose distances are at most those of Z, but not much smaller.

        These coordinates are the leading principal coordinates of Z, or of a recent Z, and the norm of the others.
        """
        m = Z.shape[1]
        if m <= FEW_COORDINATES:
            return Z
        squares = squared_norms(Z)
        share = TAIL * float(squares.sum(dtype=np.float64))
        if self._axes is not None and len(self._axes) == m:
            heads = product(Z, self._axes)
            tails = squares - squared_norms(heads)
            if float(tails.sum(dtype=np.float64)) <= 2.0 * share:
                return np.column_stack([heads, np.sqrt(tails.clip(min=0.0))])
        self._axes = None
        variances, axes = np.linalg.eigh(transposed_product(Z, Z))
        n_tail = int(np.searchsorted(np.cumsum(variances.clip(min=0.0)), share, side="right"))
        if n_tail < m // 4:
            return Z
        self._axes = np.ascontiguousarray(axes[:, n_tail:])
        heads = product(Z, self._axes)
        return np.column_stack([heads, np.sqrt((squares - squared_norms(heads)).clip(min=0.0))])


def _moves(Z: RealArray, before: RealArray) -> RealArray:
    """Return by how much each row moved."""
    parts = in_rows(lambda rows: np.square(Z[rows] - before[rows]).sum(axis=1), len(Z), n_threads(PER_NUMBER * Z.size))
    return np.asarray(np.sqrt(np.concatenate(parts)))


def best_scale(pull: float, gaps: RealArray, mu: float) -> float:
    """Return the factor a that minimises (1 - mu) a pull + mu Σ [1 - a gap]₊."""
    unit = float(np.abs(gaps).mean(dtype=np.float64))
    factors = 2.0 ** np.arange(-8, 13) / (unit or 1.0)
    totals = [
        (1.0 - mu) * factor * pull + mu * float(np.maximum(1 - gaps.dtype.type(factor) * gaps, 0).sum(dtype=np.float64))
        for factor in factors
    ]
    return float(factors[int(np.argmin(totals))])

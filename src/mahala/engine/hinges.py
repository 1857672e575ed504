"""LMNN's objective on labelled rows, as a function of the mapped rows."""

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mahala.compiled.sums.edges import Laplacian
from mahala.compiled.sums.lmnn import find_near, hinges_of_rows, squared_distances
from mahala.compiled.sums.pair_sums import slices_of
from mahala.compiled.threads import in_pairs_of_blocks, n_threads, product, scratch, squared_norms
from mahala.engine.near_search import NearSearch
from mahala.support.arrays import FloatArray, IndexArray, RealArray, slices
from mahala.support.tags import Labels, TagSets, similar_to

T = TypeVar("T")

# Bytes of one block of products, which fit into the processor's cache.
BLOCK_BYTES = 2**21
# Number of distances from which the scale of the start is chosen.
SOME_ENTRIES = 2**17
# Pairs are kept from one search to the next if there are not more of them.
MOST_KEPT = 2**27

# Pairs of rows: the number of the first row, and for each row from it on where its others end, and the others.
Near = tuple[int, IndexArray, NDArray[np.int32]]


class RowHinges:
    """LMNN's objective on labelled rows, given the edges and ends of `target_neighbors`."""

    def __init__(self, labels: Labels, edges: IndexArray, ends: IndexArray, mu: float) -> None:
        self._labels, self._edges, self._ends, self._mu = labels, edges, ends, mu
        self._near, self._laplacian = NearPairs(labels), Laplacian(len(labels), *edges)

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
        radius = np.full(len(self._labels), -np.inf)
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
        gaps = (far - near[:, None].astype(Z.dtype))[~similar_to(self._labels, heads)]
        return best_scale(float(near.sum()), gaps, self._mu)


class NearPairs:
    """The pairs of dissimilar rows of which one is within the radius of the other, and some more."""

    def __init__(self, labels: Labels) -> None:
        self._tags = labels if isinstance(labels, TagSets) else None
        # The search with tags finds similar rows, too.
        self._codes = np.arange(len(labels)) if isinstance(labels, TagSets) else labels
        self._search = NearSearch(np, squared_norms, product)
        self._threads = 1

    def __call__(self, Z: RealArray, radius: FloatArray, use: Callable[..., T], rows: slice | None = None) -> list[T]:
        """Return what use(first, ends, rows) returns for pairs of row first + a with rows[ends[a] : ends[a + 1]].

        Calls that run at the same time have no row in common. `radius` is squared, and -inf for a row without one. With
        `rows` these are the first rows of the pairs, for one call of the object.
        """
        searched = self._search.radius(Z, radius)
        if searched is None:
            pairs = self._search.pairs
            return self._in_blocks(Z, lambda left, right: use(*pairs[left.start, right.start]), rows)
        heads = self._search.heads(Z)
        # The reduction of the norms is more than the rounding error of squared distances between heads.
        norms = squared_norms(heads) * (1 - 8 * (Z.shape[1] + 4) * np.finfo(Z.dtype).eps)
        radii, codes, keeps = searched.astype(Z.dtype), self._codes, self._search.keeps
        self._threads = n_threads(len(Z) ** 2 * heads.shape[1] / 2)
        stored: dict[tuple[int, int], Near] = {}  # by the first rows of two blocks
        n_found = 0

        def near(left: slice, right: slice) -> T:
            nonlocal n_found
            x, y = heads[left], heads[right]
            products = np.matmul(x, y.T, out=scratch((len(x), len(y)), Z.dtype))
            ends, numbers = np.zeros(len(x) + 1, dtype=np.intp), scratch((products.size,), np.int32, 1)
            count = find_near(products, left.start, right.start, (norms, radii, codes), ends, numbers)
            if self._tags is not None:
                near = np.repeat(np.arange(len(x)), np.diff(ends))
                far = ~self._tags.similar(left.start + near, numbers[:count])
                ends = np.append(0, np.bincount(near[far], minlength=len(x)).cumsum())
                count = int(ends[-1])
                numbers[:count] = numbers[: len(far)][far]
            pairs = left.start, ends, numbers[:count].copy()
            n_found += count
            if keeps and n_found <= MOST_KEPT:
                stored[left.start, right.start] = pairs
            return use(*pairs)

        results = self._in_blocks(Z, near, rows)
        self._search.pairs = stored if len(stored) == len(results) else None
        return results

    def _in_blocks(self, Z: RealArray, function: Callable[[slice, slice], T], rows: slice | None) -> list[T]:
        n, side = len(Z), math.isqrt(BLOCK_BYTES // Z.itemsize)
        if rows is None:
            return in_pairs_of_blocks(function, n, side, self._threads)
        blocks = slices_of(rows, side)
        return [function(left, right) for left in blocks for right in slices(n, side) if right.stop > left.start]


def best_scale(pull: float, gaps: RealArray, mu: float) -> float:
    """Return the factor a that minimises (1 - mu) a pull + mu Σ [1 - a gap]₊."""
    unit = float(np.abs(gaps).mean(dtype=np.float64))
    factors = 2.0 ** np.arange(-8, 13) / (unit or 1.0)
    totals = [
        (1.0 - mu) * factor * pull + mu * float(np.maximum(1 - gaps.dtype.type(factor) * gaps, 0).sum(dtype=np.float64))
        for factor in factors
    ]
    return float(factors[int(np.argmin(totals))])

"""Minibatches of comparisons on an engine: pairs drawn from class labels, or given comparisons in random order.

A minibatch depends on the seed and on its number alone, so a fit that is resumed sees those that it would have seen.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mahala.engine.map_descent import DeviceArrays, MapDescent, MapProblem
from mahala.engine.row_parts import RowParts, read_rows
from mahala.support.arrays import Arrays, DeviceArray, FloatArray, IndexArray, StoredRows

# Rows, the numbers of those of each pair, and perhaps signs and weights.
Batch = tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray | None, DeviceArray | None]

# How often each row is read, if the rows do not fit into memory.
PASSES = 3


class GivenComparisons(NamedTuple):
    """Row numbers of pairs, of which each comparison has one or two.

    near, far : row numbers of shape (2, n) whose distance should be the smaller one and the larger one; -1 where that
        is the threshold
    weights : a weight of each comparison
    """

    near: IndexArray
    far: IndexArray
    weights: FloatArray


class Minibatches:
    """A descent of a map over minibatches of comparisons between rows X, which may be larger than memory."""

    def __init__(
        self,
        arrays: DeviceArrays,
        X: StoredRows,
        comparisons: IndexArray | GivenComparisons,
        problem: MapProblem,
        *,
        batch_size: int,
        seed: int,
        state: Arrays | None,
    ) -> None:
        """Pairs are drawn if `comparisons` are the class codes of the rows."""
        self.descent = MapDescent(arrays, problem, state)
        source = GivenSource if isinstance(comparisons, GivenComparisons) else DrawnSource
        self._batches = source(arrays, X, comparisons, batch_size, seed).batches(self.descent.n_done, problem.n_steps)  # type: ignore[arg-type]

    def run(self, n_steps: int) -> float:
        """Take steps, and return the objective: the mean loss during these steps, and the penalty at their end."""
        for _ in range(n_steps):
            self.descent.step(*next(self._batches))
        return self.descent.objective()


class DrawnSource:
    """Pairs drawn from the class codes of rows: the first half of a minibatch within classes, the others between."""

    def __init__(self, arrays: DeviceArrays, X: StoredRows, codes: IndexArray, batch_size: int, seed: int) -> None:
        self._arrays, self._codes, self._seed = arrays, codes, seed
        self._counts = (batch_size + 1) // 2, batch_size // 2
        self._parts = RowParts(arrays, X, seed)
        self._signs = arrays.place(np.repeat(np.array([1.0, -1.0], dtype=np.float32), self._counts))

    def batches(self, first: int, n_steps: int) -> Iterator[Batch]:
        """Yield the minibatches from number `first` on."""
        n_parts = self._parts.n_parts
        n_used = 1 if n_parts == 1 else min(n_steps, PASSES * n_parts)
        rows, part = None, -1
        for step in range(first, n_steps):
            if step * n_used // n_steps != part:
                part, rows = step * n_used // n_steps, None  # whose memory is free before the next part is read
                numbers, rows = self._parts.part(part)
                pairs = PairRanges(self._arrays, self._codes[numbers])
            rng = np.random.default_rng([self._seed, step])
            left, right = pairs.draw(rng, self._counts)
            yield rows, left, right, self._signs, None


class PairRanges:
    """All pairs of rows of one class, and all of different classes, numbered class by class; draws some of each."""

    def __init__(self, arrays: DeviceArrays, codes: IndexArray) -> None:
        self._arrays = arrays
        sizes = np.bincount(codes)
        # A row has so many partners of its own class, and of others.
        partners = np.stack([np.maximum(sizes - 1, 0), len(codes) - sizes])
        ends = np.cumsum(sizes * partners, axis=1)
        self._totals = ends[:, -1].tolist()
        if not all(self._totals):
            advice = "shuffle the rows, or give rows that fit into memory"
            raise ValueError(f"y must have two classes, and two rows of a class, in each part of the rows: {advice}")
        tables = partners, ends, np.array([sizes, np.cumsum(sizes) - sizes])
        self._partners, self._ends, (self._sizes, self._starts) = (arrays.place(table) for table in tables)
        self._order = arrays.place(np.argsort(codes, kind="stable"))

    def draw(self, rng: np.random.Generator, counts: tuple[int, int]) -> tuple[DeviceArray, DeviceArray]:
        """Return the row numbers of random pairs, so many of one class and so many of different classes."""
        numbers = [rng.integers(total, size=count) for total, count in zip(self._totals, counts, strict=True)]
        placed = self._arrays.place(np.concatenate(numbers))
        same, other = self._pairs(0, placed[: counts[0]]), self._pairs(1, placed[counts[0] :])
        left, right = (self._arrays.xp.concatenate(both) for both in zip(same, other, strict=True))
        return self._order[left], self._order[right]

    def _pairs(self, kind: int, numbers: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        """Return the positions, in the order of classes, of the rows of pairs with these numbers."""
        ends = self._ends[kind]
        of_class = self._arrays.xp.searchsorted(ends, numbers, side="right")
        size, start, partners = self._sizes[of_class], self._starts[of_class], self._partners[kind][of_class]
        number = numbers - (ends[of_class] - size * partners)
        row, partner = number // partners, number % partners
        if kind == 0:
            return start + row, start + partner + (partner >= row)
        return start + row, partner + size * (partner >= start)


class GivenSource:
    """Given comparisons in random order, again and again; what a pass leaves over of the last minibatch is not used."""

    def __init__(
        self, arrays: DeviceArrays, X: StoredRows, comparisons: GivenComparisons, batch_size: int, seed: int
    ) -> None:
        self._arrays, self._X, self._seed, self._comparisons = arrays, X, seed, comparisons
        self._batch_size = min(batch_size, len(comparisons.weights))
        parts = RowParts(arrays, X, seed)
        self._rows = parts.part(0)[1] if parts.n_parts == 1 else None
        weights = comparisons.weights
        self._weights = None if (weights == weights[0]).all() else (weights / weights.mean()).astype(np.float32)

    def batches(self, first: int, n_steps: int) -> Iterator[Batch]:
        """Yield the minibatches from number `first` on."""
        n, size, turn = len(self._comparisons.weights), self._batch_size, -1
        for step in range(first, n_steps):
            if step // (n // size) != turn:
                turn = step // (n // size)
                order = np.random.default_rng([self._seed, turn]).permutation(n)
            at = step % (n // size) * size
            yield self._batch(order[at : at + size])

    def _batch(self, chosen: IndexArray) -> Batch:
        near, far = (pairs[:, chosen] for pairs in (self._comparisons.near, self._comparisons.far))
        similar, signs = far[0] < 0, None
        if similar.any() or (near[0] < 0).any():
            pairs, signs = np.where(similar, near, far), np.where(similar, np.float32(1), np.float32(-1))
        else:
            pairs = np.concatenate([near, far], axis=1)
        rows = self._rows
        if rows is None:
            numbers, pairs = np.unique(pairs, return_inverse=True)
            rows = self._arrays.place_rows(read_rows(self._X, numbers))
        left, right = pairs.reshape(2, -1)
        weights = None if self._weights is None else self._weights[chosen]
        signs, weights = (None if values is None else self._arrays.place(values) for values in (signs, weights))
        return rows, self._arrays.place(left), self._arrays.place(right), signs, weights

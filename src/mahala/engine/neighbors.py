"""Nearest rows by class, and predictions by nearest neighbours, whose ties share votes."""

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np

from mahala.engine.current import current_engine
from mahala.engine.inputs import computed
from mahala.support.arrays import BoolArray, FloatArray, IndexArray, Places, RealArray, Rows, row_blocks
from mahala.support.lazily import spatial_distance
from mahala.support.tags import Labels, TagSets
from mahala.support.validation import is_sparse

# Squared distances that differ by a smaller share are equal.
_ROUNDING = 1e-10


def class_neighbors(X: RealArray, labels: Labels, n_same: int, n_other: int) -> tuple[IndexArray, IndexArray]:
    """Return the nearest rows of the same class and of other classes of each row, as `Engine.nearest_by_class` does."""
    if isinstance(labels, TagSets):
        return tag_neighbors(X, labels, np.arange(len(labels)), n_same, n_other)
    sizes = np.bincount(labels)
    if sizes.max() < 2:
        raise ValueError("y must have a class of at least two rows, but every row is alone in its class")
    n_same, n_other = min(n_same, int(sizes.max()) - 1), min(n_other, len(labels) - int(sizes.min()))
    return current_engine().nearest_by_class(X, labels, np.arange(len(labels)), n_same, n_other)


def tag_neighbors(
    X: RealArray, tags: TagSets, rows: IndexArray, n_similar: int, n_other: int
) -> tuple[IndexArray, IndexArray]:
    """Return the nearest others with similar tags of some rows, and those without, by (distance, row number).

    Where there are not so many, the last numbers are len(X).
    """
    counts = tags.n_similar()
    if not counts.any():
        raise ValueError("y must have two rows that share a tag, but there are none")
    n, wanted = len(tags), (min(n_similar, int(counts.max())), min(n_other, len(tags) - 1 - int(counts.min())))
    found = [np.full((len(rows), k), n, dtype=np.intp) for k in wanted]
    for block in row_blocks(len(rows), 4 * n):
        squared = spatial_distance.cdist(X[rows[block]], X, "sqeuclidean")
        squared[np.arange(len(squared)), rows[block]] = np.inf
        similar = tags.similar_to(rows[block])
        for near, k, eligible in zip(found, wanted, (similar, ~similar), strict=True):
            if not k:
                continue
            distances = np.where(eligible, squared, np.inf)
            i, j = np.nonzero(distances <= np.partition(distances, k - 1, axis=1)[:, k - 1 : k])
            order = np.lexsort((j, distances[i, j], i))  # by row, and then by distance
            rank = np.arange(len(i)) - np.searchsorted(i, i)
            chosen = (rank < k) & np.isfinite(distances[i, j][order])
            near[block][i[chosen], rank[chosen]] = j[order][chosen]
    return found[0], found[1]


def leave_one_out_errors(embedded: Rows, codes: IndexArray, k: int) -> FloatArray:
    """Return the error rates of the votes of the 1, 2, ..., k nearest other rows, for rows with class codes 0..c-1."""
    counts = np.arange(1, min(k, len(codes) - 1) + 1)
    errors: FloatArray = misclassified(embedded, codes, None, codes, counts).mean(axis=0)
    return errors


def misclassified(
    train: Rows, codes: IndexArray, test: Rows | None, test_codes: IndexArray, n_neighbors: IndexArray
) -> BoolArray:
    """Return which test rows (None: training rows, leave-one-out) are misclassified, rows × numbers of neighbours.

    The rows are valid and embedded, so that the Euclidean distance is the metric's.
    """
    values = one_hot(codes, 1 + max(int(codes.max()), int(test_codes.max())))
    predicted = [means.argmax(axis=2) for means in neighbor_means(train, values, test, n_neighbors)]
    result: BoolArray = test_codes[:, np.newaxis] != np.concatenate(predicted, axis=1).T
    return result


def one_hot(codes: IndexArray, n_classes: int) -> FloatArray:
    """Return a row for each code, with a 1 in the column of its class."""
    values = np.zeros((len(codes), n_classes))
    values[np.arange(len(codes)), codes] = 1.0
    return values


def neighbor_means(
    train: Rows, values: FloatArray, test: Rows | None, counts: IndexArray, left_out: IndexArray | None = None
) -> Iterator[FloatArray]:
    """Yield means of `values` over the nearest training rows, for blocks of test rows (None: leave-one-out).

    Of leave-one-out, `left_out` may name the only rows to leave out, each once; all others are still neighbours.
    A block has the shape (numbers of neighbours, rows, columns of values). Neighbours at equal distances share what
    is left: if m rows are nearer than the k-th and t rows are as near as it, each of the t counts (k - m) / t. So the
    order of the training rows does not matter. Distances that differ by rounding are equal. With `values` of 0 and 1
    the means are votes, and equal ones are exactly equal.
    """
    places, most = _Places.of(train, values, test, counts), int(counts[-1])
    queries = slice(None) if left_out is None else left_out
    near, squared = places.nearest(queries, min(most + 1 + (test is None), places.rows.shape[0]))
    numbers = np.arange(len(near)) if left_out is None else left_out
    for block in row_blocks(len(near), (most + 2) * values.shape[1]):
        yield places.means(near[block], squared[block], numbers[block])


class _Places(NamedTuple):
    """The different training rows, which of them each row is, and how many rows, and which sum of values, each has.

    Beside them are the queries, without which training rows ask for other ones, and the numbers of neighbours.
    """

    rows: Rows
    queries: Rows
    leave_one_out: bool
    counts: IndexArray
    of_row: IndexArray
    sizes: FloatArray
    sums: FloatArray
    values: FloatArray
    rounding: float

    @classmethod
    def of(cls, train: Rows, values: FloatArray, test: Rows | None, counts: IndexArray) -> Self:
        """Merge equal rows, so that there are few ties; sparse rows and those of Dask stay as they are."""
        n = train.shape[0]
        rows, of_row = train, np.arange(n)
        if isinstance(train, np.ndarray):
            rows, of_row = np.unique(train, axis=0, return_inverse=True)
        of_row = of_row.reshape(n)
        sizes = np.bincount(of_row).astype(np.float64)
        sums = np.zeros((len(sizes), values.shape[1]))
        np.add.at(sums, of_row, values)
        squares = rows.multiply(rows).sum() if is_sparse(rows) else computed((rows.astype(np.float64) ** 2).sum())
        queries, rounding = train if test is None else test, _ROUNDING**2 * float(squares) / n
        return cls(rows, queries, test is None, counts, of_row, sizes, sums, values, rounding)

    def nearest(self, rows: Places, n: int) -> tuple[IndexArray, FloatArray]:
        """Return the nearest places of some queries and their squared distances."""
        queries = self.queries if isinstance(rows, slice) else self.queries[rows]
        result: tuple[IndexArray, FloatArray] = current_engine().nearest(self.rows, queries, n)
        return result

    def contents(self, near: IndexArray, rows: IndexArray) -> tuple[FloatArray, FloatArray]:
        """Return how many training rows are at the places near some queries, and the sums of their values."""
        sizes, sums = self.sizes[near], self.sums[near]
        if self.leave_one_out:  # a row is not its own neighbour
            is_own = near == self.of_row[rows][:, np.newaxis]
            sizes = sizes - is_own
            sums = sums - is_own[:, :, np.newaxis] * self.values[rows][:, np.newaxis]
        return sizes, sums

    def ties(self, squared: FloatArray) -> tuple[IndexArray, IndexArray]:
        """Return, for each of the nearest places, the first one at its distance and the end of those at it."""
        n, width = squared.shape
        first, end = np.zeros((n, width), dtype=np.intp), np.full((n, width), width)
        other, places = squared[:, :-1], np.arange(1, width)
        same = np.abs(squared[:, 1:] - other) <= _ROUNDING * np.abs(other) + self.rounding  # but for rounding
        first[:, 1:], end[:, :-1] = np.where(same, 0, places), np.where(same, width, places)
        return np.maximum.accumulate(first, axis=1), np.minimum.accumulate(end[:, ::-1], axis=1)[:, ::-1]

    def means(self, near: IndexArray, squared: FloatArray, rows: IndexArray) -> FloatArray:
        """Return the means of `neighbor_means` for some rows of the queries, given their nearest places."""
        counts, (sizes, sums) = self.counts, self.contents(near, rows)
        first, end = self.ties(squared)
        n, width = near.shape
        at = np.arange(n)
        n_nearer = np.concatenate([np.zeros((n, 1)), np.cumsum(sizes, axis=1)], axis=1)
        nearer = np.concatenate([np.zeros((n, 1, sums.shape[2])), np.cumsum(sums, axis=1)], axis=1)
        # The place of the k-th neighbour, for all k and rows in one search: each row has a range of numbers of its own.
        ranges = at * (float(max(n_nearer[:, -1].max(), counts[-1])) + 1.0)
        place = np.searchsorted((n_nearer[:, 1:] + ranges[:, np.newaxis]).ravel(), counts[:, np.newaxis] + ranges)
        group = np.minimum(place, width * at + width - 1)
        starts = at * (width + 1)  # of the rows in `n_nearer` and `nearer`
        start, stop = first.take(group) + starts, end.take(group) + starts
        n_values = sums.shape[2]
        sums = nearer.reshape(-1, n_values)
        m, before = n_nearer.take(start), sums.take(start, axis=0)
        t, k = n_nearer.take(stop) - m, counts[:, np.newaxis]
        within = (sums.take(stop, axis=0) - before) * (k - m)[:, :, np.newaxis]
        result: FloatArray = (before * t[:, :, np.newaxis] + within) / (t * k)[:, :, np.newaxis]
        if width < len(self.sizes):
            # Not all places at the distance of the last one may be among them: search for more, where they count.
            unfinished = np.flatnonzero(n_nearer[at, first[:, -1]] < counts[-1])
            width = min(max(4 * width, 64), len(self.sizes))
            for part in row_blocks(len(unfinished), width * n_values):
                chosen = rows[unfinished[part]]
                result[:, unfinished[part]] = self.means(*self.nearest(chosen, width), chosen)
        return result

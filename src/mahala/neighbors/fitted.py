"""What a fit has learned: rows that vote, a line and trees, each for all rows and for the rows without one fold."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mahala.compiled.threads import product
from mahala.data.encoding import Encoder
from mahala.engine import machine_engine
from mahala.metric import MahalanobisMetric
from mahala.neighbors.line import Line, final_line
from mahala.neighbors.maps import Target
from mahala.neighbors.mixture import mixed
from mahala.neighbors.trees import Trees
from mahala.support.arrays import BoolArray, FloatArray, IndexArray, RealArray, RowsLike, row_blocks

# Rows whose predictions tell whether trees are the same.
_DIGEST_ROWS = 50
# The experts, in the order of their weights.
EXPERTS = ("rows", "line", "trees")


class Points(NamedTuple):
    """Rows as the experts see them."""

    plain: FloatArray  # columns as numbers
    coordinates: RealArray | None  # under a fixed metric

    def part(self, rows: slice | IndexArray) -> "Points":
        """Return some of the rows."""
        return Points(self.plain[rows], None if self.coordinates is None else self.coordinates[rows])

    def joined(self, others: "Points") -> "Points":
        """Return these rows and others of the same model."""
        columns = (None if a is None else np.concatenate([a, b]) for a, b in zip(self, others, strict=True))
        return Points(*columns)  # type: ignore[arg-type]

    def blocks(self) -> Iterator["Points"]:
        """Yield the rows in blocks, so that what is computed for each fits into memory."""
        return map(self.part, row_blocks(len(self.plain), 10 * self.plain.shape[1]))


@dataclass(frozen=True)
class Rows:
    """Rows to learn from, with what is known of each. A row whose weight is a whole number is there as often."""

    points: Points
    target: Target
    numbers: IndexArray  # among those of `fit` and `add`
    groups: IndexArray | None  # those of a group are left out together
    folds: IndexArray  # in which a row was left out; -1 for one that never was

    def __len__(self) -> int:
        return len(self.numbers)

    def part(self, places: IndexArray) -> "Rows":
        """Return some of the rows."""
        groups = None if self.groups is None else self.groups[places]
        target, numbers = self.target.part(places), self.numbers[places]
        return Rows(self.points.part(places), target, numbers, groups, self.folds[places])

    def in_fold(self, fold: int) -> IndexArray:
        """Return the places of the rows of a fold."""
        return np.flatnonzero(self.folds == fold)


class Voters(NamedTuple):
    """Rows by their places, in the space of the votes, what they vote for, and their weights."""

    places: IndexArray
    Z: RealArray
    values: RealArray
    weights: RealArray


@dataclass(eq=False)
class Fitted:
    """The rows of a model and its experts.

    Rows are in the order of `row_order`. The rows of fold f were left out where maps[f] and lines[f] were learned.
    """

    encoder: Encoder
    fixed_metric: MahalanobisMetric | None  # whose coordinates rows have; None for the encoder's features
    rows: Rows
    maps: list[RealArray]
    map: RealArray
    seed: int
    left_out: RealArray = field(repr=False)  # the mixture's predictions of rows; NaN in fold -1
    weights: tuple[float, ...] = (1.0, 0.0, 0.0)
    lines: list[Line] = field(default_factory=list)
    line: Line | None = None
    tree_rows: BoolArray | None = None  # those that the trees were fitted on; None without trees
    expected_trees: FloatArray | None = field(default=None, repr=False)  # what those of a file predicted
    _trees: dict[int, Trees] = field(default_factory=dict, repr=False)

    @property
    def n_folds(self) -> int:
        return len(self.maps)

    @cached_property
    def voters(self) -> "Voters":
        """The rows that vote."""
        target = self.rows.target
        return Voters(np.arange(len(self.rows)), self.embed(self.rows.points), target.values(), target.weights)

    @cached_property
    def distinct_voters(self) -> "Voters":
        """The rows that vote, each once, with the weight of all its repeats."""
        _, first, repeats = np.unique(self.rows.numbers, return_index=True, return_inverse=True)
        if len(first) == len(self.rows):
            return self.voters
        weights = np.bincount(repeats, self.rows.target.weights).astype(np.float32)
        return Voters(first, self.voters.Z[first], self.voters.values[first], weights)

    def points_of(self, X: RowsLike) -> Points:
        """Return rows of a checked table."""
        metric = self.fixed_metric
        coordinates = None if metric is None else np.asarray(metric.transform(X), dtype=np.float32)
        return Points(self.encoder.plain(X), coordinates)

    def embed(self, points: Points, fold: int = -1) -> RealArray:
        """Return rows in the space of the votes, of all rows or of those without a fold."""
        L = (self.map if fold < 0 else self.maps[fold]).astype(np.float64)
        # In float64, so that a row's place does not depend on the rows beside it.
        blocks = (features(part, self.encoder).astype(np.float64) for part in points.blocks())
        return np.concatenate([product(X, L.T) for X in blocks]).astype(np.float32)

    def votes(self, points: Points, fold: int = -1) -> RealArray:
        """Return what the rows vote for others: shares of classes, or numbers in a column."""
        Z, target = self.embed(points, fold), self.rows.target
        if fold < 0:
            return machine_engine().vote_means(Z, *self.voters[1:])
        places = np.flatnonzero(self.rows.folds != fold)
        voters = self.embed(self.rows.points.part(places), fold)
        return machine_engine().vote_means(Z, voters, target.values(places), target.weights[places])

    def trees(self, fold: int = -1) -> Trees:
        """Return the trees of all rows or of those without a fold, fitted when they are first needed."""
        assert self.tree_rows is not None, "a model without trees is asked for them"
        if fold not in self._trees:
            rows = self.rows.part(np.flatnonzero(self.tree_rows & ((self.rows.folds != fold) | (fold < 0))))
            made = Trees(rows.points.plain, rows.target, self.seed)
            if fold < 0 and self.expected_trees is not None:
                self._check_trees(made)
            self._trees[fold] = made
        return self._trees[fold]

    def tree_digest(self) -> FloatArray:
        """Return what the trees predict for a few rows, which shows whether those fitted after loading are the same."""
        if self.expected_trees is not None and -1 not in self._trees:
            return self.expected_trees
        return self._digest(self.trees())

    def _digest(self, trees: Trees) -> FloatArray:
        plain = self.rows.points.plain
        sample = plain[:: max(1, len(plain) // _DIGEST_ROWS)][:_DIGEST_ROWS]
        return trees.predict(sample, self.rows.target.n_classes).astype(np.float64).ravel()

    def _check_trees(self, trees: Trees) -> None:
        digest, expected = self._digest(trees), self.expected_trees
        if expected is None or expected.shape != digest.shape or not np.allclose(digest, expected, atol=1e-6):
            warnings.warn(
                "the boosted trees of this model differ from those that were saved, probably because scikit-learn has "
                "another version; call refit() to learn the weights of the experts anew",
                stacklevel=2,
            )

    def forget_trees(self) -> None:
        """Drop the trees that were fitted; they are fitted again when they are needed."""
        self._trees.clear()

    def experts(self, points: Points, fold: int = -1) -> list[RealArray]:
        """Return what each expert predicts for rows; with a fold, from the rows without it."""
        results, n_classes = [self.votes(points, fold)], self.rows.target.n_classes
        if self.line is not None:
            line = self.line if fold < 0 else self.lines[fold]
            results.append(line.predict(self.encoder.encoded(points.plain), n_classes))
        if self.tree_rows is not None:
            results.append(self.trees(fold).predict(points.plain, n_classes))
        return results

    def predict(self, points: Points, fold: int = -1) -> FloatArray:
        """Return the probabilities of classes, or the numbers in a column, of the mixture."""
        results = (self.experts(part, fold) for part in points.blocks())
        weights = [*self.used_weights.values()]
        return np.concatenate([mixed(result, weights, self.rows.target) for result in results])

    @property
    def used_weights(self) -> dict[str, float]:
        """The weights of the experts that the model has, by name."""
        is_used = True, self.line is not None, self.tree_rows is not None
        return {name: weight for name, weight, used in zip(EXPERTS, self.weights, is_used, strict=True) if used}

    def left_out_by_number(self, n: int) -> FloatArray:
        """Return the left-out predictions of rows 0..n-1, means over repeats; NaN without any."""
        known = np.isfinite(self.left_out[:, 0])
        numbers, values = self.rows.numbers[known], self.left_out[known].astype(np.float64)
        counts = np.bincount(numbers, minlength=n)
        sums = np.stack([np.bincount(numbers, column, n) for column in values.T], axis=1)
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / counts[:, np.newaxis])

    def with_rows(self, points: Points, target: Target, numbers: IndexArray) -> "Fitted":
        """Return a copy in which more rows vote; the map, the line and the trees stay as they are."""
        rows, n = self.rows, len(numbers)
        y, weights = (np.concatenate(pair) for pair in zip(rows.target[:2], target[:2], strict=True))
        groups = None if rows.groups is None else np.append(rows.groups, rows.groups.max() + 1 + np.arange(n))
        unknown = np.full((n, self.left_out.shape[1]), np.nan, dtype=self.left_out.dtype)
        more = Rows(
            rows.points.joined(points),
            Target(y, weights, rows.target.n_classes),
            np.append(rows.numbers, numbers),
            groups,
            np.append(rows.folds, np.full(n, -1)),
        )
        return replace(
            self,
            rows=more,
            tree_rows=None if self.tree_rows is None else np.append(self.tree_rows, np.zeros(n, dtype=bool)),
            expected_trees=None,
            left_out=np.concatenate([self.left_out, unknown]),
        )

    def without_rows(self, places: IndexArray) -> "Fitted":
        """Return a copy without some rows, in which the line and the trees are those of the rest."""
        rest = np.setdiff1d(np.arange(len(self.rows)), places)
        rows = self.rows.part(rest)
        made = replace(
            self,
            rows=rows,
            tree_rows=None if self.tree_rows is None else self.tree_rows[rest],
            left_out=self.left_out[rest],
            expected_trees=None,
            _trees={},
        )
        if self.line is not None:
            encoded, penalty = self.encoder.encoded(rows.points.plain), self.line.penalty
            made.line = final_line(encoded, rows.target, penalty, self.line.slopes)
            parts = (np.flatnonzero(rows.folds != fold) for fold in range(self.n_folds))
            made.lines = [
                final_line(encoded[part], rows.target.part(part), penalty, line.slopes)
                for part, line in zip(parts, self.lines, strict=True)
            ]
        return made


def features(points: Points, encoder: Encoder) -> RealArray:
    """Return what maps act on: the coordinates of rows, or else the encoder's features."""
    return encoder.encoded(points.plain) if points.coordinates is None else points.coordinates

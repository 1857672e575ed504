"""What a fit has learned: rows that vote, a line and trees, each for all rows and for the rows without one fold."""

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mahala.compiled.threads import product
from mahala.data.encoding import Encoder
from mahala.engine import machine_engine
from mahala.metric import MahalanobisMetric
from mahala.neighbors.line import Line, final_line
from mahala.neighbors.maps import Target
from mahala.neighbors.mixture import mixed
from mahala.neighbors.trees import Trees
from mahala.support.arrays import BoolArray, FloatArray, IndexArray, RealArray, row_blocks

# Rows whose predictions tell whether trees are the same.
_DIGEST_ROWS = 50
# The experts, in the order of their weights.
EXPERTS = ("rows", "line", "trees")


class Voters(NamedTuple):
    """Rows by their places, in the space of the votes, what they vote for, and their weights."""

    places: IndexArray
    Z: RealArray
    values: RealArray
    weights: RealArray


@dataclass(eq=False)
class Fitted:
    """The rows of a model and its experts.

    Rows are in the order of `row_order`; a row whose weight is a whole number is there as often. The rows of fold f
    were left out where maps[f] and lines[f] were learned; those of fold -1 never were.
    """

    encoder: Encoder
    given: MahalanobisMetric | None  # the metric whose coordinates rows have; None for the encoder's features
    plain: FloatArray  # columns as numbers, of each row
    coordinates: RealArray | None  # under a given metric
    target: Target
    numbers: IndexArray  # of the rows as they were given
    folds: IndexArray
    maps: list[RealArray]
    map: RealArray
    lines: list[Line]
    line: Line | None
    tree_rows: BoolArray | None  # those that the trees were fitted on; None without trees
    weights: tuple[float, ...]
    seed: int
    left_out: RealArray = field(repr=False)  # the mixture's predictions of rows; NaN in fold -1
    groups: IndexArray | None = None  # of rows that were left out together, and will be in `refit`
    expected_trees: FloatArray | None = field(default=None, repr=False)  # what those of a file predicted
    _trees: dict[int, Trees] = field(default_factory=dict, repr=False)

    @property
    def n_folds(self) -> int:
        return len(self.maps)

    @cached_property
    def voters(self) -> "Voters":
        """The rows that vote."""
        Z = self.embed(self.plain, self.coordinates)
        return Voters(np.arange(len(Z)), Z, self.target.values(), self.target.weights)

    @cached_property
    def distinct_voters(self) -> "Voters":
        """The rows that vote, each once, with the weight of all its repeats."""
        _, first, repeats = np.unique(self.numbers, return_index=True, return_inverse=True)
        if len(first) == len(self.numbers):
            return self.voters
        weights = np.bincount(repeats, self.target.weights).astype(np.float32)
        return Voters(first, self.voters.Z[first], self.voters.values[first], weights)

    def embed(self, plain: FloatArray, coordinates: RealArray | None, fold: int = -1) -> RealArray:
        """Return rows in the space of the votes, of all rows or of those without a fold."""
        L = (self.map if fold < 0 else self.maps[fold]).astype(np.float64)
        # In float64, so that a row's place does not depend on the rows beside it.
        parts = row_blocks(len(plain), 10 * plain.shape[1])
        X = (self.encoder.encoded(plain[rows]) if coordinates is None else coordinates[rows] for rows in parts)
        return np.concatenate([product(rows.astype(np.float64), L.T) for rows in X]).astype(np.float32)

    def votes(self, plain: FloatArray, coordinates: RealArray | None, fold: int = -1) -> RealArray:
        """Return what the rows vote for others: shares of classes, or numbers in a column."""
        Z = self.embed(plain, coordinates, fold)
        if fold < 0:
            return machine_engine().vote_means(Z, *self.voters[1:])
        rows = np.flatnonzero(self.folds != fold)
        others = None if self.coordinates is None else self.coordinates[rows]
        voters = self.embed(self.plain[rows], others, fold)
        return machine_engine().vote_means(Z, voters, self.target.values(rows), self.target.weights[rows])

    def trees(self, fold: int = -1) -> Trees:
        """Return the trees of all rows or of those without a fold, fitted when they are first needed."""
        assert self.tree_rows is not None, "a model without trees is asked for them"
        if fold not in self._trees:
            rows = np.flatnonzero(self.tree_rows & ((self.folds != fold) | (fold < 0)))
            made = Trees(self.plain[rows], self.target.part(rows), self.seed)
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
        rows = self.plain[:: max(1, len(self.plain) // _DIGEST_ROWS)][:_DIGEST_ROWS]
        return trees.predict(rows, self.target.n_classes).astype(np.float64).ravel()

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

    def coordinates_of(self, X: Any) -> RealArray | None:
        """Return rows in the coordinates of the given metric, or None if none is given."""
        return None if self.given is None else np.asarray(self.given.transform(X), dtype=np.float32)

    def experts(self, plain: FloatArray, coordinates: RealArray | None, fold: int = -1) -> list[RealArray]:
        """Return what each expert predicts for rows; with a fold, from the rows without it."""
        results = [self.votes(plain, coordinates, fold)]
        if self.line is not None:
            line = self.line if fold < 0 else self.lines[fold]
            results.append(line.predict(self.encoder.encoded(plain), self.target.n_classes))
        if self.tree_rows is not None:
            results.append(self.trees(fold).predict(plain, self.target.n_classes))
        return results

    def predict(self, plain: FloatArray, coordinates: RealArray | None, fold: int = -1) -> FloatArray:
        """Return the probabilities of classes, or the numbers in a column, of the mixture."""
        parts = row_blocks(len(plain), 10 * plain.shape[1])
        results = (
            self.experts(plain[rows], None if coordinates is None else coordinates[rows], fold) for rows in parts
        )
        return np.concatenate([mixed(result, self.used_weights, self.target) for result in results])

    @property
    def used_weights(self) -> list[float]:
        """The weights of the experts that there are."""
        there = True, self.line is not None, self.tree_rows is not None
        return [weight for weight, used in zip(self.weights, there, strict=True) if used]

    def left_out_by_number(self, n: int) -> FloatArray:
        """Return the left-out predictions of rows 0..n-1 as they were given, means over repeats; NaN without any."""
        known = np.isfinite(self.left_out[:, 0])
        numbers, values = self.numbers[known], self.left_out[known].astype(np.float64)
        counts = np.bincount(numbers, minlength=n)
        sums = np.stack([np.bincount(numbers, column, n) for column in values.T], axis=1)
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / counts[:, np.newaxis])

    def with_rows(
        self, plain: FloatArray, coordinates: RealArray | None, target: Target, numbers: IndexArray
    ) -> "Fitted":
        """Return a copy in which more rows vote; the map, the line and the trees stay as they are."""
        n = len(plain)
        y, weights = (np.concatenate(pair) for pair in zip(self.target[:2], target[:2], strict=True))
        trees = None if self.tree_rows is None else np.concatenate([self.tree_rows, np.zeros(n, dtype=bool)])
        unknown = np.full((n, self.left_out.shape[1]), np.nan, dtype=self.left_out.dtype)
        return replace(
            self,
            plain=np.concatenate([self.plain, plain]),
            coordinates=None if self.coordinates is None else np.concatenate([self.coordinates, coordinates]),
            target=Target(y, weights, self.target.n_classes),
            numbers=np.concatenate([self.numbers, numbers]),
            folds=np.concatenate([self.folds, np.full(n, -1)]),
            groups=None if self.groups is None else np.append(self.groups, self.groups.max() + 1 + np.arange(n)),
            tree_rows=trees,
            expected_trees=None,
            left_out=np.concatenate([self.left_out, unknown]),
        )

    def without_rows(self, places: IndexArray) -> "Fitted":
        """Return a copy without some rows, in which the line and the trees are those of the rest."""
        rest = np.setdiff1d(np.arange(len(self.plain)), places)
        made = replace(
            self,
            plain=self.plain[rest],
            coordinates=None if self.coordinates is None else self.coordinates[rest],
            target=self.target.part(rest),
            numbers=self.numbers[rest],
            folds=self.folds[rest],
            groups=None if self.groups is None else self.groups[rest],
            tree_rows=None if self.tree_rows is None else self.tree_rows[rest],
            left_out=self.left_out[rest],
            expected_trees=None,
            _trees={},
        )
        if self.line is not None:
            encoded = self.encoder.encoded(made.plain)
            penalty = self.line.penalty
            made.line = final_line(encoded, made.target, penalty, self.line.slopes)
            parts = (np.flatnonzero(made.folds != fold) for fold in range(self.n_folds))
            made.lines = [
                final_line(encoded[part], made.target.part(part), penalty, line.slopes)
                for part, line in zip(parts, self.lines, strict=True)
            ]
        return made

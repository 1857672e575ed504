"""What a fit has learned: rows that vote, a line and trees, each for all rows and for the rows without one fold."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mahala.compiled.threads import product
from mahala.data.encoding import Encoder
from mahala.engine import current_engine
from mahala.metric import MahalanobisMetric
from mahala.neighbors.line import Line
from mahala.neighbors.maps import Target
from mahala.neighbors.mixture import mixed
from mahala.neighbors.trees import Trees
from mahala.support.arrays import BoolArray, FloatArray, IndexArray, RealArray, row_blocks

# The experts, in the order of their weights.
EXPERTS = ("rows", "line", "trees")


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
    _trees: dict[int, Trees] = field(default_factory=dict, repr=False)

    @property
    def n_folds(self) -> int:
        return len(self.maps)

    @cached_property
    def embedded(self) -> RealArray:
        """The rows in the space of the votes."""
        return self.embed(self.plain, self.coordinates)

    def embed(self, plain: FloatArray, coordinates: RealArray | None, fold: int = -1) -> RealArray:
        """Return rows in the space of the votes, of all rows or of those without a fold."""
        L = self.map if fold < 0 else self.maps[fold]
        if coordinates is not None:
            return product(coordinates, L.T)  # type: ignore[no-any-return]
        parts = row_blocks(len(plain), 10 * plain.shape[1])
        return np.concatenate([product(self.encoder.encoded(plain[rows]), L.T) for rows in parts])

    def trees(self, fold: int = -1) -> Trees:
        """Return the trees of all rows or of those without a fold, fitted when they are first needed."""
        assert self.tree_rows is not None, "a model without trees is asked for them"
        if fold not in self._trees:
            rows = np.flatnonzero(self.tree_rows & ((self.folds != fold) | (fold < 0)))
            self._trees[fold] = Trees(self.plain[rows], self.target.part(rows), self.seed)
        return self._trees[fold]

    def forget_trees(self) -> None:
        """Drop the trees that were fitted; they are fitted again when they are needed."""
        self._trees.clear()

    def coordinates_of(self, X: Any) -> RealArray | None:
        """Return rows in the coordinates of the given metric, or None if none is given."""
        return None if self.given is None else np.asarray(self.given.transform(X), dtype=np.float32)

    def experts(self, plain: FloatArray, coordinates: RealArray | None, fold: int = -1) -> list[RealArray]:
        """Return what each expert predicts for rows; with a fold, from the rows without it."""
        voters = self.embedded if fold < 0 else self.embed(self.plain, self.coordinates, fold)
        others = slice(None) if fold < 0 else np.flatnonzero(self.folds != fold)
        Z = self.embed(plain, coordinates, fold)
        given = Z, voters[others], self.target.values(others), self.target.weights[others]
        results = [current_engine().vote_means(*given)]
        if self.line is not None:
            line = self.line if fold < 0 else self.lines[fold]
            results.append(line.predict(self.encoder.encoded(plain), self.target.n_classes))
        if self.tree_rows is not None:
            results.append(self.trees(fold).predict(plain, self.target.n_classes))
        return results

    def predict(self, plain: FloatArray, coordinates: RealArray | None, fold: int = -1) -> FloatArray:
        """Return the probabilities of classes, or the numbers in a column, of the mixture."""
        return mixed(self.experts(plain, coordinates, fold), self.used_weights, self.target)

    @property
    def used_weights(self) -> list[float]:
        """The weights of the experts that there are."""
        there = True, self.line is not None, self.tree_rows is not None
        return [weight for weight, used in zip(self.weights, there, strict=True) if used]

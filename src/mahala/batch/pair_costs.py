"""Sums over similar and dissimilar pairs, which are all pairs of labelled rows or given ones, and their gradients."""

from typing import Any, Literal

import numpy as np

from mahala.batch.triplets import rows_in_shared_classes
from mahala.batch.whitening import mean_square
from mahala.comparisons import Pairs
from mahala.comparisons.pairs import draw_pairs
from mahala.compiled.sums.pair_sums import sum_edges, within_factors
from mahala.engine import current_engine
from mahala.engine.cores import Cores
from mahala.engine.inputs import gathered
from mahala.engine.moments import class_means, scatter
from mahala.learner import LabelledRows
from mahala.support.arrays import FloatArray, IndexArray, RealArray, check_room
from mahala.support.tags import TagSets

Cost = tuple[float, Any]  # a sum, and half of its gradient with respect to the rows


class AllPairs:
    """Sums over all pairs of labelled rows z, with the product of their weights; pairs of one class are similar."""

    def __init__(self, codes: IndexArray, weights: FloatArray | None = None) -> None:
        self._codes = codes
        self._weights = None if weights is None else weights / weights.mean()  # scaled to a mean of 1
        self.engine = current_engine()

    def similar(self, Z: Any) -> Cost:
        """Σ ‖z_i - z_j‖² over the similar pairs, with their weights."""
        return self.engine.within(Z, self._codes, self._weights)

    def dissimilar(self, Z: Any, coefficients: tuple[float, float, float], cutoff: float) -> Cost:
        """Σ a + b d_ij + c d_ij² over the dissimilar pairs with a distance d_ij below the cutoff."""
        return self.engine.between(Z, self._codes, (*coefficients, cutoff), self._weights)

    def scatter(self, X: RealArray) -> FloatArray:
        """Σ v vᵀ over the similar pairs, v = x_i - x_j."""
        codes, weights = self._codes, self._weights
        return scatter(X, codes, class_means(X, codes, weights), within_factors(codes, weights))

    def mean_dissimilar(self, Z: Any) -> float:
        """The mean of ‖z_i - z_j‖² over the dissimilar pairs."""
        sizes = np.bincount(self._codes, self._weights)
        # All pairs are those of a single class.
        total, _ = self.engine.within(Z, np.zeros_like(self._codes), self._weights)
        return max(total - self.similar(Z)[0], 0.0) / float(sizes @ (sizes.sum() - sizes) / 2)


class GivenPairs:
    """The sums of `AllPairs`, over given pairs."""

    def __init__(self, pairs: Pairs) -> None:
        similar = pairs.similar
        assert similar is not None, "fit requires labels"
        self._similar = pairs.left[similar], pairs.right[similar]
        self._dissimilar = pairs.left[~similar], pairs.right[~similar]
        self.engine = Cores()

    def similar(self, Z: RealArray) -> Cost:
        return sum_edges(Z, *self._similar, (0.0, 0.0, 1.0, np.inf))

    def dissimilar(self, Z: RealArray, coefficients: tuple[float, float, float], cutoff: float) -> Cost:
        return sum_edges(Z, *self._dissimilar, (*coefficients, cutoff))

    def scatter(self, X: RealArray) -> FloatArray:
        return len(self._similar[0]) * mean_square(X, *self._similar)

    def mean_dissimilar(self, Z: RealArray) -> float:
        far, _ = self.dissimilar(Z, (0.0, 0.0, 1.0), np.inf)
        return far / max(1, len(self._dissimilar[0]))


def as_pairs(
    data: LabelledRows | Pairs,
    n_pairs: Literal["auto"] | int,
    rng: np.random.Generator,
    *,
    balance: float | None = None,
    at_most: bool = False,
) -> Pairs:
    """Return given pairs, or pairs that are drawn of labelled rows, over rows in memory."""
    if isinstance(data, Pairs):
        return data
    left, right, similar = draw_pairs(data.labels, n_pairs, balance, rng, name="n_pairs", at_most=at_most)
    return Pairs._build(*gathered(data.X, left, right), similar)


def drawn(data: LabelledRows | Pairs, n_pairs: Literal["auto"] | int, rng: np.random.Generator) -> LabelledRows | Pairs:
    """Draw at most n_pairs pairs of labelled rows; return given pairs unchanged.

    For "auto" return labelled rows, and all the pairs of rows with tags, without a draw.
    """
    if not isinstance(n_pairs, str):
        return as_pairs(data, n_pairs, rng, at_most=True)
    return data if isinstance(data, Pairs) or not isinstance(data.labels, TagSets) else all_pairs(data.X, data.labels)


def all_pairs(X: RealArray, tags: TagSets) -> Pairs:
    """Return all pairs of rows with tags."""
    rows_in_shared_classes(tags)
    n = len(tags)
    check_room(40.0 * n * n / 2, None, f"all pairs of {n} rows with tags", "give n_pairs")
    left, right = np.triu_indices(n, 1)
    return Pairs._build(X, left, right, tags.similar(left, right))


def pair_costs(data: LabelledRows | Pairs) -> AllPairs | GivenPairs:
    """Return the sums over the given pairs, or over all pairs of labelled rows."""
    return GivenPairs(data) if isinstance(data, Pairs) else AllPairs(data.codes, data.weights)

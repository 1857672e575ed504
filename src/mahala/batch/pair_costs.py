"""What objectives about similar and dissimilar pairs are made of, over all pairs of labelled rows or given ones."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mahala.batch.batch_learner import Given, Rows
from mahala.batch.run import Floats
from mahala.comparisons import Pairs, Triplets
from mahala.comparisons.sampling import draw_pairs
from mahala.compiled.pair_sums import sum_between, sum_edges
from mahala.learner import CHUNK_ELEMENTS

Cost = tuple[float, Floats]  # a sum, and its pull on the rows: half of its gradient
Scatter = NDArray[np.float64]


class PairCosts(Protocol):
    """Sums over similar and over dissimilar pairs of rows z."""

    def similar(self, Z: Floats) -> Cost:
        """Σ ‖z_i - z_j‖² over the similar pairs."""

    def dissimilar(self, Z: Floats, coefficients: tuple[float, float, float], cutoff: float) -> Cost:
        """Σ a + b d_ij + c d_ij² over the dissimilar pairs with a distance d_ij below the cutoff."""

    def scatters(self, X: Floats) -> tuple[Scatter, float, int]:
        """Σ v vᵀ over the similar pairs, Σ ‖v‖² over the dissimilar ones, and how many of these there are."""


class AllPairs:
    """All pairs of labelled rows; those of one class are similar."""

    def __init__(self, codes: NDArray[np.intp]) -> None:
        self._codes = codes
        self._sizes = np.bincount(codes)

    def similar(self, Z: Floats) -> Cost:
        # Of n points with mean μ the pairs' squared distances sum to n Σ ‖z - μ‖².
        residuals = self._residuals(Z)
        pull = residuals * self._sizes[self._codes].astype(Z.dtype)[:, None]
        return float(np.einsum("ij,ij->", pull, residuals, dtype=np.float64)), pull

    def dissimilar(self, Z: Floats, coefficients: tuple[float, float, float], cutoff: float) -> Cost:
        return sum_between(Z, self._codes, coefficients, cutoff)

    def scatters(self, X: Floats) -> tuple[Scatter, float, int]:
        residuals = self._residuals(X)
        sizes = self._sizes[self._codes].astype(X.dtype)[:, None]
        within = ((residuals * sizes).T @ residuals).astype(np.float64)
        n = len(X)
        total = n * float(np.square(X - X.mean(axis=0)).sum(dtype=np.float64))
        return within, max(total - float(np.trace(within)), 0.0), (n * n - int(self._sizes @ self._sizes)) // 2

    def _residuals(self, Z: Floats) -> Floats:
        means = np.zeros((len(self._sizes), Z.shape[1]), dtype=np.float64)
        np.add.at(means, self._codes, Z)
        residuals: Floats = Z - (means / self._sizes[:, None]).astype(Z.dtype)[self._codes]
        return residuals


class GivenPairs:
    """The pairs as they are given."""

    def __init__(self, pairs: Pairs) -> None:
        similar = pairs.similar
        assert similar is not None, "the base has seen to labels"
        self._similar = pairs.left[similar], pairs.right[similar]
        self._dissimilar = pairs.left[~similar], pairs.right[~similar]

    def similar(self, Z: Floats) -> Cost:
        return sum_edges(Z, *self._similar, (0.0, 0.0, 1.0), np.inf)

    def dissimilar(self, Z: Floats, coefficients: tuple[float, float, float], cutoff: float) -> Cost:
        return sum_edges(Z, *self._dissimilar, coefficients, cutoff)

    def scatters(self, X: Floats) -> tuple[Scatter, float, int]:
        left, right = self._similar
        within = np.zeros((X.shape[1], X.shape[1]))
        block = max(1, CHUNK_ELEMENTS // X.shape[1])
        for start in range(0, len(left), block):
            v = X[left[start : start + block]] - X[right[start : start + block]]
            within += v.T @ v
        far, _ = self.dissimilar(X, (0.0, 0.0, 1.0), np.inf)
        return within, far, len(self._dissimilar[0])


def drawn(given: Given, n_pairs: int | None, rng: np.random.Generator) -> Rows | Pairs:
    """Pairs as they are given; of labelled rows n_pairs drawn ones, or as many as there are, or None for all pairs."""
    assert not isinstance(given, Triplets)
    if isinstance(given, Pairs) or n_pairs is None:
        return given
    return Pairs._build(given.X, *draw_pairs(given.codes, n_pairs, None, rng, name="n_pairs", at_most=True))


def pair_costs(given: Rows | Pairs) -> PairCosts:
    return GivenPairs(given) if isinstance(given, Pairs) else AllPairs(given.codes)

"""Sums over similar and dissimilar pairs, which are all pairs of labelled rows or given ones, and their gradients."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from mahala.batch.batch_learner import TrainingData
from mahala.comparisons import Pairs, Triplets
from mahala.comparisons.sampling import draw_pairs
from mahala.compiled.pair_sums import residuals, sum_edges
from mahala.engine import current_engine
from mahala.engine.cores import Cores
from mahala.learner import LabelledRows
from mahala.support.arrays import FloatArray, IndexArray, RealArray
from mahala.support.rows import row_blocks
from mahala.support.threads import transposed_product

Cost = tuple[float, Any]  # a sum, and half of its gradient with respect to the rows


class AllPairs:
    """Sums over all pairs of labelled rows z; pairs of one class are similar."""

    def __init__(self, codes: IndexArray) -> None:
        self._codes = codes
        self.engine = current_engine()

    def similar(self, Z: Any) -> Cost:
        """Σ ‖z_i - z_j‖² over the similar pairs."""
        return self.engine.within(Z, self._codes)

    def dissimilar(self, Z: Any, coefficients: tuple[float, float, float], cutoff: float) -> Cost:
        """Σ a + b d_ij + c d_ij² over the dissimilar pairs with a distance d_ij below the cutoff."""
        return self.engine.between(Z, self._codes, coefficients, cutoff)

    def scatters(self, X: RealArray) -> tuple[FloatArray, float, int]:
        """Σ v vᵀ over the similar pairs, Σ ‖v‖² over the dissimilar ones, and the number of dissimilar pairs."""
        sizes = np.bincount(self._codes)
        left = residuals(X, self._codes)
        within = transposed_product(left * sizes[self._codes].astype(X.dtype)[:, None], left).astype(np.float64)
        n = len(X)
        total = n * float(np.square(X - X.mean(axis=0)).sum(dtype=np.float64))
        return within, max(total - float(np.trace(within)), 0.0), (n * n - int(sizes @ sizes)) // 2


class GivenPairs:
    """The sums of `AllPairs`, over given pairs."""

    def __init__(self, pairs: Pairs) -> None:
        similar = pairs.similar
        assert similar is not None, "fit requires labels"
        self._similar = pairs.left[similar], pairs.right[similar]
        self._dissimilar = pairs.left[~similar], pairs.right[~similar]
        self.engine = Cores()

    def similar(self, Z: RealArray) -> Cost:
        return sum_edges(Z, *self._similar, (0.0, 0.0, 1.0), np.inf)

    def dissimilar(self, Z: RealArray, coefficients: tuple[float, float, float], cutoff: float) -> Cost:
        return sum_edges(Z, *self._dissimilar, coefficients, cutoff)

    def scatters(self, X: RealArray) -> tuple[FloatArray, float, int]:
        left, right = self._similar
        within = np.zeros((X.shape[1], X.shape[1]))
        for block in row_blocks(len(left), X.shape[1]):
            v = X[left[block]] - X[right[block]]
            within += v.T @ v
        far, _ = self.dissimilar(X, (0.0, 0.0, 1.0), np.inf)
        return within, far, len(self._dissimilar[0])


def drawn(data: TrainingData, n_pairs: Literal["auto"] | int, rng: np.random.Generator) -> LabelledRows | Pairs:
    """Draw at most n_pairs pairs of labelled rows; return given pairs, and for "auto" the labelled rows, unchanged."""
    assert not isinstance(data, Triplets)
    if isinstance(data, Pairs) or isinstance(n_pairs, str):
        return data
    return Pairs._build(data.X, *draw_pairs(data.codes, n_pairs, None, rng, name="n_pairs", at_most=True))


def pair_costs(data: LabelledRows | Pairs) -> AllPairs | GivenPairs:
    """Return the sums over the given pairs, or over all pairs of labelled rows."""
    return GivenPairs(data) if isinstance(data, Pairs) else AllPairs(data.codes)

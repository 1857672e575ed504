"""LMNN's objective on triplets, as a function of the mapped rows."""

from __future__ import annotations

import numpy as np

from mahala.comparisons import Triplets
from mahala.compiled.sums.lmnn import hinges_of_triplets
from mahala.engine.row_hinges import add_pull, best_scale, squared_distances
from mahala.support.arrays import FloatArray, RealArray


class TripletHinges:
    """LMNN's objective on given triplets."""

    def __init__(self, triplets: Triplets, mu: float) -> None:
        n, count = triplets.X.shape[0], len(triplets)
        # The distinct edges (anchor, positive), which are pulled together, come first.
        pulled, near = np.unique(triplets.anchor * n + triplets.positive, return_inverse=True)
        pushed, far = np.unique(triplets.anchor * n + triplets.negative, return_inverse=True)
        self._near, self._far = near.reshape(count), far.reshape(count) + len(pulled)
        self._left, self._right = np.divmod(np.concatenate([pulled, pushed]), n)
        self._n_pulled, self._mu = len(pulled), mu

    def __call__(self, Z: RealArray, smoothing: float) -> tuple[float, float, RealArray]:
        """Return the objective with smoothed hinges, with plain hinges, and half the gradient of the first one."""
        squared = self._squared(Z)
        weights = np.zeros(len(squared))
        weights[: self._n_pulled] = 1.0 - self._mu
        smooth, plain = hinges_of_triplets(self._near, self._far, squared, self._mu, smoothing, weights)
        out = np.zeros_like(Z)
        add_pull(Z, self._left, self._right, weights, out)
        pull = (1.0 - self._mu) * float(squared[: self._n_pulled].sum())
        return pull + self._mu * smooth, pull + self._mu * plain, out

    def _squared(self, Z: RealArray) -> FloatArray:
        return squared_distances(Z, self._left, self._right)

    def best_scale(self, Z: RealArray) -> float:
        """Return the factor of squared distances, of a coarse grid, that minimises the objective."""
        squared = self._squared(Z)
        gaps = squared[self._far] - squared[self._near]
        return best_scale(float(squared[: self._n_pulled].sum()), gaps, self._mu)

"""Explanation: the contributions to one distance or similarity."""

from dataclasses import dataclass

import numpy as np

from mahala.support.arrays import FloatArray
from mahala.support.parameters import WholeNumber, check_value


@dataclass(frozen=True, eq=False)
class Explanation:
    """The contributions of features and of directions to a squared distance (bilinear metric: to a similarity).

    Attributes
    ----------
    distance : float, the squared distance or the similarity, to which `features` and `directions` sum
    features : array or None, `v_i (M v)_i` with `v = x - x2` for each feature (bilinear: `x_i (M x2)_i`); None under a
        kernel, which leaves no share to a single feature
    directions : array or None, `λ_j (u_jᵀ v)²` for each eigenvector (bilinear: `σ_j (u_jᵀ x) (v_jᵀ x2)`), in the order
        of `Metric.spectrum`; None if M is sparse, because they are not computed then
    feature_names : tuple of str or None
    """

    distance: float
    features: FloatArray | None
    directions: FloatArray | None
    feature_names: tuple[str, ...] | None

    def top(self, n: int = 10) -> list[tuple[str, float]]:
        """Return the n contributions of largest magnitude: of features if there are any, otherwise of directions."""
        check_value(n, "n", WholeNumber)
        if self.features is not None and self.feature_names is not None:
            values, names = self.features, self.feature_names
        elif self.directions is not None:
            values, names = self.directions, tuple(f"direction {j}" for j in range(len(self.directions)))
        else:
            return []
        order = np.argsort(-np.abs(values), kind="stable")[:n]
        return [(names[i], float(values[i])) for i in order]

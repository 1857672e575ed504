"""Coordinates in which descent is well-conditioned: they change no objective, and forget the scale of features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mahala.batch.pair_costs import Scatter
from mahala.batch.run import Floats, Model
from mahala.batch.starts import Init, first_components
from mahala.metric import Metric


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Rows x' = Pᵀ(x - mean), and what is learned there: L' of L = L'Pᵀ, or a' of L = diag(a' p) where P = diag(p).

    In them the scatter of the similar pairs, its eigenvalues raised to the floor, is `unit` times the identity.
    """

    X: Floats
    P: Floats
    inverse: Floats  # L' = L @ inverse, a' = a * inverse
    unit: float

    @property
    def diagonal(self) -> bool:
        return self.P.ndim == 1

    def map(self, variables: Floats) -> Floats:
        """The rows under L', or a'."""
        return self.X * variables if self.diagonal else self.X @ variables.T

    def gradient(self, pull: Floats) -> Floats:
        """The gradient with respect to L', or a', of a sum that pulls so at the mapped rows."""
        return 2.0 * (np.einsum("ij,ij->j", pull, self.X) if self.diagonal else pull.T @ self.X)

    def to_model(self, variables: Floats) -> Model:
        return {"w": np.square(variables * self.P)} if self.diagonal else {"L": variables @ self.P.T}

    def start(
        self,
        init: Init,
        n_components: int | None,
        codes: NDArray[np.intp] | None,
        rng: np.random.Generator,
        warm: Model | None,
    ) -> tuple[Floats, bool]:
        """The first L', or a', and whether its scale means something: it comes from a model, not from a name."""
        given = isinstance(init, Metric) or warm is not None
        if not self.diagonal:
            L = first_components(init, n_components, self.X, codes, rng, warm)
            return (L @ self.inverse if given else L), given
        if warm is not None:
            return np.sqrt(warm["w"]).astype(self.X.dtype) * self.inverse, True
        if isinstance(init, Metric):
            first_components(init, None, self.X, codes, rng)  # refuses what does not fit
            diagonal = np.maximum(init.matrix.diagonal(), 0.0)
            return (diagonal**0.5).astype(self.X.dtype) * self.inverse, True
        if init == "random":
            return np.array(rng.uniform(0.5, 1.5, size=self.X.shape[1]), dtype=self.X.dtype), False
        return np.ones(self.X.shape[1], dtype=self.X.dtype), False


def standardised(X: Floats) -> tuple[Floats, Floats]:
    """The rows centred with features of variance one, and the factors that made them so: 0 where all are equal."""
    centred = X - X.mean(axis=0, dtype=np.float64).astype(X.dtype)
    largest = np.abs(centred).max(axis=0)
    safe = np.where(largest > 0.0, largest, 1.0).astype(X.dtype)
    # Scaled by the largest first, so that no square overflows or vanishes.
    deviations = safe * np.sqrt(np.square(centred / safe).mean(axis=0, dtype=np.float64))
    # What rounding of the mean leaves of a constant feature is no feature.
    noise = 4.0 * np.finfo(X.dtype).eps * np.abs(X).max(axis=0)
    factors = np.where(deviations > noise, 1.0 / np.where(deviations > 0.0, deviations, 1.0), 0.0).astype(X.dtype)
    return centred * factors, factors


def whitened(scaled: Floats, factors: Floats, within: Scatter, floor: float, *, diagonal: bool) -> Coordinates:
    """Coordinates of standardised rows in which `within`, their similar pairs' scatter, is the same in all directions.

    Its eigenvalues are first raised to `floor` times their mean.
    """
    dtype = scaled.dtype
    values, vectors = (within.diagonal(), None) if diagonal else np.linalg.eigh(within)
    unit = float(values.mean())
    roots = np.sqrt(np.maximum(values / unit, floor)) if unit > 0.0 else np.ones(len(values))
    back = np.divide(1.0, factors, out=np.zeros(len(factors)), where=factors > 0.0)
    if vectors is None:
        P, inverse = 1.0 / roots, roots
        return Coordinates(scaled * P.astype(dtype), (factors * P).astype(dtype), (back * inverse).astype(dtype), unit)
    P, inverse = vectors / roots, vectors * roots
    return Coordinates(
        scaled @ P.astype(dtype), (factors[:, None] * P).astype(dtype), (back[:, None] * inverse).astype(dtype), unit
    )

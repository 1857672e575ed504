"""Linear maps that whiten rows, and the coordinates they give, in which descent is well-conditioned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import eigh

from mahala.batch.run import Model
from mahala.compiled.threads import product, transposed_product
from mahala.engine import Engine
from mahala.engine.cores import Cores
from mahala.engine.dask_moments import scatter
from mahala.support.arrays import BoolArray, FloatArray, RealArray, row_blocks
from mahala.support.dask_rows import in_memory
from mahala.support.tensors import is_dask

_EPS = float(np.finfo(np.float64).eps)

# Share of the largest variance that `row_coordinates` adds to every variance: directions with less are mostly noise.
RIDGE = 1e-2


def whiten_within(within: FloatArray, total: FloatArray, floor: float) -> tuple[FloatArray, FloatArray]:
    """Return L with L within Lᵀ = I, and the variances t with L total Lᵀ = diag(t), the largest first.

    Eigenvalues of `within` below `floor` times the largest are raised to it; if all are zero, the largest eigenvalue
    of `total` replaces the largest of `within`. Directions in which `total` is zero up to rounding are left out.
    """
    variances, directions = eigh(total)
    rounding = 4.0 * len(total) * _EPS
    kept = variances > rounding * variances[-1]
    variances, directions = variances[kept], directions[:, kept]
    inner, rotation = eigh(directions.T @ within @ directions)
    # Equal rows differ from their mean by rounding.
    largest = inner[-1] if inner[-1] > 100.0 * _EPS**2 * variances[-1] else variances[-1]
    roots = np.sqrt(np.maximum(inner, max(floor, rounding) * largest))
    # Singular values are more accurate for small variances than eigenvalues of a product.
    axes, deviations, _ = np.linalg.svd((rotation / roots).T * np.sqrt(variances), full_matrices=False)
    return (axes.T / roots) @ rotation.T @ directions.T, deviations**2


def whiten_varying(covariance: FloatArray, tol: float) -> FloatArray:
    """Return L with L covariance Lᵀ = I, without features and directions whose variance is zero up to `tol`."""
    deviations = np.sqrt(covariance.diagonal())
    deviations[deviations <= tol] = np.inf
    # Eigenvalues of correlations, so that a feature of small variance is not mistaken for rounding.
    values, vectors = np.linalg.eigh(covariance / np.outer(deviations, deviations))
    kept = values > tol
    L: FloatArray = (vectors[:, kept] / np.sqrt(values[kept])).T / deviations
    return L


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Rows x' = Pᵀ(x - mean), in which L' or a' is learned: L = L'Pᵀ, or L = diag(a' p) if P = diag(p).

    They change no objective, only the path that descent takes. In `pair_coordinates` the scatter of the similar pairs,
    with its eigenvalues raised to the floor, is `unit` times the identity.
    """

    X: RealArray
    P: RealArray
    inverse: RealArray  # L' = L @ inverse, a' = a * inverse
    unit: float = 1.0
    engine: Engine = Cores()  # noqa: RUF009  (it has no state)

    @cached_property
    def _rows(self) -> Any:
        return self.engine.place(self.X)

    @property
    def diagonal(self) -> bool:
        return self.P.ndim == 1

    def map(self, variables: RealArray) -> Any:
        """Map the rows by L' or a', to an array of the engine."""
        return self.engine.map(self._rows, variables)

    def gradient(self, pull: Any) -> RealArray:
        """Return the gradient with respect to L' or a', given half the gradient with respect to the mapped rows."""
        return 2.0 * self.engine.gradient(pull, self._rows, diagonal=self.diagonal)

    def to_model(self, variables: RealArray) -> Model:
        return {"w": np.square(variables * self.P)} if self.diagonal else {"L": product(variables, self.P.T)}


def divided_by_largest(X: RealArray) -> tuple[RealArray, float]:
    """Return X less its first row, divided by the largest absolute value, and that value: 0 if all rows are equal."""
    shifted = X - in_memory(X[0])
    high, low = in_memory(shifted.max(), shifted.min())
    largest = max(float(high), -float(low))
    shifted /= X.dtype.type(largest or 1.0)
    return shifted, largest


def standardised(X: RealArray, weights: FloatArray | None = None) -> tuple[RealArray, RealArray]:
    """Return the rows centred and scaled to features of variance one, and the factors: 0 for constant features."""

    def mean(A: RealArray) -> FloatArray:
        if weights is not None:
            return np.average(A, axis=0, weights=weights)
        found: FloatArray = in_memory(A.mean(axis=0, dtype=np.float64))
        return found

    centred = X - mean(X).astype(X.dtype)
    largest = in_memory(np.abs(centred).max(axis=0))
    safe = np.where(largest > 0.0, largest, 1.0).astype(X.dtype)
    # Divided by the largest first, so that no square overflows or underflows.
    deviations = safe * np.sqrt(mean(np.square(centred / safe)))
    # A constant feature, or one that is nearly so, may differ from its mean by rounding.
    low, high = in_memory(X.min(axis=0), X.max(axis=0))
    noise = np.where(low == high, np.inf, 4.0 * np.finfo(X.dtype).eps * np.maximum(np.abs(low), np.abs(high)))
    factors = np.where(deviations > noise, 1.0 / np.where(deviations > 0.0, deviations, 1.0), 0.0).astype(X.dtype)
    return centred * factors, factors


def constant(X: RealArray) -> BoolArray:
    """Return which features have one value in all rows."""
    low, high = in_memory(X.min(axis=0), X.max(axis=0))
    return np.asarray(low == high)


def pair_coordinates(
    scaled: RealArray, factors: RealArray, within: FloatArray, floor: float, engine: Engine, *, diagonal: bool
) -> Coordinates:
    """Return coordinates of `standardised` rows in which the scatter `within` of similar pairs is isotropic.

    Its eigenvalues are first raised to `floor` times their mean.
    """
    dtype = scaled.dtype
    values, vectors = (within.diagonal(), None) if diagonal else np.linalg.eigh(within)
    unit = float(values.mean())
    roots = np.sqrt(np.maximum(values / unit, floor)) if unit > 0.0 else np.ones(len(values))
    back = np.divide(1.0, factors, out=np.zeros(len(factors)), where=factors > 0.0)
    if vectors is None:
        P, inverse = 1.0 / roots, roots
        rows = scaled * P.astype(dtype)
    else:
        # Symmetric, so that eigenvectors of equal values, of which rounding chooses, do not matter.
        P, inverse = (vectors / roots) @ vectors.T, (vectors * roots) @ vectors.T
        rows = product(scaled, P.astype(dtype))
        factors, back = factors[:, None], back[:, None]
    return Coordinates(rows, (factors * P).astype(dtype), (back * inverse).astype(dtype), unit, engine)


def row_coordinates(X: RealArray, engine: Engine) -> Coordinates:
    """Return coordinates in which the rows are nearly white, without directions of no variance."""
    n, d = X.shape
    mean, low, high = in_memory(X.mean(axis=0, dtype=np.float64), X.min(axis=0), X.max(axis=0))
    blocks = list(row_blocks(n, d))
    # Smaller deviations are rounding of the mean.
    least = 1e-14 * np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
    if is_dask(X):
        scale = np.sqrt(in_memory(np.square(X - mean).mean(axis=0)))
    else:
        scale = np.sqrt(sum(np.square(X[block] - mean).sum(axis=0) for block in blocks) / n)
    scale[(scale <= least) | (low == high)] = 0.0
    inverse = np.divide(1.0, scale, out=np.zeros(d), where=scale > 0.0)
    if is_dask(X):
        one_class = np.zeros(n, dtype=np.intp)
        variances, V = np.linalg.eigh(scatter((X - mean) * inverse, one_class, np.zeros((1, d)), np.ones(1)) / n)
    elif n < d:
        _, lengths, axes = np.linalg.svd((X - mean) * inverse, full_matrices=False)
        variances, V = np.square(lengths) / n, axes.T
    else:
        covariance = np.zeros((d, d))
        for block in blocks:
            rows = (X[block] - mean) * inverse
            covariance += transposed_product(rows, rows)
        variances, V = np.linalg.eigh(covariance / n)
    kept = variances > max(n, d) * _EPS * variances.max()
    if not kept.any():
        raise ValueError("X must have rows that differ, but all its rows are equal")
    lengths = np.sqrt(variances[kept] + RIDGE * variances.max())
    P = V[:, kept] / lengths * inverse[:, None]
    if is_dask(X):
        white: Any = ((X - mean) @ P).astype(X.dtype)
    else:
        white = np.empty((n, P.shape[1]), dtype=X.dtype)
        for block in blocks:
            white[block] = product(X[block] - mean, P)
    return Coordinates(white, P, V[:, kept] * lengths * scale[:, None], engine=engine)

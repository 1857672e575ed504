"""Covariances, linear maps that whiten rows, and coordinates in which descent is well-conditioned."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh

from mahala.batch.run import Model
from mahala.compiled.threads import product, transposed_product
from mahala.data.scaling import in_one_unit
from mahala.engine import Engine
from mahala.engine.cores import Cores
from mahala.engine.inputs import apply_to_rows, computed
from mahala.engine.moments import class_means, rows_times, scatter, sum_over_rows
from mahala.support.arrays import BoolArray, FloatArray, IndexArray, RealArray, check_matrices, row_blocks

_EPS = float(np.finfo(np.float64).eps)

# Share of the largest variance that `row_coordinates` adds to every variance: directions with less are mostly noise.
RIDGE = 1e-2
# A smaller variance of standardised rows is rounding.
_SAME = 1e-10
# A variance of less than this share of a typical feature's is minor where the units of the features matter.
MINOR = 1e-5
# Features with a smaller range count as constant, because their weights could overflow.
SMALLEST_RANGE = 1e-80


class Covariances(NamedTuple):
    """Covariances of the features that vary, in units of their standard deviation `spread`.

    Row g of `offsets` is the mean of group g less the mean of all rows, times the square root of the group's size, the
    sum of its weights.
    """

    within: FloatArray
    total: FloatArray
    offsets: FloatArray
    varies: BoolArray
    spread: FloatArray

    def in_features(self, L: FloatArray) -> FloatArray:
        """Convert a map from these units to one from all features, with weight 0 for constant ones."""
        result = np.zeros((len(L), len(self.varies)))
        result[:, self.varies] = L / self.spread
        return result


def covariances(X: RealArray, groups: IndexArray, weights: FloatArray | None = None) -> Covariances:
    """Return the covariances around the mean of each group and around the mean of all rows, computed in float64.

    The groups are numbered from 0 without gaps. Groups of one row do not count in the covariance within groups; at
    least one group must have two rows. Rows count with their weights, as if they were repeated so many times: at least
    one group must have a total weight above 1.
    """
    low, high, mean = computed(X.min(axis=0), X.max(axis=0), X.mean(axis=0, dtype=np.float64))
    width, sizes = high.astype(np.float64) - low, np.bincount(groups, weights).astype(np.float64)
    varies = width > 0.0
    # Divided by their range, so that squares neither overflow nor underflow.
    Z = (X[:, varies] - mean[varies]) / width[varies]
    means = class_means(Z, groups, weights)
    within = scatter(Z, groups, means, weights)
    roots, n = np.sqrt(sizes), sizes.sum()
    means -= sizes @ means / n
    means *= roots[:, None]
    total = (within + means.T @ means) / n
    deviation = np.sqrt(total.diagonal())
    units = np.outer(deviation, deviation)
    within = within / sizes[sizes > 1.0].sum() / units
    return Covariances(within, total / units, means / deviation, varies, deviation * width[varies])


def whiten_within(within: FloatArray, total: FloatArray, floor: float) -> tuple[FloatArray, FloatArray]:
    """Return L with L within Lᵀ = I, and the variances t with L total Lᵀ = diag(t), the largest first.

    Eigenvalues of `within` below `floor` times the largest are raised to it; if all are zero, the largest eigenvalue
    of `total` replaces the largest of `within`. Directions in which `total` is zero up to rounding are left out.
    """
    variances, directions = eigh(total)
    rounding = 4.0 * len(total) * _EPS
    varying = variances > rounding * variances[-1]
    variances, directions = variances[varying], directions[:, varying]
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
    positive = values > tol
    return np.asarray((vectors[:, positive] / np.sqrt(values[positive])).T / deviations)


def mean_square(Z: RealArray, left: IndexArray, right: IndexArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the mean of w v vᵀ, v = z_left - z_right, with all weights w one by default; zeros without pairs."""
    d = Z.shape[1]
    check_matrices(4, d, d)
    total = np.zeros((d, d))
    for block in row_blocks(len(left), d):
        v = Z[left[block]] - Z[right[block]]
        total += transposed_product(v, v if weights is None else weights[block, None] * v)
    return total / max(len(left), 1)


def constant(X: RealArray) -> BoolArray:
    """Return which features have one value in all rows."""
    low, high = computed(X.min(axis=0), X.max(axis=0))
    return np.asarray(low == high)


def check_varies(X: RealArray) -> None:
    """Raise ValueError if all rows are equal."""
    if constant(X).all():
        raise ValueError("X must have rows that differ, but all its rows are equal")


def smallest_variance(X: RealArray) -> tuple[float, FloatArray]:
    """Return the smallest variance that is not minor in the units of the features, and those of the features.

    It is a share of one that at least half of the varying features have: a single feature of huge values is no measure.
    """
    variances = computed(X.var(axis=0, dtype=np.float64))
    varying = variances[variances > 0.0]
    return (MINOR * float(np.quantile(varying, 0.5, method="lower")) if len(varying) else 0.0), variances


def major_features(X: RealArray) -> RealArray:
    """Return the rows with zeros for features of minor variance.

    Directions of length 1 that separate classes would lie along them, and all rows would be nearly equal there.
    """
    least, variances = smallest_variance(X)
    return X * (variances >= least)


def major_directions(X: RealArray) -> FloatArray:
    """Return orthonormal columns: the principal directions without those of minor variance."""
    n, d = X.shape
    mean, (least, _) = computed(X.mean(axis=0, dtype=np.float64)), smallest_variance(X)
    if n < d:  # all rows are smaller than a d × d matrix
        _, lengths, axes = np.linalg.svd(computed(X) - mean, full_matrices=False)
        variances, V = np.square(lengths) / n, axes.T
    else:
        variances, V = np.linalg.eigh(scatter(X, np.zeros(n, dtype=np.intp), mean[None]) / n)
    return np.asarray(V[:, variances > max(least, max(n, d) * _EPS * variances.max())])


def to_unit_range(X: RealArray) -> tuple[RealArray, FloatArray]:
    """Return X with each feature shifted and divided to lie between 0 and 1, and the divisors, infinite if constant."""
    low, high = computed(X.min(axis=0), X.max(axis=0))
    extent = (high - low).astype(np.float64)
    extent[extent < SMALLEST_RANGE] = np.inf
    scaled = X - low
    scaled /= extent.astype(X.dtype)
    return scaled, extent


def divided_by_largest(X: RealArray) -> tuple[RealArray, float]:
    """Return X less its first row, divided by the largest absolute value, and that value: 0 if all rows are equal."""
    shifted = X - computed(X[0])
    high, low = computed(shifted.max(), shifted.min())
    largest = max(float(high), -float(low))
    shifted /= X.dtype.type(largest or 1.0)
    return shifted, largest


def centred(X: RealArray) -> tuple[RealArray, float]:
    """Return X less its mean, divided by a number after which varying features have a mean variance of 1; and it."""
    unit = float(in_one_unit(X, np.ones(X.shape[1]))[0])
    rows = X - computed(X.mean(axis=0, dtype=np.float64)).astype(X.dtype)
    rows /= X.dtype.type(unit)
    return rows, unit


def standardised(X: RealArray, weights: FloatArray | None = None) -> tuple[RealArray, RealArray]:
    """Return the rows centred and scaled to features of variance one, and the factors: 0 for constant features."""

    def mean(A: RealArray) -> FloatArray:
        if weights is not None:
            return np.average(A, axis=0, weights=weights)
        return np.asarray(computed(A.mean(axis=0, dtype=np.float64)))

    centred = X - mean(X).astype(X.dtype)
    largest, low, high = computed(np.abs(centred).max(axis=0), X.min(axis=0), X.max(axis=0))
    safe = np.where(largest > 0.0, largest, 1.0).astype(X.dtype)
    # Divided by the largest first, so that no square overflows or underflows.
    deviations = safe * np.sqrt(mean(np.square(centred / safe)))
    # A constant feature, or one that is nearly so, may differ from its mean by rounding.
    noise = np.where(low == high, np.inf, 4.0 * np.finfo(X.dtype).eps * np.maximum(np.abs(low), np.abs(high)))
    factors = np.where(deviations > noise, 1.0 / np.where(deviations > 0.0, deviations, 1.0), 0.0).astype(X.dtype)
    return centred * factors, factors


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
    engine: Engine[Any] = Cores()  # noqa: RUF009  (it has no state)

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


def pair_coordinates(
    scaled: RealArray, factors: RealArray, within: FloatArray, floor: float, engine: Engine[Any], *, diagonal: bool
) -> Coordinates:
    """Return coordinates of `standardised` rows in which `within`, raised to `floor` times its mean, is isotropic.

    Directions in which no rows differ at all, as those of the 0/1 features of a category, have a weight of zero: any
    other would be arbitrary, and new rows may differ there.
    """
    dtype = scaled.dtype
    values, vectors = (within.diagonal(), None) if diagonal else np.linalg.eigh(within)
    unit = float(values.sum()) / max(1, int(np.count_nonzero(factors)))
    roots = np.sqrt(np.maximum(values / unit, floor)) if unit > 0.0 else np.ones(len(values))
    back = np.divide(1.0, factors, out=np.zeros(len(factors)), where=factors > 0.0)
    if vectors is None:
        P, inverse = 1.0 / roots, roots
        rows = scaled * P.astype(dtype)
    else:
        # Symmetric, so that eigenvectors of equal values, of which rounding chooses, do not matter.
        P, inverse = (vectors / roots) @ vectors.T, (vectors * roots) @ vectors.T
        if unit > 0.0 and floor > 0.0:
            unspanned = _unspanned(scaled, vectors[:, values <= floor * unit])
            P -= unspanned @ unspanned.T / np.sqrt(floor)
            inverse -= unspanned @ unspanned.T * np.sqrt(floor)
        rows = rows_times(scaled, P.astype(dtype))
        factors, back = factors[:, None], back[:, None]
    return Coordinates(rows, (factors * P).astype(dtype), (back * inverse).astype(dtype), unit, engine)


def _unspanned(scaled: RealArray, directions: FloatArray) -> FloatArray:
    """Return orthonormal columns that span those of the directions in which `standardised` rows do not differ."""
    if not directions.shape[1]:
        return directions
    rows = computed(rows_times(scaled, directions.astype(scaled.dtype))).astype(np.float64, copy=False)
    variances, axes = np.linalg.eigh(rows.T @ rows / len(rows))
    unspanned: FloatArray = directions @ axes[:, variances <= _SAME]
    return unspanned


def row_coordinates(X: RealArray, engine: Engine[Any]) -> Coordinates:
    """Return coordinates in which the rows are nearly white, without directions of no variance."""
    n, d = X.shape
    mean, low, high = computed(X.mean(axis=0, dtype=np.float64), X.min(axis=0), X.max(axis=0))
    # Smaller deviations are rounding of the mean.
    least = 1e-14 * np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
    scale = np.sqrt(sum_over_rows(lambda rows: np.square(rows - mean).sum(axis=0), X) / n)
    scale[(scale <= least) | (low == high)] = 0.0
    inverse = np.divide(1.0, scale, out=np.zeros(d), where=scale > 0.0)
    if n < d:  # all rows are smaller than a d × d matrix
        _, lengths, axes = np.linalg.svd((computed(X) - mean) * inverse, full_matrices=False)
        variances, V = np.square(lengths) / n, axes.T
    else:
        covariance = scatter(X, np.zeros(n, dtype=np.intp), mean[None]) / n
        variances, V = np.linalg.eigh(inverse[:, None] * covariance * inverse)
    varying = variances > max(n, d) * _EPS * variances.max()
    if not varying.any():
        raise ValueError("X must have rows that differ, but all its rows are equal")
    lengths = np.sqrt(variances[varying] + RIDGE * variances.max())
    P = V[:, varying] / lengths * inverse[:, None]

    def whitened(rows: RealArray) -> RealArray:
        result = np.empty((len(rows), P.shape[1]), dtype=rows.dtype)
        for block in row_blocks(len(rows), d):
            result[block] = product(rows[block] - mean, P)
        return result

    white = apply_to_rows(whitened, X, P.shape[1])
    return Coordinates(white, P, V[:, varying] * lengths * scale[:, None], engine=engine)

"""Scale features to a unit of their own, or to one unit for all."""

from typing import Any, Literal

import numpy as np

from mahala.engine.inputs import computed
from mahala.support.arrays import BoolArray, FloatArray, Rows, slices
from mahala.support.lazily import sp
from mahala.support.validation import is_sparse

Scaling = Literal["numbers", "standard", "none", "minmax", "robust"]
SCALINGS: tuple[Scaling, ...] = ("numbers", "standard", "none", "minmax", "robust")

# Columns of a sparse table whose quartiles are computed at a time.
_COLUMNS = 256
# A feature with a smaller share of its deviation between the quartiles is nearly constant there.
_NARROW = 0.01


def feature_scales(X: Rows, scaling: Scaling) -> FloatArray:
    """Return the divisor of each feature of valid rows: 1 for "none" and for constant features, else its spread.

    The spread is the standard deviation ("standard"; "numbers" does not divide features of 0 and 1 only, such as those
    of categories, whose rare values would otherwise dominate), the largest value minus the smallest ("minmax"), or the
    distance between the quartiles ("robust"; where that is below 1 % of the standard deviation, as for a feature that
    is mostly zero, the standard deviation). Features are not centred, which would not change distances, so sparse rows
    stay sparse.

    >>> X = np.array([[1.0, 5.0], [3.0, 5.0], [7.0, 5.0]])
    >>> feature_scales(X, "minmax").tolist(), feature_scales(X, "robust").tolist()
    ([6.0, 1.0], [3.0, 1.0])
    """
    if scaling not in SCALINGS:
        raise ValueError(f"scaling must be one of {', '.join(map(repr, SCALINGS))}, got {scaling!r}")
    if scaling == "none":
        return np.ones(X.shape[1])
    if scaling == "minmax":
        ends = computed(X.max(axis=0), X.min(axis=0))
        high, low = (np.asarray(end.todense() if is_sparse(X) else end, dtype=np.float64).ravel() for end in ends)
        scales = high - low
    else:
        scales = _deviation(X)
        if scaling == "robust":
            between = _between_quartiles(X)
            scales = np.where(between > _NARROW * scales, between, scales)
        elif scaling == "numbers":
            scales[binary_features(X)] = 1.0
    scales[scales == 0.0] = 1.0
    return scales


def unit_length(X: Any) -> Any:
    """Return the rows, dense or CSR, or one point, divided by their lengths; rows of zeros stay.

    >>> unit_length(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    from sklearn.preprocessing import normalize

    return normalize(X[np.newaxis])[0] if X.ndim == 1 else normalize(X)


def binary_features(X: Any) -> BoolArray:
    """Return which features are 0 or 1 in all rows; none of sparse rows, whose counts may happen to be 1."""
    if is_sparse(X):
        return np.zeros(X.shape[1], dtype=bool)
    binary: BoolArray = np.asarray(computed(((X == 0) | (X == 1)).all(axis=0)))
    return binary


def in_one_unit(X: Rows, scales: FloatArray) -> FloatArray:
    """Return the scales times a number, after which the features that vary have a mean variance of 1.

    Distances between scaled rows keep their proportions. Learners that start from them, such as NCA, need distances of
    about the size that standardised features give.

    >>> in_one_unit(np.array([[0.0, 0.0], [2.0, 14.0]]), np.ones(2)).tolist()
    [5.0, 5.0]
    """
    deviations = _deviation(X) / scales
    varies = deviations > 0.0
    if not varies.any():
        return scales
    largest = deviations.max()
    return np.asarray(scales * (largest * np.sqrt(np.mean((deviations[varies] / largest) ** 2))))


def learner_scales(X: Rows, scaling: Scaling) -> FloatArray:
    """Return the divisors of `feature_scales`, times a number after which features have a mean variance of 1."""
    scales = feature_scales(X, scaling)
    return scales if scaling == "standard" else in_one_unit(X, scales)


def tried_scalings(X: Rows) -> tuple[Scaling, ...]:
    """Return the scalings to choose from, the usual one first.

    That is "numbers" where some features are 0/1, but not all, and "none" for sparse rows, whose rare features, such as
    words, would otherwise dominate.
    """
    if is_sparse(X):
        return "none", "standard", "minmax", "robust"
    binary = binary_features(X)
    return SCALINGS if binary.any() and not binary.all() else SCALINGS[1:]


def _deviation(X: Any) -> FloatArray:
    """Return the standard deviation of each feature, 0 if the feature is constant."""
    if is_sparse(X):
        X = X.astype(np.float64, copy=False)  # in which squares of float32 numbers do not overflow
        means = np.asarray(X.mean(axis=0)).ravel()
        squares = np.asarray(X.multiply(X).mean(axis=0)).ravel()
        variances = np.maximum(squares - means**2, 0.0)
        # What is left of a constant feature is rounding error.
        variances[variances <= 1e-12 * squares] = 0.0
        deviations: FloatArray = np.sqrt(variances)
    else:
        deviations, low, high = computed(X.std(axis=0, dtype=np.float64), X.min(axis=0), X.max(axis=0))
        deviations[low == high] = 0.0
    return deviations


def _between_quartiles(X: Rows) -> FloatArray:
    """Return the upper quartile of each feature minus the lower one."""
    columns = X.tocsc() if is_sparse(X) else X
    parts = []
    for block in slices(X.shape[1], _COLUMNS):
        part = columns[:, block]
        dense = part.toarray() if is_sparse(part) else np.asarray(part)
        low, high = np.percentile(dense.astype(np.float64, copy=False), [25.0, 75.0], axis=0)
        parts.append(high - low)
    return np.concatenate(parts)


def divided(X: Any, scales: FloatArray) -> Any:
    """Divide each feature of valid rows by its scale."""
    dtype = X.dtype if X.dtype.kind == "f" else np.float64
    if is_sparse(X):
        X = sp.csr_array(X)
        # Not a product with 1 / scales, which overflows for a scale below 1e-308.
        values = (X.data / scales[X.indices]).astype(dtype, copy=False)
        return sp.csr_array((values, X.indices, X.indptr), X.shape)
    return (X / scales).astype(dtype, copy=False)

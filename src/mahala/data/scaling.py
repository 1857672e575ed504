"""Scale features to unit standard deviation."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from mahala.support.arrays import FloatArray
from mahala.support.validation import is_sparse

Scaling = Literal["none", "standard"]


def feature_scales(X: Any, scaling: Scaling) -> FloatArray:
    """Return the divisor of each feature of valid rows: its standard deviation, or 1 if the feature is constant.

    Features are not centred, which would not change distances, so sparse rows stay sparse.

    >>> feature_scales(np.array([[1.0, 5.0], [3.0, 5.0]]), "standard").tolist()
    [1.0, 1.0]
    """
    if scaling not in ("none", "standard"):
        raise ValueError(f"scaling must be 'none' or 'standard', got {scaling!r}")
    if scaling == "none":
        return np.ones(X.shape[1])
    if is_sparse(X):
        X = X.astype(np.float64, copy=False)  # in which squares of float32 numbers do not overflow
        means = np.asarray(X.mean(axis=0)).ravel()
        squares = np.asarray(X.multiply(X).mean(axis=0)).ravel()
        variances = np.maximum(squares - means**2, 0.0)
        # What is left of a constant feature is rounding error.
        variances[variances <= 1e-12 * squares] = 0.0
        scales: FloatArray = np.sqrt(variances)
    else:
        scales = X.std(axis=0, dtype=np.float64)
        scales[X.min(axis=0) == X.max(axis=0)] = 0.0
    scales[scales == 0.0] = 1.0
    return scales


def divided(X: Any, scales: FloatArray) -> Any:
    """Divide each feature of valid rows by its scale."""
    dtype = X.dtype if X.dtype.kind == "f" else np.float64
    if is_sparse(X):
        return sp.csr_array(X @ sp.diags_array(1.0 / scales)).astype(dtype, copy=False)
    return (X / scales).astype(dtype, copy=False)

"""Features of one scale."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mahala.support.validation import check_rows, is_sparse

FloatArray = NDArray[np.float64]
Scaling = Literal["none", "standard"]


def feature_scales(X: Any, scaling: Scaling) -> FloatArray:
    """The number by which each feature is divided: its standard deviation, or one where it is constant.

    Nothing is centred, as distances are about differences; so sparse rows stay sparse.

    >>> feature_scales([[1.0, 5.0], [3.0, 5.0]], "standard").tolist()
    [1.0, 1.0]
    """
    if scaling not in ("none", "standard"):
        raise ValueError(f"scaling must be 'none' or 'standard', got {scaling!r}")
    X = check_rows(X)
    if scaling == "none":
        return np.ones(X.shape[1])
    if is_sparse(X):
        means = np.asarray(X.mean(axis=0)).ravel()
        squares = np.asarray(X.multiply(X).mean(axis=0)).ravel()
        variances = np.maximum(squares - means**2, 0.0)
        # Of a constant feature only rounding is left.
        variances[variances <= 1e-12 * squares] = 0.0
        scales: FloatArray = np.sqrt(variances)
    else:
        scales = X.std(axis=0, dtype=np.float64)
        scales[np.ptp(X, axis=0) == 0.0] = 0.0
    scales[scales == 0.0] = 1.0
    return scales


def divided(X: Any, scales: FloatArray) -> Any:
    """Return checked rows with each feature divided by its scale."""
    dtype = X.dtype if X.dtype.kind == "f" else np.float64
    if is_sparse(X):
        return sp.csr_array(X @ sp.diags_array(1.0 / scales)).astype(dtype, copy=False)
    return (X / scales).astype(dtype, copy=False)

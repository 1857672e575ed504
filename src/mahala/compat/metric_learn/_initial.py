"""First maps, prior matrices and the map of a matrix, with metric-learn's rules and messages."""

import warnings
from typing import Any

import numpy as np
import scipy.linalg
from numpy.linalg import LinAlgError
from sklearn.datasets import make_spd_matrix
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils import check_array, check_random_state

from mahala.compat.metric_learn._util import Random
from mahala.compat.metric_learn.exceptions import NonPSDError
from mahala.support.arrays import Array, FloatArray


def components_from_metric(metric: FloatArray) -> FloatArray:
    """Return L, d × d, with LᵀL the matrix: its root if it is diagonal, else that of Cholesky or of its eigenvalues."""
    if not np.allclose(metric, metric.T):
        raise ValueError("The input metric should be symmetric.")
    diagonal = np.diag(metric)
    if np.array_equal(metric, np.diag(diagonal)):
        _is_definite(diagonal)
        return np.diag(np.sqrt(np.maximum(0.0, diagonal)))
    try:
        return np.asarray(np.linalg.cholesky(metric).T)
    except LinAlgError:
        w, V = np.linalg.eigh(metric)
        _is_definite(w)
        return np.asarray(V.T * np.sqrt(np.maximum(0.0, w[:, None])))


def _is_definite(w: Array) -> bool:
    """Return whether all eigenvalues are above zero but for rounding; raise NonPSDError if one is below it."""
    tol = float(np.abs(w).max() * len(w) * np.finfo(w.dtype).eps)
    if (w < -tol).any():
        raise NonPSDError
    return not (np.abs(w) < tol).any() and bool((w != 0.0).all())


def _check_n_components(n_features: int, n_components: int | None) -> int:
    if n_components is None:
        return n_features
    if 0 < n_components <= n_features:
        return n_components
    raise ValueError(f"Invalid n_components, must be in [1, {n_features}]")


def _initialize_components(
    n_components: int, X: FloatArray, y: Array, init: Any, random_state: Random, has_classes: bool
) -> FloatArray:
    """Return the first linear map."""
    n_samples, n_features = X.shape
    names = ["auto", "pca", "identity", "random"] + ["lda"] * has_classes
    if isinstance(init, np.ndarray):
        init = check_array(init, copy=True)
        if init.shape[1] != n_features:
            raise ValueError(
                f"The input dimensionality ({init.shape[1]}) of the given linear transformation `init` must match the "
                f"dimensionality of the given inputs `X` ({n_features})."
            )
        if init.shape[0] > init.shape[1]:
            raise ValueError(
                f"The output dimensionality ({init.shape[0]}) of the given linear transformation `init` cannot be "
                f"greater than its input dimensionality ({init.shape[1]})."
            )
        if n_components != init.shape[0]:
            raise ValueError(
                f"The preferred dimensionality of the projected space `n_components` ({n_components}) does not match "
                f"the output dimensionality of the given linear transformation `init` ({init.shape[0]})!"
            )
        return np.asarray(init)
    if init not in names:
        options = "', '".join(names)
        raise ValueError(f"`init` must be '{options}' or a numpy array of shape (n_components, n_features).")
    if init == "auto":
        n_classes = len(np.unique(y)) if has_classes else -1
        init = _auto_select_init(has_classes, n_features, n_samples, n_components, n_classes)
    random = check_random_state(random_state)
    if init == "random":
        return np.asarray(random.randn(n_components, n_features))
    if init == "pca":
        return np.asarray(PCA(n_components=n_components, random_state=random).fit(X).components_)
    if init == "lda":
        scalings = LinearDiscriminantAnalysis(n_components=n_components).fit(X, y).scalings_
        return np.asarray(scalings.T[:n_components])
    return np.eye(n_components, n_features)


def _auto_select_init(has_classes: bool, n_features: int, n_samples: int, n_components: int, n_classes: int) -> str:
    if has_classes and n_components <= min(n_features, n_classes - 1):
        return "lda"
    return "pca" if n_components < min(n_features, n_samples) else "identity"


def _initialize_metric_mahalanobis(
    points: FloatArray, init: Any, random_state: Random, matrix_name: str, strict_pd: bool = False
) -> FloatArray:
    """Return a first or prior matrix M for points, or for tuples of them."""
    d, is_array = points.shape[-1], isinstance(init, np.ndarray)
    if not is_array and init not in ("identity", "covariance", "random"):
        raise ValueError(
            f"`{matrix_name}` must be 'identity', 'covariance', 'random' or a numpy array of shape "
            "(n_features, n_features)."
        )
    if not is_array and init != "covariance":
        M = np.eye(d) if init == "identity" else make_spd_matrix(d, random_state=check_random_state(random_state))
        return np.asarray(M)
    if is_array:
        matrix, name = check_array(init, copy=True), matrix_name
        if matrix.shape != (d, d):
            raise ValueError(
                f"The input dimensionality {matrix.shape} of the given mahalanobis matrix `{name}` must match the "
                f"dimensionality of the given inputs ({d})."
            )
        if not np.allclose(matrix, matrix.T):
            raise ValueError(f"`{name}` is not symmetric.")
        problem = f"You should provide a strictly positive definite matrix as `{name}`. This one is not definite."
    else:
        points = np.unique(points.reshape(-1, d), axis=0) if points.ndim == 3 else points
        matrix, name = np.atleast_2d(np.cov(points, rowvar=False)), f"`{matrix_name}`"
        problem = "Unable to get a true inverse of the covariance matrix since it is not definite."
    if not _is_definite(scipy.linalg.eigvalsh(matrix, check_finite=False)):
        if strict_pd:
            advice = f"or an algorithm that does not require the {name} to be strictly positive definite."
            raise LinAlgError(f"{problem} Try another {name}, {advice}")
        if not is_array:
            warnings.warn(
                "The covariance matrix is not invertible: using the pseudo-inverse instead."
                "To make the covariance matrix invertible you can remove any linearly dependent features and/or reduce "
                "the dimensionality of your input, for instance using `sklearn.decomposition.PCA` as a preprocessing "
                "step.",
                stacklevel=2,
            )
    return np.asarray(matrix if is_array else scipy.linalg.pinvh(matrix, check_finite=False))

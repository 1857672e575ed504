"""Checks of points and tuples, first maps and prior matrices, with metric-learn's rules and messages."""

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import scipy.linalg
from numpy.linalg import LinAlgError
from sklearn.datasets import make_spd_matrix
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils import check_array, check_random_state, check_X_y

from mahala.compat.metric_learn.exceptions import NonPSDError, PreprocessorError
from mahala.support.arrays import FloatArray

Preprocessor = Callable[[Any], Any] | None

# What is expected of points and of tuples, without and with a preprocessor.
_EXPECTED = {
    ("classic", False): "2D array of formed points",
    ("classic", True): "1D array of indicators or 2D array of formed points",
    ("tuples", False): "3D array of formed tuples",
    ("tuples", True): "2D array of indicators or 3D array of formed tuples",
}


class ArrayIndexer:
    """A preprocessor that returns rows of an array by their numbers."""

    def __init__(self, X: Any) -> None:
        self.X = _loosely_checked(X)

    def __call__(self, indices: Any) -> Any:
        return self.X[indices]


def make_name(estimator: Any) -> str | None:
    """Return the name of an estimator, or a name that was given instead."""
    return estimator if estimator is None or isinstance(estimator, str) else type(estimator).__name__


def make_context(estimator: Any) -> str:
    """Return " by NAME" for messages, or nothing without an estimator."""
    return "" if estimator is None else f" by {make_name(estimator)}"


def check_input(
    input_data: Any,
    y: Any = None,
    preprocessor: Preprocessor = None,
    type_of_inputs: Literal["classic", "tuples"] = "classic",
    tuple_size: int | None = None,
    estimator: Any = None,
    ensure_min_samples: int = 1,
    ensure_min_features: int = 1,
    **checks: Any,
) -> Any:
    """Return points (2-D) or tuples of points (3-D) as an array, and y if it is given.

    Indicators, with one axis less, are replaced by the points that the preprocessor returns for them.
    """
    if type_of_inputs not in ("classic", "tuples"):
        message = f"Unknown value {type_of_inputs} for type_of_inputs. Valid values are 'classic' or 'tuples'."
        raise ValueError(message)
    y_numeric, multi_output = checks.pop("y_numeric", False), checks.pop("multi_output", False)
    if y is None:
        X = _loosely_checked(input_data)
    else:
        X, y = check_X_y(
            input_data, y, accept_sparse=True, dtype=None, ensure_all_finite=False, ensure_2d=False, allow_nd=True,
            ensure_min_samples=0, ensure_min_features=0, y_numeric=y_numeric, multi_output=multi_output,
            estimator=estimator,
        )  # fmt: skip
    context = make_context(estimator)
    n_axes = 2 if type_of_inputs == "classic" else 3
    formed = _formed(X, n_axes, preprocessor, context)
    checks = {"dtype": "numeric", "ensure_min_samples": ensure_min_samples, "estimator": estimator} | checks
    if n_axes == 2:
        checks["ensure_min_features"] = ensure_min_features
    X = check_array(formed, allow_nd=True, ensure_2d=False, **checks)
    if X.ndim != n_axes:
        raise ValueError(_shape_message(X, n_axes, context, after=True))
    if n_axes == 3:
        _check_tuples(X, tuple_size, ensure_min_features, context)
        if y is not None and X.shape[1] == 2:
            check_y_valid_values_for_pairs(y)
    return X if y is None else (X, y)


def preprocess_points(points: Any, preprocessor: Callable[[Any], Any]) -> Any:
    """Return the points of indicators."""
    try:
        return preprocessor(points)
    except Exception as error:
        raise PreprocessorError(error) from error


def preprocess_tuples(tuples: Any, preprocessor: Callable[[Any], Any]) -> Any:
    """Return the points of tuples of indicators, one position in the tuple after the other."""
    try:
        return np.stack([preprocessor(tuples[:, at]) for at in range(tuples.shape[1])], axis=1)
    except Exception as error:
        raise PreprocessorError(error) from error


def check_y_valid_values_for_pairs(y: Any) -> None:
    """Raise ValueError unless the labels of pairs are +1 and -1."""
    if not np.array_equal(np.abs(y), np.ones_like(y)):
        raise ValueError(
            "When training on pairs, the labels (y) should contain only values in [-1, 1]. Found an incorrect value."
        )


def validate_vector(u: Any, dtype: Any = None) -> Any:
    """Return a point as a 1-D array."""
    u = np.atleast_1d(np.asarray(u, dtype=dtype, order="C").squeeze())
    if u.ndim > 1:
        raise ValueError("Input vector should be 1-D.")
    return u


def components_from_metric(metric: Any, tol: float | None = None) -> FloatArray:
    """Return L, d × d, with LᵀL the matrix: its root if it is diagonal, else that of Cholesky or of its eigenvalues."""
    if not np.allclose(metric, metric.T):
        raise ValueError("The input metric should be symmetric.")
    diagonal = np.diag(metric)
    if np.array_equal(metric, np.diag(diagonal)):
        _check_sdp_from_eigen(diagonal, tol)
        return np.diag(np.sqrt(np.maximum(0.0, diagonal)))
    try:
        root: FloatArray = np.linalg.cholesky(metric).T
        return root
    except LinAlgError:
        w, V = np.linalg.eigh(metric)
        _check_sdp_from_eigen(w, tol)
        vectors: FloatArray = V.T * np.sqrt(np.maximum(0.0, w[:, None]))
        return vectors


def _loosely_checked(X: Any) -> Any:
    return check_array(
        X, accept_sparse=True, dtype=None, ensure_all_finite=False, ensure_2d=False, allow_nd=True,
        ensure_min_samples=0, ensure_min_features=0,
    )  # fmt: skip


def _formed(X: Any, n_axes: int, preprocessor: Preprocessor, context: str) -> Any:
    if X.ndim == n_axes:
        return X
    if X.ndim != n_axes - 1 or preprocessor is None:
        raise ValueError(_shape_message(X, n_axes, context, preprocessor=preprocessor is not None))
    return preprocess_points(X, preprocessor) if n_axes == 2 else preprocess_tuples(X, preprocessor)


def _shape_message(X: Any, n_axes: int, context: str, preprocessor: bool = False, after: bool = False) -> str:
    expected = _EXPECTED["classic" if n_axes == 2 else "tuples", preprocessor]
    when = " when using a preprocessor" if preprocessor else ""
    advice = " and/or use a preprocessor" if after or (X.ndim == n_axes - 1 and not preprocessor) else ""
    if after:
        when = " after the preprocessor has been applied"
    return (
        f"{expected} expected{context}{when}. Found {X.ndim}D array instead:\ninput={X}. Reshape your data{advice}.\n"
    )


def _check_tuples(X: Any, tuple_size: int | None, min_features: int, context: str) -> None:
    if X.shape[2] < min_features:
        raise ValueError(
            f"Found array with {X.shape[2]} feature(s) (shape={X.shape}) while a minimum of {min_features} is "
            f"required{context}."
        )
    if tuple_size is not None and X.shape[1] != tuple_size:
        raise ValueError(
            f"Tuples of {tuple_size} element(s) expected{context}. Got tuples of {X.shape[1]} element(s) instead "
            f"(shape={X.shape}):\ninput={X}.\n"
        )


def _check_sdp_from_eigen(w: FloatArray, tol: float | None = None) -> bool:
    """Return whether all eigenvalues are above the tolerance; raise NonPSDError if one is below minus that."""
    if tol is None:
        tol = float(np.abs(w).max() * len(w) * np.finfo(w.dtype).eps)
    if tol < 0:
        raise ValueError("tol should be positive.")
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
    n_components: int,
    X: FloatArray,
    y: Any = None,
    init: Any = "auto",
    random_state: Any = None,
    has_classes: bool = True,
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
    input: FloatArray,
    init: Any = "identity",
    random_state: Any = None,
    return_inverse: bool = False,
    strict_pd: bool = False,
    matrix_name: str = "matrix",
) -> Any:
    """Return a first or prior matrix M, and its pseudo-inverse if it is asked for."""
    d = input.shape[-1]
    if isinstance(init, np.ndarray):
        M = check_array(init, copy=True)
        if M.shape != (d, d):
            raise ValueError(
                f"The input dimensionality {M.shape} of the given mahalanobis matrix `{matrix_name}` must match the "
                f"dimensionality of the given inputs ({d})."
            )
        if not np.allclose(M, M.T):
            raise ValueError(f"`{matrix_name}` is not symmetric.")
        w, V = scipy.linalg.eigh(M, check_finite=False)
        is_definite = _check_sdp_from_eigen(w)
        if strict_pd and not is_definite:
            raise LinAlgError(
                f"You should provide a strictly positive definite matrix as `{matrix_name}`. This one is not definite. "
                f"Try another {matrix_name}, or an algorithm that does not require the {matrix_name} to be strictly "
                "positive definite."
            )
        if return_inverse and not is_definite:
            warnings.warn(
                "The initialization matrix is not invertible: using the pseudo-inverse instead.", stacklevel=2
            )
        inverse = _pseudo_inverse_from_eig(w, V)
    elif init not in ("identity", "covariance", "random"):
        raise ValueError(
            f"`{matrix_name}` must be 'identity', 'covariance', 'random' or a numpy array of shape "
            "(n_features, n_features)."
        )
    elif init == "covariance":
        points = np.unique(input.reshape(-1, d), axis=0) if input.ndim == 3 else input
        inverse = np.atleast_2d(np.cov(points, rowvar=False))
        w, V = scipy.linalg.eigh(inverse, check_finite=False)
        is_definite = _check_sdp_from_eigen(w)
        if strict_pd and not is_definite:
            raise LinAlgError(
                "Unable to get a true inverse of the covariance matrix since it is not definite. Try another "
                f"`{matrix_name}`, or an algorithm that does not require the `{matrix_name}` to be strictly positive "
                "definite."
            )
        if not is_definite:
            warnings.warn(
                "The covariance matrix is not invertible: using the pseudo-inverse instead."
                "To make the covariance matrix invertible you can remove any linearly dependent features and/or reduce "
                "the dimensionality of your input, for instance using `sklearn.decomposition.PCA` as a preprocessing "
                "step.",
                stacklevel=2,
            )
        M = _pseudo_inverse_from_eig(w, V)
    elif init == "random":
        M = make_spd_matrix(d, random_state=check_random_state(random_state))
        inverse = scipy.linalg.pinvh(M)
    else:
        M, inverse = np.eye(d), np.eye(d)
    return (M, inverse) if return_inverse else M


def _pseudo_inverse_from_eig(w: FloatArray, V: FloatArray, tol: float | None = None) -> FloatArray:
    if tol is None:
        tol = float(np.amax(w) * len(w) * np.finfo(w.dtype).eps)
    large = np.abs(w) > tol
    inverse = np.divide(1.0, w, where=large, out=np.zeros_like(w))
    return (V * inverse) @ V.T


def renamed(old: Any, new: Any, old_name: str, new_name: str) -> Any:
    """Return the value of a parameter that may be given by its old name, with a warning."""
    if isinstance(old, str) and old == "deprecated":
        return new
    warnings.warn(
        f'"{old_name}" parameter has been renamed to "{new_name}". It has been deprecated in version 0.6.3 and will be '
        "removed in 0.7.0",
        FutureWarning,
        stacklevel=3,
    )
    return old


def warn_of_unused(estimator: Any, advice: str, **defaults: Any) -> None:
    """Warn once of all parameters that have been set and have no meaning here."""
    names = [name for name, default in defaults.items() if getattr(estimator, name) != default]
    if names:
        has = "has" if len(names) == 1 else "have"
        warnings.warn(f"{' and '.join(names)} of {make_name(estimator)} {has} no effect: {advice}", stacklevel=3)
